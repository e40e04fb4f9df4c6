/* Reading back the small text files the launcher writes: lines of a name, one space and one value.
 *
 * Each function takes the line at *at and moves behind it; false, and nothing moved, when it is not
 * exactly the line that printf would have made: no other space, no sign, no leading zero. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool fields_take_number(const char **at, const char *name, uint64_t max, uint64_t *ret);
bool fields_take_u32(const char **at, const char *name, uint32_t max, uint32_t *ret);
bool fields_take_bool(const char **at, const char *name, bool *ret); /* 0 or 1 */

/* A word without space, 1 to size - 1 bytes; terminated. */
bool fields_take_word(const char **at, const char *name, char *ret, size_t size);
