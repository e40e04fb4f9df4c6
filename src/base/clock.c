#include "base/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macros.h"

/* The years RFC 3339 can write. File times come from sandboxes and may be anything. */
#define YEAR_0_SECONDS    INT64_C(-62167219200) /* 0000-01-01T00:00:00Z */
#define YEAR_9999_SECONDS INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

#define NS_PER_SECOND 1000000000U

int64_t clock_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t clock_monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ms(void)
{
    return clock_monotonic_ns() / 1000000u;
}

static void format_instant(int64_t seconds, const char *fraction, char ret[CLOCK_RFC3339_MAX])
{
    time_t clamped = (time_t)MAX(seconds, YEAR_0_SECONDS);
    clamped = MIN(clamped, (time_t)YEAR_9999_SECONDS);
    struct tm tm;
    gmtime_r(&clamped, &tm);
    size_t length = (size_t)snprintf(ret, CLOCK_RFC3339_MAX, "%04d-", tm.tm_year + 1900);
    length += strftime(ret + length, CLOCK_RFC3339_MAX - length, "%m-%dT%H:%M:%S", &tm);
    snprintf(ret + length, CLOCK_RFC3339_MAX - length, "%sZ", fraction);
}

void clock_format_rfc3339(int64_t unix_ms, char ret[CLOCK_RFC3339_MAX])
{
    int64_t seconds = unix_ms / 1000;
    int milliseconds = (int)(unix_ms % 1000);
    if (milliseconds < 0) { /* before 1970: the fraction still counts upwards */
        milliseconds += 1000;
        seconds--;
    }
    char fraction[16] = "";
    if (milliseconds != 0)
        snprintf(fraction, sizeof(fraction), ".%03d", milliseconds);
    format_instant(seconds, fraction, ret);
}

void clock_format_rfc3339_ns(int64_t seconds, uint32_t nanoseconds, char ret[CLOCK_RFC3339_MAX])
{
    char fraction[16] = "";
    if (nanoseconds != 0)
        snprintf(fraction, sizeof(fraction), ".%09u", nanoseconds % NS_PER_SECOND);
    format_instant(seconds, fraction, ret);
}

/* Exactly `count` digits with a value in [min, max]; moves *at behind them. */
static bool read_number(const char **at, int count, int min, int max, int *ret)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    *at += count;
    *ret = value;
    return value >= min && value <= max;
}

static bool read_char(const char **at, const char *allowed)
{
    if (**at == '\0' || strchr(allowed, **at) == NULL)
        return false;
    (*at)++;
    return true;
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool read_date(const char **at, struct tm *ret)
{
    int year, month, day;
    if (!read_number(at, 4, 1970, 9999, &year) || !read_char(at, "-") ||
        !read_number(at, 2, 1, 12, &month) || !read_char(at, "-") ||
        !read_number(at, 2, 1, days_in_month(year, month), &day))
        return false;
    *ret = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    return true;
}

/* One to nine digits, cut to milliseconds. */
static bool read_fraction(const char **at, int *ret_ms)
{
    size_t count = strspn(*at, "0123456789");
    if (count < 1 || count > 9)
        return false;
    int ms = 0;
    for (size_t i = 0; i < 3; i++)
        ms = ms * 10 + (i < count ? (*at)[i] - '0' : 0);
    *at += count;
    *ret_ms = ms;
    return true;
}

/* Nothing (UTC), 'Z', or +hh:mm to the end of the text. */
static bool read_offset(const char **at, int *ret_minutes)
{
    *ret_minutes = 0;
    if (**at == '\0')
        return true;
    if (read_char(at, "Zz"))
        return **at == '\0';
    int sign = **at == '-' ? -1 : 1;
    int hours, minutes;
    if (!read_char(at, "+-") || !read_number(at, 2, 0, 23, &hours) || !read_char(at, ":") ||
        !read_number(at, 2, 0, 59, &minutes))
        return false;
    *ret_minutes = sign * (hours * 60 + minutes);
    return **at == '\0';
}

int clock_parse_rfc3339(const char *text, int64_t *ret_unix_ms)
{
    if (text == NULL)
        return -EINVAL;
    struct tm tm;
    int ms = 0, offset_minutes;
    const char *at = text;
    if (!read_date(&at, &tm) || !read_char(&at, "Tt ") ||
        !read_number(&at, 2, 0, 23, &tm.tm_hour) || !read_char(&at, ":") ||
        !read_number(&at, 2, 0, 59, &tm.tm_min) || !read_char(&at, ":") ||
        !read_number(&at, 2, 0, 59, &tm.tm_sec))
        return -EINVAL;
    if (read_char(&at, ".") && !read_fraction(&at, &ms))
        return -EINVAL;
    if (!read_offset(&at, &offset_minutes))
        return -EINVAL;
    /* An offset can move the instant out of the years that the text was checked for. */
    int64_t seconds = (int64_t)timegm(&tm) - (int64_t)offset_minutes * 60;
    if (seconds < 0 || seconds > YEAR_9999_SECONDS)
        return -EINVAL;
    *ret_unix_ms = seconds * 1000 + ms;
    return 0;
}
