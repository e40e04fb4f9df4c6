/* From the table to a program in three steps: each call number gets its verdict, neighbours with
 * the same verdict become ranges, the ranges become a tree.
 *
 * Jumps of this machine go forward only, by at most 255 for conditional ones. The program is
 * therefore written from its end: whatever an instruction jumps to is there already, and where it
 * lies too far away, a jump without a condition, which reaches everything, is put in between. */
#include "seccomp/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "base/mem.h"
#include "seccomp/number.h"

#define NUMBERS 1024 /* more than any of the table; those above answer as unknown ones do */
#define NEAR    250  /* a conditional jump's reach, less what may come in between */

struct verdict {
    const struct seccomp_rule *rule; /* NULL: answer */
    uint32_t answer;
    bool listed;
};

struct range {
    uint32_t first; /* to the next one's */
    struct verdict verdict;
};

/* code[0] is the program's last instruction. */
struct builder {
    struct sock_filter code[BPF_MAXINSNS];
    size_t used;
    bool full;
};

static size_t emit(struct builder *to, uint16_t code, uint32_t k, size_t yes, size_t no)
{
    if (to->used == ARRAY_LEN(to->code)) {
        to->full = true;
        return to->used - 1;
    }
    to->code[to->used] =
        (struct sock_filter){.code = code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = k};
    return to->used++;
}

/* An instruction that does the same as the one at target and can be reached by whatever is written
 * next or second next. */
static size_t bring_near(struct builder *to, size_t target)
{
    if (to->used - target <= NEAR)
        return target;
    return emit(to, BPF_JMP | BPF_JA, (uint32_t)(to->used - target - 1), 0, 0);
}

static size_t emit_branch(struct builder *to, uint16_t test, uint32_t k, size_t yes, size_t no)
{
    yes = bring_near(to, yes);
    no = bring_near(to, no);
    return emit(to, BPF_JMP | test | BPF_K, k, to->used - yes - 1, to->used - no - 1);
}

