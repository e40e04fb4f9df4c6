#include "execd/rest.h"

#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "http/stream.h"

#define REST_MS 1000
/* What deep calls have touched of the stack, at most. */
#define STACK_BYTES (256 * 1024)

/* The pages of the stack below us, which nobody will read before writing them. The range reaches
 * into what was never mapped, where there is nothing to do. */
static void release_stack(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t end = ((uintptr_t)__builtin_frame_address(0) & ~(page - 1)) - page;
    uintptr_t begin = (end - STACK_BYTES) & ~(page - 1);
    madvise((void *)begin, end - begin, MADV_DONTNEED); // NOLINT(performance-no-int-to-ptr)
}

static void on_rest(uv_timer_t *timer)
{
    (void)timer;
    malloc_trim(0);
    http_stream_release_buffer();
    release_stack();
}

void execd_rest_postpone(struct execd *execd)
{
    uv_timer_start(&execd->rest, on_rest, REST_MS, 0);
}
