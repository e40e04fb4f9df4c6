/* The host's files: by what a launcher forgot to close, by climbing out of a root directory, by
 * links, names and attributes that mean something outside. PATH is the host's, without the slash
 * it begins with. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "escapes.h"

#define FDS_MAX   64
#define CLIMB_MAX 64

/* PATH SECRET: from the directory that was left open. */
static int leaked_fd(char **arguments)
{
    int r = -EBADF;
    for (int dir = 3; dir < FDS_MAX && r != 0; dir++) {
        int fd = openat(dir, arguments[0], O_RDONLY | O_CLOEXEC);
        if (fd >= 0)
            r = escapes_find(fd, arguments[1]);
    }
    return r;
}

/* PATH SECRET */
static int leaked_cwd(char **arguments)
{
    return escapes_find_in(arguments[0], arguments[1]);
}

/* PATH: be told whenever somebody opens that file of the host. */
static int leaked_cwd_watch(char **arguments)
{
    int fd = inotify_init1(IN_CLOEXEC);
    if (fd < 0)
        return -errno;
    return escapes_result(inotify_add_watch(fd, arguments[0], IN_OPEN));
}

/* The classic: a root directory below the working directory bounds it no more. */
static int climb(void)
{
    (void)mkdir("/tmp", 0777);
    (void)mkdir("/tmp/osb-climb", 0777);
    int out = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out < 0 || chroot("/tmp/osb-climb") < 0 || fchdir(out) < 0)
        return -errno;
    for (int i = 0; i < CLIMB_MAX; i++) {
        if (chdir("..") < 0)
            return -errno;
    }
    return 0;
}

/* PATH SECRET */
static int chroot_read(char **arguments)
{
    int r = climb();
    return r < 0 ? r : escapes_find_in(arguments[0], arguments[1]);
}

/* PATH */
static int chroot_write(char **arguments)
{
    int r = climb();
    return r < 0 ? r : escapes_result(open(arguments[0], O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* PATH NEW: give a file of the host another name, of which nobody knows. */
static int chroot_link(char **arguments)
{
    int r = climb();
    return r < 0 ? r : escapes_result(link(arguments[0], arguments[1]));
}

/* PATH: the launcher's own socket, behind which root does what it is told. */
static int chroot_launcher(char **arguments)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int r = climb();
    if (r < 0)
        return r;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", arguments[0]);
    return escapes_result(connect(fd, (const struct sockaddr *)&address, sizeof(address)));
}

/* TEXT: a part of the host's paths. */
static int mountinfo_leak(char **arguments)
{
    return escapes_find_in("/proc/self/mountinfo", arguments[0]);
}

static int cgroup_path_leak(char **arguments)
{
    (void)arguments;
    return escapes_find_in("/proc/self/cgroup", "opensandbox-");
}

static int make_file(const char *path)
{
    (void)mkdir("/tmp", 0777);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? -errno : 0;
}

static int trusted_attribute(char **arguments)
{
    (void)arguments;
    int r = make_file("/tmp/osb-trusted");
    return r < 0 ? r : escapes_result(setxattr("/tmp/osb-trusted", "trusted.osb", "x", 1, 0));
}

/* A file that the host's root cannot delete either; only for an instant. */
static int immutable_file(char **arguments)
{
    (void)arguments;
    int flags = 0, r = make_file("/tmp/osb-immutable");
    int fd = open("/tmp/osb-immutable", O_RDONLY | O_CLOEXEC);
    if (r < 0 || fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
        return r < 0 ? r : -errno;
    int locked = flags | FS_IMMUTABLE_FL;
    if (ioctl(fd, FS_IOC_SETFLAGS, &locked) < 0)
        return -errno;
    return escapes_result(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

/* Which limit of the disk a file counts for. */
static int project_of_file(char **arguments)
{
    struct fsxattr attributes = {0};
    (void)arguments;
    int r = make_file("/tmp/osb-project");
    int fd = open("/tmp/osb-project", O_RDONLY | O_CLOEXEC);
    if (r < 0 || fd < 0 || ioctl(fd, FS_IOC_FSGETXATTR, &attributes) < 0)
        return r < 0 ? r : -errno;
    attributes.fsx_projid += 7;
    return escapes_result(ioctl(fd, FS_IOC_FSSETXATTR, &attributes));
}

/* The test looks at what it is outside: a redirect leads overlayfs to another directory. */
static int overlay_attribute(char **arguments)
{
    (void)arguments;
    (void)mkdir("/osb-redirect", 0755);
    return escapes_result(setxattr("/osb-redirect", "user.overlay.redirect", "/etc", 4, 0));
}

/* What overlayfs takes for "nothing is here". */
static int whiteout(char **arguments)
{
    (void)arguments;
    (void)unlink("/osb-whiteout");
    return escapes_result(mknod("/osb-whiteout", S_IFCHR | 0600, 0));
}

/* The test looks whether the image, which all sandboxes have, says it. */
static int image_write(char **arguments)
{
    (void)arguments;
    int fd = open("/osb-written", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : escapes_result(write(fd, "x", 1));
}

/* The test looks what it is outside: a program that makes whoever finds it there root. */
static int setid_for_host(char **arguments)
{
    (void)arguments;
    int r = make_file("/osb-setid");
    if (r < 0 || chown("/osb-setid", 0, 0) < 0)
        return r < 0 ? r : -errno;
    return escapes_result(chmod("/osb-setid", 04755));
}

const struct escape escapes_of_files[] = {
    {"leaked_fd", 2, leaked_fd},
    {"leaked_cwd", 2, leaked_cwd},
    {"leaked_cwd_watch", 1, leaked_cwd_watch},
    {"chroot_read", 2, chroot_read},
    {"chroot_write", 1, chroot_write},
    {"chroot_link", 2, chroot_link},
    {"chroot_launcher", 1, chroot_launcher},
    {"mountinfo_leak", 1, mountinfo_leak},
    {"cgroup_path_leak", 0, cgroup_path_leak},
    {"trusted_attribute", 0, trusted_attribute},
    {"immutable_file", 0, immutable_file},
    {"project_of_file", 0, project_of_file},
    {"overlay_attribute", 0, overlay_attribute},
    {"whiteout", 0, whiteout},
    {"image_write", 0, image_write},
    {"setid_for_host", 0, setid_for_host},
    {NULL, 0, NULL},
};
