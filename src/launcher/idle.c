#include "launcher/idle.h"

#include <elf.h>
#include <stdint.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#define CODE                                         \
    {                                                \
        0x000022b8,     /* mov $34, %eax    pause */ \
            0xeb050f00, /* syscall; jmp */           \
            0x000000f7, /*     to the beginning */   \
    }
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#define CODE                                                              \
    {                                                                     \
        0xd2800000,     /* mov x0, #0       ppoll of nothing, for ever */ \
            0xd2800001, /* mov x1, #0 */                                  \
            0xd2800002, /* mov x2, #0 */                                  \
            0xd2800003, /* mov x3, #0 */                                  \
            0xd2800928, /* mov x8, #73 */                                 \
            0xd4000001, /* svc #0 */                                      \
            0x17fffffa, /* b   to the beginning */                        \
    }
#else
#error "write the loop in this machine's language"
#endif

struct program {
    Elf64_Ehdr header;
    Elf64_Phdr text;
    Elf64_Phdr stack;
    uint32_t code[8];
};

/* Position independent and without an interpreter: the kernel puts it near the stack, which saves
 * page tables. */
static const struct program program = {
    .header =
        {
            .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
            .e_type = ET_DYN,
            .e_machine = MACHINE,
            .e_version = EV_CURRENT,
            .e_entry = offsetof(struct program, code),
            .e_phoff = offsetof(struct program, text),
            .e_ehsize = sizeof(Elf64_Ehdr),
            .e_phentsize = sizeof(Elf64_Phdr),
            .e_phnum = 2,
        },
    .text =
        {
            .p_type = PT_LOAD,
            .p_flags = PF_R | PF_X,
            .p_filesz = sizeof(struct program),
            .p_memsz = sizeof(struct program),
            .p_align = 4096,
        },
    .stack = {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W}, /* not executable */
    .code = CODE,
};

const void *idle_program(size_t *ret_length)
{
    *ret_length = sizeof(program);
    return &program;
}
