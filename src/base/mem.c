#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No stdio: it may want memory itself. */
static void NORETURN out_of_memory(void)
{
    static const char text[] = "out of memory\n";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);
    (void)ignored;
    abort();
}

/* The size of an array in bytes. A size of 0 still gets a pointer of its own, so that NULL always
 * means "nothing". */
static size_t array_size(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        out_of_memory();
    return total > 0 ? total : 1;
}

void *mem_alloc(size_t size)
{
    return mem_alloc_array(1, size);
}

void *mem_alloc_array(size_t count, size_t size)
{
    void *pointer = calloc(1, array_size(count, size));
    if (pointer == NULL)
        out_of_memory();
    return pointer;
}

void *mem_resize_array(void *pointer, size_t count, size_t size)
{
    void *moved = realloc(pointer, array_size(count, size));
    if (moved == NULL)
        out_of_memory();
    return moved;
}

char *mem_dup(const char *string)
{
    return string != NULL ? mem_dup_n(string, strlen(string)) : NULL;
}

char *mem_dup_n(const char *bytes, size_t length)
{
    if (length == SIZE_MAX)
        out_of_memory();
    char *copy = malloc(length + 1);
    if (copy == NULL)
        out_of_memory();
    if (length > 0)
        memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

char *mem_printf(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        out_of_memory();
    return text;
}

void mem_free_ptr(void *pointer_to_pointer)
{
    void *pointer;
    memcpy(&pointer, pointer_to_pointer, sizeof(pointer));
    free(pointer);
}

int fd_close(int fd)
{
    if (fd >= 0) {
        int saved = errno;
        /* Not repeated on EINTR: Linux has released the number already. */
        close(fd);
        errno = saved;
    }
    return -1;
}

void fd_close_ptr(int *fd)
{
    *fd = fd_close(*fd);
}
