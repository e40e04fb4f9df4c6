/* SHA-1, for protocols that ask for it by name (the WebSocket handshake). It protects nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA1_LEN 20

void sha1(const void *bytes, size_t length, uint8_t ret[SHA1_LEN]);
