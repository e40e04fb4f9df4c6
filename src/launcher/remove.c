#include "launcher/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "launcher/process.h"

#define BATCH_MS     50 /* removals that come together go together */
#define RETRY_MS     100
#define RETRY_MAX_MS 5000
#define WORKER_NICE  5
#define LOOSE_FD     3 /* in the worker */

struct remove_item {
    struct remove_item *next;
    struct launcher *launcher;
    int pidfd;                    /* while dying */
    struct spare_network network; /* likewise */
    struct loop_source exit_source;
    char *name; /* in loose/, or NULL */
    char cgroup[CGROUP_NAME_MAX];
    unsigned range;
};

static struct remove_item *new_item(struct launcher *launcher, const char *name, const char *cgroup,
                                    unsigned range)
{
    struct remove_item *item = mem_alloc(sizeof(*item));
    item->launcher = launcher;
    item->pidfd = -1;
    item->network.fd = -1;
    item->exit_source.fd = -1;
    item->name = mem_dup(name);
    snprintf(item->cgroup, sizeof(item->cgroup), "%s", cgroup != NULL ? cgroup : "");
    item->range = range;
    return item;
}

static void free_item(struct remove_item *item)
{
    loop_unwatch(&item->launcher->loop, &item->exit_source);
    fd_close(item->pidfd);
    fd_close(item->network.fd);
    free(item->name);
    free(item);
}

int remove_detach(struct launcher *launcher, const char *id, unsigned range, char **ret_name,
                  struct error *err)
{
    AUTO_FREE char *name = mem_printf("%s.%u", id, range);
    if (renameat(launcher->state.sandboxes_fd, id, launcher->state.loose_fd, name) == 0)
        *ret_name = TAKE_PTR(name);
    else if (errno == ENOENT)
        *ret_name = NULL;
    else
        return error_set_errno(err, errno, "cannot move its files away");
    return 0;
}

char *remove_in_place(const char *id)
{
    return mem_printf("../sandboxes/%s", id);
}

static void add_waiting(struct remover *remover, struct remove_item *item)
{
    item->next = remover->waiting;
    remover->waiting = item;
    if (remover->active == NULL && !loop_timer_is_set(&remover->timer))
        loop_timer_set(&remover->timer, BATCH_MS);
}

void remove_later(struct launcher *launcher, const char *name, const char *cgroup, unsigned range)
{
    add_waiting(&launcher->remover, new_item(launcher, name, cgroup, range));
}

static struct spare_network take_network(struct remove_item *item)
{
    struct spare_network network = item->network;
    item->network = (struct spare_network){.fd = -1};
    return network;
}

static void process_ended(struct loop_source *source)
{
    struct remove_item *item = CONTAINER_OF(source, struct remove_item, exit_source);
    struct remover *remover = &item->launcher->remover;
    siginfo_t info;
    waitid(P_PIDFD, (id_t)item->pidfd, &info, WEXITED | WNOHANG);
    loop_unwatch(&item->launcher->loop, &item->exit_source);
    item->pidfd = fd_close(item->pidfd);
    struct remove_item **link = &remover->dying;
    while (*link != item)
        link = &(*link)->next;
    *link = item->next;
    spare_keep_network(item->launcher, take_network(item));
    if (item->cgroup[0] != '\0' && spare_keep_group(item->launcher, item->cgroup))
        item->cgroup[0] = '\0';
    add_waiting(remover, item);
}

void remove_after(struct launcher *launcher, int pidfd, const char *name, const char *cgroup,
                  unsigned range, struct spare_network network)
{
    struct error err = ERROR_INIT;
    struct remove_item *item = new_item(launcher, name, cgroup, range);
    item->pidfd = pidfd;
    item->network = network;
    if (loop_watch(&launcher->loop, &item->exit_source, pidfd, process_ended, &err) < 0) {
        log_warn("cannot wait for a sandbox's end beside other work: %s", err.message);
        process_end(pidfd);
        item->pidfd = fd_close(pidfd);
        spare_keep_network(launcher, take_network(item));
        add_waiting(&launcher->remover, item);
        return;
    }
    item->next = launcher->remover.dying;
    launcher->remover.dying = item;
}

void remove_kill_dying(struct launcher *launcher)
{
    for (struct remove_item *item = launcher->remover.dying; item != NULL; item = item->next)
        process_signal(item->pidfd, SIGKILL);
}

/* In the worker. */
static NORETURN void delete_all(const struct remove_item *items, struct cgroups groups,
                                int loose_fd)
{
    int keep[1 + CGROUP_CONTROLLERS] = {loose_fd};
    for (unsigned i = 0; i < groups.count; i++) {
        keep[1 + i] = groups.items[i].fd;
        groups.items[i].fd = LOOSE_FD + 1 + (int)i;
    }
    if (process_settle(keep, 1 + groups.count) < 0)
        _exit(1);
    if (nice(WORKER_NICE) < 0)
        errno = 0; /* only politeness */
    int failed = 0;
    for (const struct remove_item *item = items; item != NULL; item = item->next) {
        if (item->cgroup[0] != '\0' && cgroup_remove(&groups, item->cgroup) < 0)
            failed = 1;
        if (item->name != NULL && file_remove_tree_at(LOOSE_FD, item->name, NULL) < 0)
            failed = 1;
    }
    _exit(failed);
}

