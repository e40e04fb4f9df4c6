/* The peer: `bwrap ... true`, a sandbox of about the same shape for one command. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

void bwrap_print(void);      /* its command line */
pid_t bwrap_start(void);     /* exits on trouble */
void bwrap_wait(pid_t pid);  /* exits when it failed */
uint64_t bwrap_sample(void); /* start to end, in nanoseconds */
