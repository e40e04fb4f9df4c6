/* Probes: how many sandboxes fit. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "launcher/check_probe.h"

#define MIB            ((uint64_t)1 << 20)
#define IDLE_BYTES     (MIB / 2) /* of an idle sandbox, generously */
#define FILES_EACH     4         /* descriptors the launcher holds for a sandbox, generously */
#define FILES_OURS     64
#define TASKS_EACH     3 /* execd, the entrypoint and one command */
#define TASKS_HOST     1000
#define SANDBOXES_WISH 1000

static void probe_memory(const struct check_context *context, struct check_result *result)
{
    (void)context;
    uint64_t total, available, swap = 0;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 65536);
    if (check_read("/proc/meminfo", &text) < 0 ||
        check_parse_meminfo(text.data, "MemTotal", &total) < 0 ||
        check_parse_meminfo(text.data, "MemAvailable", &available) < 0) {
        check_say(result, CHECK_UNKNOWN, "/proc/meminfo cannot be read");
        return;
    }
    (void)check_parse_meminfo(text.data, "SwapTotal", &swap);
    uint64_t fit = available / IDLE_BYTES;
    check_say(result, fit >= 10 ? CHECK_YES : CHECK_PARTLY,
              "%" PRIu64 " MiB, %" PRIu64 " MiB available, %" PRIu64 " MiB of swap", total / MIB,
              available / MIB, swap / MIB);
    check_effect(result, "room for about %" PRIu64 " idle sandboxes", fit);
}

static void probe_overcommit(const struct check_context *context, struct check_result *result)
{
    (void)context;
    uint64_t mode;
    if (check_read_number("/proc/sys/vm/overcommit_memory", &mode) < 0)
        check_say(result, CHECK_UNKNOWN, "vm.overcommit_memory cannot be read");
    else
        check_say(result, mode == 2 ? CHECK_PARTLY : CHECK_YES, "vm.overcommit_memory is %" PRIu64,
                  mode);
    if (result->found == CHECK_PARTLY)
        check_effect(result, "memory that sandboxes ask for and do not use counts, too");
}

static void probe_open_files(const struct check_context *context, struct check_result *result)
{
    (void)context;
    struct rlimit files;
    uint64_t all = 0;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
        check_say(result, CHECK_UNKNOWN, "getrlimit: %s", strerror(errno));
        return;
    }
    (void)check_read_number("/proc/sys/fs/file-max", &all);
    uint64_t limit = files.rlim_max;
    uint64_t fit = limit > FILES_OURS ? (limit - FILES_OURS) / FILES_EACH : 0;
    check_say(result, fit >= SANDBOXES_WISH ? CHECK_YES : CHECK_PARTLY,
              "RLIMIT_NOFILE is %" PRIu64 ", fs.file-max %" PRIu64, limit, all);
    check_effect(result,
                 "a process inside may have %" PRIu64 " open files; the launcher can hold about "
                 "%" PRIu64 " sandboxes",
                 MIN(limit, (uint64_t)65536), fit);
}

static void probe_processes(const struct check_context *context, struct check_result *result)
{
    (void)context;
    uint64_t pid_max = 0, threads_max = 0;
    if (check_read_number("/proc/sys/kernel/pid_max", &pid_max) < 0 ||
        check_read_number("/proc/sys/kernel/threads-max", &threads_max) < 0) {
        check_say(result, CHECK_UNKNOWN, "kernel.pid_max cannot be read");
        return;
    }
    uint64_t least = MIN(pid_max, threads_max);
    uint64_t fit = least > TASKS_HOST ? (least - TASKS_HOST) / TASKS_EACH : 0;
    check_say(result, fit >= SANDBOXES_WISH ? CHECK_YES : CHECK_PARTLY,
              "kernel.pid_max is %" PRIu64 ", kernel.threads-max %" PRIu64, pid_max, threads_max);
    check_effect(result, "room for the processes of about %" PRIu64 " sandboxes", fit);
}

/* Counted for each user; each sandbox's users are its own, but the limit is taken from the same
 * setting. */
static void probe_inotify(const struct check_context *context, struct check_result *result)
{
    (void)context;
    uint64_t instances = 0, watches = 0;
    if (check_read_number("/proc/sys/fs/inotify/max_user_instances", &instances) < 0 ||
        check_read_number("/proc/sys/fs/inotify/max_user_watches", &watches) < 0)
        check_say(result, CHECK_NO, "fs.inotify is not there");
    else
        check_say(result, instances >= 64 && watches >= 8192 ? CHECK_YES : CHECK_PARTLY,
                  "fs.inotify.max_user_instances is %" PRIu64 ", max_user_watches %" PRIu64,
                  instances, watches);
}

static void probe_loop_max(const struct check_context *context, struct check_result *result)
{
    (void)context;
    uint64_t max;
    if (check_read_number("/sys/module/loop/parameters/max_loop", &max) < 0)
        check_say(result, CHECK_NO, "the loop driver is not there");
    else if (check_found_of(context, "loop-devices") == CHECK_YES)
        check_say(result, CHECK_YES, "made on demand (max_loop is %" PRIu64 ")", max);
    else
        check_say(result, CHECK_UNKNOWN, "max_loop is %" PRIu64, max);
}

#define SECTION "room"

const struct check_probe check_machine_probes[] = {
    {SECTION, "memory", CHECK_NOTE, probe_memory, "", "", "more memory"},
    {SECTION, "overcommit", CHECK_NOTE, probe_overcommit, "unused memory costs nothing", "",
     "sysctl -w vm.overcommit_memory=0"},
    {SECTION, "open-files", CHECK_NOTE, probe_open_files, "", "",
     "raise the limit where the server is started (LimitNOFILE= in its unit, ulimit -n)"},
    {SECTION, "processes", CHECK_NOTE, probe_processes, "", "", "sysctl -w kernel.pid_max=4194304"},
    {SECTION, "inotify", CHECK_NOTE, probe_inotify, "programs inside can watch files",
     "programs inside cannot watch files",
     "sysctl -w fs.inotify.max_user_instances=1024 fs.inotify.max_user_watches=65536"},
    {SECTION, "loop-max", CHECK_NOTE, probe_loop_max, "each disk limit by a file takes one",
     "disk limits need project quota", NULL},
    {0},
};
