/* Probes: control groups. As the launcher will, they look at v2 or v1, whichever limits more here.
 * A group is made below the parent and removed at once. On v2, controllers are not turned on for
 * it, since that would change the groups above: whether they could be is a rule that can be told
 * from what is there. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"
#include "launcher/check_probe.h"

#define MOUNTINFO_MAX (16u << 20)
#define GIVE                                                                                \
    "start the server in a control group of its own that belongs to the user: systemd-run " \
    "--user -p Delegate=yes -p KillMode=process opensandbox-server"

struct hierarchies {
    struct cgroup_mounts mounts;
    bool v2;                      /* what sandboxes are limited with */
    char *given;                  /* an ordinary user's: the group in it, or NULL */
    char none[CGROUP_REASON_MAX]; /* why he has none */
};

static void hierarchies_done(struct hierarchies *found)
{
    free(found->given);
    cgroup_mounts_done(&found->mounts);
}

/* Of an ordinary user: v2, and only where it was given to him. */
static void keep_given(const struct check_context *context, struct hierarchies *found)
{
    if (cgroup_find_given(&found->mounts, context->cgroup_parent, &found->given, found->none) < 0) {
        cgroup_mounts_done(&found->mounts);
        found->mounts = (struct cgroup_mounts){0};
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        free(found->mounts.v1[i]);
        found->mounts.v1[i] = NULL;
    }
    found->v2 = found->mounts.v2 != NULL;
}

static void find_hierarchies(const struct check_context *context, struct hierarchies *ret)
{
    *ret = (struct hierarchies){0};
    CLEANUP(buf_done) struct buf text, controllers;
    buf_init(&text, MOUNTINFO_MAX);
    buf_init(&controllers, 4096);
    if (check_read("/proc/self/mountinfo", &text) < 0)
        return;
    cgroup_mounts_parse(text.data, &ret->mounts);
    if (context->rootless) {
        keep_given(context, ret);
        return;
    }
    if (ret->mounts.v2 == NULL)
        return;
    AUTO_FREE char *path = mem_printf("%s/cgroup.controllers", ret->mounts.v2);
    (void)check_read(path, &controllers);
    ret->v2 = cgroup_mounts_prefer_v2(&ret->mounts, controllers.data);
}

static bool any_v1(const struct hierarchies *found)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (found->mounts.v1[i] != NULL)
            return true;
    }
    return false;
}

static const char *mount_of(const struct hierarchies *found, enum cgroup_controller controller)
{
    return found->v2 ? found->mounts.v2 : found->mounts.v1[controller];
}

static const char *parent_of(const struct check_context *context, const struct hierarchies *found)
{
    return found->given != NULL ? found->given : context->cgroup_parent;
}

/* Walks from the mount point to the parent, or as far as there is one: the launcher makes the rest.
 * `visit` (may be NULL) sees every group on the way. Returns 0 or -errno. */
static int walk_to_parent(const char *parent, const char *mount,
                          int (*visit)(int group_fd, const char *controller),
                          const char *controller, int *ret_fd)
{
    AUTO_CLOSE int fd = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    AUTO_FREE char *names = mem_dup(parent != NULL ? parent : "");
    char *save = NULL;
    int r = visit != NULL ? visit(fd, controller) : 0;
    for (char *name = strtok_r(names, "/", &save); name && r == 0;
         name = strtok_r(NULL, "/", &save)) {
        int next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0 && errno == ENOENT)
            break;
        if (next < 0)
            return -errno;
        fd_close(fd);
        fd = next;
        r = visit != NULL ? visit(fd, controller) : 0;
    }
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

/* Makes a group, looks for a file in it (NULL: none) and removes the group. -ENOENT: no file. */
static int try_group(const struct check_context *context, const struct hierarchies *found,
                     const char *mount, const char *file)
{
    AUTO_CLOSE int parent = -1;
    int r = walk_to_parent(parent_of(context, found), mount, NULL, NULL, &parent);
    if (r < 0)
        return r;
    if (mkdirat(parent, context->group, 0755) < 0)
        return -errno;
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", context->group, file != NULL ? file : "cgroup.procs");
    r = faccessat(parent, path, W_OK, 0) < 0 ? -errno : 0;
    if (unlinkat(parent, context->group, AT_REMOVEDIR) < 0 && r == 0)
        r = -errno;
    return r;
}

