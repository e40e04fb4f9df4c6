/* The programs of both architectures, run by a machine of our own and compared with the table. The
 * table is read here in the plainest way there is, with nothing of what makes the programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/audit.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"
#include "bpf.h"
#include "launcher/seccomp_table.h"
#include "seccomp/number.h"

#define NUMBERS     600
#define ALLOWED     SECCOMP_RET_ALLOW
#define REFUSED(no) (SECCOMP_RET_ERRNO | (no))
#define X32         0x40000000

static struct {
    uint32_t arch;
    struct seccomp_filter filter;
    const struct seccomp_group *groups[NUMBERS]; /* NULL: not in the table */
} sides[] = {{.arch = AUDIT_ARCH_X86_64}, {.arch = AUDIT_ARCH_AARCH64}};

static uint32_t run(size_t side, int number, const uint64_t *args)
{
    struct seccomp_data data = {.nr = number, .arch = sides[side].arch};
    memcpy(data.args, args, sizeof(data.args));
    return bpf_run(&sides[side].filter.program, &data, NULL);
}

static uint32_t run1(size_t side, int number, uint64_t a, uint64_t b, uint64_t c)
{
    return run(side, number, (const uint64_t[6]){a, b, c});
}

static uint32_t by_rule(const struct seccomp_rule *rule, const uint64_t *args)
{
    for (size_t i = 0; i < rule->count; i++) {
        bool fits = true;
        for (size_t j = 0; j < SECCOMP_CONDITIONS_MAX; j++) {
            const struct seccomp_condition *one = &rule->cases[i].all[j];
            fits = fits && (args[one->argument] & one->mask) == one->value;
        }
        if (fits)
            return rule->cases[i].answer;
    }
    return rule->otherwise;
}

static uint32_t by_table(size_t side, int number, const uint64_t *args)
{
    const struct seccomp_group *group =
        number >= 0 && number < NUMBERS ? sides[side].groups[number] : NULL;
    if (group == NULL)
        return REFUSED(ENOSYS);
    return group->rule ? by_rule(group->rule, args) : group->answer;
}

static void check(size_t side, int number, const uint64_t *args)
{
    uint32_t found = run(side, number, args), wanted = by_table(side, number, args);
    if (found != wanted)
        fail_msg("arch %#x call %d (%#lx %#lx %#lx %#lx): %#x instead of %#x", sides[side].arch,
                 number, (unsigned long)args[0], (unsigned long)args[1], (unsigned long)args[2],
                 (unsigned long)args[3], found, wanted);
}

/* Around everything the rules look at: the value, its neighbours, single bits, and the same with
 * the upper half of the register filled. Calls without a rule get a selection. */
static void check_around(size_t side, int number, const struct seccomp_condition *condition)
{
    static const uint64_t uppers[] = {0, 1ull << 32, 0xffffffffull << 32, 1ull << 63};
    const struct seccomp_group *group = number < NUMBERS ? sides[side].groups[number] : NULL;
    unsigned step = group && group->rule ? 1 : 16;
    for (size_t u = 0; u < ARRAY_LEN(uppers); u++) {
        for (unsigned bit = 0; bit <= 64; bit += step) {
            uint64_t flip = bit < 64 ? 1ull << bit : 0;
            for (uint64_t rest = 0; rest < 3; rest++) {
                uint64_t args[6] = {rest, rest, rest, rest, rest, rest};
                args[condition->argument] = (condition->value ^ flip) | uppers[u];
                check(side, number, args);
                args[condition->argument] = (condition->value + flip) ^ uppers[u];
                check(side, number, args);
            }
        }
    }
}

