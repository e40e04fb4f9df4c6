/* Attributes and the few macros everything uses. */
#pragma once

#include <stddef.h>
#include <sys/param.h> /* has a MIN and a MAX of its own: first in, then replaced below */

#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#define CLEANUP(function)        __attribute__((cleanup(function)))
#define NORETURN                 __attribute__((noreturn))
#define NEVER_NULL               __attribute__((returns_nonnull))

#define ARRAY_LEN(array)                                                                     \
    (sizeof(array) / sizeof((array)[0]) +                                                    \
     0 * sizeof(struct {                                                                     \
         int must_be_array[1 - 2 * !!__builtin_types_compatible_p(__typeof__(array),         \
                                                                  __typeof__(&(array)[0]))]; \
     }))

#define CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#undef MIN
#undef MAX
#define MIN(a, b)                          \
    ({                                     \
        __typeof__(a) min_a_ = (a);        \
        __typeof__(b) min_b_ = (b);        \
        min_a_ < min_b_ ? min_a_ : min_b_; \
    })
#define MAX(a, b)                          \
    ({                                     \
        __typeof__(a) max_a_ = (a);        \
        __typeof__(b) max_b_ = (b);        \
        max_a_ > max_b_ ? max_a_ : max_b_; \
    })

/* Ownership leaves a variable only through these: the value moves out, the variable is emptied. */
#define TAKE_PTR(pointer)                        \
    ({                                           \
        __typeof__(pointer) take_p_ = (pointer); \
        (pointer) = NULL;                        \
        take_p_;                                 \
    })
#define TAKE_FD(fd)          \
    ({                       \
        int take_fd_ = (fd); \
        (fd) = -1;           \
        take_fd_;            \
    })
