/* What a confined process can and cannot do, tried in children of the test. The list of system
 * calls is also run in a BPF machine, for both architectures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../launcher/bpf.h"
#include "base/file.h"
#include "base/mem.h"
#include "seccomp/number.h"
#include "server/landlock.h"
#include "server/syscalls.h"

static char dir[] = "/tmp/confine-test-XXXXXX";
static int parent;

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static int make_dirs(void **state)
{
    (void)state;
    parent = (int)getpid();
    if (mkdtemp(dir) == NULL || mkdir(in_dir("server"), 0700) < 0 || mkdir(in_dir("run"), 0711) < 0)
        return -1;
    int fd = open(in_dir("run/other"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd_close(fd), fd < 0;
}

static int remove_dirs(void **state)
{
    (void)state;
    unlink(in_dir("server/file"));
    unlink(in_dir("run/other"));
    rmdir(in_dir("server"));
    rmdir(in_dir("run"));
    return rmdir(dir);
}

/* 0, or the errno. */
static int try_open(const char *path, int flags)
{
    AUTO_CLOSE int fd = open(path, flags | O_CLOEXEC, 0600);
    return fd < 0 ? errno : 0;
}

static int try_bind(int port)
{
    AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : 0;
}

#define CHECK(condition)                                       \
    do {                                                       \
        if (!(condition)) {                                    \
            dprintf(2, "line %d: " #condition "\n", __LINE__); \
            _exit(1);                                          \
        }                                                      \
    } while (0)

static void check_files(void)
{
    int abi = -1;
    struct error err = ERROR_INIT;
    const struct server_landlock_options options = {.state_dir = dir, .port = 0};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(server_landlock_restrict(&options, &abi, &err) == 0);
    if (abi == 0)
        _exit(2);
    CHECK(try_open(in_dir("server/file"), O_CREAT | O_RDWR) == 0);
    CHECK(try_open(in_dir("server/file"), O_TRUNC | O_WRONLY) == 0);
    CHECK(try_open(in_dir("server"), O_RDONLY | O_DIRECTORY) == 0);
    CHECK(unlink(in_dir("server/file")) == 0);
    CHECK(mkdir(in_dir("server/sub"), 0700) < 0 && errno == EACCES);
    CHECK(symlink("/", in_dir("server/link")) < 0 && errno == EACCES);
    CHECK(try_open(in_dir("run/other"), O_RDONLY) == EACCES);
    CHECK(try_open(in_dir("run/new"), O_CREAT | O_WRONLY) == EACCES);
    CHECK(unlink(in_dir("run/other")) < 0 && errno == EACCES);
    CHECK(try_open("/etc/passwd", O_RDONLY) == EACCES);
    CHECK(try_open("/", O_RDONLY | O_DIRECTORY) == EACCES);
    CHECK(try_open("/dev/null", O_RDONLY) == 0);
    CHECK(try_open("/dev/null", O_WRONLY) == EACCES);
    CHECK(try_open("/dev/urandom", O_RDONLY) == 0);
    execl("/bin/true", "true", NULL);
    CHECK(errno == EACCES);
    CHECK(try_bind(0) == 0);
    CHECK(abi < 4 || try_bind(64999) == EACCES);
    CHECK(abi < 6 || (kill(parent, 0) < 0 && errno == EPERM));
    CHECK(kill(getpid(), 0) == 0);
    _exit(0);
}

static void *nothing(void *argument)
{
    return argument;
}

static int refused_socket(int family, int type, int protocol)
{
    AUTO_CLOSE int fd = socket(family, type, protocol);
    return fd < 0 ? errno : 0;
}

static void check_calls(void)
{
    bool active = false;
    struct error err = ERROR_INIT;
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(server_syscalls_restrict(&active, &err) == 0);
    if (!active)
        _exit(2);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(fork() < 0);
    execl("/bin/true", "true", NULL);
    CHECK(errno == ENOSYS);
    CHECK(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
          MAP_FAILED);
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK(refused_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) == 0);
    CHECK(refused_socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP) != EPERM);
    CHECK(refused_socket(AF_INET, SOCK_DGRAM, 0) == EAFNOSUPPORT);
    CHECK(refused_socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP) == EAFNOSUPPORT);
    CHECK(refused_socket(AF_NETLINK, SOCK_RAW, 0) == EAFNOSUPPORT);
    CHECK(kill(parent, 0) < 0 && errno == ENOSYS);
    CHECK(unshare(CLONE_NEWUSER) < 0 && errno == ENOSYS);
    _exit(0);
}

