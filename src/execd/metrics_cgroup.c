/* /proc/self/cgroup tells the group of each hierarchy as a path from the hierarchy's root, and
 * /proc/self/mountinfo which part of the hierarchy is mounted where. A container often sees only
 * its own group, mounted over /sys/fs/cgroup/..., with a path that means nothing inside: then the
 * mount point is the group. */
#include "execd/metrics_cgroup.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#define CGROUP_FILE_MAX    (64 * 1024)
#define MOUNTINFO_FILE_MAX (1024 * 1024)

bool execd_cgroup_read_file(const char *root, const char *path, struct buf *ret)
{
    char full[PATH_MAX];
    int length = snprintf(full, sizeof(full), "%s%s", root, path);
    return length > 0 && (size_t)length < sizeof(full) &&
           file_read_at(AT_FDCWD, full, ret, NULL) == 0 && ret->length > 0;
}

bool execd_cgroup_read(const struct execd_cgroup *cgroup, const char *name, struct buf *ret)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof(path), "/%s", name);
    return length > 0 && (size_t)length < sizeof(path) &&
           execd_cgroup_read_file(cgroup->path, path, ret);
}

bool execd_cgroup_up(struct execd_cgroup *cgroup)
{
    char *slash = strrchr(cgroup->path, '/');
    if (slash == NULL || (size_t)(slash - cgroup->path) < cgroup->mount_length)
        return false;
    *slash = '\0';
    return true;
}

/* Is `word` in a list like "rw,cpu,cpuacct"? */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (;;) {
        size_t size = strcspn(list, ",");
        if (size == length && memcmp(list, word, length) == 0)
            return true;
        if (list[size] == '\0')
            return false;
        list += size + 1;
    }
}

/* What /proc/self/cgroup says; both may be NULL. They point into the text, which is cut up. */
struct membership {
    const char *v1_path; /* of the hierarchy that has the controller */
    const char *v2_path;
};

static struct membership find_membership(char *text, const char *controller)
{
    struct membership result = {0};
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (path == NULL)
            continue;
        *controllers++ = '\0';
        *path++ = '\0';
        if (str_equal(line, "0") && *controllers == '\0')
            result.v2_path = path;
        else if (has_word(controllers, controller))
            result.v1_path = path;
    }
    return result;
}

/* \040 and the like, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0';) {
        if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
            from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
            *to++ = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

struct mount {
    char *root; /* the folder of the hierarchy that is mounted */
    char *point;
    char *type;
    char *options; /* of the file system: for version 1, its controllers */
};

/* "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:1 - cgroup cgroup rw,memory" */
static bool parse_mount(char *line, struct mount *ret)
{
    char *tail = strstr(line, " - ");
    char *save = NULL;
    if (tail == NULL)
        return false;
    *tail = '\0';
    char *word = strtok_r(line, " ", &save);
    for (int i = 0; i < 3 && word != NULL; i++)
        word = strtok_r(NULL, " ", &save);
    ret->root = word;
    ret->point = word != NULL ? strtok_r(NULL, " ", &save) : NULL;
    ret->type = strtok_r(tail + 3, " ", &save);
    char *source = ret->type != NULL ? strtok_r(NULL, " ", &save) : NULL;
    ret->options = source != NULL ? strtok_r(NULL, " ", &save) : NULL;
    if (ret->point == NULL || ret->options == NULL)
        return false;
    unescape(ret->root);
    unescape(ret->point);
    return true;
}

/* The rest of `path` below `root`, or NULL when it is not below. Who is outside of the group that
 * its namespace begins with sees itself at "/.." or "/../init". */
static const char *below(const char *path, const char *root)
{
    if (strncmp(path, "/..", 3) == 0 && (path[3] == '/' || path[3] == '\0'))
        return NULL;
    size_t length = str_equal(root, "/") ? 0 : strlen(root);
    if (strncmp(path, root, length) != 0 || (path[length] != '/' && path[length] != '\0'))
        return NULL;
    return str_equal(path + length, "/") ? "" : path + length;
}

static bool set_path(struct execd_cgroup *cgroup, const char *root, const char *point,
                     const char *rest, bool v2)
{
    struct stat st;
    int length = snprintf(cgroup->path, sizeof(cgroup->path), "%s%s%s", root, point, rest);
    cgroup->mount_length = strlen(root) + strlen(point);
    cgroup->v2 = v2;
    return length > 0 && (size_t)length < sizeof(cgroup->path) && stat(cgroup->path, &st) == 0 &&
           S_ISDIR(st.st_mode);
}

/* Version 1 wins where both are there: a controller is in one hierarchy only, and what is left for
 * version 2 has none. */
static bool find_mounted(const char *root, const char *controller, struct membership member,
                         char *mounts, struct execd_cgroup *ret)
{
    bool found = false;
    bool found_exactly = false;
    char *save = NULL;
    for (char *line = strtok_r(mounts, "\n", &save); line != NULL && !found_exactly;
         line = strtok_r(NULL, "\n", &save)) {
        struct mount mount;
        if (!parse_mount(line, &mount))
            continue;
        bool v2 = str_equal(mount.type, "cgroup2");
        const char *path = v2 ? member.v2_path : member.v1_path;
        if ((!v2 && (!str_equal(mount.type, "cgroup") || !has_word(mount.options, controller))) ||
            (v2 && member.v1_path != NULL) || path == NULL)
            continue;
        const char *rest = below(path, mount.root);
        struct execd_cgroup candidate = {.v2 = v2};
        if (rest != NULL && set_path(&candidate, root, mount.point, rest, v2))
            found_exactly = true;
        else if (found || !set_path(&candidate, root, mount.point, "", v2))
            continue;
        *ret = candidate;
        found = true;
    }
    return found;
}

/* Without /proc there are still the usual places. */
static bool find_usual(const char *root, const char *controller, struct execd_cgroup *ret)
{
    struct buf text;
    buf_init(&text, CGROUP_FILE_MAX);
    bool v2 = execd_cgroup_read_file(root, "/sys/fs/cgroup/cgroup.controllers", &text);
    buf_done(&text);
    if (v2)
        return set_path(ret, root, "/sys/fs/cgroup", "", true);
    AUTO_FREE char *point = mem_printf("/sys/fs/cgroup/%s", controller);
    return set_path(ret, root, point, "", false) ||
           (str_starts_with(controller, "cpu") &&
            set_path(ret, root, "/sys/fs/cgroup/cpu,cpuacct", "", false));
}

bool execd_cgroup_find(const char *root, const char *controller, struct execd_cgroup *ret)
{
    struct buf groups;
    struct buf mounts;
    buf_init(&groups, CGROUP_FILE_MAX);
    buf_init(&mounts, MOUNTINFO_FILE_MAX);
    bool found = false;
    if (execd_cgroup_read_file(root, "/proc/self/cgroup", &groups) &&
        execd_cgroup_read_file(root, "/proc/self/mountinfo", &mounts))
        found = find_mounted(root, controller, find_membership(groups.data, controller),
                             mounts.data, ret);
    buf_done(&groups);
    buf_done(&mounts);
    return found || find_usual(root, controller, ret);
}
