/* Identifiers and secrets from the kernel's random source. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ID_UUID_LEN 36 /* without NUL: 8-4-4-4-12 lower-case hex, version 4 */
#define ID_HEX_LEN  32

void id_random(void *bytes, size_t length); /* getrandom; aborts when the kernel has none */
void id_new_uuid(char ret[ID_UUID_LEN + 1]);
void id_new_hex(char ret[ID_HEX_LEN + 1]);

/* A secret of 256 bits as 43 characters of URL-safe base64 without padding. */
#define ID_TOKEN_LEN 43
void id_new_token(char ret[ID_TOKEN_LEN + 1]);

/* Exactly the form id_new_uuid() makes: lower case, version 4, right variant. NULL is not one. */
bool id_is_uuid(const char *text);
