/* Finding the cgroup hierarchies of this machine and making our parent group in them. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup.h"

#define MOUNTINFO_MAX (16u << 20)

static const char *const controller_names[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = "memory",
    [CGROUP_CPU] = "cpu",
    [CGROUP_PIDS] = "pids",
};

/* The kernel writes space, tab, newline and backslash of a path as three octal digits. */
static char *unescape(const char *escaped)
{
    char *path = mem_dup(escaped);
    char *out = path;
    for (const char *in = escaped; *in != '\0'; in++) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
            in[3] >= '0' && in[3] <= '7') {
            *out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return path;
}

static bool list_has(const char *list, const char *separators, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at != '\0';) {
        size_t step = strcspn(at, separators);
        if (step == length && strncmp(at, word, length) == 0)
            return true;
        at += step;
        at += strspn(at, separators);
    }
    return false;
}

/* One line: id parent major:minor root mount-point options optional... - type source super-options
 */
static void parse_line(char *line, struct cgroup_mounts *mounts)
{
    char *tail = strstr(line, " - ");
    if (tail == NULL)
        return;
    *tail = '\0';
    char *save = NULL;
    char *type = strtok_r(tail + 3, " ", &save);
    strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " ", &save);
    char *point = line;
    for (int field = 1; field < 5 && point != NULL; field++) {
        point = strchr(point, ' ');
        if (point != NULL)
            point++;
    }
    if (point == NULL || type == NULL || options == NULL)
        return;
    point[strcspn(point, " ")] = '\0';

    if (str_equal(type, "cgroup2") && mounts->v2 == NULL)
        mounts->v2 = unescape(point);
    if (!str_equal(type, "cgroup"))
        return;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (mounts->v1[i] == NULL && list_has(options, ",", controller_names[i]))
            mounts->v1[i] = unescape(point);
    }
}

int cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret)
{
    AUTO_FREE char *text = mem_dup(mountinfo);
    *ret = (struct cgroup_mounts){0};
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        parse_line(line, ret);
    return 0;
}

void cgroup_mounts_done(struct cgroup_mounts *mounts)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        free(TAKE_PTR(mounts->v1[i]));
    free(TAKE_PTR(mounts->v2));
}

/* Enable what we limit with for the children of this v2 group. One by one, since one controller
 * that is missing would refuse them all; what took effect is read back at the end. */
static void enable_controllers(int group_fd)
{
    AUTO_CLOSE int fd = openat(group_fd, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    static const char *const wanted[] = {"+memory", "+cpu", "+pids"};
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
        if (write(fd, wanted[i], strlen(wanted[i])) < 0)
            continue;
    }
}

/* Make (mkdir -p) the group `relative` below the mount point; on v2 each one on the way passes the
 * controllers on. */
static int open_group(const char *mount, const char *relative, bool v2, int *ret_fd)
{
    AUTO_CLOSE int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    AUTO_FREE char *names = mem_dup(relative);
    char *save = NULL;
    if (v2)
        enable_controllers(fd);
    for (char *name = strtok_r(names, "/", &save); name; name = strtok_r(NULL, "/", &save)) {
        if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        fd_close(fd);
        fd = next;
        if (v2)
            enable_controllers(fd);
    }
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int add_hierarchy(struct cgroups *groups, const char *mount, const char *relative,
                         const char *inside, struct error *err)
{
    int fd = -1;
    int r = open_group(mount, relative, groups->v2, &fd);
    if (r < 0)
        return error_set_errno(err, -r, "cannot make control group %s/%s", mount, relative);
    groups->items[groups->count++] = (struct cgroup_hierarchy){
        .fd = fd,
        .path = mem_printf("%s/%s", mount, relative),
        .inside = inside,
    };
    return 0;
}

static int open_v1(struct cgroups *groups, const struct cgroup_mounts *mounts, const char *relative,
                   struct error *err)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (mounts->v1[i] == NULL)
            continue;
        /* Controllers may share a mount ("cpu,cpuacct"): one hierarchy then. */
        for (int j = 0; j < i && groups->of[i] < 0; j++) {
            if (str_equal(mounts->v1[i], mounts->v1[j]))
                groups->of[i] = groups->of[j];
        }
        if (groups->of[i] >= 0)
            continue;
        int r = add_hierarchy(groups, mounts->v1[i], relative, controller_names[i], err);
        if (r < 0)
            return r;
        groups->of[i] = (int)groups->count - 1;
    }
    return 0;
}

static int open_v2(struct cgroups *groups, const char *mount, const char *relative,
                   struct error *err)
{
    int r = add_hierarchy(groups, mount, relative, "", err);
    if (r < 0)
        return r;
    CLEANUP(buf_done) struct buf enabled;
    buf_init(&enabled, 4096);
    r = file_read_at(groups->items[0].fd, "cgroup.subtree_control", &enabled, err);
    if (r < 0)
        return r;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (list_has(enabled.data, " \n", controller_names[i]))
            groups->of[i] = 0;
    }
    return 0;
}

static void note_slot(void *context, const char *name)
{
    struct cgroups *groups = context;
    uint64_t number;
    if (str_to_u64(name + strlen("slot-"), 0, UINT32_MAX - 1, &number) == 0 &&
        number >= groups->next_slot)
        groups->next_slot = (unsigned)number + 1;
}

int cgroup_open(struct cgroups *groups, const char *parent, const char *instance, struct error *err)
{
    *groups = (struct cgroups){.of = {-1, -1, -1}};
    CLEANUP(buf_done) struct buf mountinfo;
    buf_init(&mountinfo, MOUNTINFO_MAX);
    int r = file_read_at(AT_FDCWD, "/proc/self/mountinfo", &mountinfo, err);
    if (r < 0)
        return r;
    CLEANUP(cgroup_mounts_done) struct cgroup_mounts mounts;
    cgroup_mounts_parse(mountinfo.data, &mounts);

    AUTO_FREE char *relative = parent == NULL ? mem_printf("opensandbox-%s", instance)
                                              : mem_printf("%s/opensandbox-%s", parent, instance);
    bool any_v1 = mounts.v1[CGROUP_MEMORY] || mounts.v1[CGROUP_CPU] || mounts.v1[CGROUP_PIDS];
    groups->v2 = !any_v1 && mounts.v2 != NULL;
    if (any_v1)
        r = open_v1(groups, &mounts, relative, err);
    else if (groups->v2)
        r = open_v2(groups, mounts.v2, relative, err);
    if (r < 0) {
        cgroup_close(groups);
        return r;
    }
    cgroup_each(groups, note_slot, groups);
    return 0;
}

void cgroup_close(struct cgroups *groups)
{
    for (unsigned i = 0; i < groups->count; i++) {
        rmdir(groups->items[i].path); /* refused while a sandbox lives in it */
        groups->items[i].fd = fd_close(groups->items[i].fd);
        free(TAKE_PTR(groups->items[i].path));
    }
    groups->count = 0;
}

void cgroup_each(const struct cgroups *groups, void (*found)(void *context, const char *name),
                 void *context)
{
    for (unsigned i = 0; i < groups->count; i++) {
        DIR *dir = opendir(groups->items[i].path);
        if (dir == NULL)
            continue;
        struct dirent *entry;
        while ((entry = readdir(dir)) != NULL) {
            if (str_starts_with(entry->d_name, "slot-") && strlen(entry->d_name) < CGROUP_NAME_MAX)
                found(context, entry->d_name);
        }
        closedir(dir);
    }
}
