/* What went wrong, for callers who must tell somebody.
 *
 * A `struct error` lives on the caller's stack and is filled by the callee that fails; on success
 * it is untouched. Functions that take one return 0 or a negative errno-like number, which is only
 * a convenience for `if (r < 0)`: the error object is the truth. Passing NULL is allowed where the
 * caller does not care for the text.
 *
 * A message says what was wrong, with the value, and what to do about it. Wrapping on the way up
 * puts context in front: "cannot start sandbox: cannot mount overlay: No space left on device".
 */
#pragma once

#include "base/macros.h"

enum error_code {
    ERR_OK = 0,
    ERR_INVALID,     /* the caller's input is wrong */
    ERR_NOT_FOUND,   /* the thing named does not exist */
    ERR_CONFLICT,    /* exists already, or is in a state that does not allow this */
    ERR_LIMIT,       /* too large, too many */
    ERR_DENIED,      /* not allowed to this caller */
    ERR_TIMEOUT,     /* took too long */
    ERR_UNAVAILABLE, /* a part we need is not there now; trying again may help */
    ERR_UNSUPPORTED, /* this machine or this build cannot do it */
    ERR_INTERNAL,    /* everything else: our fault or the kernel's */
};

#define ERROR_MESSAGE_MAX 512

struct error {
    enum error_code code;
    int sys; /* errno of the failing call, 0 if there was none */
    char message[ERROR_MESSAGE_MAX];
};

#define ERROR_INIT     \
    {                  \
        .code = ERR_OK \
    }

/* Fill err; returns a negative errno that suits the code, so `return error_set(...)` reads well. */
int error_set(struct error *err, enum error_code code, const char *format, ...) PRINTF_LIKE(3, 4);

/* The same with strerror(sys) appended; the code is derived from sys (ENOENT: NOT_FOUND, ...). */
int error_set_errno(struct error *err, int sys, const char *format, ...) PRINTF_LIKE(3, 4);

/* Put "context: " in front of the message that is already there. Returns the same number as the
 * error_set() that made it. */
int error_wrap(struct error *err, const char *format, ...) PRINTF_LIKE(2, 3);

/* "NOT_FOUND" and the like. Never NULL. */
const char *error_code_name(enum error_code code);

/* Compilers and analyzers cannot see into error.c: tell them that a failure is always negative, so
 * that they know which outputs are set after `if (r < 0) return r`. */
static inline int error_negative(int r)
{
    if (r >= 0)
        __builtin_unreachable();
    return r;
}

#define error_set(...)       error_negative(error_set(__VA_ARGS__))
#define error_set_errno(...) error_negative(error_set_errno(__VA_ARGS__))
#define error_wrap(...)      error_negative(error_wrap(__VA_ARGS__))
