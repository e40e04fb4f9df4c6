/* Users and groups of the sandbox, and as whom a process runs.
 *
 * A static glibc has no name service switch, and the passwd and group files belong to whoever is
 * root inside: they are read anew for each question, only when they are regular files of bounded
 * size (a FIFO in their place must not stop execd), and believed only for what they say about the
 * sandbox's own users. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* Where the answers come from; tests give their own files. */
struct execd_users {
    const char *passwd_path;
    const char *group_path;
};

extern const struct execd_users execd_users_system; /* /etc/passwd and /etc/group */

#define EXECD_GROUPS_MAX 256 /* supplementary groups beyond this are left out */

struct execd_credentials {
    uid_t uid;
    gid_t gid;
    gid_t groups[EXECD_GROUPS_MAX];
    size_t group_count;
};

/* Names to ids and back. Strings are the caller's to free; false or NULL when there is no such. */
bool execd_users_find_uid(const struct execd_users *users, const char *name, uid_t *ret);
bool execd_users_find_gid(const struct execd_users *users, const char *name, gid_t *ret);
/* The same, where a decimal number that is nobody's name stands for itself. */
bool execd_users_parse_uid(const struct execd_users *users, const char *text, uid_t *ret);
bool execd_users_parse_gid(const struct execd_users *users, const char *text, gid_t *ret);
char *execd_users_find_name(const struct execd_users *users, uid_t uid);
char *execd_users_find_group_name(const struct execd_users *users, gid_t gid);
char *execd_users_find_home(const struct execd_users *users, uid_t uid);

/* Credentials for a number. A known user gets its primary group (unless `gid` is given) and its
 * supplementary groups; an unknown one gets the group of the same number and no others, so that it
 * never lands in group 0 by accident. `gid` may be NULL. */
void execd_credentials_from_uid(struct execd_credentials *credentials,
                                const struct execd_users *users, uid_t uid, const gid_t *gid);

/* Credentials from what an image calls USER: "name", "uid", "name:group", "uid:gid". */
int execd_credentials_from_user(struct execd_credentials *credentials,
                                const struct execd_users *users, const char *user,
                                struct error *err);

/* Is this whom we run as already, and is there no right to change groups? Then nothing is to be
 * done, and trying would fail. */
bool execd_credentials_are_own(const struct execd_credentials *credentials);
