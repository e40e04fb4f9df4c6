#include "execd/credentials.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"

#define DATABASE_MAX_BYTES (4 * 1024 * 1024)
#define READ_BYTES         (16 * 1024)
#define ID_LAST            (UINT32_MAX - 1) /* the one above means "leave it" to the kernel */

const struct execd_users execd_users_system = {
    .passwd_path = "/etc/passwd",
    .group_path = "/etc/group",
};

/* One of the files, as it was when it was opened: read whole and within its bound first, since
 * somebody may write to it for as long as we read. */
struct database {
    struct buf text;
    FILE *file; /* NULL: there is none that could be used */
};

static int read_text(const char *path, struct buf *text)
{
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    ssize_t n;
    do {
        if (buf_reserve(text, READ_BYTES) < 0)
            return -1;
        n = read(fd, text->data + text->length, READ_BYTES);
        if (n > 0)
            buf_commit(text, (size_t)n);
    } while (n > 0);
    return n < 0 || text->length == 0 ? -1 : 0;
}

static void open_database(struct database *database, const char *path)
{
    *database = (struct database){0};
    buf_init(&database->text, DATABASE_MAX_BYTES);
    if (read_text(path, &database->text) == 0)
        database->file = fmemopen(database->text.data, database->text.length, "r");
}

static void close_database(struct database *database)
{
    if (database->file != NULL)
        fclose(database->file);
    buf_done(&database->text);
}

/* libc reads more than may be believed: lines for a name service that is not there ("+name", in
 * which a missing number is 0), and numbers that mean "leave it as it is" to the kernel, which is
 * root. Those entries do not exist. */
static bool is_usable(const char *name, uint32_t id)
{
    return name[0] != '\0' && strchr("+-", name[0]) == NULL && id <= ID_LAST;
}

static const struct passwd *next_user(const struct database *database)
{
    const struct passwd *entry = NULL;
    while (database->file != NULL && (entry = fgetpwent(database->file)) != NULL) {
        if (is_usable(entry->pw_name, entry->pw_uid) && entry->pw_gid <= ID_LAST)
            return entry;
    }
    return NULL;
}

static const struct group *next_group(const struct database *database)
{
    const struct group *entry = NULL;
    while (database->file != NULL && (entry = fgetgrent(database->file)) != NULL) {
        if (is_usable(entry->gr_name, entry->gr_gid))
            return entry;
    }
    return NULL;
}

/* The first user with this name, or with this uid when name is NULL. The entry is borrowed from
 * libc until the next call. */
static const struct passwd *find_user(const struct execd_users *users, const char *name, uid_t uid)
{
    CLEANUP(close_database) struct database database;
    open_database(&database, users->passwd_path);
    const struct passwd *entry;
    while ((entry = next_user(&database)) != NULL) {
        if (name != NULL ? strcmp(entry->pw_name, name) == 0 : entry->pw_uid == uid)
            return entry;
    }
    return NULL;
}

static const struct group *find_group(const struct execd_users *users, const char *name, gid_t gid)
{
    CLEANUP(close_database) struct database database;
    open_database(&database, users->group_path);
    const struct group *entry;
    while ((entry = next_group(&database)) != NULL) {
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
    CLEANUP(close_database) struct database database;
    open_database(&database, users->group_path);
    const struct group *entry;
    while ((entry = next_group(&database)) != NULL) {
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