static void remove_group(const struct check_context *context, const struct hierarchies *found,
                         const char *mount)
{
    AUTO_CLOSE int parent = -1;
    if (mount != NULL && walk_to_parent(parent_of(context, found), mount, NULL, NULL, &parent) == 0)
        (void)unlinkat(parent, context->group, AT_REMOVEDIR);
}

void check_cgroups_clean(const struct check_context *context)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    remove_group(context, &found, found.mounts.v2);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        remove_group(context, &found, found.mounts.v1[i]);
}

static void say_none(const struct hierarchies *found, struct check_result *result,
                     const char *otherwise)
{
    check_say(result, CHECK_NO, "%s", found->none[0] != '\0' ? found->none : otherwise);
    if (found->none[0] != '\0')
        check_advice(result, "%s", GIVE);
}

static void probe_mode(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    bool v1 = any_v1(&found), v2 = found.mounts.v2 != NULL;
    if (!v1 && !v2) {
        say_none(&found, result, "no hierarchy of control groups is mounted");
        return;
    }
    check_say(result, CHECK_YES, "mounted: %s", v1 && v2 ? "v1 and v2 (hybrid)" : v1 ? "v1" : "v2");
    check_effect(result, "sandboxes are limited and counted by cgroup v%d", found.v2 ? 2 : 1);
}

static void probe_groups(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    int r = 0, count = 0;
    const char *where = "";
    for (int i = 0; i < CGROUP_CONTROLLERS && r == 0; i++) {
        const char *mount = mount_of(&found, i);
        if (mount == NULL)
            continue;
        where = mount;
        count++;
        r = try_group(context, &found, mount, NULL);
    }
    if (count == 0) {
        say_none(&found, result, "there is no hierarchy to make them in");
        result->found = CHECK_PARTLY;
        check_effect(result, "sandboxes have no groups");
        return;
    }
    char what[CHECK_TEXT_MAX / 2];
    snprintf(what, sizeof(what), "a group below %s%s%s", where, context->cgroup_parent ? "/" : "",
             context->cgroup_parent ? context->cgroup_parent : "");
    check_say_outcome(context, result, r, what);
}

/* A group other than the root passes a controller on only when no process is in it. */
static int passes_on(int group_fd, const char *controller)
{
    CLEANUP(buf_done) struct buf passed, processes;
    buf_init(&passed, 4096);
    buf_init(&processes, 1u << 20);
    if (file_read_at(group_fd, "cgroup.subtree_control", &passed, NULL) < 0)
        return -EIO;
    bool is_root = faccessat(group_fd, "cgroup.type", F_OK, 0) < 0;
    if (is_root || cgroup_list_has(passed.data, " \n", controller))
        return 0;
    if (file_read_at(group_fd, "cgroup.procs", &processes, NULL) < 0)
        return -EIO;
    return processes.length > 0 ? -EBUSY : 0;
}

static int can_pass_on(const struct check_context *context, const struct hierarchies *found,
                       const char *controller)
{
    AUTO_CLOSE int parent = -1;
    const char *mount = found->mounts.v2;
    AUTO_FREE char *path =
        mem_printf("%s/%s/cgroup.controllers", mount, found->given != NULL ? found->given : "");
    CLEANUP(buf_done) struct buf offered;
    buf_init(&offered, 4096);
    int r = check_read(path, &offered);
    if (r < 0)
        return r;
    if (!cgroup_list_has(offered.data, " \n", controller))
        return -ENOENT;
    if (found->given != NULL)
        return 0; /* the launcher moves out of it */
    return walk_to_parent(context->cgroup_parent, mount, passes_on, controller, &parent);
}

