/* Each check runs in a child under the real filter: what the kernel answers is what counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/seccomp_table.h"

static struct seccomp_filter filter;

#define INTERRUPT (-1) /* in place of a number: the call `a` by the gate of 32-bit programs */

#if defined(__x86_64__)
static long call_by_interrupt(unsigned long number)
{
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(number) : "memory", "r8", "r9", "r10", "r11");
    if (r >= 0)
        return r;
    errno = (int)-r;
    return -1;
}
#endif

/* The errno of a raw call under the filter; 0 when it succeeds. */
static int answer(long number, unsigned long a, unsigned long b, unsigned long c)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_filter_load(&filter) < 0)
            _exit(255);
#if defined(__x86_64__)
        long r = number == INTERRUPT ? call_by_interrupt(a) : syscall(number, a, b, c, 0, 0);
#else
        long r = syscall(number, a, b, c, 0, 0);
#endif
        if (number == SYS_clone && r == 0)
            _exit(0);
        _exit(r < 0 ? errno : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (number == INTERRUPT && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
        return ENOSYS; /* a kernel without that gate */
    assert_true(WIFEXITED(status));
    assert_int_not_equal(WEXITSTATUS(status), 255);
    return WEXITSTATUS(status);
}

static void test_ordinary_calls(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_getpid, 0, 0, 0), 0);
    assert_int_equal(answer(SYS_sched_yield, 0, 0, 0), 0);
    assert_int_equal(answer(SYS_clone, SIGCHLD, 0, 0), 0);
    assert_int_equal(answer(SYS_close, 999, 0, 0), EBADF);
    assert_int_equal(answer(SYS_chroot, 0, 0, 0), EFAULT);
    assert_int_equal(answer(SYS_ioctl, 999, TIOCGWINSZ, 0), EBADF);
}

static void test_namespaces(void **state)
{
    (void)state;
    static const unsigned long flags[] = {
        CLONE_NEWUSER, CLONE_NEWNS,     CLONE_NEWPID,
        CLONE_NEWNET,  CLONE_NEWCGROUP, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID,
    };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        assert_int_equal(answer(SYS_clone, flags[i] | SIGCHLD, 0, 0), EPERM);
    assert_int_equal(answer(SYS_clone3, 0, 0, 0), ENOSYS);
    assert_int_equal(answer(SYS_unshare, CLONE_NEWUSER, 0, 0), EPERM);
    assert_int_equal(answer(SYS_unshare, CLONE_NEWUSER | CLONE_FILES, 0, 0), EPERM);
    assert_int_equal(answer(SYS_unshare, CLONE_FS | CLONE_FILES, 0, 0), 0);
    assert_int_equal(answer(SYS_setns, 0, 0, 0), EPERM);
}

static void test_refused(void **state)
{
    (void)state;
    static const long numbers[] = {
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_move_mount,
        SYS_open_tree,
        SYS_fsopen,
        SYS_mount_setattr,
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_keyctl,
        SYS_io_uring_setup,
        SYS_init_module,
        SYS_kexec_load,
        SYS_reboot,
        SYS_swapon,
        SYS_acct,
        SYS_quotactl,
        SYS_syslog,
        SYS_open_by_handle_at,
        SYS_settimeofday,
        SYS_sethostname,
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        assert_int_equal(answer(numbers[i], 0, 0, 0), EPERM);
}

static void test_unknown_is_absent(void **state)
{
    (void)state;
    assert_int_equal(answer(1023, 0, 0, 0), ENOSYS);
    assert_int_equal(answer(457, 0, 0, 0), ENOSYS); /* statmount: not on the list */
}

static void test_sockets(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_socket, AF_UNIX, SOCK_STREAM, 0), 0);
    assert_int_equal(answer(SYS_socket, AF_INET, SOCK_STREAM, 0), 0);
    assert_int_equal(answer(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), 0);
    assert_int_equal(answer(SYS_socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EPROTONOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
    assert_int_equal(answer(SYS_socket, 7, SOCK_STREAM, 0), EAFNOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP), EPROTONOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_INET6, SOCK_DCCP, 0), EPROTONOSUPPORT);
    assert_int_equal(answer(SYS_socket, AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP), 0);
    assert_int_equal(answer(SYS_socketpair, AF_TIPC, SOCK_STREAM, 0), EAFNOSUPPORT);
    /* The kernel takes an int, whatever is in the rest of the register. */
    assert_int_not_equal(answer(SYS_socket, AF_ALG | 1ul << 32, SOCK_SEQPACKET, 0), 0);
}

