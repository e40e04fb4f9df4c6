/* Probes: what disk limits are made of. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "launcher/check_probe.h"
#include "launcher/disk_quota.h"
#include "launcher/disk_template.h"

#define IMAGE_BYTES  (1 << 20)
#define LOOP_RETRIES 5

static void probe_quota(const struct check_context *context, struct check_result *result)
{
    char reason[DISK_REASON_MAX] = "";
    AUTO_CLOSE int fd = open(context->place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        check_say(result, CHECK_UNKNOWN, "there is no state directory");
        return;
    }
    if (disk_quota_probe(fd, reason, sizeof(reason)) == 0)
        check_say(result, CHECK_YES, "limits of projects are enforced");
    else
        check_say(result, CHECK_NO, "%s", reason);
}

static bool loop_exists(int number)
{
    char path[64];
    snprintf(path, sizeof(path), "/sys/block/loop%d", number);
    return access(path, F_OK) == 0;
}

/* Gone with the last descriptor of the device: AUTOCLEAR. */
static int attach(int device, int file)
{
    struct loop_config config = {
        .fd = (uint32_t)file,
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_READ_ONLY},
    };
    return ioctl(device, LOOP_CONFIGURE, &config) < 0 ? -errno : 0;
}

static int first_absent_loop(void)
{
    int number = 0;
    while (loop_exists(number))
        number++;
    return number;
}

/* Asking for a free device makes one when all are taken; that one is taken away again. */
static int try_loop(int control, int file)
{
    int r = -EBUSY;
    for (int i = 0; i < LOOP_RETRIES && r == -EBUSY; i++) { /* somebody else may be quicker */
        char path[32];
        int absent = first_absent_loop();
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return -errno;
        snprintf(path, sizeof(path), "/dev/loop%d", number);
        int device = open(path, O_RDONLY | O_CLOEXEC);
        r = device < 0 ? -errno : attach(device, file);
        fd_close(device);
        if (number == absent)
            (void)ioctl(control, LOOP_CTL_REMOVE, number);
    }
    return r;
}

static void probe_loop(const struct check_context *context, struct check_result *result)
{
    char path[PATH_MAX + 16];
    AUTO_CLOSE int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0) {
        check_say_outcome(context, result, -errno, "opening /dev/loop-control");
        if (context->rootless)
            check_advice(result, "start the server as root");
        return;
    }
    snprintf(path, sizeof(path), "%s/loop", context->scratch);
    AUTO_CLOSE int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = file < 0 || ftruncate(file, IMAGE_BYTES) < 0 ? -errno : try_loop(control, file);
    (void)unlink(path);
    AUTO_CLOSE int fs = fsopen("ext4", FSOPEN_CLOEXEC);
    if (r == 0 && fs < 0)
        r = -errno;
    check_say_outcome(context, result, r, "ext4 in a file on a loop device");
}

static void probe_mke2fs(const struct check_context *context, struct check_result *result)
{
    (void)context;
    const char *program = disk_template_program();
    check_say(result, program != NULL ? CHECK_YES : CHECK_NO, "%s",
              program != NULL ? program : "mke2fs is not installed");
}

static void probe_limits(const struct check_context *context, struct check_result *result)
{
    enum check_found loop = check_found_of(context, "loop-devices");
    enum check_found mke2fs = check_found_of(context, "mke2fs");
    if (check_found_of(context, "project-quota") == CHECK_YES)
        check_say(result, CHECK_YES, "by project quota");
    else if (loop == CHECK_YES && mke2fs == CHECK_YES)
        check_say(result, CHECK_YES, "by a file system in a file for each sandbox that has one");
    else
        check_say(result, loop == CHECK_UNKNOWN && mke2fs == CHECK_YES ? CHECK_UNKNOWN : CHECK_NO,
                  "neither project quota nor loop devices with mke2fs");
    if (context->rootless)
        check_advice(result, "start the server as root");
}

#define SECTION "disk limits"

const struct check_probe check_disk_probes[] = {
    {SECTION, "project-quota", CHECK_NOTE, probe_quota, "disk limits cost nothing",
     "disk limits need loop devices",
     "ext4: tune2fs -O project -Q prjquota and mount with prjquota; xfs: mount with prjquota"},
    {SECTION, "loop-devices", CHECK_NOTE, probe_loop, "a sandbox can have a file system in a file",
     "a sandbox cannot have a file system in a file",
     "modprobe loop; in a container: give it /dev/loop-control and the loop devices"},
    {SECTION, "mke2fs", CHECK_NOTE, probe_mke2fs, "file systems in files can be made",
     "file systems in files cannot be made", "install the package " DISK_MKE2FS_PACKAGE},
    {SECTION, "disk-limits", CHECK_FEATURE, probe_limits, "disk limits are on",
     "disk limits are refused", "turn project quota on, or see loop-devices and mke2fs"},
    {0},
};
