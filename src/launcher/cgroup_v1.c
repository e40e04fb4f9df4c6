/* Version 1: a hierarchy for each controller. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"

/* --- limits ----------------------------------------------------------------------------------- */

#define MEMORY       "memory.limit_in_bytes"
#define MEMORY_SWAP  "memory.memsw.limit_in_bytes"
#define UNLIMITED_V1 "-1"

/* A kernel without swap accounting has no such file, and nothing to swap to. */
static int write_swap(const struct cgroups *groups, const char *name, const char *text)
{
    int r = cgroup_write(groups, CGROUP_MEMORY, name, MEMORY_SWAP, "%s", text);
    return r == -ENOENT ? 0 : r;
}

/* Memory with swap is never allowed less than memory alone, so the way up begins with the one and
 * the way down with the other. EINVAL says that this is a way up. */
static int write_memory(const struct cgroups *groups, const char *name, const char *text)
{
    int r = cgroup_write(groups, CGROUP_MEMORY, name, MEMORY, "%s", text);
    if (r == 0)
        return write_swap(groups, name, text);
    if (r != -EINVAL)
        return r;
    r = write_swap(groups, name, text);
    return r < 0 ? r : cgroup_write(groups, CGROUP_MEMORY, name, MEMORY, "%s", text);
}

/* The kernel frees what it can before it says EBUSY. If it does so at the second step, when some of
 * the sandbox is in the swap, the first one is taken back. */
static int limit_memory(const struct cgroups *groups, const char *name, uint64_t bytes)
{
    char before[CGROUP_TEXT_MAX];
    char text[24] = UNLIMITED_V1;
    if (bytes != 0)
        snprintf(text, sizeof(text), "%" PRIu64, bytes);
    int r = cgroup_read(groups, CGROUP_MEMORY, name, MEMORY, before);
    if (r < 0)
        return r;
    r = write_memory(groups, name, text);
    if (r < 0)
        (void)write_memory(groups, name, before);
    return r;
}

static int limit_cpu(const struct cgroups *groups, const char *name, uint32_t millis)
{
    if (millis == 0)
        return cgroup_write(groups, CGROUP_CPU, name, "cpu.cfs_quota_us", "-1");
    uint32_t quota, period;
    cgroup_cpu_quota(millis, &quota, &period);
    int r = cgroup_write(groups, CGROUP_CPU, name, "cpu.cfs_period_us", "%" PRIu32, period);
    return r < 0 ? r
                 : cgroup_write(groups, CGROUP_CPU, name, "cpu.cfs_quota_us", "%" PRIu32, quota);
}

static int limit_io(const struct cgroups *groups, const char *name,
                    const struct cgroup_limits *limits, bool lift)
{
    if (limits->io_write_bps != 0 || limits->io_write_iops != 0)
        return -ENOTSUP; /* would hold for direct writes only */
    const struct {
        const char *file;
        uint64_t value;
    } items[] = {
        {"blkio.throttle.read_bps_device", limits->io_read_bps},
        {"blkio.throttle.read_iops_device", limits->io_read_iops},
    };
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(items) && r == 0; i++) {
        if (items[i].value != 0 || lift)
            r = cgroup_write(groups, CGROUP_IO, name, items[i].file, "%u:%u %" PRIu64,
                             groups->device.major, groups->device.minor, items[i].value);
    }
    return r;
}

/* --- use -------------------------------------------------------------------------------------- */

/* -ENOENT only when the group is gone: what is missing otherwise is 0. */
static int read_number(const struct cgroups *groups, enum cgroup_controller controller,
                       const char *name, const char *file, uint64_t *ret)
{
    char text[CGROUP_TEXT_MAX];
    int r = cgroup_read(groups, controller, name, file, text);
    if (r == 0)
        *ret = cgroup_text_number(text);
    return r == -ENOTSUP ? 0 : r;
}

