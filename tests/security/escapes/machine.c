/* What belongs to the whole machine: its clock, its settings, its log, its control groups. Files
 * are given what they say already; calls are made with something wrong that the kernel finds only
 * when it has looked at privileges. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/reboot.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/acct.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <unistd.h>

#ifdef __x86_64__
#include <sys/io.h>
#endif

#include "escapes.h"

#define NOWHERE        "/osb-nowhere/at/all"
#define SYSLOG_READ    3
#define KEXEC_BAD_FLAG 0x4000

static int hostname(char **arguments)
{
    (void)arguments;
    return escapes_result(sethostname("osb-taken", 9));
}

static int domainname(char **arguments)
{
    (void)arguments;
    return escapes_result(setdomainname("osb-taken", 9));
}

static int clock_zone(char **arguments)
{
    (void)arguments;
    struct timezone zone = {0, 0};
    if (syscall(SYS_gettimeofday, NULL, &zone) < 0)
        return -errno;
    return escapes_result(syscall(SYS_settimeofday, NULL, &zone));
}

static int clock_speed(char **arguments)
{
    (void)arguments;
    struct timex now = {0};
    if (adjtimex(&now) < 0)
        return -errno;
    struct timex same = {.modes = ADJ_FREQUENCY, .freq = now.freq};
    return escapes_result(adjtimex(&same));
}

static int restart(char **arguments)
{
    (void)arguments;
    return escapes_past(syscall(SYS_reboot, 0, 0, LINUX_REBOOT_CMD_CAD_OFF, NULL), EINVAL);
}

static int kexec(char **arguments)
{
    (void)arguments;
    return escapes_past(syscall(SYS_kexec_load, 0, 0, NULL, KEXEC_BAD_FLAG), EINVAL);
}

static int load_module(char **arguments)
{
    (void)arguments;
    int r = escapes_past(syscall(SYS_init_module, NULL, 0, ""), ENOEXEC);
    return r == -EFAULT ? 0 : r;
}

static int unload_module(char **arguments)
{
    (void)arguments;
    return escapes_past(syscall(SYS_delete_module, "osb_no_such_module", O_NONBLOCK), ENOENT);
}

static int swap(char **arguments)
{
    (void)arguments;
    return escapes_past(swapon(NOWHERE, 0), ENOENT);
}

/* Of this pid namespace alone, and only for an instant. */
static int accounting(char **arguments)
{
    (void)arguments;
    (void)mkdir("/tmp", 0777);
    int fd = open("/tmp/osb-acct", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || acct("/tmp/osb-acct") < 0)
        return -errno;
    return escapes_result(acct(NULL));
}

static int hang_up(char **arguments)
{
    (void)arguments;
    return escapes_result(vhangup());
}

static int kernel_log(char **arguments)
{
    char text[4096];
    (void)arguments;
    int n = klogctl(SYSLOG_READ, text, sizeof(text));
    return n < 0 ? -errno : 0;
}

