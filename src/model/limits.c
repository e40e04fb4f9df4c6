#include "model/limits.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
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

int limits_parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes)
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
        if (value < min || value > max)
            return -ERANGE;
        *ret_bytes = value;
        return 0;
    }
    return -EINVAL;
}

int limits_parse_count(const char *text, uint32_t min, uint32_t max, uint32_t *ret)
{
    uint64_t value;
    int r = str_to_u64(text, min, max, &value);
    if (r < 0)
        return r;
    *ret = (uint32_t)value;
    return 0;
}

enum kind { KIND_CPU, KIND_SIZE, KIND_COUNT };

struct key {
    const char *name;
    enum kind kind;
    size_t offset; /* of a uint64_t for sizes, else of a uint32_t */
    uint64_t min;
    uint64_t max;
    const char *allowed;
};

#define SIZE_KEY(name, field, min, max, allowed)                                     \
    {                                                                                \
        name, KIND_SIZE, offsetof(struct limits, field), min, max, "a size " allowed \
    }
#define COUNT_KEY(name, field, min, max, allowed)                                       \
    {                                                                                   \
        name, KIND_COUNT, offsetof(struct limits, field), min, max, "a number " allowed \
    }
#define DISK_ALLOWED "such as \"1Gi\" or \"500M\", from 16Mi to 1Pi"
#define BPS_ALLOWED  "per second such as \"10Mi\" or \"1M\", from 4Ki to 1Ti"
#define IOPS_ALLOWED "of operations per second from 1 to 1000000000"

static const struct key keys[] = {
    {"cpu", KIND_CPU, offsetof(struct limits, cpu_millis), 1, LIMITS_CPU_MILLIS_MAX,
     "a number of cores such as \"2\", \"1.5\" or \"500m\", from 1m to 1000, in steps of 1m"},
    SIZE_KEY("memory", memory_bytes, LIMITS_MEMORY_MIN, LIMITS_MEMORY_MAX,
             "such as \"512Mi\", \"2Gi\" or \"1G\", from 4Mi to 1Pi"),
    COUNT_KEY("pids", pids, 1, LIMITS_PIDS_MAX, "of processes from 1 to 4194304"),
    SIZE_KEY("disk", disk_bytes, LIMITS_DISK_MIN, LIMITS_DISK_MAX, DISK_ALLOWED),
    SIZE_KEY("ephemeral-storage", disk_bytes, LIMITS_DISK_MIN, LIMITS_DISK_MAX, DISK_ALLOWED),
    SIZE_KEY("io-read-bps", io_read_bps, LIMITS_IO_BPS_MIN, LIMITS_IO_BPS_MAX, BPS_ALLOWED),
    SIZE_KEY("io-write-bps", io_write_bps, LIMITS_IO_BPS_MIN, LIMITS_IO_BPS_MAX, BPS_ALLOWED),
    COUNT_KEY("io-read-iops", io_read_iops, 1, LIMITS_IO_IOPS_MAX, IOPS_ALLOWED),
    COUNT_KEY("io-write-iops", io_write_iops, 1, LIMITS_IO_IOPS_MAX, IOPS_ALLOWED),
    COUNT_KEY("open-files", open_files, LIMITS_OPEN_FILES_MIN, LIMITS_OPEN_FILES_MAX,
              "of files per process from 64 to 1048576"),
};

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        if (str_equal(keys[i].name, name))
            return &keys[i];
    }
    return NULL;
}

static int parse_value(const struct key *key, const char *text, uint64_t *ret)
{
    uint32_t narrow = 0;
    int r = -EINVAL;
    switch (key->kind) {
    case KIND_SIZE:
        return limits_parse_size(text, key->min, key->max, ret);
    case KIND_CPU:
        r = limits_parse_cpu(text, &narrow);
        break;
    case KIND_COUNT:
        r = limits_parse_count(text, (uint32_t)key->min, (uint32_t)key->max, &narrow);
        break;
    }
    if (r == 0)
        *ret = narrow;
    return r;
}

/* False when another name for the same limit had another value. */
static bool store_value(const struct key *key, uint64_t value, struct limits *limits)
{
    uint64_t before = 0;
    uint32_t narrow = (uint32_t)value;
    char *at = (char *)limits + key->offset;
    if (key->kind != KIND_SIZE) {
        memcpy(at, &narrow, sizeof(narrow));
        return true;
    }
    memcpy(&before, at, sizeof(before));
    memcpy(at, &value, sizeof(value));
    return before == 0 || before == value;
}

static int refuse_unknown(const char *name, struct problem *problem)
{
    char quoted[PROBLEM_QUOTE_MAX];
    return problem_set(
        problem, PROBLEM_INVALID, "value_error", "resourceLimits", name,
        "`resourceLimits`: \"%s\" cannot be enforced by this version; cpu, memory, "
        "pids, disk (or ephemeral-storage), io-read-bps, io-write-bps, io-read-iops, "
        "io-write-iops and open-files can",
        problem_quote(name, quoted));
}

static int parse_one(const char *name, const char *text, struct limits *ret,
                     struct problem *problem)
{
    const struct key *key = find_key(name);
    if (key == NULL)
        return refuse_unknown(name, problem);
    char quoted[PROBLEM_QUOTE_MAX];
    uint64_t value = 0;
    if (parse_value(key, text, &value) < 0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "resourceLimits", name,
                           "`resourceLimits.%s` must be %s, not \"%s\"", name, key->allowed,
                           problem_quote(text, quoted));
    if (!store_value(key, value, ret))
        return problem_set(
            problem, PROBLEM_INVALID, "value_error", "resourceLimits", name,
            "`resourceLimits`: disk and ephemeral-storage are the same limit but have "
            "different values; \"%s\" was the second: give one of them",
            problem_quote(text, quoted));
    return 0;
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
