#include "launcher/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <linux/securebits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1;
    long pid;
    if (cgroup_fd >= 0) {
        struct clone_args args = {
            .flags = flags | CLONE_PIDFD | CLONE_INTO_CGROUP,
            .pidfd = (uint64_t)(uintptr_t)&pidfd,
            .exit_signal = SIGCHLD,
            .cgroup = (uint64_t)cgroup_fd,
        };
        pid = syscall(SYS_clone3, &args, sizeof(args));
    } else {
        /* The third argument is the same on every architecture, and CLONE_PIDFD answers there. */
        pid = syscall(SYS_clone, (unsigned long)(flags | CLONE_PIDFD | SIGCHLD), NULL, &pidfd, NULL,
                      NULL);
    }
    if (pid < 0)
        return -errno;
    if (pid > 0)
        *ret_pidfd = pidfd;
    return (pid_t)pid;
}

/* Signals that are not at their default, by our own doing or that of whoever started us. Until
 * somebody looks: all of them. */
static uint64_t altered_signals = UINT64_MAX; /* bit 0: signal 1 */

void process_note_signals(void)
{
    struct sigaction action;
    altered_signals = 0;
    for (int number = 1; number < NSIG; number++) {
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            altered_signals |= 1ull << (number - 1);
    }
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        if (altered_signals >> (number - 1) & 1)
            sigaction(number, &action, NULL); /* SIGKILL and SIGSTOP refuse; they need nothing */
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

#define FIRST_FD 3
#define KEEP_MAX 16

int process_keep(const int *keep, unsigned count)
{
    int from[KEEP_MAX];
    if (count > KEEP_MAX)
        return -E2BIG;
    for (unsigned i = 0; i < count; i++)
        from[i] = keep[i];
    for (unsigned i = 0; i < count; i++) {
        int target = FIRST_FD + (int)i;
        if (from[i] == target)
            continue;
        for (unsigned j = i + 1; j < count; j++) { /* what sits there may be wanted elsewhere */
            if (from[j] != target)
                continue;
            from[j] = fcntl(target, F_DUPFD_CLOEXEC, FIRST_FD + (int)count);
            if (from[j] < 0)
                return -errno;
        }
        if (from[i] < 0)
            close(target);
        else if (dup3(from[i], target, O_CLOEXEC) < 0)
            return -errno;
    }
    if (close_range(FIRST_FD + count, ~0u, 0) < 0 ||
        close_range(FIRST_FD, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
        return -errno;
    return 0;
}

int process_settle(const int *keep, unsigned count)
{
    reset_signals();
    return process_keep(keep, count);
}

int process_open(pid_t pid, int *ret_pidfd)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0); /* always CLOEXEC */
    if (fd < 0)
        return -errno;
    *ret_pidfd = fd;
    return 0;
}

int process_signal(int pidfd, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) < 0 ? -errno : 0;
}

/* That of the machine maps every id to itself. */
static bool is_in_first_namespace(void)
{
    static int answer = -1;
    if (answer < 0) {
        CLEANUP(buf_done) struct buf map;
        buf_init(&map, 65536);
        char all[] = "4294967295\n";
        (void)file_read_at(AT_FDCWD, "/proc/self/uid_map", &map, NULL);
        answer =
            map.length > sizeof(all) && str_equal(map.data + map.length - (sizeof(all) - 1), all);
    }
    return answer != 0;
}

bool process_has_capability(unsigned capability)
{
    if (!is_in_first_namespace())
        return false;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[capability / 32].effective >> (capability % 32) & 1) != 0;
}

int process_act_as(uint32_t uid, uint32_t gid, int *ret_before)
{
    int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
    if (bits < 0 || prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
        return -errno;
    *ret_before = bits;
    if (setegid(gid) == 0 && seteuid(uid) == 0)
        return 0;
    int r = -errno;
    process_act_as_self(bits);
    return r;
}

void process_act_as_self(int before)
{
    if (seteuid(0) < 0 || setegid(0) < 0 || prctl(PR_SET_SECUREBITS, before, 0, 0, 0) < 0)
        _exit(1); /* never as somebody else */
}

void process_end(int pidfd)
{
    siginfo_t info;
    process_signal(pidfd, SIGKILL);
    while (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

bool process_end_within(int pidfd, int timeout_ms)
{
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    process_signal(pidfd, SIGKILL);
    if (poll(&end, 1, timeout_ms) != 1)
        return false;
    process_end(pidfd); /* which it has: only to reap it */
    return true;
}

int process_parse_start_time(const char *stat, uint64_t *ret_ticks)
{
    /* The name in parentheses may contain anything, so count from the last ')': field 3 follows. */
    const char *at = strrchr(stat, ')');
    if (at == NULL)
        return -EINVAL;
    for (int field = 3; field <= 22; field++) {
        at = strchr(at, ' ');
        if (at == NULL)
            return -EINVAL;
        at++;
    }
    char digits[24];
    size_t length = strspn(at, "0123456789");
    if (length == 0 || length >= sizeof(digits))
        return -EINVAL;
    memcpy(digits, at, length);
    digits[length] = '\0';
    return str_to_u64(digits, 0, UINT64_MAX, ret_ticks);
}

static int read_small(const char *path, struct buf *text)
{
    struct error err = ERROR_INIT;
    if (file_read_at(AT_FDCWD, path, text, &err) < 0)
        return err.sys != 0 ? -err.sys : -EIO;
    return 0;
}

int process_start_time(pid_t pid, uint64_t *ret_ticks)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 4096);
    int r = read_small(path, &text);
    return r < 0 ? r : process_parse_start_time(text.data, ret_ticks);
}

int process_boot_id(char ret[PROCESS_BOOT_ID_LEN + 1])
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 4096);
    int r = read_small("/proc/sys/kernel/random/boot_id", &text);
    if (r < 0)
        return r;
    if (text.length < PROCESS_BOOT_ID_LEN)
        return -EINVAL;
    memcpy(ret, text.data, PROCESS_BOOT_ID_LEN);
    ret[PROCESS_BOOT_ID_LEN] = '\0';
    return 0;
}