static void check_number(size_t side, int number)
{
    static const uint64_t fills[] = {0, 1, UINT64_MAX, 0xffffffff, 0x80000000, 1ull << 32};
    for (size_t i = 0; i < ARRAY_LEN(fills); i++) {
        uint64_t args[6] = {fills[i], fills[i], fills[i], fills[i], fills[i], fills[i]};
        check(side, number, args);
    }
    for (size_t i = 0; i < seccomp_table_count; i++) {
        const struct seccomp_rule *rule = seccomp_table[i].rule;
        for (size_t j = 0; rule && j < rule->count; j++) {
            for (size_t k = 0; k < SECCOMP_CONDITIONS_MAX; k++) {
                if (rule->cases[j].all[k].mask != 0)
                    check_around(side, number, &rule->cases[j].all[k]);
            }
        }
    }
}

static void test_every_number(void **state)
{
    (void)state;
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        for (int number = 0; number <= NUMBERS; number++)
            check_number(side, number);
    }
}

static void test_numbers_out_of_range(void **state)
{
    (void)state;
    static const uint64_t zero[6];
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        for (int number = 0; number <= NUMBERS; number++)
            assert_int_equal(run(side, X32 + number, zero), REFUSED(ENOSYS));
        static const int others[] = {1023, 1024, 1025, 0xffff, X32 - 1, INT32_MAX, -1, INT32_MIN};
        for (size_t i = 0; i < ARRAY_LEN(others); i++)
            assert_int_equal(run(side, others[i], zero), REFUSED(ENOSYS));
    }
}

static void test_foreign_architectures(void **state)
{
    (void)state;
    static const uint32_t foreign[] = {
        AUDIT_ARCH_I386, AUDIT_ARCH_ARM,    AUDIT_ARCH_RISCV64, AUDIT_ARCH_AARCH64 & INT32_MAX, 0,
        UINT32_MAX,      AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64,
    };
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
            if (foreign[i] == sides[side].arch)
                continue;
            for (int number = 0; number <= NUMBERS; number++) {
                struct seccomp_data data = {.nr = number, .arch = foreign[i]};
                assert_int_equal(bpf_run(&sides[side].filter.program, &data, NULL),
                                 REFUSED(ENOSYS));
            }
        }
    }
}

/* What the table means, said once more in numbers from the kernel's own lists. */
static void test_known_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int numbers[2]; /* -1: not there */
        uint32_t answer;
    } known[] = {
        {"read", {0, 63}, ALLOWED},
        {"open", {2, -1}, ALLOWED},
        {"openat", {257, 56}, ALLOWED},
        {"execve", {59, 221}, ALLOWED},
        {"ptrace", {101, 117}, ALLOWED},
        {"futex", {202, 98}, ALLOWED},
        {"uretprobe", {335, -1}, ALLOWED},
        {"uprobe", {336, -1}, ALLOWED},
        {"cachestat", {451, 451}, ALLOWED},
        {"fchmodat2", {452, 452}, ALLOWED},
        {"map_shadow_stack", {453, 453}, ALLOWED},
        {"futex_wake", {454, 454}, ALLOWED},
        {"futex_wait", {455, 455}, ALLOWED},
        {"futex_requeue", {456, 456}, ALLOWED},
        {"mseal", {462, 462}, ALLOWED},
        {"setxattrat", {463, 463}, ALLOWED},
        {"getxattrat", {464, 464}, ALLOWED},
        {"listxattrat", {465, 465}, ALLOWED},
        {"removexattrat", {466, 466}, ALLOWED},
        {"clone3", {435, 435}, REFUSED(ENOSYS)},
        {"mount", {165, 40}, REFUSED(EPERM)},
        {"umount2", {166, 39}, REFUSED(EPERM)},
        {"pivot_root", {155, 41}, REFUSED(EPERM)},
        {"setns", {308, 268}, REFUSED(EPERM)},
        {"bpf", {321, 280}, REFUSED(EPERM)},
        {"keyctl", {250, 219}, REFUSED(EPERM)},
        {"reboot", {169, 142}, REFUSED(EPERM)},
        {"io_uring_setup", {425, 425}, REFUSED(EPERM)},
        {"memfd_secret", {447, 447}, REFUSED(ENOSYS)},
        {"open_by_handle_at", {304, 265}, REFUSED(EPERM)},
        {"modify_ldt", {154, -1}, REFUSED(ENOSYS)},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
            int number = known[i].numbers[side];
            assert_int_equal(seccomp_number_find(known[i].name, sides[side].arch), number);
            if (number >= 0)
                assert_int_equal(run1(side, number, 0, 0, 0), known[i].answer);
        }
    }
}

