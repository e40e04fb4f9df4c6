#include "server/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

int server_privileges_find_user(const char *user, struct server_identity *ret, struct error *err)
{
    uint64_t number;
    struct server_identity found = {.uid = SERVER_PRIVILEGES_UID, .gid = SERVER_PRIVILEGES_UID};
    bool is_number = str_to_u64(user, 0, UINT32_MAX - 1, &number) == 0;
    if (is_number)
        found = (struct server_identity){.uid = (uid_t)number, .gid = (gid_t)number};
    const struct passwd *entry = is_number ? getpwuid((uid_t)number) : getpwnam(user);
    if (entry != NULL)
        found = (struct server_identity){.uid = entry->pw_uid, .gid = entry->pw_gid};
    if (found.uid == 0 || found.gid == 0)
        return error_set(err, ERR_INVALID,
                         "`server.user` '%s' has root's user or group id; choose an unprivileged "
                         "user",
                         user);
    *ret = found;
    return 0;
}

/* The bounding set first: emptying it needs a capability that the later steps take away. */
static int drop_bounding_set(struct error *err)
{
    for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
            return error_set_errno(err, errno, "cannot drop capability %d", cap);
    return 0;
}

static int drop_capability_sets(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "cannot clear ambient capabilities");
    if (syscall(SYS_capset, &header, none) < 0)
        return error_set_errno(err, errno, "cannot drop capabilities");
    return 0;
}

static int prove_no_way_back(const struct server_identity *identity, struct error *err)
{
    uid_t uids[3];
    gid_t gids[3];
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct caps[_LINUX_CAPABILITY_U32S_3] = {0};
    if (getresuid(&uids[0], &uids[1], &uids[2]) < 0 ||
        getresgid(&gids[0], &gids[1], &gids[2]) < 0 || syscall(SYS_capget, &header, caps) < 0)
        return error_set_errno(err, errno, "cannot examine the process");
    bool right = getgroups(0, NULL) == 0 && prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    for (int i = 0; i < 3; i++)
        right = right && uids[i] == identity->uid && gids[i] == identity->gid;
    for (int i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        right = right && caps[i].effective == 0 && caps[i].permitted == 0;
    if (!right || setresuid(0, 0, 0) == 0 || setresgid(0, 0, 0) == 0)
        return error_set(err, ERR_INTERNAL,
                         "the process still has privileges after giving them "
                         "up");
    return 0;
}

int server_privileges_drop(const struct server_identity *identity, struct error *err)
{
    int r = drop_bounding_set(err);
    if (r < 0)
        return r;
    if (setgroups(0, NULL) < 0 || setresgid(identity->gid, identity->gid, identity->gid) < 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) < 0)
        return error_set_errno(err, errno, "cannot become user %u", (unsigned)identity->uid);
    r = drop_capability_sets(err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_set_errno(err, errno, "cannot set no_new_privs");
    return prove_no_way_back(identity, err);
}

int server_privileges_seal(struct error *err)
{
    int r = drop_capability_sets(err);
    if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        r = error_set_errno(err, errno, "cannot set no_new_privs");
    return r;
}