/* `file` is what v1 limits with. On v2 the files are seen only where the controller is turned on.
 */
static void try_controller(const struct check_context *context, struct check_result *result,
                           enum cgroup_controller controller, const char *file)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    const char *mount = mount_of(&found, controller);
    const char *name = cgroup_controller_name(controller, found.v2);
    char what[CHECK_TEXT_MAX / 2];
    if (mount == NULL) {
        snprintf(what, sizeof(what), "no hierarchy with the controller %s is mounted", name);
        say_none(&found, result, what);
        return;
    }
    int r = found.v2 ? can_pass_on(context, &found, name) : try_group(context, &found, mount, file);
    snprintf(what, sizeof(what), "%s at %s", found.v2 ? name : file, mount);
    check_say_outcome(context, result, r, what);
    if (r == -EBUSY)
        check_advice(result, "give --cgroup-parent a group without processes of its own");
    else if (r == -ENOENT)
        check_say(result, CHECK_NO, "%s is not there", what);
}

static void probe_memory(const struct check_context *context, struct check_result *result)
{
    try_controller(context, result, CGROUP_MEMORY, "memory.limit_in_bytes");
}

static void probe_cpu(const struct check_context *context, struct check_result *result)
{
    try_controller(context, result, CGROUP_CPU, "cpu.cfs_quota_us");
}

static void probe_pids(const struct check_context *context, struct check_result *result)
{
    try_controller(context, result, CGROUP_PIDS, "pids.max");
}

/* Limits of I/O are those of a disk. */
static void probe_io_read(const struct check_context *context, struct check_result *result)
{
    struct cgroup_device device;
    cgroup_find_device(context->place, &device);
    if (device.found)
        try_controller(context, result, CGROUP_IO, "blkio.throttle.read_bps_device");
    else
        check_say(result, CHECK_NO, "%s", device.reason);
    if (!device.found)
        check_advice(result, "put the state directory on a disk of this machine");
}

static void probe_io_write(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    if (found.v2 || context->rootless) {
        probe_io_read(context, result);
        return;
    }
    check_say(result, CHECK_NO, "cgroup v1 does not see buffered writes");
    check_advice(result, "use cgroup v2: systemd.unified_cgroup_hierarchy=1 on the kernel's "
                         "command line");
}

/* v2 needs no controller for these: the files are in every group. */
static void try_core(const struct check_context *context, struct check_result *result,
                     enum cgroup_controller controller, const char *v1_file, const char *v2_file)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    const char *mount = mount_of(&found, controller);
    if (mount == NULL) {
        say_none(&found, result, "no hierarchy with it is mounted");
        return;
    }
    const char *file = found.v2 ? v2_file : v1_file;
    int r = try_group(context, &found, mount, file);
    check_say_outcome(context, result, r, file);
    if (r == -ENOENT)
        check_say(result, CHECK_NO, "%s is not there", file);
}

static void probe_freezer(const struct check_context *context, struct check_result *result)
{
    try_core(context, result, CGROUP_FREEZER, "freezer.state", "cgroup.freeze");
}

static void probe_cpuacct(const struct check_context *context, struct check_result *result)
{
    try_core(context, result, CGROUP_CPUACCT, "cpuacct.usage", "cpu.stat");
}

static void probe_kill(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    if (found.v2)
        try_core(context, result, CGROUP_FREEZER, "", "cgroup.kill");
    else
        check_say(result, CHECK_NO, "only cgroup v2 has it");
}

static uint64_t swap_bytes(void)
{
    uint64_t bytes = 0;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 65536);
    if (check_read("/proc/meminfo", &text) == 0)
        (void)check_parse_meminfo(text.data, "SwapTotal", &bytes);
    return bytes;
}

static void probe_swap(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    const char *mount = mount_of(&found, CGROUP_MEMORY);
    const char *file = found.v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes";
    if (swap_bytes() == 0)
        check_say(result, CHECK_YES, "there is no swap");
    else if (mount == NULL)
        check_say(result, CHECK_NO, "no hierarchy with the controller memory is mounted");
    else
        check_say_outcome(context, result, try_group(context, &found, mount, file), file);
    if (found.v2 && result->found == CHECK_NO) /* seen only where memory is turned on already */
        check_say(result, CHECK_UNKNOWN, "%s is seen once the launcher runs", file);
}

