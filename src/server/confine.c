#include "server/confine.h"

#include <stdbool.h>
#include <time.h>

#include "base/log.h"
#include "server/landlock.h"
#include "server/syscalls.h"

int server_confine(const struct server_config *config, struct error *err)
{
    const struct server_landlock_options options = {
        .state_dir = config->state_dir,
        .port = config->port,
    };
    int abi = 0;
    bool filtered = false;
    tzset(); /* reads files of the system */
    int r = server_landlock_restrict(&options, &abi, err);
    if (r == 0)
        r = server_syscalls_restrict(&filtered, err);
    if (r < 0)
        return error_wrap(err, "cannot confine the server");
    if (abi == 0 || !filtered)
        log_warn("this kernel has no %s: the server is less confined than it could be",
                 abi > 0    ? "seccomp"
                 : filtered ? "Landlock"
                            : "Landlock and no seccomp");
    log_info("confined: %s by Landlock (ABI %d), system calls %s", server_landlock_describe(abi),
             abi, filtered ? "by seccomp" : "not");
    return 0;
}
