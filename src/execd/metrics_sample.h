/* One look at what the sandbox uses: its control groups where they can be seen, else its processes
 * when we are process 1 of them, else the machine.
 *
 * Only files of /proc and of cgroup file systems are read, which never wait for a device, so this
 * may run on the loop. */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct execd_sample {
    uint64_t at_ns;        /* monotonic clock */
    uint64_t cpu_used_ns;  /* of all processes together, since some beginning */
    double cpu_capacity;   /* processors that may be used at once; a quota makes it a fraction */
    int cpu_count;         /* the same as whole ones, at least 1 */
    uint64_t memory_total; /* bytes: the limit, or what the machine has */
    uint64_t memory_used;  /* bytes, without what the kernel would give back at once */
};

/* `root` is put in front of all paths: "" for the real ones. `cpus` is how many processors we may
 * run on. Fails with ERR_UNSUPPORTED, naming the files that are missing. */
int execd_sample_read(struct execd_sample *ret, const char *root, int cpus, struct error *err);

/* From the affinity mask: what taskset, cpusets and the machine leave us. */
int execd_sample_cpus(void);

/* 0 to 100: how much of the capacity was used between two samples. */
double execd_sample_cpu_percent(const struct execd_sample *before,
                                const struct execd_sample *after);
