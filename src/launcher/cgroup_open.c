/* Finding the cgroup hierarchies of this machine and making our parent group in them. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"

#define MOUNTINFO_MAX (16u << 20)
#define WEIGHT_V1     1024u /* of a group, and of a process */
#define WEIGHT_V2     100u  /* the same */
#define WEIGHT_FACTOR 4u

/* What a hierarchy is to a sandbox. Memory and cpu are what runtimes inside look for, pids what
 * people do; cpuacct is execd's. */
struct place {
    const char *inside;
    bool has_work;
};

static const struct place v1_places[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = {"memory", true},    [CGROUP_CPU] = {"cpu", false},
    [CGROUP_PIDS] = {"pids", true},        [CGROUP_IO] = {NULL, false},
    [CGROUP_CPUACCT] = {"cpuacct", false}, [CGROUP_FREEZER] = {NULL, false},
};

/* Enable what we limit with for the children of this v2 group. One by one, since one controller
 * that is missing would refuse them all; what took effect is read back at the end. */
static void enable_controllers(int group_fd)
{
    AUTO_CLOSE int fd = openat(group_fd, "cgroup.subtree_control", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    static const char *const wanted[] = {"+memory", "+cpu", "+pids", "+io"};
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
                         const struct place *place, struct error *err)
{
    int fd = -1;
    int r = open_group(mount, relative, groups->v2, &fd);
    if (r < 0)
        return error_set_errno(err, -r, "cannot make control group %s/%s", mount, relative);
    groups->items[groups->count++] = (struct cgroup_hierarchy){
        .fd = fd,
        .path = mem_printf("%s/%s", mount, relative),
        .inside = place->inside,
        .has_work = place->has_work,
    };
    return 0;
}

/* Controllers may share a mount ("cpu,cpuacct"): one hierarchy then, with what either needs. */
static bool share_hierarchy(struct cgroups *groups, const struct cgroup_mounts *mounts, int new)
{
    for (int i = 0; i < new; i++) {
        if (!str_equal(mounts->v1[new], mounts->v1[i]))
            continue;
        struct cgroup_hierarchy *hierarchy = &groups->items[groups->of[i]];
        hierarchy->has_work = hierarchy->has_work || v1_places[new].has_work;
        if (hierarchy->inside == NULL)
            hierarchy->inside = v1_places[new].inside;
        groups->of[new] = groups->of[i];
        return true;
    }
    return false;
}

static int open_v1(struct cgroups *groups, const struct cgroup_mounts *mounts, const char *relative,
                   struct error *err)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (mounts->v1[i] == NULL || share_hierarchy(groups, mounts, i))
            continue;
        int r = add_hierarchy(groups, mounts->v1[i], relative, &v1_places[i], err);
        if (r < 0)
            return r;
        groups->of[i] = (int)groups->count - 1;
    }
    for (unsigned i = 0; i < groups->count; i++) {
        if (groups->items[i].has_work && mkdirat(groups->items[i].fd, CGROUP_EXECD, 0755) < 0 &&
            errno != EEXIST)
            return error_set_errno(err, errno, "cannot make control group %s/" CGROUP_EXECD,
                                   groups->items[i].path);
    }
    return 0;
}

/* Nothing is lost when it cannot be made but the JVM's view of its limits. */
static void make_cpuset(struct cgroups *groups, const char *mount, const char *relative)
{
    AUTO_CLOSE int fd = -1;
    if (mount != NULL && open_group(mount, relative, false, &fd) == 0)
        groups->cpuset = mem_printf("%s/%s", mount, relative);
}

int cgroup_open_v2(struct cgroups *groups, const char *mount, const char *relative,
                   struct error *err)
{
    static const struct place place = {"", true};
    int r = add_hierarchy(groups, mount, relative, &place, err);
    if (r < 0)
        return r;
    CLEANUP(buf_done) struct buf enabled;
    buf_init(&enabled, 4096);
    r = file_read_at(groups->items[0].fd, "cgroup.subtree_control", &enabled, err);
    if (r < 0)
        return r;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (cgroup_list_has(enabled.data, " \n", cgroup_controller_name(i, true)))
            groups->of[i] = 0;
    }
    return 0;
}