static void test_clone_flags(void **state)
{
    (void)state;
    static const int clone_numbers[] = {56, 220}, unshare_numbers[] = {272, 97};
    const uint64_t spaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                            CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    const uint64_t unshared = CLONE_FS | CLONE_FILES | CLONE_SYSVSEM;
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        for (unsigned a = 0; a < 64; a++) {
            for (unsigned b = 0; b < 64; b++) {
                uint64_t flags = 1ull << a | 1ull << b;
                assert_int_equal(run1(side, clone_numbers[side], flags, 0, 0),
                                 flags & spaces ? REFUSED(EPERM) : ALLOWED);
                assert_int_equal(run1(side, unshare_numbers[side], flags, 0, 0),
                                 flags & ~unshared ? REFUSED(EPERM) : ALLOWED);
            }
        }
        assert_int_equal(run1(side, unshare_numbers[side], 0x80, 0, 0), REFUSED(EPERM)); /* time */
    }
}

static uint32_t socket_answer(uint32_t family, uint32_t type, uint32_t protocol)
{
    bool usual =
        protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 || protocol == 58;
    if (family == AF_UNIX)
        return ALLOWED;
    if (family == AF_INET || family == AF_INET6)
        return usual && (type & 0xf) <= SOCK_RAW ? ALLOWED : REFUSED(EPROTONOSUPPORT);
    if (family == AF_NETLINK)
        return protocol == 0 ? ALLOWED : REFUSED(EPROTONOSUPPORT);
    return REFUSED(EAFNOSUPPORT);
}

static void test_sockets(void **state)
{
    (void)state;
    static const int numbers[] = {41, 198}, pairs[] = {53, 199};
    static const uint64_t uppers[] = {0, 1ull << 32, 0xffffffffull << 32};
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        for (uint32_t family = 0; family < 64; family++) {
            for (uint32_t type = 0; type < 16; type++) {
                for (uint32_t protocol = 0; protocol < 300; protocol++) {
                    uint64_t upper = uppers[(type + protocol) % ARRAY_LEN(uppers)];
                    assert_int_equal(run1(side, numbers[side], family | upper,
                                          (type | SOCK_CLOEXEC | SOCK_NONBLOCK) | upper,
                                          protocol | upper),
                                     socket_answer(family, type, protocol));
                }
            }
            assert_int_equal(run1(side, pairs[side], family | 1ull << 40, SOCK_STREAM, 0),
                             family == AF_UNIX ? ALLOWED : REFUSED(EAFNOSUPPORT));
        }
    }
}

/* A name that no architecture knows is a misspelt one, and would be refused without a word. */
static void test_every_name_exists(void **state)
{
    (void)state;
    /* known to the library by a number below zero only: other architectures have them */
    static const char *const elsewhere[] = {"umount", "stime"};
    for (size_t i = 0; i < seccomp_table_count; i++) {
        AUTO_FREE char *names = mem_dup(seccomp_table[i].names);
        assert_null(strstr(names, "  "));
        char *save = NULL;
        for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
            bool known = false;
            for (size_t j = 0; j < ARRAY_LEN(elsewhere); j++)
                known |= strcmp(name, elsewhere[j]) == 0;
            for (size_t side = 0; side < ARRAY_LEN(sides); side++)
                known |= seccomp_number_find(name, sides[side].arch) >= 0;
            if (!known)
                fail_msg("no architecture has a system call '%s'", name);
        }
    }
}

