#include "launcher/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/log.h"
#include "base/mem.h"
#include "launcher/idle.h"
#include "launcher/weaken.h"

#define EXECD_MAX       (256ll << 20)
#define LOCK_WAIT_S     1
#define SLOTS_WAIT_S    5
#define SOCKET_PATH_MAX 107 /* of a unix socket, without NUL */

/* FNV-1a: short, stable, and nobody's secret depends on it. */
static uint32_t hash(const char *text)
{
    uint32_t value = 2166136261u;
    for (; *text != '\0'; text++)
        value = (value ^ (unsigned char)*text) * 16777619u;
    return value;
}

void state_instance(const char *path, char ret[STATE_INSTANCE_MAX])
{
    snprintf(ret, STATE_INSTANCE_MAX, "%08" PRIx32, hash(path));
}

/* Existing ones get the mode too: a directory somebody opened up must not stay so. */
static int make_dir(int parent_fd, const char *name, mode_t mode, int *ret_fd, struct error *err)
{
    if (mkdirat(parent_fd, name, mode) < 0 && errno != EEXIST)
        return error_set_errno(err, errno, "cannot make directory '%s'", name);
    AUTO_CLOSE int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open directory '%s'", name);
    if (fchown(fd, geteuid(), getegid()) < 0 || fchmod(fd, mode) < 0)
        return error_set_errno(err, errno, "cannot own directory '%s'", name);
    if (ret_fd != NULL)
        *ret_fd = TAKE_FD(fd);
    return 0;
}

/* Ask ext4 to spread what is made in here over the disk. Sandboxes come and go by the thousand and
 * have nothing to do with each other; packed together, each one's inodes are searched for among
 * those the last ones have just given back, which without a journal takes milliseconds. Other file
 * systems refuse, and need not be asked. */
static void spread_apart(int dir_fd)
{
    int flags;
    if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_TOPDIR_FL;
        (void)ioctl(dir_fd, FS_IOC_SETFLAGS, &flags);
    }
}

static void lock_is_late(int signal_number)
{
    (void)signal_number; /* that it came interrupts the wait */
}

/* -EWOULDBLOCK: somebody else had it all the time. */
static int take_lock(int fd, int wait_s)
{
    const struct sigaction late = {.sa_handler = lock_is_late}; /* without SA_RESTART */
    const struct itimerval wait = {.it_value.tv_sec = wait_s, .it_interval.tv_usec = 100000};
    const struct itimerval none = {0};
    struct sigaction before;
    if (sigaction(SIGALRM, &late, &before) < 0 || setitimer(ITIMER_REAL, &wait, NULL) < 0)
        return -errno;
    int r = flock(fd, LOCK_EX) < 0 ? -errno : 0;
    setitimer(ITIMER_REAL, &none, NULL);
    sigaction(SIGALRM, &before, NULL);
    return r == -EINTR ? -EWOULDBLOCK : r;
}

/* Slots of a launcher that was killed may take a moment to end, and until then make groups and
 * files, which must not happen once we have looked what there is. Each of them shares the
 * description that is locked here, so the lock is free when the last one is gone. One that hangs
 * in a system call which no signal ends is not waited for: it makes nothing any more. */
static int wait_for_slots(const struct state *state, struct error *err)
{
    int r = take_lock(state->mount_fd, SLOTS_WAIT_S);
    if (r == -EWOULDBLOCK) {
        log_warn("a process of a former launcher that was to become a sandbox does not end");
        return 0;
    }
    return r < 0 ? error_set_errno(err, -r, "cannot lock '%s/mount'", state->launcher_path) : 0;
}

static int make_mount_points(struct state *state, struct error *err)
{
    static const char *const names[] = {STATE_MOUNT_LOWER, STATE_MOUNT_USR,  STATE_MOUNT_OVERLAY,
                                        STATE_MOUNT_ROOT,  STATE_MOUNT_DISK, STATE_MOUNT_VOLUME};
    int r = make_dir(state->launcher_fd, "mount", 0700, &state->mount_fd, err);
    for (size_t i = 0; i < ARRAY_LEN(names) && r == 0; i++)
        r = make_dir(state->mount_fd, names[i], 0700, NULL, err);
    return r;
}

