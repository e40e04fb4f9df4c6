#include "execd/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

static const char oom_path[] = "/proc/self/oom_score_adj";
static char score_before[16]; /* "" when it was not changed */

void execd_guard_from_oom(void)
{
    char before[sizeof(score_before)];
    AUTO_CLOSE int fd = open(oom_path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || geteuid() != 0) /* others could not undo it in their children */
        return;
    ssize_t length = read(fd, before, sizeof(before) - 1);
    if (length <= 0 || pwrite(fd, "-1000", 5, 0) != 5)
        return;
    before[length] = '\0';
    memcpy(score_before, before, sizeof(before));
}

int execd_guard_undo_in_child(void)
{
    if (score_before[0] == '\0')
        return 0;
    AUTO_CLOSE int fd = open(oom_path, O_WRONLY | O_CLOEXEC);
    size_t length = strlen(score_before);
    return fd >= 0 && write(fd, score_before, length) == (ssize_t)length ? 0 : -1;
}

void execd_guard_from_looks(void)
{
    if (getpid() == 1 && geteuid() == 0)
        prctl(PR_SET_DUMPABLE, 0);
}

static void wipe(const char *secret)
{
    /* The words of argv and environ are ours to write to, though options borrow them as const. */
    explicit_bzero((char *)(uintptr_t)secret, strlen(secret));
}

char *execd_guard_take_token(const char *token)
{
    static const char name[] = "EXECD_ACCESS_TOKEN=";
    if (token == NULL)
        return NULL;
    prctl(PR_SET_DUMPABLE, 0);
    char *copy = mem_dup(token);
    wipe(token);
    for (char **pair = environ; pair != NULL && *pair != NULL; pair++) {
        if (strncmp(*pair, name, strlen(name)) == 0)
            wipe(*pair + strlen(name));
    }
    return copy;
}

bool execd_guard_clone3_is_refused(void)
{
    /* The kernel itself has nothing but EINVAL for no arguments. */
    return syscall(SYS_clone3, NULL, 0) < 0 && errno != EINVAL && errno != ENOSYS;
}

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "which AUDIT_ARCH_ is this?"
#endif

int execd_guard_block_clone3(struct error *err)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};
    /* Of two filters that answer with an error the newer one's counts. Only who cannot do without
     * gives up set-id programs for it. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ||
        (errno == EACCES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0))
        return 0;
    return error_set_errno(err, errno, "cannot make clone3 answer ENOSYS");
}