static int kernel_log_file(char **arguments)
{
    (void)arguments;
    return escapes_result(open("/proc/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

static int bpf(char **arguments)
{
    (void)arguments;
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return escapes_result(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

#ifdef __x86_64__
static int io_ports(char **arguments)
{
    (void)arguments;
    return escapes_result(ioperm(0x80, 1, 1));
}

static int io_level(char **arguments)
{
    (void)arguments;
    return escapes_result(iopl(3));
}
#else
#define io_ports escapes_not_here
#define io_level escapes_not_here
#endif

static int core_pattern(char **arguments)
{
    (void)arguments;
    return escapes_write_back("/proc/sys/kernel/core_pattern");
}

static int kernel_panic(char **arguments)
{
    (void)arguments;
    return escapes_write_back("/proc/sys/kernel/panic");
}

static int suid_dumpable(char **arguments)
{
    (void)arguments;
    return escapes_write_back("/proc/sys/fs/suid_dumpable");
}

/* Opened, but nothing is pressed. */
static int sysrq(char **arguments)
{
    (void)arguments;
    return escapes_result(open("/proc/sysrq-trigger", O_WRONLY | O_CLOEXEC));
}

static int irq_affinity(char **arguments)
{
    (void)arguments;
    return escapes_write_back("/proc/irq/default_smp_affinity");
}

static int first_that_is_there(const char *const *paths, int (*run)(const char *path))
{
    for (; *paths != NULL; paths++) {
        if (access(*paths, F_OK) == 0)
            return run(*paths);
    }
    return -ENOENT;
}

static int kernel_memory_settings(char **arguments)
{
    static const char *const paths[] = {"/sys/kernel/mm/ksm/pages_to_scan",
                                        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
                                        "/sys/kernel/mm/lru_gen/min_ttl_ms", NULL};
    (void)arguments;
    return first_that_is_there(paths, escapes_write_back);
}

static int processor_settings(char **arguments)
{
    static const char *const paths[] = {
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "/sys/devices/system/cpu/cpu1/online", NULL};
    (void)arguments;
    return first_that_is_there(paths, escapes_write_back);
}

static int group_memory(char **arguments)
{
    static const char *const paths[] = {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                        "/sys/fs/cgroup/memory.max", NULL};
    (void)arguments;
    return first_that_is_there(paths, escapes_write_back);
}

static int group_processes(char **arguments)
{
    static const char *const paths[] = {"/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/pids.max",
                                        NULL};
    (void)arguments;
    return first_that_is_there(paths, escapes_write_back);
}

static int make_group(const char *path)
{
    if (mkdir(path, 0755) < 0)
        return -errno;
    return escapes_result(rmdir(path));
}

static int group_make(char **arguments)
{
    (void)arguments;
    return make_group(access("/sys/fs/cgroup/memory", F_OK) == 0 ? "/sys/fs/cgroup/memory/osb"
                                                                 : "/sys/fs/cgroup/osb");
}

static int kernel_core(char **arguments)
{
    (void)arguments;
    return escapes_find_in("/proc/kcore", "ELF");
}

static int interrupts(char **arguments)
{
    (void)arguments;
    return escapes_find_in("/proc/interrupts", "CPU");
}

static int keys(char **arguments)
{
    (void)arguments;
    return escapes_find_in("/proc/keys", "keyring");
}

static int timers(char **arguments)
{
    (void)arguments;
    return escapes_find_in("/proc/timer_list", "Timer");
}

/* Calls that no kernel of today has: whatever they answer, it is not success. */
static int dead_calls(char **arguments)
{
    (void)arguments;
#ifdef __x86_64__
    static const long calls[] = {SYS_lookup_dcookie, SYS_nfsservctl, SYS_uselib, SYS__sysctl,
                                 SYS_create_module};
    for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        if (syscall(calls[i], 0, 0, 0) != -1)
            return 0;
    }
#endif
    return -ENOSYS;
}

const struct escape escapes_of_machine[] = {
    {"hostname", 0, hostname},
    {"domainname", 0, domainname},
    {"clock_zone", 0, clock_zone},
    {"clock_speed", 0, clock_speed},
    {"restart", 0, restart},
    {"kexec", 0, kexec},
    {"load_module", 0, load_module},
    {"unload_module", 0, unload_module},
    {"swap", 0, swap},
    {"accounting", 0, accounting},
    {"hang_up", 0, hang_up},
    {"kernel_log", 0, kernel_log},
    {"kernel_log_file", 0, kernel_log_file},
    {"bpf", 0, bpf},
    {"io_ports", 0, io_ports},
    {"io_level", 0, io_level},
    {"core_pattern", 0, core_pattern},
    {"kernel_panic", 0, kernel_panic},
    {"suid_dumpable", 0, suid_dumpable},
    {"sysrq", 0, sysrq},
    {"irq_affinity", 0, irq_affinity},
    {"kernel_memory_settings", 0, kernel_memory_settings},
    {"processor_settings", 0, processor_settings},
    {"group_memory", 0, group_memory},
    {"group_processes", 0, group_processes},
    {"group_make", 0, group_make},
    {"kernel_core", 0, kernel_core},
    {"interrupts", 0, interrupts},
    {"keys", 0, keys},
    {"timers", 0, timers},
    {"dead_calls", 0, dead_calls},
    {NULL, 0, NULL},
};
