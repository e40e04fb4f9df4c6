/* A machine for classic BPF as seccomp uses it: it checks a program as the kernel does before it
 * accepts one, and runs it on the description of one call. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline bool bpf_is_jump_inside(const struct sock_fprog *program, size_t at,
                                      uint32_t distance)
{
    return distance < program->len - at - 1;
}

static inline bool bpf_is_instruction_valid(const struct sock_fprog *program, size_t at)
{
    const struct sock_filter *one = &program->filter[at];
    switch (one->code) {
    case BPF_LD | BPF_W | BPF_ABS: /* aligned and inside the description */
        return one->k % 4 == 0 && one->k < sizeof(struct seccomp_data);
    case BPF_LD | BPF_IMM:
    case BPF_LDX | BPF_IMM:
    case BPF_MISC | BPF_TAX:
    case BPF_MISC | BPF_TXA:
    case BPF_ALU | BPF_ADD | BPF_K:
    case BPF_ALU | BPF_AND | BPF_K:
    case BPF_ALU | BPF_AND | BPF_X:
    case BPF_ALU | BPF_OR | BPF_K:
    case BPF_RET | BPF_K:
    case BPF_RET | BPF_A:
        return true;
    case BPF_LD | BPF_MEM:
    case BPF_ST:
        return one->k < BPF_MEMWORDS;
    case BPF_ALU | BPF_LSH | BPF_K:
    case BPF_ALU | BPF_RSH | BPF_K:
        return one->k < 32;
    case BPF_JMP | BPF_JA:
        return bpf_is_jump_inside(program, at, one->k);
    case BPF_JMP | BPF_JEQ | BPF_K:
    case BPF_JMP | BPF_JGT | BPF_K:
    case BPF_JMP | BPF_JGE | BPF_K:
    case BPF_JMP | BPF_JSET | BPF_K:
        return bpf_is_jump_inside(program, at, one->jt) && bpf_is_jump_inside(program, at, one->jf);
    default:
        return false;
    }
}

/* Jumps go forward only, so a program all of whose jumps stay inside ends. */
static inline bool bpf_is_valid(const struct sock_fprog *program)
{
    if (program->len == 0 || program->len > BPF_MAXINSNS)
        return false;
    for (size_t i = 0; i < program->len; i++) {
        if (!bpf_is_instruction_valid(program, i))
            return false;
    }
    return BPF_CLASS(program->filter[program->len - 1].code) == BPF_RET;
}

struct bpf_machine {
    uint32_t a, x, memory[BPF_MEMWORDS];
    unsigned steps;
};

static inline bool bpf_is_taken(const struct sock_filter *one, uint32_t a)
{
    switch (BPF_OP(one->code)) {
    case BPF_JEQ:
        return a == one->k;
    case BPF_JGT:
        return a > one->k;
    case BPF_JGE:
        return a >= one->k;
    default: /* JSET */
        return (a & one->k) != 0;
    }
}

static inline void bpf_calculate(struct bpf_machine *machine, const struct sock_filter *one)
{
    uint32_t operand = BPF_SRC(one->code) == BPF_X ? machine->x : one->k;
    switch (BPF_OP(one->code)) {
    case BPF_ADD:
        machine->a += operand;
        break;
    case BPF_AND:
        machine->a &= operand;
        break;
    case BPF_OR:
        machine->a |= operand;
        break;
    case BPF_LSH:
        machine->a <<= operand;
        break;
    default: /* RSH */
        machine->a >>= operand;
        break;
    }
}

static inline void bpf_move(struct bpf_machine *machine, const struct sock_filter *one,
                            const struct seccomp_data *data)
{
    switch (one->code) {
    case BPF_LD | BPF_W | BPF_ABS:
        memcpy(&machine->a, (const char *)data + one->k, sizeof(machine->a));
        break;
    case BPF_LD | BPF_IMM:
        machine->a = one->k;
        break;
    case BPF_LDX | BPF_IMM:
        machine->x = one->k;
        break;
    case BPF_LD | BPF_MEM:
        machine->a = machine->memory[one->k];
        break;
    case BPF_ST:
        machine->memory[one->k] = machine->a;
        break;
    case BPF_MISC | BPF_TAX:
        machine->x = machine->a;
        break;
    default: /* TXA */
        machine->a = machine->x;
        break;
    }
}

/* The answer of a valid program; ret_steps (may be NULL) is how many instructions it took. */
static inline uint32_t bpf_run(const struct sock_fprog *program, const struct seccomp_data *data,
                               unsigned *ret_steps)
{
    struct bpf_machine machine = {0};
    for (size_t at = 0;; at++) {
        const struct sock_filter *one = &program->filter[at];
        machine.steps++;
        if (BPF_CLASS(one->code) == BPF_RET) {
            if (ret_steps)
                *ret_steps = machine.steps;
            return BPF_RVAL(one->code) == BPF_A ? machine.a : one->k;
        }
        if (one->code == (BPF_JMP | BPF_JA))
            at += one->k;
        else if (BPF_CLASS(one->code) == BPF_JMP)
            at += bpf_is_taken(one, machine.a) ? one->jt : one->jf;
        else if (BPF_CLASS(one->code) == BPF_ALU)
            bpf_calculate(&machine, one);
        else
            bpf_move(&machine, one, data);
    }
}
