/* Limits hold for a group and everything below it, so the tightest one from our own group upwards
 * is the one that counts, and memory is what was charged there. */
#include "execd/metrics_sample.h"

#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "base/str.h"
#include "execd/metrics_cgroup.h"

#define FILE_MAX_BYTES (64 * 1024)
#define NO_LIMIT       UINT64_MAX
#define PROCESSES_MAX  8192 /* more are not counted: a fork bomb must not keep the loop busy */

/* --- files ------------------------------------------------------------------------------------ */

/* The first word of a file as a number; false for "max" and "-1" as well. */
static bool read_number(const struct execd_cgroup *cgroup, const char *name, uint64_t *ret)
{
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    bool ok = execd_cgroup_read(cgroup, name, &text);
    if (ok) {
        text.data[strcspn(text.data, " \n")] = '\0';
        ok = str_to_u64(text.data, 0, UINT64_MAX, ret) == 0;
    }
    buf_done(&text);
    return ok;
}

/* The number behind `key` at the beginning of a line: "usage_usec 123", "MemTotal:  456 kB". */
static bool find_number(const char *text, const char *key, uint64_t *ret)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) != 0 || (line[length] != ' ' && line[length] != ':'))
            continue;
        return sscanf(line + length, "%*[: ]%" SCNu64, ret) == 1;
    }
    return false;
}

static bool read_keyed(const struct execd_cgroup *cgroup, const char *name, const char *key,
                       uint64_t *ret)
{
    struct buf text;
    buf_init(&text, FILE_MAX_BYTES);
    bool ok = execd_cgroup_read(cgroup, name, &text) && find_number(text.data, key, ret);
    buf_done(&text);
    return ok;
}

/* --- processors ------------------------------------------------------------------------------- */

int execd_sample_cpus(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int count = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
    if (count == 0) /* more processors than the set has room for */
        count = get_nprocs();
    return MAX(count, 1);
}

/* "50000 100000" of version 2, or the two files of version 1, in processors. */
static bool read_quota(const struct execd_cgroup *cgroup, double *ret)
{
    uint64_t quota = 0;
    uint64_t period = 0;
    bool ok;
    if (cgroup->v2) {
        struct buf text;
        buf_init(&text, FILE_MAX_BYTES);
        ok = execd_cgroup_read(cgroup, "cpu.max", &text) &&
             sscanf(text.data, "%" SCNu64 " %" SCNu64, &quota, &period) == 2;
        buf_done(&text);
    } else {
        ok = read_number(cgroup, "cpu.cfs_quota_us", &quota) &&
             read_number(cgroup, "cpu.cfs_period_us", &period);
    }
    if (!ok || quota == 0 || period == 0)
        return false;
    *ret = (double)quota / (double)period;
    return true;
}

static void read_capacity(struct execd_sample *sample, const char *root, int cpus)
{
    struct execd_cgroup cgroup;
    sample->cpu_capacity = cpus;
    for (bool more = execd_cgroup_find(root, "cpu", &cgroup); more;
         more = execd_cgroup_up(&cgroup)) {
        double quota;
        if (read_quota(&cgroup, &quota))
            sample->cpu_capacity = MIN(sample->cpu_capacity, quota);
    }
    sample->cpu_count = (int)sample->cpu_capacity;
    if (sample->cpu_count < sample->cpu_capacity)
        sample->cpu_count++;
}

static bool read_group_cpu(struct execd_sample *sample, const char *root)
{
    struct execd_cgroup cgroup;
    uint64_t value;
    if (!execd_cgroup_find(root, "cpuacct", &cgroup))
        return false;
    if (!cgroup.v2) {
        if (!read_number(&cgroup, "cpuacct.usage", &value))
            return false;
        sample->cpu_used_ns = value;
        return true;
    }
    if (!read_keyed(&cgroup, "cpu.stat", "usage_usec", &value))
        return false;
    sample->cpu_used_ns = value * 1000;
    return true;
}

static uint64_t ticks_to_ns(uint64_t ticks)
{
    return ticks * (uint64_t)(1000000000 / sysconf(_SC_CLK_TCK));
}

/* "7 (name) S 1 ...": what a process and its reaped children have used. False when it is gone. */
static bool read_process(const char *root, const char *pid, uint64_t *ret_ns)
{
    char path[64];
    uint64_t ticks[4];
    struct buf text;
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    buf_init(&text, FILE_MAX_BYTES);
    bool ok = execd_cgroup_read_file(root, path, &text);
    const char *fields = ok ? strrchr(text.data, ')') : NULL; /* the name may hold anything */
    ok = fields != NULL && sscanf(fields,
                                  ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64
                                  " %" SCNu64 " %" SCNu64 " %" SCNu64,
                                  &ticks[0], &ticks[1], &ticks[2], &ticks[3]) == 4;
    buf_done(&text);
    if (ok)
        *ret_ns = ticks_to_ns(ticks[0] + ticks[1] + ticks[2] + ticks[3]);
    return ok;
}

/* Without a group that counts: as process 1 we see everybody, and those who are gone were reaped by
 * somebody who is here. */