static void read_key(const struct cgroups *groups, enum cgroup_controller controller,
                     const char *name, const char *file, const char *key, uint64_t *ret)
{
    char text[CGROUP_TEXT_MAX];
    if (cgroup_read(groups, controller, name, file, text) == 0)
        *ret = cgroup_text_key(text, key);
}

static void read_io(const struct cgroups *groups, const char *name, const char *file,
                    uint64_t *ret_read, uint64_t *ret_write)
{
    char text[CGROUP_TEXT_MAX];
    if (cgroup_read(groups, CGROUP_IO, name, file, text) < 0)
        return;
    *ret_read = cgroup_text_io_v1(text, &groups->device, "Read");
    *ret_write = cgroup_text_io_v1(text, &groups->device, "Write");
}

static int meter(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    uint64_t pids = 0;
    int r = read_number(groups, CGROUP_MEMORY, name, "memory.usage_in_bytes", &ret->memory_bytes);
    if (r == 0)
        r = read_number(groups, CGROUP_CPUACCT, name, "cpuacct.usage", &ret->cpu_ns);
    if (r == 0)
        r = read_number(groups, CGROUP_PIDS, name, "pids.current", &pids);
    ret->pids = (uint32_t)pids;
    read_io(groups, name, "blkio.throttle.io_service_bytes", &ret->io_read_bytes,
            &ret->io_write_bytes);
    read_io(groups, name, "blkio.throttle.io_serviced", &ret->io_read_ops, &ret->io_write_ops);
    return r;
}

/* Memory with swap has the same limit as memory alone and is charged first, so that is the counter
 * that goes up; a kernel without swap accounting has only the other, and some kernels have
 * forgotten to count. */
static void usage(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    const enum cgroup_controller memory = CGROUP_MEMORY;
    read_number(groups, memory, name, "memory.max_usage_in_bytes", &ret->memory_peak_bytes);
    if (read_number(groups, memory, name, "memory.memsw.failcnt", &ret->memory_refused) < 0)
        read_number(groups, memory, name, "memory.failcnt", &ret->memory_refused);
    read_key(groups, memory, name, "memory.oom_control", "oom_kill", &ret->oom_kills);
    ret->memory_refused = MAX(ret->memory_refused, ret->oom_kills);
    read_key(groups, CGROUP_PIDS, name, "pids.events", "max", &ret->pids_refused);
    read_key(groups, CGROUP_CPU, name, "cpu.stat", "nr_throttled", &ret->cpu_throttled);
}

/* --- freezing and killing --------------------------------------------------------------------- */

static int freeze(const struct cgroups *groups, const char *name, bool frozen)
{
    return cgroup_write(groups, CGROUP_FREEZER, name, "freezer.state", "%s",
                        frozen ? "FROZEN" : "THAWED");
}

/* FREEZING while some processes still run. */
static int frozen(const struct cgroups *groups, const char *name, bool *ret_frozen)
{
    char text[CGROUP_TEXT_MAX];
    int r = cgroup_read(groups, CGROUP_FREEZER, name, "freezer.state", text);
    if (r == 0)
        *ret_frozen = str_starts_with(text, "FROZEN");
    return r;
}

/* Frozen processes take no notice of a signal before they are thawed. */
static int kill_all(const struct cgroups *groups, const char *name)
{
    cgroup_kill_listed(groups, name);
    if (cgroup_has(groups, CGROUP_FREEZER))
        (void)freeze(groups, name, false);
    return 0;
}

/* --- using groups again ----------------------------------------------------------------------- */

/* What may be charged to a group without processes: the kernel takes memory for a group in portions
 * and keeps the rest of the last one on every processor. More is caches of the last sandbox, which
 * the next one shall not answer for. */
#define SPARE_BYTES     (1u << 20)
#define UNLIMITED_BYTES (1ull << 62) /* what the kernel says instead of a limit is more */

static bool is_number(const struct cgroups *groups, enum cgroup_controller controller,
                      const char *name, const char *file, uint64_t most)
{
    char text[CGROUP_TEXT_MAX];
    return cgroup_read(groups, controller, name, file, text) == 0 &&
           cgroup_text_number(text) <= most;
}

