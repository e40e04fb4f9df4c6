/* Devices of the machine, by nodes made for them. None is written to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "escapes.h"

/* A node in this directory, open, or -errno. */
static int open_device(const char *directory, mode_t kind, unsigned major, unsigned minor)
{
    char path[128];
    (void)mkdir(directory, 0777);
    (void)snprintf(path, sizeof(path), "%s/osb-%u-%u", directory, major, minor);
    if (mknod(path, kind | 0600, makedev(major, minor)) < 0)
        return -errno;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int code = errno;
    unlink(path);
    return fd < 0 ? -code : fd;
}

static int open_character(const char *directory, unsigned major, unsigned minor)
{
    int fd = open_device(directory, S_IFCHR, major, minor);
    return fd < 0 ? fd : 0;
}

/* DIRECTORY MINOR SECRET: a disk of the test's, by the major number of loop devices. */
static int disk(char **arguments)
{
    int fd = open_device(arguments[0], S_IFBLK, 7, (unsigned)strtoul(arguments[1], NULL, 10));
    return fd < 0 ? fd : escapes_find(fd, arguments[2]);
}

static int device_mem(char **arguments)
{
    (void)arguments;
    return open_character("/dev", 1, 1);
}

static int device_kmsg(char **arguments)
{
    (void)arguments;
    return open_character("/dev", 1, 11);
}

static int device_fuse(char **arguments)
{
    (void)arguments;
    return open_character("/dev", 10, 229);
}

static int device_kvm(char **arguments)
{
    (void)arguments;
    return open_character("/dev", 10, 232);
}

static int device_tun(char **arguments)
{
    (void)arguments;
    return open_character("/dev", 10, 200);
}

static int device_loop_control(char **arguments)
{
    (void)arguments;
    return open_character("/tmp", 10, 237);
}

const struct escape escapes_of_devices[] = {
    {"disk", 3, disk},
    {"device_mem", 0, device_mem},
    {"device_kmsg", 0, device_kmsg},
    {"device_fuse", 0, device_fuse},
    {"device_kvm", 0, device_kvm},
    {"device_tun", 0, device_tun},
    {"device_loop_control", 0, device_loop_control},
    {NULL, 0, NULL},
};