static bool read_all_processes(struct execd_sample *sample, const char *root)
{
    char path[PATH_MAX];
    struct buf self;
    buf_init(&self, FILE_MAX_BYTES);
    bool first =
        execd_cgroup_read_file(root, "/proc/self/stat", &self) && str_starts_with(self.data, "1 ");
    buf_done(&self);
    snprintf(path, sizeof(path), "%s/proc", root);
    DIR *folder = first ? opendir(path) : NULL;
    if (folder == NULL)
        return false;
    const struct dirent *entry;
    for (int seen = 0; seen < PROCESSES_MAX && (entry = readdir(folder)) != NULL; seen++) {
        uint64_t used_ns;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_process(root, entry->d_name, &used_ns))
            sample->cpu_used_ns += used_ns;
    }
    closedir(folder);
    return true;
}

/* "cpu  user nice system idle iowait irq softirq steal ...", one such line for all and one for
 * each.
 */
static bool read_machine_cpu(struct execd_sample *sample, const char *root)
{
    struct buf text;
    uint64_t ticks[8] = {0};
    buf_init(&text, 16 * FILE_MAX_BYTES); /* interrupts make it long on large machines */
    bool ok = execd_cgroup_read_file(root, "/proc/stat", &text) &&
              sscanf(text.data,
                     "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
                     " %" SCNu64 " %" SCNu64,
                     &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
                     &ticks[7]) >= 4;
    int processors = 0;
    for (const char *line = text.data; ok && (line = strstr(line, "\ncpu")) != NULL; line += 4)
        processors++;
    buf_done(&text);
    if (!ok)
        return false;
    uint64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    sample->cpu_used_ns = ticks_to_ns(busy);
    sample->cpu_capacity = MAX(processors, 1); /* all of them, since the use is everybody's */
    return true;
}

double execd_sample_cpu_percent(const struct execd_sample *before, const struct execd_sample *after)
{
    if (after->at_ns <= before->at_ns || after->cpu_used_ns <= before->cpu_used_ns)
        return 0;
    double used = (double)(after->cpu_used_ns - before->cpu_used_ns);
    double available = (double)(after->at_ns - before->at_ns) * after->cpu_capacity;
    return MIN(100.0 * used / available, 100.0);
}

/* --- memory ----------------------------------------------------------------------------------- */

static uint64_t machine_memory(const char *meminfo)
{
    uint64_t kib;
    struct sysinfo info;
    if (find_number(meminfo, "MemTotal", &kib))
        return kib * 1024;
    return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
}

/* What was charged to a group, less the pages of files that nobody has used lately: the kernel
 * takes those back before it refuses anything. */
static bool read_group_use(const struct execd_cgroup *cgroup, uint64_t *ret)
{
    uint64_t used;
    uint64_t inactive = 0;
    if (!read_number(cgroup, cgroup->v2 ? "memory.current" : "memory.usage_in_bytes", &used))
        return false;
    if (!read_keyed(cgroup, "memory.stat", cgroup->v2 ? "inactive_file" : "total_inactive_file",
                    &inactive))
        inactive = 0;
    *ret = used - MIN(inactive, used);
    return true;
}

static uint64_t read_group_limit(const struct execd_cgroup *cgroup)
{
    uint64_t limit;
    const char *name = cgroup->v2 ? "memory.max" : "memory.limit_in_bytes";
    return read_number(cgroup, name, &limit) ? limit : NO_LIMIT;
}

static bool read_group_memory(struct execd_sample *sample, const char *root, uint64_t machine)
{
    struct execd_cgroup cgroup;
    struct execd_cgroup tightest;
    uint64_t limit = NO_LIMIT;
    if (!execd_cgroup_find(root, "memory", &cgroup))
        return false;
    tightest = cgroup;
    do {
        uint64_t own = read_group_limit(&cgroup);
        if (own < limit) {
            limit = own;
            tightest = cgroup;
        }
    } while (execd_cgroup_up(&cgroup));
    sample->memory_total = MIN(limit, machine); /* version 1 writes "none" as a huge number */
    return read_group_use(&tightest, &sample->memory_used);
}

static bool read_memory(struct execd_sample *sample, const char *root)
{
    struct buf meminfo;
    uint64_t available;
    buf_init(&meminfo, FILE_MAX_BYTES);
    (void)execd_cgroup_read_file(root, "/proc/meminfo", &meminfo);
    uint64_t machine = machine_memory(meminfo.data);
    bool ok = machine > 0 && read_group_memory(sample, root, machine);
    if (!ok && machine > 0 && find_number(meminfo.data, "MemAvailable", &available)) {
        sample->memory_total = machine;
        sample->memory_used = machine - MIN(available * 1024, machine);
        ok = true;
    }
    buf_done(&meminfo);
    return ok;
}

/* --- both ------------------------------------------------------------------------------------- */

int execd_sample_read(struct execd_sample *ret, const char *root, int cpus, struct error *err)
{
    struct execd_sample sample = {.at_ns = clock_monotonic_ns()};
    read_capacity(&sample, root, cpus);
    if (!read_group_cpu(&sample, root) && !read_all_processes(&sample, root) &&
        !read_machine_cpu(&sample, root))
        return error_set(err, ERR_UNSUPPORTED,
                         "cannot tell the use of processors: there is neither a control group "
                         "(/proc/self/cgroup, /sys/fs/cgroup) nor /proc/stat to be read");
    if (!read_memory(&sample, root))
        return error_set(err, ERR_UNSUPPORTED,
                         "cannot tell the use of memory: there is neither a memory control group "
                         "(/proc/self/cgroup, /sys/fs/cgroup) nor /proc/meminfo to be read");
    *ret = sample;
    return 0;
}
