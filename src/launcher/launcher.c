#include "launcher/launcher.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launcher/adopt.h"
#include "launcher/image_host.h"
#include "launcher/nofile.h"
#include "launcher/private_root.h"
#include "launcher/seccomp_table.h"
#include "launcher/volume.h"

#define FIRST_PEER_MS 10000

void launcher_check_idle(struct launcher *launcher)
{
    if (launcher->loop.stop || launcher->peers.count > 0 ||
        loop_timer_is_set(&launcher->idle_timer) || launcher->sandboxes.running > 0 ||
        launcher->sandboxes.queued > 0 || !remove_is_idle(launcher))
        return;
    log_info("no server and no sandbox: ending");
    launcher->loop.stop = true;
}

static void first_peer_missing(struct loop_timer *timer)
{
    launcher_check_idle(CONTAINER_OF(timer, struct launcher, idle_timer));
}

static void signal_ready(struct loop_source *source)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, signal_source);
    struct signalfd_siginfo info;
    if (read(source->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return;
    log_info("%s: ending; %zu sandboxes go on", strsignal((int)info.ssi_signo),
             launcher->sandboxes.running);
    launcher->loop.stop = true;
}

static int watch_signals(struct launcher *launcher, struct error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    launcher->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (launcher->signal_fd < 0)
        return error_set_errno(err, errno, "cannot receive signals");
    return loop_watch(&launcher->loop, &launcher->signal_source, launcher->signal_fd, signal_ready,
                      err);
}

/* Where its ids cannot be mapped for each sandbox it belongs to the ids they have: all of them, or
 * those of range 0. */
static int build_image(struct launcher *launcher, struct error *err)
{
    const struct powers *powers = &launcher->powers;
    const char *resolv = launcher->nat.on ? launcher->nat.resolv : IMAGE_HOST_RESOLV;
    uint32_t owner = powers_first_id(powers, 0);
    int before;
    if (powers->map_mounts)
        return image_host_build(launcher->state.launcher_fd, "/", resolv, err);
    int r = process_act_as(owner, owner, &before);
    if (r < 0)
        return error_set_errno(err, -r, "cannot act as the image's owner");
    r = image_host_build(launcher->state.launcher_fd, "/", resolv, err);
    process_act_as_self(before);
    return r;
}

/* Living sandboxes have the image that is there as their lower directory: it stays until they are
 * gone. An image that cannot be built is no reason not to serve those. */
static void prepare_image(struct launcher *launcher)
{
    int dir_fd = launcher->state.launcher_fd;
    if ((launcher->sandboxes.running == 0 || !image_host_exists(dir_fd)) &&
        build_image(launcher, &launcher->image_error) < 0)
        log_error("%s", launcher->image_error.message);
    image_host_resolv(dir_fd, launcher->image_resolv, sizeof(launcher->image_resolv));
}

static void log_start(const struct launcher *launcher)
{
    const struct cgroups *groups = &launcher->cgroups;
    log_info("serving %s, instance %s, cgroup v%d (memory %s, cpu %s, pids %s, io %s), network %s, "
             "%u slots",
             launcher->state.path, launcher->state.instance, groups->v2 ? 2 : 1,
             groups->of[CGROUP_MEMORY] >= 0 ? "yes" : "no",
             groups->of[CGROUP_CPU] >= 0 ? "yes" : "no",
             groups->of[CGROUP_PIDS] >= 0 ? "yes" : "no", groups->of[CGROUP_IO] >= 0 ? "yes" : "no",
             launcher->nat.on ? "nat" : "none", launcher->options.slots);
}

/* Without it everything works, only slower. */
static void quicken_moves(struct launcher *launcher)
{
    int fd = launcher->options.quick_moves ? cgroup_quick_open() : -1;
    if (fd >= 0)
        launcher->quick_fd = fd;
    else if (launcher->options.quick_moves)
        log_debug("processes move between control groups slowly: no favordynmods: %s",
                  strerror(-fd));
}

/* Each part of a start undoes itself on failure; what was started before it is undone by stop(). */
static int start(struct launcher *launcher, struct error *err)
{
    const struct options *options = &launcher->options;
    int r = private_root_enter(err);
    if (r == 0)
        r = watch_signals(launcher, err);
    if (r == 0)
        r = state_open(&launcher->state, options->state_dir, options->execd, options->server_uid,
                       err);
    if (r == 0)
        r = cgroup_open(&launcher->cgroups, options->cgroup_parent, launcher->state.instance,
                        launcher->state.path, launcher->powers.all_groups, err);
    if (r == 0)
        r = seccomp_table_build(&launcher->filter, err);
    if (r == 0)
        disk_open(&launcher->disks, &launcher->state);
    if (r == 0) /* before anything that could have an interface */
        r = nat_open(&launcher->nat, options, &launcher->state, &launcher->powers, err);
    if (r == 0)
        r = adopt_all(launcher, err);
    if (r < 0)
        return r;
    volume_sweep(launcher);
    quicken_moves(launcher);
    launcher->open_files = nofile_effective(0);
    prepare_image(launcher);
    images_open(&launcher->images);
    loop_timer_set(&launcher->idle_timer, FIRST_PEER_MS);
    r = peer_open_all(launcher, err);
    if (r < 0)
        return r;
    log_start(launcher);
    slot_pump(launcher);
    launcher->served = true;
    return 0;
}

/* Living sandboxes need the rules, also those that a start which failed has not come to know. */
static bool is_last(const struct launcher *launcher)
{
    return launcher->served && launcher->sandboxes.running == 0 &&
           launcher->sandboxes.queued == 0 && remove_is_idle(launcher);
}

static void stop(struct launcher *launcher)
{
    bool last = is_last(launcher);
    launcher->loop.stop = true;
    peer_close_all(launcher);
    disk_change_forget_all(launcher);
    slot_free_all(launcher);
    spare_done(launcher);
    remove_done(launcher);
    meter_save_all(launcher);
    sandbox_free_all(launcher);
    nat_close(&launcher->nat, last);
    seccomp_filter_done(&launcher->filter);
    cgroup_close(&launcher->cgroups);
    launcher->quick_fd = fd_close(launcher->quick_fd);
    images_close(&launcher->images);
    state_close(&launcher->state);
    loop_unwatch(&launcher->loop, &launcher->signal_source);
    fd_close(launcher->signal_fd);
    loop_done(&launcher->loop);
}

int launcher_run(const struct options *options, const struct powers *powers, struct error *err)
{
    struct launcher launcher = {
        .options = *options,
        .powers = *powers,
        .images = options->images,
        .signal_fd = -1,
        .quick_fd = -1,
        .signal_source.fd = -1,
        .state = {.launcher_fd = -1,
                  .sandboxes_fd = -1,
                  .loose_fd = -1,
                  .volumes_fd = -1,
                  .mount_fd = -1,
                  .run_fd = -1,
                  .execd_fd = -1,
                  .idle_fd = -1},
        .peers = {.listen_fd = -1, .listener.fd = -1},
    };
    launcher.images.owners_hidden = !powers->machine;
    int r = loop_init(&launcher.loop, err);
    if (r < 0)
        return r;
    r = slot_init_all(&launcher, err);
    if (r < 0) {
        loop_done(&launcher.loop);
        return r;
    }
    idrange_init(&launcher.ranges, powers->id_ranges > 1 ? powers->id_ranges : IDRANGE_COUNT);
    sandbox_init_all(&launcher);
    meter_init_all(&launcher);
    spare_init(&launcher);
    remove_init(&launcher);
    loop_timer_add(&launcher.loop, &launcher.idle_timer, first_peer_missing);

    r = start(&launcher, err);
    if (r == 0)
        r = loop_run(&launcher.loop, err);
    stop(&launcher);
    return r;
}
