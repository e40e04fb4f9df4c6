/* What the server can reach by name, and on which port it can listen: nothing but what it was told.
 *
 * Landlock rules hold for the process and its threads, for ever, whatever the files' modes say. The
 * kernel knows more kinds of access with every version (the ABI); those that it does not know yet
 * stay open. */
#pragma once

#include "base/error.h"

struct server_landlock_options {
    const char *state_dir;
    int port; /* the one to listen on; 0: any that the kernel picks */
};

/* The kernel's ABI, 0 when it has no Landlock: then nothing is restricted. Needs no_new_privs. */
int server_landlock_restrict(const struct server_landlock_options *options, int *ret_abi,
                             struct error *err);

/* "files, tcp bind, ..." for the log: what an ABI restricts. */
const char *server_landlock_describe(int abi);
