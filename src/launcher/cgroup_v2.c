/* Version 2: one hierarchy. Every controller we have is in items[0]. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/cgroup_internal.h"

static int open_file(const struct cgroups *groups, const char *name, const char *file, int flags)
{
    char path[CGROUP_NAME_MAX + 96];
    snprintf(path, sizeof(path), "%s/%s", name, file);
    int fd = openat(groups->items[0].fd, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int write_text(const struct cgroups *groups, const char *name, const char *file,
                      const char *text)
{
    AUTO_CLOSE int fd = open_file(groups, name, file, O_WRONLY);
    if (fd < 0)
        return fd;
    return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int read_text(const struct cgroups *groups, const char *name, const char *file,
                     char ret[CGROUP_TEXT_MAX])
{
    ret[0] = '\0';
    AUTO_CLOSE int fd = open_file(groups, name, file, O_RDONLY);
    if (fd < 0)
        return fd;
    ssize_t n = read(fd, ret, CGROUP_TEXT_MAX - 1);
    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return 0;
}

/* Of those limited on `work`; of cpu, so that runtimes in there find the limit, and execd has a
 * share of its own. I/O stays with the whole: a group for it in each child would be kept for
 * nothing. */
static int prepare(const struct cgroups *groups, const char *name)
{
    static const struct {
        enum cgroup_controller controller;
        const char *text;
    } items[] = {{CGROUP_MEMORY, "+memory"}, {CGROUP_PIDS, "+pids"}, {CGROUP_CPU, "+cpu"}};
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(items) && r == 0; i++) {
        if (cgroup_has(groups, items[i].controller))
            r = write_text(groups, name, "cgroup.subtree_control", items[i].text);
    }
    return r;
}

/* --- limits ----------------------------------------------------------------------------------- */

/* Under memory.max the kernel would kill what does not fit. Under memory.high it frees what it can,
 * and has those wait who want more; then one can see whether it fits. */
static int make_fit(const struct cgroups *groups, const char *name, uint64_t bytes)
{
    char text[CGROUP_TEXT_MAX];
    int r = cgroup_read(groups, CGROUP_MEMORY, name, "work/memory.current", text);
    if (r < 0 || cgroup_text_number(text) <= bytes)
        return r;
    r = cgroup_write(groups, CGROUP_MEMORY, name, "work/memory.high", "%" PRIu64, bytes);
    if (r == 0)
        r = cgroup_read(groups, CGROUP_MEMORY, name, "work/memory.current", text);
    if (r == 0 && cgroup_text_number(text) > bytes)
        r = -EBUSY;
    return r;
}

static int write_memory(const struct cgroups *groups, const char *name, uint64_t bytes)
{
    int r = bytes != 0
                ? cgroup_write(groups, CGROUP_MEMORY, name, "work/memory.max", "%" PRIu64, bytes)
                : cgroup_write(groups, CGROUP_MEMORY, name, "work/memory.max", "max");
    if (r < 0)
        return r;
    r = cgroup_write(groups, CGROUP_MEMORY, name, "work/memory.swap.max", "%s",
                     bytes != 0 ? "0" : "max");
    return r == -ENOENT ? 0 : r; /* a kernel without swap accounting has nothing to swap to */
}

static int limit_memory(const struct cgroups *groups, const char *name, uint64_t bytes)
{
    int r = bytes != 0 ? make_fit(groups, name, bytes) : 0;
    if (r == 0)
        r = write_memory(groups, name, bytes);
    if (bytes != 0)
        (void)cgroup_write(groups, CGROUP_MEMORY, name, "work/memory.high", "max");
    return r;
}

/* On the sandbox, where it counts, and on `work`, where those look who want to know it. */
static int limit_cpu(const struct cgroups *groups, const char *name, uint32_t millis)
{
    char text[32] = "max";
    if (millis != 0) {
        uint32_t quota, period;
        cgroup_cpu_quota(millis, &quota, &period);
        snprintf(text, sizeof(text), "%" PRIu32 " %" PRIu32, quota, period);
    }
    int r = cgroup_write(groups, CGROUP_CPU, name, "cpu.max", "%s", text);
    return r < 0 ? r : cgroup_write(groups, CGROUP_CPU, name, "work/cpu.max", "%s", text);
}

