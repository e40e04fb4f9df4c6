#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int number;
} codes[] = {
    [ERR_OK] = {"OK", 0},
    [ERR_INVALID] = {"INVALID", EINVAL},
    [ERR_NOT_FOUND] = {"NOT_FOUND", ENOENT},
    [ERR_CONFLICT] = {"CONFLICT", EEXIST},
    [ERR_LIMIT] = {"LIMIT", EMSGSIZE},
    [ERR_DENIED] = {"DENIED", EACCES},
    [ERR_TIMEOUT] = {"TIMEOUT", ETIMEDOUT},
    [ERR_UNAVAILABLE] = {"UNAVAILABLE", EAGAIN},
    [ERR_UNSUPPORTED] = {"UNSUPPORTED", EOPNOTSUPP},
    [ERR_INTERNAL] = {"INTERNAL", EIO},
};

static int code_number(enum error_code code)
{
    return (size_t)code < ARRAY_LEN(codes) ? -codes[code].number : -EIO;
}

const char *error_code_name(enum error_code code)
{
    return (size_t)code < ARRAY_LEN(codes) ? codes[code].name : "INTERNAL";
}

/* EINVAL is INTERNAL here: when the kernel says it, we passed nonsense; input of callers is checked
 * before and reported with error_set(). */
static enum error_code code_from_errno(int sys)
{
    switch (sys) {
    case ENOENT:
    case ESRCH:
        return ERR_NOT_FOUND;
    case EEXIST:
    case EBUSY:
    case ENOTEMPTY:
    case ETXTBSY:
        return ERR_CONFLICT;
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
        return ERR_INVALID;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case E2BIG:
    case EFBIG:
    case EMSGSIZE:
        return ERR_LIMIT;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case EAGAIN:
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EPIPE:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return ERR_UNAVAILABLE;
    case ENOSYS:
    case EOPNOTSUPP:
    case EAFNOSUPPORT:
    case EPROTONOSUPPORT:
        return ERR_UNSUPPORTED;
    default:
        return ERR_INTERNAL;
    }
}

/* A cut message says so, and is not cut inside a UTF-8 character: it may go into JSON. */
static void mark_truncated(char *text, size_t size)
{
    size_t length = size - sizeof("...");
    while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    memcpy(text + length, "...", sizeof("..."));
}

/* The arguments may point into err->message, hence the detour over a local buffer. */
static void PRINTF_LIKE(2, 0)
    set_message(struct error *err, const char *format, va_list args, const char *suffix)
{
    char text[ERROR_MESSAGE_MAX];
    int length = vsnprintf(text, sizeof(text), format, args);
    if (length < 0)
        snprintf(text, sizeof(text), "message cannot be formatted");
    else if ((size_t)length >= sizeof(text))
        mark_truncated(text, sizeof(text));

    char whole[2 * ERROR_MESSAGE_MAX + 2];
    snprintf(whole, sizeof(whole), "%s%s%s", text, suffix ? ": " : "", suffix ? suffix : "");
    if (strlen(whole) >= sizeof(err->message))
        mark_truncated(whole, sizeof(err->message));
    memcpy(err->message, whole, strlen(whole) + 1);
}

int(error_set)(struct error *err, enum error_code code, const char *format, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, format);
        set_message(err, format, args, NULL);
        va_end(args);
        err->code = code;
        err->sys = 0;
    }
    return code_number(code);
}

int(error_set_errno)(struct error *err, int sys, const char *format, ...)
{
    if (err != NULL) {
        char buffer[128];
        va_list args;
        va_start(args, format);
        set_message(err, format, args, strerror_r(sys, buffer, sizeof(buffer)));
        va_end(args);
        err->code = code_from_errno(sys);
        err->sys = sys;
    }
    return sys > 0 ? -sys : -EIO;
}

int(error_wrap)(struct error *err, const char *format, ...)
{
    if (err == NULL)
        return -EIO;
    char inner[ERROR_MESSAGE_MAX];
    memcpy(inner, err->message, sizeof(inner));
    inner[sizeof(inner) - 1] = '\0';
    va_list args;
    va_start(args, format);
    set_message(err, format, args, inner);
    va_end(args);
    return err->sys > 0 ? -err->sys : code_number(err->code);
}
