/* Resource limits of a sandbox. Strict: what cannot be read or cannot be enforced is refused, since
 * a limit that silently means "none" is worse than an error. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "model/problem.h"

#define LIMITS_MEMORY_MIN     (4ull << 20)
#define LIMITS_MEMORY_MAX     (1ull << 50)
#define LIMITS_CPU_MILLIS_MAX 1000000u
#define LIMITS_PIDS_MAX       4194304u

struct limits {
    uint64_t memory_bytes; /* 0 in each: not asked for */
    uint32_t cpu_millis;
    uint32_t pids;
};

/* "500m", "2", "1.5": thousandths of a core. These three return 0, -EINVAL (not a number of that
 * form) or -ERANGE; *ret is set only on success. */
int limits_parse_cpu(const char *text, uint32_t *ret_millis);
/* "512Mi", "0.5Gi", "1G", "1048576": k, M, G, T, P are powers of 1000, Ki ... Pi of 1024; case and
 * a final b or B do not matter. A fraction of a byte is dropped. */
int limits_parse_memory(const char *text, uint64_t *ret_bytes);
int limits_parse_pids(const char *text, uint32_t *ret_pids);

/* From the request's `resourceLimits`, an object of strings. */
int limits_parse(const json_t *object, struct limits *ret, struct problem *problem);
