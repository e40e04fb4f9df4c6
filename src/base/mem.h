/* Memory. Allocation failure aborts: everything whose size a client or a sandbox chooses is limited
 * before it is allocated, so running out means the machine is out, and there is nothing to save. */
#pragma once

#include <stddef.h>

#include "base/macros.h"

void *mem_alloc(size_t size);                     /* zeroed */
void *mem_alloc_array(size_t count, size_t size); /* zeroed; aborts on overflow */
void *mem_resize_array(void *pointer, size_t count, size_t size);
char *mem_dup(const char *string);                 /* NULL stays NULL */
char *mem_dup_n(const char *bytes, size_t length); /* adds the terminating NUL */
char *mem_printf(const char *format, ...) PRINTF_LIKE(1, 2);

/* For CLEANUP(): */
void mem_free_ptr(void *pointer_to_pointer);
void fd_close_ptr(int *fd);

/* Close if >= 0; returns -1, so that `fd = fd_close(fd)` leaves no stale number. Keeps errno. */
int fd_close(int fd);

#define AUTO_FREE  CLEANUP(mem_free_ptr)
#define AUTO_CLOSE CLEANUP(fd_close_ptr)