/* Goes on with what was written last. */
static size_t emit_load(struct builder *to, size_t offset)
{
    return emit(to, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static size_t emit_answer(struct builder *to, uint32_t answer)
{
    for (size_t i = to->used; i > 0 && to->used - i < NEAR; i--) {
        if (to->code[i - 1].code == (BPF_RET | BPF_K) && to->code[i - 1].k == answer)
            return i - 1;
    }
    return emit(to, BPF_RET | BPF_K, answer, 0, 0);
}

static size_t emit_half(struct builder *to, size_t offset, uint32_t mask, uint32_t value,
                        size_t yes, size_t no)
{
    if (mask == 0)
        return yes;
    emit_branch(to, BPF_JEQ, value, yes, no);
    if (mask != UINT32_MAX)
        emit(to, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    return emit_load(to, offset);
}

/* Both architectures are little endian: the low half comes first. */
static size_t emit_condition(struct builder *to, const struct seccomp_condition *condition,
                             size_t yes, size_t no)
{
    size_t offset = offsetof(struct seccomp_data, args) + condition->argument * sizeof(uint64_t);
    yes = emit_half(to, offset + sizeof(uint32_t), (uint32_t)(condition->mask >> 32),
                    (uint32_t)(condition->value >> 32), yes, no);
    return emit_half(to, offset, (uint32_t)condition->mask, (uint32_t)condition->value, yes, no);
}

static size_t emit_rule(struct builder *to, const struct seccomp_rule *rule)
{
    size_t next = emit_answer(to, rule->otherwise);
    for (size_t i = rule->count; i > 0; i--) {
        const struct seccomp_case *one = &rule->cases[i - 1];
        size_t at = emit_answer(to, one->answer);
        for (size_t j = SECCOMP_CONDITIONS_MAX; j > 0; j--) {
            if (one->all[j - 1].mask != 0)
                at = emit_condition(to, &one->all[j - 1], at, next);
        }
        next = at;
    }
    return next;
}

/* As deep as the logarithm of the count. */
static size_t emit_tree(struct builder *to, const struct range *ranges, size_t count)
{
    if (count == 1) {
        const struct verdict *verdict = &ranges[0].verdict;
        return verdict->rule ? emit_rule(to, verdict->rule) : emit_answer(to, verdict->answer);
    }
    size_t half = count / 2;
    size_t right = emit_tree(to, ranges + half, count - half);
    size_t left = emit_tree(to, ranges, half);
    return emit_branch(to, BPF_JGE, ranges[half].first, right, left);
}

static void emit_program(struct builder *to, uint32_t audit_arch, uint32_t otherwise,
                         const struct range *ranges, size_t count)
{
    emit_tree(to, ranges, count);
    size_t native = emit_load(to, offsetof(struct seccomp_data, nr));
    size_t foreign = emit_answer(to, otherwise);
    emit_branch(to, BPF_JEQ, audit_arch, native, foreign);
    emit_load(to, offsetof(struct seccomp_data, arch));
}

static int set_verdict(struct verdict verdicts[NUMBERS], const char *name, uint32_t audit_arch,
                       const struct seccomp_group *group, struct error *err)
{
    int number = seccomp_number_find(name, audit_arch);
    if (number < 0)
        return 0; /* does not exist on this architecture */
    if (number >= NUMBERS || verdicts[number].listed)
        return error_set(err, ERR_INTERNAL, "system call '%s' (%d) cannot be listed%s", name,
                         number, number < NUMBERS ? " twice" : "");
    verdicts[number] =
        (struct verdict){.rule = group->rule, .answer = group->answer, .listed = true};
    return 0;
}

static int read_policy(struct verdict verdicts[NUMBERS], uint32_t audit_arch,
                       const struct seccomp_policy *policy, struct error *err)
{
    for (size_t i = 0; i < NUMBERS; i++)
        verdicts[i] = (struct verdict){.answer = policy->otherwise};
    int r = 0;
    for (size_t i = 0; i < policy->count && r == 0; i++) {
        AUTO_FREE char *names = mem_dup(policy->groups[i].names);
        char *save = NULL, *name = strtok_r(names, " ", &save);
        for (; name && r == 0; name = strtok_r(NULL, " ", &save))
            r = set_verdict(verdicts, name, audit_arch, &policy->groups[i], err);
    }
    return r;
}

static bool is_same(const struct verdict *a, const struct verdict *b)
{
    return a->rule == b->rule && (a->rule || a->answer == b->answer);
}

/* The last one reaches to the end of all numbers, x32's among them. */
static size_t make_ranges(const struct verdict verdicts[NUMBERS], uint32_t otherwise,
                          struct range ranges[NUMBERS + 1])
{
    size_t count = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (count == 0 || !is_same(&verdicts[i], &ranges[count - 1].verdict))
            ranges[count++] = (struct range){.first = i, .verdict = verdicts[i]};
    }
    struct verdict unknown = {.answer = otherwise};
    if (!is_same(&unknown, &ranges[count - 1].verdict))
        ranges[count++] = (struct range){.first = NUMBERS, .verdict = unknown};
    return count;
}

static void take_program(const struct builder *from, struct sock_fprog *ret)
{
    ret->filter = mem_alloc_array(from->used, sizeof(*ret->filter));
    ret->len = (unsigned short)from->used;
    for (size_t i = 0; i < from->used; i++)
        ret->filter[i] = from->code[from->used - 1 - i];
}

int seccomp_filter_compile(struct seccomp_filter *filter, uint32_t audit_arch,
                           const struct seccomp_policy *policy, struct error *err)
{
    *filter = (struct seccomp_filter){0};
    if (audit_arch != AUDIT_ARCH_X86_64 && audit_arch != AUDIT_ARCH_AARCH64)
        return error_set(err, ERR_UNSUPPORTED,
                         "there is no system call filter for architecture %#x", audit_arch);
    AUTO_FREE struct verdict *verdicts = mem_alloc_array(NUMBERS, sizeof(*verdicts));
    AUTO_FREE struct range *ranges = mem_alloc_array(NUMBERS + 1, sizeof(*ranges));
    AUTO_FREE struct builder *builder = mem_alloc(sizeof(*builder));
    int r = read_policy(verdicts, audit_arch, policy, err);
    if (r < 0)
        return error_wrap(err, "cannot build the system call filter");
    size_t count = make_ranges(verdicts, policy->otherwise, ranges);
    emit_program(builder, audit_arch, policy->otherwise, ranges, count);
    if (builder->full)
        return error_set(err, ERR_LIMIT, "the system call filter is over %d instructions",
                         BPF_MAXINSNS);
    take_program(builder, &filter->program);
    return 0;
}

void seccomp_filter_done(struct seccomp_filter *filter)
{
    free(TAKE_PTR(filter->program.filter));
    filter->program.len = 0;
}

static int load(const struct seccomp_filter *filter, unsigned flags)
{
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter->program) < 0)
        return -errno;
    return 0;
}

int seccomp_filter_load(const struct seccomp_filter *filter)
{
    return load(filter, 0);
}

int seccomp_filter_load_logged(const struct seccomp_filter *filter)
{
    return load(filter, SECCOMP_FILTER_FLAG_LOG);
}