static void test_is_a_tree(void **state)
{
    (void)state;
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        assert_in_range(sides[side].filter.program.len, 100, 600);
        for (int number = 0; number < NUMBERS; number++) {
            struct seccomp_data data = {.nr = number, .arch = sides[side].arch};
            unsigned steps = 0;
            bpf_run(&sides[side].filter.program, &data, &steps);
            const struct seccomp_group *group = sides[side].groups[number];
            assert_in_range(steps, 4, group && group->rule ? 80 : 20);
        }
    }
}

static void test_other_architectures_are_refused(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct seccomp_filter filter;
    assert_true(seccomp_table_build_for(&filter, AUDIT_ARCH_I386, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_null(filter.program.filter);
    seccomp_filter_done(&filter);
}

static int compile(struct seccomp_filter *filter, const struct seccomp_group *groups, size_t count,
                   struct error *err)
{
    const struct seccomp_policy policy = {groups, count, REFUSED(ENOSYS)};
    return seccomp_filter_compile(filter, AUDIT_ARCH_X86_64, &policy, err);
}

/* Tables whose programs are so long that their trees need jumps farther than a conditional one
 * goes: each call has a rule of its own, of one to three conditions on whole registers. */
static void check_long_program(size_t conditions)
{
    enum { COUNT = 180 };
    static struct seccomp_case cases[COUNT];
    static struct seccomp_rule rules[COUNT];
    static struct seccomp_group table[COUNT];
    static char names[COUNT][32];
    const uint64_t mask = 0x7fffffff7fffffff, value = 5ull << 32;
    struct error err = ERROR_INIT;
    struct seccomp_filter filter;
    for (int number = 0; number < COUNT; number++) {
        AUTO_FREE char *name = seccomp_syscall_resolve_num_arch(AUDIT_ARCH_X86_64, number);
        assert_non_null(name);
        snprintf(names[number], sizeof(names[number]), "%s", name);
        cases[number] = (struct seccomp_case){.answer = REFUSED((uint32_t)number + 1)};
        for (size_t i = 0; i < conditions; i++)
            cases[number].all[i] = (struct seccomp_condition){mask, value, (uint8_t)i};
        rules[number] = (struct seccomp_rule){&cases[number], 1, REFUSED(3000)};
        table[number] = (struct seccomp_group){names[number], &rules[number], 0};
    }
    assert_int_equal(compile(&filter, table, COUNT, &err), 0);
    assert_true(filter.program.len > 1000);
    assert_true(bpf_is_valid(&filter.program));
    for (int number = 0; number < COUNT; number++) {
        struct seccomp_data data = {.nr = number, .arch = AUDIT_ARCH_X86_64};
        for (size_t i = 0; i < conditions; i++)
            data.args[i] = value;
        assert_int_equal(bpf_run(&filter.program, &data, NULL), REFUSED((uint32_t)number + 1));
        for (size_t i = 0; i < conditions; i++) {
            data.args[i] ^= 1ull << (number % 31);
            assert_int_equal(bpf_run(&filter.program, &data, NULL), REFUSED(3000));
            data.args[i] = value;
        }
    }
    seccomp_filter_done(&filter);
}

static void test_long_programs(void **state)
{
    (void)state;
    for (size_t conditions = 1; conditions <= SECCOMP_CONDITIONS_MAX; conditions++)
        check_long_program(conditions);
}

static void test_impossible_tables(void **state)
{
    (void)state;
    static struct seccomp_case cases[BPF_MAXINSNS];
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        cases[i] = (struct seccomp_case){{{UINT32_MAX, i, 0}}, ALLOWED};
    static const struct seccomp_rule rule = {cases, ARRAY_LEN(cases), ALLOWED};
    static const struct seccomp_group twice = {"read write read", NULL, ALLOWED},
                                      huge = {"read", &rule, 0};
    struct seccomp_filter filter;
    struct error err = ERROR_INIT;
    assert_true(compile(&filter, &twice, 1, &err) < 0);
    assert_non_null(strstr(err.message, "'read' (0) cannot be listed twice"));
    assert_true(compile(&filter, &huge, 1, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_null(filter.program.filter);
}

/* The machine itself: what the kernel would not take, it does not run. */
static void test_machine_refuses(void **state)
{
    (void)state;
    static const struct sock_filter last = BPF_STMT(BPF_RET | BPF_K, 0);
    static const struct sock_filter broken[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, sizeof(struct seccomp_data)),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
        BPF_STMT(BPF_JMP | BPF_JA, 1),
        BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
        BPF_STMT(BPF_ST, BPF_MEMWORDS),
        BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0),
    };
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        struct sock_filter code[] = {broken[i], last};
        assert_false(bpf_is_valid(&(struct sock_fprog){.len = 2, .filter = code}));
    }
    struct sock_filter good[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4), last};
    assert_true(bpf_is_valid(&(struct sock_fprog){.len = 2, .filter = good}));
    assert_false(bpf_is_valid(&(struct sock_fprog){.len = 1, .filter = good}));
    assert_false(bpf_is_valid(&(struct sock_fprog){.len = 0, .filter = good}));
}

