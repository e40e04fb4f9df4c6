#include "model/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/str.h"

/* Read digits[.digits] and multiply by scale. Kept in integers: a double would turn 0.1 cores into
 * something that is nearly 100 thousandths. */
static int parse_scaled(const char *text, uint64_t scale, const char *end, uint64_t *ret,
                        bool *ret_exact)
{
    enum { DIGITS_MAX = 18 };
    unsigned __int128 number = 0;
    unsigned __int128 divisor = 1;
    int digits = 0;
    bool in_fraction = false;
    for (const char *p = text; p < end; p++) {
        if (*p == '.' && !in_fraction && p > text && p + 1 < end) {
            in_fraction = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            return -EINVAL;
        if (++digits > DIGITS_MAX)
            return -ERANGE;
        number = number * 10 + (unsigned)(*p - '0');
        if (in_fraction)
            divisor *= 10;
    }
    if (digits == 0)
        return -EINVAL;
    unsigned __int128 scaled = number * scale / divisor;
    if (scaled > UINT64_MAX)
        return -ERANGE;
    *ret = (uint64_t)scaled;
    *ret_exact = number * scale % divisor == 0;
    return 0;
}

int limits_parse_cpu(const char *text, uint32_t *ret_millis)
{
    size_t length = strlen(text);
    bool millis = length > 0 && text[length - 1] == 'm';
    uint64_t value;
    bool exact;
    int r = parse_scaled(text, millis ? 1 : 1000, text + length - millis, &value, &exact);
    if (r < 0)
        return r;
    if (!exact || value < 1 || value > LIMITS_CPU_MILLIS_MAX)
        return -ERANGE;
    *ret_millis = (uint32_t)value;
    return 0;
}

int limits_parse_memory(const char *text, uint64_t *ret_bytes)
{
    static const struct {
        const char *suffix;
        uint64_t scale;
    } units[] = {
        {"", 1},
        {"b", 1},
        {"k", 1000ull},
        {"kb", 1000ull},
        {"m", 1000000ull},
        {"mb", 1000000ull},
        {"g", 1000000000ull},
        {"gb", 1000000000ull},
        {"t", 1000000000000ull},
        {"tb", 1000000000000ull},
        {"p", 1000000000000000ull},
        {"pb", 1000000000000000ull},
        {"ki", 1ull << 10},
        {"kib", 1ull << 10},
        {"mi", 1ull << 20},
        {"mib", 1ull << 20},
        {"gi", 1ull << 30},
        {"gib", 1ull << 30},
        {"ti", 1ull << 40},
        {"tib", 1ull << 40},
        {"pi", 1ull << 50},
        {"pib", 1ull << 50},
    };
    const char *suffix = text + strspn(text, "0123456789.");
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (!str_equal_nocase(suffix, units[i].suffix))
            continue;
        uint64_t value;
        bool exact;
        int r = parse_scaled(text, units[i].scale, suffix, &value, &exact);
        if (r < 0)
            return r;
        if (value < LIMITS_MEMORY_MIN || value > LIMITS_MEMORY_MAX)
            return -ERANGE;
        *ret_bytes = value;
        return 0;
    }
    return -EINVAL;
}

int limits_parse_pids(const char *text, uint32_t *ret_pids)
{
    uint64_t value;
    int r = str_to_u64(text, 1, LIMITS_PIDS_MAX, &value);
    if (r < 0)
        return r;
    *ret_pids = (uint32_t)value;
    return 0;
}

static int parse_one(const char *key, const char *text, struct limits *ret, struct problem *problem)
{
    const char *allowed;
    int r;
    if (strcmp(key, "cpu") == 0) {
        r = limits_parse_cpu(text, &ret->cpu_millis);
        allowed = "a number of cores such as \"2\", \"1.5\" or \"500m\", from 1m to 1000, in steps "
                  "of 1m";
    } else if (strcmp(key, "memory") == 0) {
        r = limits_parse_memory(text, &ret->memory_bytes);
        allowed = "a size such as \"512Mi\", \"2Gi\" or \"1G\", from 4Mi to 1Pi";
    } else if (strcmp(key, "pids") == 0) {
        r = limits_parse_pids(text, &ret->pids);
        allowed = "a number of processes from 1 to 4194304";
    } else {
        char quoted[PROBLEM_QUOTE_MAX];
        return problem_set(problem, PROBLEM_INVALID, "value_error", "resourceLimits", key,
                           "`resourceLimits`: \"%s\" cannot be enforced by this version; cpu, "
                           "memory and pids can",
                           problem_quote(key, quoted));
    }
    if (r == 0)
        return 0;
    char quoted[PROBLEM_QUOTE_MAX];
    return problem_set(problem, PROBLEM_INVALID, "value_error", "resourceLimits", key,
                       "`resourceLimits.%s` must be %s, not \"%s\"", key, allowed,
                       problem_quote(text, quoted));
}

int limits_parse(const json_t *object, struct limits *ret, struct problem *problem)
{
    struct limits limits = {0};
    if (!json_is_object(object))
        return problem_set(problem, PROBLEM_INVALID, "dict_type", "resourceLimits", NULL,
                           "`resourceLimits` must be an object of strings");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        if (json_is_null(value))
            continue;
        char quoted[PROBLEM_QUOTE_MAX];
        if (!json_is_string(value))
            return problem_set(problem, PROBLEM_INVALID, "string_type", "resourceLimits", key,
                               "`resourceLimits`: the value of \"%s\" must be a string, such as "
                               "\"1\" or \"512Mi\"",
                               problem_quote(key, quoted));
        int r = parse_one(key, json_string_value(value), &limits, problem);
        if (r < 0)
            return r;
    }
    *ret = limits;
    return 0;
}
