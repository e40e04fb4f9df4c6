/* What keeps execd safe from what runs beside it, and what everything that runs here is spared. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* When memory runs out the kernel shall take somebody else: sets our OOM score as low as it goes.
 * Needs root with CAP_SYS_RESOURCE and /proc; without them nothing happens, and the kernel still
 * takes the largest process first, which execd is not. */
void execd_guard_from_oom(void);

/* In a new process, before it changes its user: have the score again that execd started with. 0, or
 * -1 with errno. Makes system calls only. */
int execd_guard_undo_in_child(void);

/* As process 1 and root: what runs here as root shall not look into us, nor trace us. The file we
 * were executed from cannot be read where a launcher of root's has started us, which is enough; it
 * can be where root in here is the user who owns that file. */
void execd_guard_from_looks(void);

/* Programs of our own user could read the token from our command line, environment or memory.
 * Returns a copy (NULL stays NULL), wipes the original and the variable, and forbids other
 * processes of our user to look into us. */
char *execd_guard_take_token(const char *token);

/* Is clone3 refused with something else than ENOSYS? Old filters do that, and libc then makes no
 * threads at all, since only ENOSYS has it try clone. */
bool execd_guard_clone3_is_refused(void);

/* From now on clone3 answers ENOSYS to us and everything started here. */
int execd_guard_block_clone3(struct error *err);
