/* Walls of a sandbox that a launcher of the tests can leave out.
 *
 * An attack that fails proves nothing unless it works where the wall it attacks is missing. So the
 * tests build a second launcher from the same sources, with OSB_WEAKEN, that leaves out the layers
 * named by `--weaken LAYER[,LAYER...]`. In the launcher that is installed every question here is a
 * constant, and neither the option nor the names of layers are in it.
 *
 * Each layer is asked for where it is made, and nowhere else. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum weaken_layer {
    WEAKEN_SECCOMP,      /* no system call filter */
    WEAKEN_USERNS,       /* root inside is root outside */
    WEAKEN_CAPABILITIES, /* all are kept */
    WEAKEN_NO_NEW_PRIVS, /* not set; the filter then needs capabilities, or to be left out, too */
    WEAKEN_MASKS,        /* kernel files that tell too much are not covered */
    WEAKEN_READONLY,     /* kernel files and control groups can be written if their modes allow */
    WEAKEN_PROC,         /* /proc is the host's */
    WEAKEN_NET,          /* the launcher's network namespace */
    WEAKEN_IPC,          /* the launcher's System V and POSIX ipc */
    WEAKEN_CGROUPNS,     /* the launcher's view of control groups */
    WEAKEN_NODEV,        /* device nodes in the image work */
    WEAKEN_FDS,          /* execd inherits a descriptor of the state directory */
    WEAKEN_CWD,          /* execd starts in the state directory */
    WEAKEN_EXECD_MODE,   /* everybody can read execd's file, and so trace execd */
    WEAKEN_PIVOT,        /* chroot in the place of pivot_root */
    WEAKEN_KEYRING,      /* the launcher's session keyring */
    WEAKEN_OVERLAY,      /* a directory image is mounted itself, writable, with its own ids */
    WEAKEN_LAYERS,
};

#ifdef OSB_WEAKEN

bool weaken_is_off(enum weaken_layer layer);
int weaken_parse(const char *layers, struct error *err); /* of the option */

#else

static inline bool weaken_is_off(enum weaken_layer layer)
{
    (void)layer;
    return false;
}

#endif
