#include "launcher/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"
#include "launcher/weaken.h"

static const int kept[] = {
    CAP_SYS_ADMIN,    /* mounts, namespaces, loop devices, quota, names of control groups */
    CAP_SYS_CHROOT,   /* to enter a mount namespace */
    CAP_SYS_PTRACE,   /* to name the namespaces of sandboxes, whose users are others */
    CAP_SYS_RESOURCE, /* limits of sandboxes above our own */
    CAP_NET_ADMIN,    /* networks of sandboxes; a send queue for a thousand answers */
    CAP_SETUID,       /* to write id maps and to become root of a user namespace */
    CAP_SETGID,       /* likewise */
    CAP_SETFCAP,      /* to map root */
    CAP_SETPCAP,      /* to give up capabilities */
    CAP_CHOWN,        /* files of sandboxes belong to their ids */
    CAP_FOWNER,       /* to set their modes */
    CAP_FSETID,       /* likewise */
    CAP_DAC_OVERRIDE, /* to delete what they have written */
    CAP_MKNOD,        /* devices of /dev */
    CAP_KILL,         /* processes of sandboxes are other users' */
};

static bool is_kept(int capability)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (kept[i] == capability)
            return true;
    return false;
}

int privileges_drop(struct error *err)
{
    if (weaken_is_off(WEAKEN_USERNS)) /* then sandboxes have no others than ours */
        return 0;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    if (syscall(SYS_capget, &header, data) < 0)
        return error_set_errno(err, errno, "cannot read the capabilities");
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
        if (is_kept(capability))
            continue;
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return error_set_errno(err, errno, "cannot drop capability %d", capability);
        uint32_t bit = 1u << (capability % 32);
        data[capability / 32].effective &= ~bit;
        data[capability / 32].permitted &= ~bit;
    }
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        data[i].inheritable = 0;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "cannot clear ambient capabilities");
    if (syscall(SYS_capset, &header, data) < 0)
        return error_set_errno(err, errno, "cannot drop capabilities");
    if (!weaken_is_off(WEAKEN_NO_NEW_PRIVS) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "cannot set no_new_privs");
    return 0;
}
