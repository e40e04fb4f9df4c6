/* The program that runs as `tail -f /dev/null`, the entrypoint clients send when a sandbox shall
 * only stay: a page that waits for a signal.
 *
 * Every sandbox has that process. A tail of a C library costs 180 KiB and half a millisecond each,
 * of which nothing is needed, and an image need not have one at all. What is executed instead has
 * its name, its arguments and its manners: it does nothing until a signal ends it. */
#pragma once

#include <stddef.h>

/* The file's contents. */
const void *idle_program(size_t *ret_length);