static const char *io_value(uint64_t value, char text[24])
{
    snprintf(text, 24, "%" PRIu64, value);
    return value != 0 ? text : "max";
}

static int limit_io(const struct cgroups *groups, const char *name,
                    const struct cgroup_limits *limits, bool lift)
{
    (void)lift; /* all four are in one line */
    char text[4][24];
    return cgroup_write(
        groups, CGROUP_IO, name, "io.max", "%u:%u rbps=%s wbps=%s riops=%s wiops=%s",
        groups->device.major, groups->device.minor, io_value(limits->io_read_bps, text[0]),
        io_value(limits->io_write_bps, text[1]), io_value(limits->io_read_iops, text[2]),
        io_value(limits->io_write_iops, text[3]));
}

/* --- use -------------------------------------------------------------------------------------- */

static int meter(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    char text[CGROUP_TEXT_MAX];
    int r = read_text(groups, name, "cpu.stat", text); /* also there without the controller */
    if (r < 0)
        return r;
    ret->cpu_ns = cgroup_text_key(text, "usage_usec") * 1000;
    ret->cpu_throttled = cgroup_text_key(text, "nr_throttled");
    if (cgroup_read(groups, CGROUP_MEMORY, name, "work/memory.current", text) == 0)
        ret->memory_bytes = cgroup_text_number(text);
    if (cgroup_read(groups, CGROUP_PIDS, name, "work/pids.current", text) == 0)
        ret->pids = (uint32_t)cgroup_text_number(text);
    if (cgroup_read(groups, CGROUP_IO, name, "io.stat", text) == 0) {
        ret->io_read_bytes = cgroup_text_io_v2(text, &groups->device, "rbytes");
        ret->io_write_bytes = cgroup_text_io_v2(text, &groups->device, "wbytes");
        ret->io_read_ops = cgroup_text_io_v2(text, &groups->device, "rios");
        ret->io_write_ops = cgroup_text_io_v2(text, &groups->device, "wios");
    }
    return 0;
}

static void usage(const struct cgroups *groups, const char *name, struct cgroup_usage *ret)
{
    char text[CGROUP_TEXT_MAX];
    if (cgroup_read(groups, CGROUP_MEMORY, name, "work/memory.peak", text) == 0)
        ret->memory_peak_bytes = cgroup_text_number(text);
    ret->memory_peak_bytes = MAX(ret->memory_peak_bytes, ret->memory_bytes);
    if (cgroup_read(groups, CGROUP_MEMORY, name, "work/memory.events", text) == 0) {
        ret->oom_kills = cgroup_text_key(text, "oom_kill");
        ret->memory_refused = cgroup_text_key(text, "max");
    }
    if (cgroup_read(groups, CGROUP_PIDS, name, "work/pids.events", text) == 0)
        ret->pids_refused = cgroup_text_key(text, "max");
}

/* --- freezing and killing --------------------------------------------------------------------- */

static int freeze(const struct cgroups *groups, const char *name, bool frozen)
{
    return write_text(groups, name, "cgroup.freeze", frozen ? "1" : "0");
}

static int frozen(const struct cgroups *groups, const char *name, bool *ret_frozen)
{
    char text[CGROUP_TEXT_MAX];
    int r = read_text(groups, name, "cgroup.events", text);
    if (r == 0)
        *ret_frozen = cgroup_text_key(text, "frozen") == 1;
    return r;
}

/* Also what is frozen: the kernel lets go of it for this. */
static int kill_all(const struct cgroups *groups, const char *name)
{
    if (groups->count == 0)
        return 0;
    int r = write_text(groups, name, "cgroup.kill", "1");
    if (r != -ENOENT)
        return r;
    cgroup_kill_listed(groups, name); /* a kernel before 5.14 */
    return freeze(groups, name, false);
}

const struct cgroup_ops cgroup_v2_ops = {
    .prepare = prepare,
    .limit_memory = limit_memory,
    .limit_cpu = limit_cpu,
    .limit_io = limit_io,
    .meter = meter,
    .usage = usage,
    .freeze = freeze,
    .frozen = frozen,
    .kill = kill_all,
};