static bool is_gone(struct launcher *launcher, const struct remove_item *item)
{
    if (item->name != NULL &&
        faccessat(launcher->state.loose_fd, item->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    for (unsigned i = 0; item->cgroup[0] != '\0' && i < launcher->cgroups.count; i++) {
        if (faccessat(launcher->cgroups.items[i].fd, item->cgroup, F_OK, 0) == 0)
            return false;
    }
    return true;
}

static void retry_later(struct remover *remover)
{
    uint64_t wait = (uint64_t)RETRY_MS << MIN(remover->failures, 6u);
    loop_timer_set(&remover->timer, MIN(wait, (uint64_t)RETRY_MAX_MS));
    remover->failures++;
}

static void worker_exited(struct loop_source *source)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, remover.worker_source);
    struct remover *remover = &launcher->remover;
    siginfo_t info = {0};
    waitid(P_PIDFD, (id_t)remover->worker_pidfd, &info, WEXITED | WNOHANG);
    bool success = info.si_code == CLD_EXITED && info.si_status == 0;
    loop_unwatch(&launcher->loop, &remover->worker_source);
    remover->worker_pidfd = fd_close(remover->worker_pidfd);

    struct remove_item *item = TAKE_PTR(remover->active);
    unsigned left = 0;
    while (item != NULL) {
        struct remove_item *next = item->next;
        if (success || is_gone(launcher, item)) {
            idrange_release(&launcher->ranges, item->range);
            free_item(item);
        } else {
            item->next = remover->waiting;
            remover->waiting = item;
            left++;
        }
        item = next;
    }
    if (left > 0) {
        if (remover->failures >= 3)
            log_warn("%u removed sandboxes cannot be deleted yet; trying again", left);
        retry_later(remover);
    } else {
        remover->failures = 0;
        if (remover->waiting != NULL)
            loop_timer_set(&remover->timer, BATCH_MS);
    }
    launcher_check_idle(launcher);
}

static void timer_fired(struct loop_timer *timer)
{
    struct launcher *launcher = CONTAINER_OF(timer, struct launcher, remover.timer);
    struct remover *remover = &launcher->remover;
    if (remover->active != NULL || remover->waiting == NULL)
        return;
    int pidfd = -1;
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0)
        delete_all(remover->waiting, launcher->cgroups, launcher->state.loose_fd);
    struct error err = ERROR_INIT;
    if (pid < 0) {
        log_warn("cannot start a process that deletes files: %s", strerror(-pid));
        retry_later(remover);
        return;
    }
    if (loop_watch(&launcher->loop, &remover->worker_source, pidfd, worker_exited, &err) < 0) {
        log_warn("cannot wait for the process that deletes files: %s", err.message);
        process_end(pidfd);
        fd_close(pidfd);
        retry_later(remover);
        return;
    }
    remover->worker_pidfd = pidfd;
    remover->active = TAKE_PTR(remover->waiting);
}

/* <name>.<range>; anything else cannot be ours but must not stay either, so its range is 0. */
static unsigned range_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    uint64_t range = 0;
    if (dot == NULL || str_to_u64(dot + 1, 1, IDRANGE_COUNT - 1, &range) < 0)
        return 0;
    return (unsigned)range;
}

void remove_leftovers(struct launcher *launcher)
{
    int copy = fcntl(launcher->state.loose_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(copy);
        log_warn("cannot read the loose directories: %s", strerror(errno));
        return;
    }
    rewinddir(dir);
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        unsigned range = range_of(entry->d_name);
        if (range != 0 && idrange_reserve(&launcher->ranges, range) < 0)
            range = 0; /* counted already; released by the other */
        remove_later(launcher, entry->d_name, NULL, range);
    }
    closedir(dir);
}

void remove_init(struct launcher *launcher)
{
    launcher->remover = (struct remover){.worker_pidfd = -1, .worker_source.fd = -1};
    loop_timer_add(&launcher->loop, &launcher->remover.timer, timer_fired);
}

static void free_items(struct remove_item *item)
{
    while (item != NULL) {
        struct remove_item *next = item->next;
        free_item(item);
        item = next;
    }
}

void remove_done(struct launcher *launcher)
{
    struct remover *remover = &launcher->remover;
    loop_unwatch(&launcher->loop, &remover->worker_source);
    remover->worker_pidfd = fd_close(remover->worker_pidfd);
    free_items(TAKE_PTR(remover->dying));
    free_items(TAKE_PTR(remover->waiting));
    free_items(TAKE_PTR(remover->active));
}

bool remove_is_idle(const struct launcher *launcher)
{
    const struct remover *remover = &launcher->remover;
    return remover->dying == NULL && remover->waiting == NULL && remover->active == NULL;
}
