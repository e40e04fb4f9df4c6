/* Resource limits of a sandbox. Strict: what cannot be read or cannot be enforced is refused, since
 * a limit that silently means "none" is worse than an error. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "model/problem.h"

#define LIMITS_MEMORY_MIN     (4ull << 20)
#define LIMITS_MEMORY_MAX     (1ull << 50)
#define LIMITS_DISK_MIN       (16ull << 20)
#define LIMITS_DISK_MAX       (1ull << 50)
#define LIMITS_IO_BPS_MIN     4096ull
#define LIMITS_IO_BPS_MAX     (1ull << 40)
#define LIMITS_IO_IOPS_MAX    1000000000u
#define LIMITS_CPU_MILLIS_MAX 1000000u
#define LIMITS_PIDS_MAX       4194304u
#define LIMITS_OPEN_FILES_MIN 64u
#define LIMITS_OPEN_FILES_MAX 1048576u

struct limits {
    uint64_t memory_bytes; /* 0 in each: not asked for */
    uint64_t disk_bytes;
    uint64_t io_read_bps; /* bytes per second */
    uint64_t io_write_bps;
    uint32_t io_read_iops; /* operations per second */
    uint32_t io_write_iops;
    uint32_t cpu_millis;
    uint32_t pids;
    uint32_t open_files; /* per process */
};

/* "500m", "2", "1.5": thousandths of a core. These three return 0, -EINVAL (not a number of that
 * form) or -ERANGE; *ret is set only on success. */
int limits_parse_cpu(const char *text, uint32_t *ret_millis);
/* "512Mi", "0.5Gi", "1G", "1048576": k, M, G, T, P are powers of 1000, Ki ... Pi of 1024; case and
 * a final b or B do not matter. A fraction of a byte is dropped. */
int limits_parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes);
int limits_parse_count(const char *text, uint32_t min, uint32_t max, uint32_t *ret);

/* From the request's `resourceLimits`, an object of strings. `disk` has the synonym
 * `ephemeral-storage`. */
int limits_parse(const json_t *object, struct limits *ret, struct problem *problem);
