/* Mounts and namespaces: undoing what the sandbox is made of. Where they work it is in a mount
 * namespace of their own, if that can be had, so that one does not disturb the next. */
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "escapes.h"

#define PLACE "/tmp/osb-mount"

static const char *place(void)
{
    (void)mkdir("/tmp", 0777);
    (void)mkdir(PLACE, 0777);
    (void)unshare(CLONE_NEWNS);
    return PLACE;
}

static int mount_memory(char **arguments)
{
    (void)arguments;
    return escapes_result(mount("none", place(), "tmpfs", 0, NULL));
}

/* Another /proc has no masks. */
static int mount_proc(char **arguments)
{
    (void)arguments;
    if (mount("none", place(), "proc", 0, NULL) < 0)
        return -errno;
    return escapes_find_in(PLACE "/interrupts", "CPU");
}

static int mount_sysfs(char **arguments)
{
    (void)arguments;
    return escapes_result(mount("none", place(), "sysfs", 0, NULL));
}

static int mount_bind(char **arguments)
{
    (void)arguments;
    return escapes_result(mount("/", place(), NULL, MS_BIND, NULL));
}

static int remount(char **arguments)
{
    (void)arguments;
    place();
    if (mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL) < 0)
        return -errno;
    return escapes_write_back("/proc/sys/kernel/panic");
}

static int unmask(char **arguments)
{
    (void)arguments;
    place();
    if (umount2("/proc/interrupts", MNT_DETACH) < 0)
        return -errno;
    return escapes_find_in("/proc/interrupts", "CPU");
}

static int mount_attributes(char **arguments)
{
    (void)arguments;
    struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
    place();
    if (mount_setattr(AT_FDCWD, "/proc/sys", 0, &writable, sizeof(writable)) < 0)
        return -errno;
    return escapes_write_back("/proc/sys/kernel/panic");
}

static int tree_clone(char **arguments)
{
    (void)arguments;
    return escapes_result(open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
}

/* The cover, to elsewhere. */
static int tree_move(char **arguments)
{
    (void)arguments;
    int fd = open("/tmp/osb-cover", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    place();
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        move_mount(AT_FDCWD, "/proc/keys", AT_FDCWD, "/tmp/osb-cover", 0) < 0)
        return -errno;
    return escapes_find_in("/proc/keys", "keyring");
}

static int new_file_system(char **arguments)
{
    (void)arguments;
    int fd = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (fd < 0 || fsconfig(fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    return escapes_result(fsmount(fd, FSMOUNT_CLOEXEC, 0));
}

static int pivot(char **arguments)
{
    (void)arguments;
    if (mount("none", place(), "tmpfs", 0, NULL) < 0 || chdir(PLACE) < 0)
        return syscall(SYS_pivot_root, ".", ".") == 0 ? 0 : -errno;
    return escapes_result(syscall(SYS_pivot_root, ".", "."));
}

static int enter_namespace(char **arguments)
{
    (void)arguments;
    int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : escapes_result(setns(fd, 0));
}

/* Whose our network is: the host's user namespace, to be entered. */
static int namespace_owner(char **arguments)
{
    (void)arguments;
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : escapes_result(ioctl(fd, NS_GET_USERNS));
}

static int unshare_mounts(char **arguments)
{
    (void)arguments;
    return escapes_result(unshare(CLONE_NEWNS));
}

static int unshare_network(char **arguments)
{
    (void)arguments;
    return escapes_result(unshare(CLONE_NEWNET));
}

static int unshare_time(char **arguments)
{
    (void)arguments;
    return escapes_result(unshare(CLONE_NEWTIME));
}

/* By a handle of a file that one has; a handle can as well be guessed, for a file one has not. */
static int open_by_handle(char **arguments)
{
    union {
        struct file_handle handle;
        char bytes[sizeof(struct file_handle) + MAX_HANDLE_SZ];
    } file = {.handle = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount_id;
    (void)arguments;
    int dir = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = openat(dir, "osb-handle", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || name_to_handle_at(dir, "osb-handle", &file.handle, &mount_id, 0) < 0)
        return -errno;
    return escapes_result(open_by_handle_at(dir, &file.handle, O_RDWR | O_CLOEXEC));
}

/* In a hierarchy without controllers that lives as long as this mount: the kernel would run the
 * program, as the host's root, when a group of it is empty. */
static int release_agent(char **arguments)
{
    char name[64], said[64] = "";
    (void)arguments;
    (void)snprintf(name, sizeof(name), "none,name=osb-escape-%d", (int)getpid());
    if (mount("none", place(), "cgroup", 0, name) < 0)
        return -errno;
    int fd = open(PLACE "/release_agent", O_RDWR | O_CLOEXEC);
    int r = fd < 0 ? -errno : escapes_result(write(fd, "/bin/true", 9));
    if (r == 0 && pread(fd, said, sizeof(said) - 1, 0) < 0)
        r = -errno;
    if (fd >= 0)
        close(fd);
    (void)umount2(PLACE, 0);
    return r < 0 || strstr(said, "/bin/true") != NULL ? r : TO_NO_AVAIL;
}

const struct escape escapes_of_mounts[] = {
    {"mount_memory", 0, mount_memory},
    {"mount_proc", 0, mount_proc},
    {"mount_sysfs", 0, mount_sysfs},
    {"mount_bind", 0, mount_bind},
    {"remount", 0, remount},
    {"unmask", 0, unmask},
    {"mount_attributes", 0, mount_attributes},
    {"tree_clone", 0, tree_clone},
    {"tree_move", 0, tree_move},
    {"new_file_system", 0, new_file_system},
    {"pivot", 0, pivot},
    {"enter_namespace", 0, enter_namespace},
    {"namespace_owner", 0, namespace_owner},
    {"unshare_mounts", 0, unshare_mounts},
    {"unshare_network", 0, unshare_network},
    {"unshare_time", 0, unshare_time},
    {"open_by_handle", 0, open_by_handle},
    {"release_agent", 0, release_agent},
    {NULL, 0, NULL},
};
