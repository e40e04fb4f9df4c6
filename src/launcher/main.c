/* opensandbox-launcher: the only privileged program. See launcher.h. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "launcher/check.h"
#include "launcher/launcher.h"
#include "launcher/privileges.h"
#include "launcher/process.h"
#include "launcher/userns.h"

#define VERSION "0.1.0"

/* Whoever is not root of the machine cannot serve another user than himself, who is 0 here; and
 * could not return to the machine's network from that of a sandbox, so he leaves it at once: we
 * speak over sockets that have a path, which belong to no network. */
static int adapt(struct options *options, const struct powers *powers, struct error *err)
{
    if (powers->machine)
        return 0;
    if (unshare(CLONE_NEWNET) < 0)
        return error_set_errno(err, errno, "cannot make a network namespace");
    if (options->server_uid != 0 && options->server_uid != powers->user)
        return error_set(err, ERR_INVALID,
                         "--server-uid %u: a launcher of user %u can only serve that user",
                         options->server_uid, powers->user);
    options->server_uid = 0;
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && str_equal(argv[1], "check"))
        return check_main(argc, argv);
    struct options options;
    struct error err = ERROR_INIT;
    if (options_parse(argc, argv, &options, &err) < 0) {
        fprintf(stderr, "opensandbox-launcher: %s\n", err.message);
        return 2;
    }
    if (options.help) {
        fputs(options_usage, stdout);
        return 0;
    }
    if (options.version) {
        puts("opensandbox-launcher " VERSION);
        return 0;
    }
    log_init("launcher", options.log_level, options.log_format);
    prctl(PR_SET_NAME, "opensandbox-launcher"); /* cut by the kernel; executed again it is "exe" */
    struct powers powers;
    if (geteuid() != 0)
        (void)userns_enter(options.state_dir, argv, &err); /* returns when it cannot */
    if (err.code != ERR_OK || powers_find(&powers, &err) < 0) {
        log_error("%s", err.message);
        return 1;
    }
    if (adapt(&options, &powers, &err) < 0) {
        log_error("%s", err.message);
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    process_note_signals();
    if (privileges_drop(&err) < 0 || launcher_run(&options, &powers, &err) < 0) {
        log_error("%s", err.message);
        return 1;
    }
    return 0;
}