static int make_dirs(struct state *state, struct error *err)
{
    AUTO_CLOSE int top = open(state->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return error_set_errno(err, errno, "cannot open '%s'", state->path);
    int r = make_dir(top, "launcher", 0700, &state->launcher_fd, err);
    if (r < 0)
        return r;
    /* A child of a launcher that was killed just after it made that child has this lock, too, until
     * it has closed what it does not need: a moment, which is worth waiting for. */
    r = take_lock(state->launcher_fd, LOCK_WAIT_S);
    if (r == -EWOULDBLOCK)
        return error_set(err, ERR_CONFLICT, "another launcher serves '%s'", state->path);
    if (r < 0)
        return error_set_errno(err, -r, "cannot lock '%s'", state->launcher_path);
    r = make_dir(state->launcher_fd, "sandboxes", 0700, &state->sandboxes_fd, err);
    if (r == 0)
        r = make_dir(state->launcher_fd, "loose", 0700, &state->loose_fd, err);
    if (r == 0)
        r = make_dir(state->launcher_fd, "volumes", 0700, &state->volumes_fd, err);
    if (r == 0) {
        spread_apart(state->launcher_fd); /* the host image has a thousand files */
        spread_apart(state->loose_fd);
        r = make_mount_points(state, err);
    }
    if (r == 0)
        r = wait_for_slots(state, err);
    if (r == 0) /* searchable: each socket in it has an owner and a mode of its own */
        r = make_dir(top, "run", 0711, &state->run_fd, err);
    return r;
}

/* A copy, so that the file is ours in mode and owner and an upgrade cannot change it under us. */
static int copy_execd(struct state *state, const char *source_path, struct error *err)
{
    AUTO_CLOSE int source = open(source_path, O_RDONLY | O_CLOEXEC);
    if (source < 0)
        return error_set_errno(err, errno, "cannot open --execd '%s'", source_path);
    struct stat st;
    if (fstat(source, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0 || st.st_size > EXECD_MAX)
        return error_set(err, ERR_INVALID, "--execd '%s' is not a program file", source_path);
    AUTO_CLOSE int copy = openat(state->launcher_fd, "execd.new",
                                 O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0700);
    if (copy < 0)
        return error_set_errno(err, errno, "cannot make a copy of execd");
    for (off_t offset = 0; offset < st.st_size;) {
        ssize_t n = sendfile(copy, source, &offset, (size_t)(st.st_size - offset));
        if (n <= 0)
            return error_set_errno(err, n < 0 ? errno : EIO, "cannot copy execd");
    }
    if (fchown(copy, 0, 0) < 0 || fchmod(copy, weaken_is_off(WEAKEN_EXECD_MODE) ? 0755 : 0711) < 0)
        return error_set_errno(err, errno, "cannot own the copy of execd");
    if (renameat(state->launcher_fd, "execd.new", state->launcher_fd, "execd") < 0)
        return error_set_errno(err, errno, "cannot replace execd");
    state->execd_fd = openat(state->launcher_fd, "execd", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (state->execd_fd < 0)
        return error_set_errno(err, errno, "cannot open the copy of execd");
    return 0;
}

/* Its name is what `ps` shows. It cannot be read inside, as execd's cannot: its path is the host's,
 * and a lock on it would be seen by all sandboxes. */
static int write_idle(struct state *state, struct error *err)
{
    size_t length;
    const void *program = idle_program(&length);
    if (unlinkat(state->launcher_fd, "tail", 0) < 0 && errno != ENOENT)
        return error_set_errno(err, errno, "cannot replace the idle program");
    AUTO_CLOSE int fd =
        openat(state->launcher_fd, "tail", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
    int r = fd < 0 ? -errno : file_write_all(fd, program, length);
    if (r == 0 && fchmod(fd, weaken_is_off(WEAKEN_EXECD_MODE) ? 0755 : 0111) < 0)
        r = -errno;
    if (r == 0)
        state->idle_fd = openat(state->launcher_fd, "tail", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (r < 0 || state->idle_fd < 0)
        return error_set_errno(err, r < 0 ? -r : errno, "cannot write the idle program");
    return 0;
}

int state_open(struct state *state, const char *path, const char *execd, uid_t server_uid,
               struct error *err)
{
    *state = (struct state){
        .launcher_fd = -1,
        .sandboxes_fd = -1,
        .loose_fd = -1,
        .volumes_fd = -1,
        .mount_fd = -1,
        .run_fd = -1,
        .execd_fd = -1,
        .idle_fd = -1,
        .server_uid = server_uid,
    };
    int r = file_make_dirs(path, 0755, err);
    if (r < 0)
        return r;
    state->path = realpath(path, NULL);
    if (state->path == NULL)
        return error_set_errno(err, errno, "cannot resolve '%s'", path);
    state->launcher_path = mem_printf("%s/launcher", state->path);
    state->run_path = mem_printf("%s/run", state->path);
    if (strlen(state->run_path) + sizeof("/.sock") - 1 + ID_UUID_LEN > SOCKET_PATH_MAX) {
        r = error_set(err, ERR_INVALID, "'%s' is too long for a path of sockets", state->run_path);
        state_close(state);
        return r;
    }
    state_instance(state->path, state->instance);

    r = make_dirs(state, err);
    if (r == 0)
        r = copy_execd(state, execd, err);
    if (r == 0)
        r = write_idle(state, err);
    if (r < 0) {
        state_close(state);
        return r;
    }
    r = process_boot_id(state->boot_id);
    if (r < 0) {
        state_close(state);
        return error_set_errno(err, -r, "cannot read the boot id; is /proc mounted?");
    }
    return 0;
}

void state_close(struct state *state)
{
    state->execd_fd = fd_close(state->execd_fd);
    state->idle_fd = fd_close(state->idle_fd);
    state->run_fd = fd_close(state->run_fd);
    state->mount_fd = fd_close(state->mount_fd);
    state->volumes_fd = fd_close(state->volumes_fd);
    state->loose_fd = fd_close(state->loose_fd);
    state->sandboxes_fd = fd_close(state->sandboxes_fd);
    state->launcher_fd = fd_close(state->launcher_fd);
    free(TAKE_PTR(state->run_path));
    free(TAKE_PTR(state->launcher_path));
    free(TAKE_PTR(state->path));
}
