/* The part of the weak launcher that the installed one does not have; see launcher/weaken.h. */
#include "launcher/weaken.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static const char *const names[WEAKEN_LAYERS] = {
    [WEAKEN_SECCOMP] = "seccomp",
    [WEAKEN_USERNS] = "userns",
    [WEAKEN_CAPABILITIES] = "capabilities",
    [WEAKEN_NO_NEW_PRIVS] = "no_new_privs",
    [WEAKEN_MASKS] = "masks",
    [WEAKEN_READONLY] = "readonly",
    [WEAKEN_PROC] = "proc",
    [WEAKEN_NET] = "net",
    [WEAKEN_IPC] = "ipc",
    [WEAKEN_CGROUPNS] = "cgroupns",
    [WEAKEN_NODEV] = "nodev",
    [WEAKEN_FDS] = "fds",
    [WEAKEN_CWD] = "cwd",
    [WEAKEN_EXECD_MODE] = "execd-mode",
    [WEAKEN_PIVOT] = "pivot",
    [WEAKEN_KEYRING] = "keyring",
    [WEAKEN_OVERLAY] = "overlay",
};

static uint32_t off;

bool weaken_is_off(enum weaken_layer layer)
{
    return (off >> layer & 1) != 0;
}

static int leave_out(const char *name, struct error *err)
{
    for (unsigned i = 0; i < WEAKEN_LAYERS; i++) {
        if (str_equal(name, names[i])) {
            off |= 1u << i;
            return 0;
        }
    }
    return error_set(err, ERR_INVALID, "--weaken '%s' is not a layer; see launcher/weaken.h", name);
}

int weaken_parse(const char *layers, struct error *err)
{
    AUTO_FREE char *list = mem_dup(layers);
    char *save = NULL;
    int r = 0;
    for (char *name = strtok_r(list, ",", &save); name && r == 0; name = strtok_r(NULL, ",", &save))
        r = leave_out(name, err);
    return r;
}