static void in_child(void (*check)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        check();
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 2)
        skip(); /* the kernel cannot do it */
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_files(void **state)
{
    (void)state;
    in_child(check_files);
}

static void test_calls(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    (void)check_calls;
    skip(); /* LeakSanitizer has calls that others have not */
#else
    in_child(check_calls);
#endif
}

static uint32_t answer(const struct seccomp_filter *filter, uint32_t arch, const char *name,
                       uint64_t a, uint64_t b, uint64_t c)
{
    int number = seccomp_number_find(name, arch);
    assert_true(number >= 0);
    struct seccomp_data data = {.nr = number, .arch = arch, .args = {a, b, c}};
    return bpf_run(&filter->program, &data, NULL);
}

/* Whatever is added to the list, these never are. */
static void test_never(void **state)
{
    (void)state;
    static const char *const never[] = {
        "execve",
        "execveat",
        "clone3",
        "setns",
        "unshare",
        "mount",
        "move_mount",
        "open_tree",
        "pivot_root",
        "chroot",
        "bpf",
        "io_uring_setup",
        "perf_event_open",
        "userfaultfd",
        "keyctl",
        "init_module",
        "kexec_load",
        "setuid",
        "setresuid",
        "capset",
        "memfd_create",
        "pkey_mprotect",
        "open_by_handle_at",
        "fanotify_init",
        "pidfd_getfd",
        "reboot",
        "linkat",
        "symlinkat",
        "mknodat",
        "fchownat",
#if !defined(__SANITIZE_ADDRESS__)
        "ptrace",
        "process_vm_readv",
        "kill",
#endif
    };
    static const uint32_t sides[] = {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64};
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        uint32_t arch = sides[side];
        struct seccomp_filter filter;
        struct error err = ERROR_INIT;
        assert_int_equal(seccomp_filter_compile(&filter, arch, &server_syscalls_policy, &err), 0);
        assert_true(bpf_is_valid(&filter.program));
        for (size_t i = 0; i < ARRAY_LEN(never); i++)
            assert_int_equal(answer(&filter, arch, never[i], 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
        assert_int_equal(answer(&filter, arch, "mprotect", 0, 4096, PROT_READ | PROT_EXEC),
                         SECCOMP_RET_ERRNO | EPERM);
        assert_int_equal(answer(&filter, arch, "read", 0, 0, 0), SECCOMP_RET_ALLOW);
#if !defined(__SANITIZE_ADDRESS__)
        assert_int_equal(answer(&filter, arch, "clone", SIGCHLD, 0, 0), SECCOMP_RET_ERRNO | EPERM);
        assert_int_equal(answer(&filter, arch, "prctl", PR_SET_DUMPABLE, 1, 0),
                         SECCOMP_RET_ERRNO | EPERM);
#endif
        seccomp_filter_done(&filter);
    }
}

/* A name that no architecture knows is a typing error. */
static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < server_syscalls_policy.count; i++) {
        AUTO_FREE char *names = mem_dup(server_syscalls_policy.groups[i].names);
        char *save = NULL, *name = strtok_r(names, " ", &save);
        for (; name; name = strtok_r(NULL, " ", &save))
            if (seccomp_number_find(name, AUDIT_ARCH_X86_64) < 0 &&
                seccomp_number_find(name, AUDIT_ARCH_AARCH64) < 0)
                fail_msg("there is no system call '%s'", name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, make_dirs, remove_dirs);
}
