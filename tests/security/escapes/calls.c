/* System calls of which the filter alone keeps a sandbox: parts of the kernel that anybody may use
 * elsewhere, and in which holes are found every year. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fanotify.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escapes.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGE      4096
#define LISTMOUNT 458
#define TERMINALS 200

static int unshare_user(char **arguments)
{
    (void)arguments;
    return escapes_result(unshare(CLONE_NEWUSER));
}

/* What most local exploits of the last years begin with: all capabilities in a place of one's own.
 */
static int unshare_user_and_mount(char **arguments)
{
    (void)arguments;
    (void)mkdir("/tmp", 0777);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return -errno;
    return escapes_result(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static int reap(long pid)
{
    if (pid == 0)
        _exit(0);
    if (pid < 0)
        return -errno;
    return escapes_result(waitpid((pid_t)pid, NULL, 0));
}

static int clone_user(char **arguments)
{
    (void)arguments;
    return reap(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
}

static int clone3_user(char **arguments)
{
    (void)arguments;
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    return reap(syscall(SYS_clone3, &args, sizeof(args)));
}

static int user_fault(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
}

static int io_uring(char **arguments)
{
    (void)arguments;
    struct io_uring_params params = {0};
    return escapes_result(syscall(SYS_io_uring_setup, 4, &params));
}

static int add_key(char **arguments)
{
    (void)arguments;
    return escapes_result(
        syscall(SYS_add_key, "user", "osb-own", "x", 1, KEY_SPEC_PROCESS_KEYRING));
}

/* Without text for it no program of the host is run. */
static int request_key(char **arguments)
{
    (void)arguments;
    return escapes_past(syscall(SYS_request_key, "user", "osb-none", NULL, 0), ENOKEY);
}

static int keyctl(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

static int fanotify(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_fanotify_init, FAN_REPORT_FID | FAN_CLASS_NOTIF, O_RDONLY));
}

static int perf_event(char **arguments)
{
    (void)arguments;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(attr),
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return escapes_result(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int memfd_secret(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_memfd_secret, 0));
}

static int memfd_huge(char **arguments)
{
    (void)arguments;
    return escapes_result(memfd_create("huge", MFD_HUGETLB));
}

#ifdef SYS_modify_ldt
static int modify_ldt(char **arguments)
{
    (void)arguments;
    char entries[64];
    return escapes_result(syscall(SYS_modify_ldt, 0, entries, sizeof(entries)));
}
#else
#define modify_ldt escapes_not_here
#endif

static int remap_pages(char **arguments)
{
    (void)arguments;
    void *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return -errno;
    return escapes_result(remap_file_pages(pages, PAGE, 0, 1, 0));
}

static int move_pages(char **arguments)
{
    (void)arguments;
    return escapes_result(syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0));
}

static int migrate_pages(char **arguments)
{
    (void)arguments;
    unsigned long nodes = 1;
    return escapes_result(syscall(SYS_migrate_pages, 0, 64, &nodes, &nodes));
}

static int personality_exec(char **arguments)
{
    (void)arguments;
    return escapes_result(personality(READ_IMPLIES_EXEC));
}

static int quota(char **arguments)
{
    (void)arguments;
    return escapes_result(quotactl(QCMD(Q_SYNC, USRQUOTA), NULL, 0, NULL));
}

/* With 0 the host's program for core dumps runs, as root, on what a sandbox has written. */
static int core_limit(char **arguments)
{
    (void)arguments;
    struct rlimit limit = {0, 0};
    if (setrlimit(RLIMIT_CORE, &limit) < 0 || getrlimit(RLIMIT_CORE, &limit) < 0)
        return -errno;
    return limit.rlim_cur == 0 ? 0 : TO_NO_AVAIL;
}

/* A terminal of our own: 0 when the call works on it. */
static int on_terminal(unsigned long request, void *argument)
{
    int locked = 0;
    if (setsid() < 0 && getpid() != getsid(0))
        return -errno;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
        return -errno;
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return -errno;
    return escapes_result(ioctl(slave, request, argument));
}

static int type_key(void)
{
    char key = 'x';
    return on_terminal(TIOCSTI, &key);
}

static int terminal_injection(char **arguments)
{
    (void)arguments;
    return escapes_in_child(type_key);
}

static int set_discipline(void)
{
    int discipline = 0;
    return on_terminal(TIOCSETD, &discipline);
}

static int line_discipline(char **arguments)
{
    (void)arguments;
    return escapes_in_child(set_discipline);
}

/* The kernel loads the module before it looks at capabilities: EPERM as its answer comes from the
 * filter, or from a module that was loaded. */
static int vlan_module(char **arguments)
{
    (void)arguments;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = ioctl(fd, SIOCGIFVLAN, NULL);
    return r == 0 || errno != EPERM ? 0 : -errno;
}

/* Requests that the machine has room for, all sandboxes and the host together. */
static int async_io(char **arguments)
{
    unsigned long context = 0;
    (void)arguments;
    return escapes_result(syscall(SYS_io_setup, 8, &context));
}

/* More than a sandbox's share of the machine's terminals; few of what the machine has. */
static int terminals(char **arguments)
{
    (void)arguments;
    for (int i = 0; i < TERMINALS; i++) {
        if (open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) < 0)
            return -errno;
    }
    return 0;
}