#if defined(__x86_64__)
/* Every call that is refused whatever its arguments, made under the filter. With arguments that are
 * neither descriptors nor addresses nothing happens should one get through. */
static int make_refused_calls(void)
{
    const uint64_t args[6] = {UINT64_MAX, UINT64_MAX, UINT64_MAX,
                              UINT64_MAX, UINT64_MAX, UINT64_MAX};
    for (int number = 0; number <= NUMBERS; number++) {
        uint32_t answer = by_table(0, number, args);
        if (answer == ALLOWED || answer == REFUSED(0) ||
            number == SYS_vhangup) /* which has no arguments */
            continue;
        long r = syscall(number, -1L, -1L, -1L, -1L, -1L, -1L);
        if (r != -1 || (uint32_t)errno != (answer & SECCOMP_RET_DATA)) {
            fprintf(stderr, "call %d: %ld, errno %d\n", number, r, errno);
            return 1;
        }
    }
    return 0;
}

static void test_kernel_agrees(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || seccomp_filter_load(&sides[0].filter) < 0)
            _exit(2);
        _exit(make_refused_calls());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#endif

static int setup(void **state)
{
    (void)state;
    for (size_t side = 0; side < ARRAY_LEN(sides); side++) {
        struct error err = ERROR_INIT;
        if (seccomp_table_build_for(&sides[side].filter, sides[side].arch, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            return -1;
        }
        if (!bpf_is_valid(&sides[side].filter.program))
            return -1;
        for (size_t i = 0; i < seccomp_table_count; i++) {
            AUTO_FREE char *names = mem_dup(seccomp_table[i].names);
            char *save = NULL, *name = strtok_r(names, " ", &save);
            for (; name; name = strtok_r(NULL, " ", &save)) {
                int number = seccomp_number_find(name, sides[side].arch);
                if (number >= NUMBERS)
                    return -1;
                if (number >= 0)
                    sides[side].groups[number] = &seccomp_table[i];
            }
        }
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t side = 0; side < ARRAY_LEN(sides); side++)
        seccomp_filter_done(&sides[side].filter);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number),
        cmocka_unit_test(test_numbers_out_of_range),
        cmocka_unit_test(test_foreign_architectures),
        cmocka_unit_test(test_known_numbers),
        cmocka_unit_test(test_clone_flags),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_every_name_exists),
        cmocka_unit_test(test_is_a_tree),
        cmocka_unit_test(test_other_architectures_are_refused),
        cmocka_unit_test(test_long_programs),
        cmocka_unit_test(test_impossible_tables),
        cmocka_unit_test(test_machine_refuses),
#if defined(__x86_64__)
        cmocka_unit_test(test_kernel_agrees),
#endif
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