static void test_device_requests(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_ioctl, 999, TIOCSTI, 0), EPERM);
    assert_int_equal(answer(SYS_ioctl, 999, TIOCLINUX, 0), EPERM);
    assert_int_equal(answer(SYS_ioctl, 999, TIOCSTI | 1ul << 32, 0), EPERM);
    assert_int_equal(answer(SYS_ioctl, 999, TIOCSETD, 0), EPERM);
    assert_int_equal(answer(SYS_ioctl, 999, SIOCBRADDBR, 0), EPERM);
}

static void test_personality(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_personality, 0xffffffff, 0, 0), 0);
    assert_int_equal(answer(SYS_personality, 0, 0, 0), 0);
    assert_int_equal(answer(SYS_personality, ADDR_NO_RANDOMIZE, 0, 0), 0); /* gdb */
    assert_int_equal(answer(SYS_personality, READ_IMPLIES_EXEC, 0, 0), EPERM);
}

/* The launcher's limit of 1 must stay, without anybody failing over it. */
static void test_core_limit(void **state)
{
    (void)state;
    static const struct rlimit one = {1, 1}, none = {0, 0};
    struct rlimit now;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setrlimit(RLIMIT_CORE, &one) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            seccomp_filter_load(&filter) < 0)
            _exit(1);
        if (setrlimit(RLIMIT_CORE, &none) != 0 || syscall(SYS_setrlimit, RLIMIT_CORE, &none) != 0)
            _exit(2);
        if (prlimit(0, RLIMIT_CORE, &none, &now) == 0 || errno != EPERM)
            _exit(3);
        if (getrlimit(RLIMIT_CORE, &now) != 0 || now.rlim_cur != 1 || now.rlim_max != 1)
            _exit(4);
        if (getrlimit(RLIMIT_STACK, &now) != 0 || setrlimit(RLIMIT_STACK, &now) != 0)
            _exit(5);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_shared_resources(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_prctl, PR_SCHED_CORE, 1, 0), EINVAL);
    assert_int_equal(answer(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0), 0);
    assert_int_equal(answer(SYS_memfd_create, (unsigned long)"x", MFD_CLOEXEC, 0), 0);
    assert_int_equal(answer(SYS_memfd_create, (unsigned long)"x", MFD_HUGETLB, 0), EINVAL);
    assert_int_equal(answer(SYS_mmap, 0, 4096, PROT_READ), EINVAL); /* no kind of mapping named */
    assert_int_equal(answer(SYS_move_pages, 0, 0, 0), ENOSYS);
}

#if defined(__x86_64__)
static void test_foreign_abis(void **state)
{
    (void)state;
    assert_int_equal(answer(SYS_getpid | 0x40000000, 0, 0, 0), ENOSYS); /* x32 */
    assert_int_equal(answer(INTERRUPT, 20, 0, 0), ENOSYS);              /* i386's getpid */
}
#endif

static int setup(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    return seccomp_table_build(&filter, &err);
}

static int teardown(void **state)
{
    (void)state;
    seccomp_filter_done(&filter);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_calls),
        cmocka_unit_test(test_namespaces),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown_is_absent),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_device_requests),
        cmocka_unit_test(test_personality),
        cmocka_unit_test(test_core_limit),
        cmocka_unit_test(test_shared_resources),
#if defined(__x86_64__)
        cmocka_unit_test(test_foreign_abis),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