/* Version 1 counts the I/O of a disk only once somebody has had a limit on it: "no limit" will do.
 * Without it only the numbers are missing, so this may fail. */
static void start_counting_io(const struct cgroups *groups)
{
    if (!groups->v2 && cgroup_has(groups, CGROUP_IO) && groups->device.found)
        (void)cgroup_write(groups, CGROUP_IO, ".", "blkio.throttle.read_bps_device", "%u:%u 0",
                           groups->device.major, groups->device.minor);
}

/* The scheduler first divides the processor among what is at the top, so all sandboxes together
 * would count as much as one process of the host: with that busy, and one sandbox too, a command in
 * another one waits many times longer. Not more than a few times its weight, since the server and
 * we are such processes. What is given is only a share: without it all works, only slower. */
static void weigh_more(const struct cgroups *groups)
{
    (void)cgroup_write(groups, CGROUP_CPU, ".", groups->v2 ? "cpu.weight" : "cpu.shares", "%u",
                       WEIGHT_FACTOR * (groups->v2 ? WEIGHT_V2 : WEIGHT_V1));
}

static void note_slot(void *context, const char *name)
{
    struct cgroups *groups = context;
    uint64_t number;
    if (str_to_u64(name + strlen("slot-"), 0, UINT32_MAX - 1, &number) == 0 &&
        number >= groups->next_slot)
        groups->next_slot = (unsigned)number + 1;
}

static bool choose_v2(const struct cgroup_mounts *mounts)
{
    CLEANUP(buf_done) struct buf offered;
    buf_init(&offered, 4096);
    if (mounts->v2 == NULL)
        return false;
    AUTO_FREE char *path = mem_printf("%s/cgroup.controllers", mounts->v2);
    if (file_read_at(AT_FDCWD, path, &offered, NULL) < 0)
        return false;
    return cgroup_mounts_prefer_v2(mounts, offered.data);
}

int cgroup_open(struct cgroups *groups, const char *parent, const char *instance,
                const char *state_path, bool anywhere, struct error *err)
{
    *groups = (struct cgroups){0};
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        groups->of[i] = -1;
    CLEANUP(buf_done) struct buf mountinfo;
    buf_init(&mountinfo, MOUNTINFO_MAX);
    int r = file_read_at(AT_FDCWD, "/proc/self/mountinfo", &mountinfo, err);
    if (r < 0)
        return r;
    CLEANUP(cgroup_mounts_done) struct cgroup_mounts mounts;
    cgroup_mounts_parse(mountinfo.data, &mounts);

    AUTO_FREE char *relative = parent == NULL ? mem_printf("opensandbox-%s", instance)
                                              : mem_printf("%s/opensandbox-%s", parent, instance);
    if (!anywhere) {
        AUTO_FREE char *own = mem_printf("opensandbox-%s", instance);
        cgroup_open_given(groups, &mounts, parent, own);
    } else {
        groups->v2 = choose_v2(&mounts);
        r = groups->v2 ? cgroup_open_v2(groups, mounts.v2, relative, err)
                       : open_v1(groups, &mounts, relative, err);
    }
    if (r < 0) {
        cgroup_close(groups);
        return r;
    }
    if (!groups->v2 && anywhere)
        make_cpuset(groups, mounts.cpuset, relative);
    cgroup_find_device(state_path, &groups->device);
    start_counting_io(groups);
    weigh_more(groups);
    cgroup_each(groups, note_slot, groups);
    return 0;
}

void cgroup_close(struct cgroups *groups)
{
    if (groups->cpuset != NULL)
        rmdir(groups->cpuset);
    free(TAKE_PTR(groups->cpuset));
    for (unsigned i = 0; i < groups->count; i++) {
        unlinkat(groups->items[i].fd, CGROUP_EXECD, AT_REMOVEDIR);
        rmdir(groups->items[i].path); /* both are refused while a sandbox lives in it */
        groups->items[i].fd = fd_close(groups->items[i].fd);
        free(TAKE_PTR(groups->items[i].path));
    }
    groups->count = 0;
}