/* Only whether the option is known: nothing is mounted. */
static void probe_dynmods(const struct check_context *context, struct check_result *result)
{
    AUTO_CLOSE int fs = fsopen("cgroup2", FSOPEN_CLOEXEC);
    int r = fs < 0 ? -errno : 0;
    if (r == 0 && fsconfig(fs, FSCONFIG_SET_FLAG, "favordynmods", NULL, 0) < 0)
        r = -errno;
    check_say_outcome(context, result, r, "favordynmods");
}

/* With arguments of no length the call only says whether it exists. */
static void probe_clone3(const struct check_context *context, struct check_result *result)
{
    CLEANUP(hierarchies_done) struct hierarchies found;
    find_hierarchies(context, &found);
    long r = syscall(SYS_clone3, NULL, 0);
    bool there = r < 0 && errno != ENOSYS && errno != EPERM;
    if (there)
        check_say(result, CHECK_YES, "clone3: works");
    else if (found.v2)
        check_say(result, CHECK_NO, "clone3: %s", strerror(errno));
    else
        check_say(result, CHECK_PARTLY, "clone3: %s; cgroup v1 does without", strerror(errno));
    (void)context;
}

#define SECTION "control groups"
#define MOUNT   "mount the controller; in a container: share the host's control groups, writable"

const struct check_probe check_cgroup_probes[] = {
    {SECTION, "cgroup-mode", CHECK_FEATURE, probe_mode, "", "no limit can be set",
     "mount control groups: mount -t cgroup2 none /sys/fs/cgroup"},
    {SECTION, "cgroup-groups", CHECK_NEEDED, probe_groups, "each sandbox has groups of its own",
     "the launcher cannot start: it can make no groups",
     "give --cgroup-parent NAME that is delegated to us, or let /sys/fs/cgroup be writable"},
    {SECTION, "clone3", CHECK_NEEDED, probe_clone3, "processes are born in their groups",
     "processes cannot be born in their groups", "let no filter refuse clone3"},
    {SECTION, "memory-limits", CHECK_FEATURE, probe_memory, "memory limits are on",
     "memory limits are refused", MOUNT},
    {SECTION, "swap-limits", CHECK_FEATURE, probe_swap, "memory limits hold with swap, too",
     "a sandbox at its memory limit goes on in swap", "swapaccount=1 on the kernel's command line"},
    {SECTION, "cpu-limits", CHECK_FEATURE, probe_cpu, "cpu limits are on", "cpu limits are refused",
     MOUNT},
    {SECTION, "pids-limits", CHECK_FEATURE, probe_pids, "limits of processes are on",
     "limits of processes are refused, and a fork bomb is not stopped", MOUNT},
    {SECTION, "io-read-limits", CHECK_FEATURE, probe_io_read, "limits of reading are on",
     "limits of reading are refused", MOUNT},
    {SECTION, "io-write-limits", CHECK_FEATURE, probe_io_write, "limits of writing are on",
     "limits of writing are refused", MOUNT},
    {SECTION, "freezing", CHECK_FEATURE, probe_freezer, "sandboxes can be frozen",
     "sandboxes cannot be frozen", MOUNT},
    {SECTION, "cpu-usage", CHECK_FEATURE, probe_cpuacct, "cpu time is counted",
     "cpu time is not counted", MOUNT},
    {SECTION, "cgroup-kill", CHECK_NOTE, probe_kill, "a sandbox is ended at one stroke",
     "processes of a sandbox are ended one by one", NULL},
    {SECTION, "favordynmods", CHECK_NOTE, probe_dynmods, "moves between groups can be made cheap",
     "the first move between groups after a pause takes milliseconds", "a kernel from 6.0 on"},
    {0},
};