static int socket_of(int family, int type, int protocol)
{
    return escapes_result(socket(family, type | SOCK_CLOEXEC, protocol));
}

static int vsock_socket(char **arguments)
{
    (void)arguments;
    return socket_of(AF_VSOCK, SOCK_STREAM, 0);
}

static int alg_socket(char **arguments)
{
    (void)arguments;
    return socket_of(AF_ALG, SOCK_SEQPACKET, 0);
}

static int netfilter_socket(char **arguments)
{
    (void)arguments;
    return socket_of(AF_NETLINK, SOCK_RAW, 12);
}

static int uevent_socket(char **arguments)
{
    (void)arguments;
    return socket_of(AF_NETLINK, SOCK_RAW, 15);
}

static int multipath_socket(char **arguments)
{
    (void)arguments;
    return socket_of(AF_INET, SOCK_STREAM, 262);
}

/* A call that is younger than the filter's table. */
static int list_mounts(char **arguments)
{
    struct {
        uint32_t size, reserved;
        uint64_t mount, after, namespace;
    } request = {.size = 24, .mount = UINT64_MAX}; /* of the root */
    uint64_t mounts[4];
    (void)arguments;
    return escapes_result(syscall(LISTMOUNT, &request, mounts, 4, 0));
}

const struct escape escapes_of_calls[] = {
    {"multipath_socket", 0, multipath_socket},
    {"list_mounts", 0, list_mounts},
    {"async_io", 0, async_io},
    {"terminals", 0, terminals},
    {"unshare_user", 0, unshare_user},
    {"unshare_user_and_mount", 0, unshare_user_and_mount},
    {"clone_user", 0, clone_user},
    {"clone3_user", 0, clone3_user},
    {"user_fault", 0, user_fault},
    {"io_uring", 0, io_uring},
    {"add_key", 0, add_key},
    {"request_key", 0, request_key},
    {"keyctl", 0, keyctl},
    {"fanotify", 0, fanotify},
    {"perf_event", 0, perf_event},
    {"memfd_secret", 0, memfd_secret},
    {"memfd_huge", 0, memfd_huge},
    {"modify_ldt", 0, modify_ldt},
    {"remap_pages", 0, remap_pages},
    {"move_pages", 0, move_pages},
    {"migrate_pages", 0, migrate_pages},
    {"personality_exec", 0, personality_exec},
    {"quota", 0, quota},
    {"core_limit", 0, core_limit},
    {"terminal_injection", 0, terminal_injection},
    {"line_discipline", 0, line_discipline},
    {"vlan_module", 0, vlan_module},
    {"vsock_socket", 0, vsock_socket},
    {"alg_socket", 0, alg_socket},
    {"netfilter_socket", 0, netfilter_socket},
    {"uevent_socket", 0, uevent_socket},
    {NULL, 0, NULL},
};
