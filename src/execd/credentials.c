#include "execd/credentials.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define DATABASE_MAX_BYTES (4 * 1024 * 1024)
#define ID_LAST            (UINT32_MAX - 1) /* the one above means "leave it" to the kernel */

const struct execd_users execd_users_system = {
    .passwd_path = "/etc/passwd",
    .group_path = "/etc/group",
};

static FILE *open_database(const char *path)
{
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > DATABASE_MAX_BYTES)
        return NULL;
    return fdopen(TAKE_FD(fd), "re");
}

static void close_database(FILE **file)
{
    if (*file != NULL)
        fclose(*file);
}

/* The first user with this name, or with this uid when name is NULL. The entry is borrowed from
 * libc until the next call. */
static const struct passwd *find_user(const struct execd_users *users, const char *name, uid_t uid)
{
    CLEANUP(close_database) FILE *file = open_database(users->passwd_path);
    const struct passwd *entry = NULL;
    while (file != NULL && (entry = fgetpwent(file)) != NULL) {
        if (name != NULL ? strcmp(entry->pw_name, name) == 0 : entry->pw_uid == uid)
            return entry;
    }
    return NULL;
}

static const struct group *find_group(const struct execd_users *users, const char *name, gid_t gid)
{
    CLEANUP(close_database) FILE *file = open_database(users->group_path);
    const struct group *entry = NULL;
    while (file != NULL && (entry = fgetgrent(file)) != NULL) {
        if (name != NULL ? strcmp(entry->gr_name, name) == 0 : entry->gr_gid == gid)
            return entry;
    }
    return NULL;
}

bool execd_users_find_uid(const struct execd_users *users, const char *name, uid_t *ret)
{
    const struct passwd *entry = find_user(users, name, 0);
    if (entry != NULL)
        *ret = entry->pw_uid;
    return entry != NULL;
}

bool execd_users_find_gid(const struct execd_users *users, const char *name, gid_t *ret)
{
    const struct group *entry = find_group(users, name, 0);
    if (entry != NULL)
        *ret = entry->gr_gid;
    return entry != NULL;
}

static bool parse_id(const char *text, uint32_t *ret)
{
    uint64_t value;
    if (str_to_u64(text, 0, ID_LAST, &value) < 0)
        return false;
    *ret = (uint32_t)value;
    return true;
}

bool execd_users_parse_uid(const struct execd_users *users, const char *text, uid_t *ret)
{
    return execd_users_find_uid(users, text, ret) || parse_id(text, ret);
}

bool execd_users_parse_gid(const struct execd_users *users, const char *text, gid_t *ret)
{
    return execd_users_find_gid(users, text, ret) || parse_id(text, ret);
}

char *execd_users_find_name(const struct execd_users *users, uid_t uid)
{
    const struct passwd *entry = find_user(users, NULL, uid);
    return entry != NULL ? mem_dup(entry->pw_name) : NULL;
}

char *execd_users_find_group_name(const struct execd_users *users, gid_t gid)
{
    const struct group *entry = find_group(users, NULL, gid);
    return entry != NULL ? mem_dup(entry->gr_name) : NULL;
}

char *execd_users_find_home(const struct execd_users *users, uid_t uid)
{
    const struct passwd *entry = find_user(users, NULL, uid);
    return entry != NULL ? mem_dup(entry->pw_dir) : NULL;
}

static bool has_member(const struct group *group, const char *name)
{
    for (char **member = group->gr_mem; *member != NULL; member++) {
        if (strcmp(*member, name) == 0)
            return true;
    }
    return false;
}

static void add_group(struct execd_credentials *credentials, gid_t gid)
{
    for (size_t i = 0; i < credentials->group_count; i++) {
        if (credentials->groups[i] == gid)
            return;
    }
    if (credentials->group_count < EXECD_GROUPS_MAX)
        credentials->groups[credentials->group_count++] = gid;
}

static void add_groups_of(struct execd_credentials *credentials, const struct execd_users *users,
                          const char *name)
{
    CLEANUP(close_database) FILE *file = open_database(users->group_path);
    const struct group *entry = NULL;
    while (file != NULL && (entry = fgetgrent(file)) != NULL) {
        if (has_member(entry, name))
            add_group(credentials, entry->gr_gid);
    }
}

void execd_credentials_from_uid(struct execd_credentials *credentials,
                                const struct execd_users *users, uid_t uid, const gid_t *gid)
{
    const struct passwd *entry = find_user(users, NULL, uid);
    *credentials = (struct execd_credentials){.uid = uid, .gid = (gid_t)uid};
    if (entry != NULL)
        credentials->gid = entry->pw_gid;
    if (gid != NULL)
        credentials->gid = *gid;
    if (entry == NULL)
        return;
    AUTO_FREE char *name = mem_dup(entry->pw_name);
    add_group(credentials, credentials->gid);
    add_groups_of(credentials, users, name);
}

int execd_credentials_from_user(struct execd_credentials *credentials,
                                const struct execd_users *users, const char *user,
                                struct error *err)
{
    const char *colon = strchr(user, ':');
    AUTO_FREE char *name = colon != NULL ? mem_dup_n(user, (size_t)(colon - user)) : mem_dup(user);
    uid_t uid;
    if (!execd_users_parse_uid(users, name, &uid))
        return error_set(err, ERR_INVALID,
                         "user \"%.64s\" is neither in the sandbox's /etc/passwd nor a number",
                         name);
    if (colon == NULL || colon[1] == '\0') {
        execd_credentials_from_uid(credentials, users, uid, NULL);
        return 0;
    }
    gid_t gid;
    if (!execd_users_parse_gid(users, colon + 1, &gid))
        return error_set(err, ERR_INVALID,
                         "group \"%.64s\" is neither in the sandbox's /etc/group nor a number",
                         colon + 1);
    execd_credentials_from_uid(credentials, users, uid, &gid);
    return 0;
}

bool execd_credentials_are_own(const struct execd_credentials *credentials)
{
    uid_t self = geteuid();
    return self != 0 && credentials->uid == self && credentials->gid == getegid();
}
