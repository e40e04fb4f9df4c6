/* Time. Wall-clock instants are Unix milliseconds (int64_t), spans are milliseconds or, where it
 * matters, nanoseconds of the monotonic clock. */
#pragma once

#include <stdint.h>

#define CLOCK_RFC3339_MAX 40

int64_t clock_unix_ms(void);
uint64_t clock_monotonic_ns(void);
uint64_t clock_monotonic_ms(void);

/* "2026-01-02T03:04:05.123Z"; the fraction is absent when it is zero. */
void clock_format_rfc3339(int64_t unix_ms, char ret[CLOCK_RFC3339_MAX]);

/* The same with nanoseconds (file times): "...05.123456789Z", fraction absent when zero. */
void clock_format_rfc3339_ns(int64_t seconds, uint32_t nanoseconds, char ret[CLOCK_RFC3339_MAX]);

/* RFC 3339 with 'Z' or a numeric offset (without one: UTC), up to 9 fractional digits, years 1970
 * to 9999. Returns 0 or -EINVAL. */
int clock_parse_rfc3339(const char *text, int64_t *ret_unix_ms);
