/* opensandbox-launcher: the only privileged program. See launcher.h. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "launcher/check.h"
#include "launcher/launcher.h"
#include "launcher/privileges.h"
#include "launcher/process.h"

#define VERSION "0.1.0"

int main(int argc, char **argv)
{
    if (argc > 1 && str_equal(argv[1], "check"))
        return check_main(argc - 1, argv + 1);
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
    if (geteuid() != 0) {
        log_error("must be started as root");
        return 1;
    }
    signal(SIGPIPE, SIG_IGN);
    process_note_signals();
    if (privileges_drop(&err) < 0 || launcher_run(&options, &err) < 0) {
        log_error("%s", err.message);
        return 1;
    }
    return 0;
}