static bool is_key_zero(const struct cgroups *groups, enum cgroup_controller controller,
                        const char *name, const char *file, const char *key)
{
    char text[CGROUP_TEXT_MAX];
    return cgroup_read(groups, controller, name, file, text) == 0 &&
           cgroup_text_key(text, key) == 0;
}

/* Memory with swap is never allowed less. */
static bool is_unlimited(const struct cgroups *groups, const char *name)
{
    return !is_number(groups, CGROUP_MEMORY, name, MEMORY, UNLIMITED_BYTES);
}

/* Kernels without swap accounting lack the half of these. */
static bool zero(const struct cgroups *groups, const char *name, const char *file)
{
    int r = cgroup_write(groups, CGROUP_MEMORY, name, file, "0");
    return r == 0 || r == -ENOENT;
}

static bool renew_memory(const struct cgroups *groups, const char *name)
{
    return is_number(groups, CGROUP_MEMORY, name, "memory.usage_in_bytes", SPARE_BYTES) &&
           is_key_zero(groups, CGROUP_MEMORY, name, "memory.oom_control", "oom_kill") &&
           (is_unlimited(groups, name) || limit_memory(groups, name, 0) == 0) &&
           zero(groups, name, "memory.failcnt") && zero(groups, name, "memory.memsw.failcnt") &&
           zero(groups, name, "memory.max_usage_in_bytes") &&
           zero(groups, name, "memory.memsw.max_usage_in_bytes");
}

static bool renew_cpu(const struct cgroups *groups, const char *name)
{
    return is_key_zero(groups, CGROUP_CPU, name, "cpu.stat", "nr_periods") &&
           limit_cpu(groups, name, 0) == 0;
}

static bool renew_cpuacct(const struct cgroups *groups, const char *name)
{
    return cgroup_write(groups, CGROUP_CPUACCT, name, "cpuacct.usage", "0") == 0;
}

static bool renew_pids(const struct cgroups *groups, const char *name)
{
    return is_key_zero(groups, CGROUP_PIDS, name, "pids.events", "max");
}

/* Nothing was read or written, and nothing is limited. */
static bool renew_io(const struct cgroups *groups, const char *name)
{
    char text[CGROUP_TEXT_MAX];
    return cgroup_read(groups, CGROUP_IO, name, "blkio.throttle.io_serviced", text) == 0 &&
           str_equal(text, "Total 0\n") &&
           cgroup_read(groups, CGROUP_IO, name, "blkio.throttle.read_bps_device", text) == 0 &&
           text[0] == '\0' &&
           cgroup_read(groups, CGROUP_IO, name, "blkio.throttle.read_iops_device", text) == 0 &&
           text[0] == '\0';
}

static bool renew_freezer(const struct cgroups *groups, const char *name)
{
    char text[CGROUP_TEXT_MAX];
    return cgroup_read(groups, CGROUP_FREEZER, name, "freezer.state", text) == 0 &&
           str_starts_with(text, "THAWED");
}

static unsigned renew(const struct cgroups *groups, const char *name)
{
    static bool (*const renewers[CGROUP_CONTROLLERS])(const struct cgroups *, const char *) = {
        [CGROUP_MEMORY] = renew_memory,   [CGROUP_CPU] = renew_cpu,
        [CGROUP_PIDS] = renew_pids,       [CGROUP_IO] = renew_io,
        [CGROUP_CPUACCT] = renew_cpuacct, [CGROUP_FREEZER] = renew_freezer,
    };
    unsigned worn = 0;
    for (unsigned i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (groups->of[i] >= 0 && !renewers[i](groups, name))
            worn |= 1u << groups->of[i];
    }
    return worn;
}

const struct cgroup_ops cgroup_v1_ops = {
    .limit_memory = limit_memory,
    .limit_cpu = limit_cpu,
    .limit_io = limit_io,
    .meter = meter,
    .usage = usage,
    .freeze = freeze,
    .frozen = frozen,
    .kill = kill_all,
    .renew = renew,
};
