#include "bwrap.h"

#include <err.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compare.h"

static const char *const BWRAP[] = {"bwrap",         "--unshare-all",
                                    "--ro-bind",     "/usr",
                                    "/usr",          "--symlink",
                                    "usr/bin",       "/bin",
                                    "--symlink",     "usr/lib",
                                    "/lib",          "--symlink",
                                    "usr/lib64",     "/lib64",
                                    "--proc",        "/proc",
                                    "--dev",         "/dev",
                                    "--tmpfs",       "/tmp",
                                    "--new-session", "--die-with-parent",
                                    "true",          NULL};

void bwrap_print(void)
{
    for (size_t i = 0; BWRAP[i] != NULL; i++)
        printf(" %s", BWRAP[i]);
    puts("\n");
}

pid_t bwrap_start(void)
{
    pid_t pid;
    int r = posix_spawnp(&pid, BWRAP[0], NULL, NULL, (char *const *)BWRAP, environ);
    if (r != 0)
        errx(1, "cannot start bwrap: %s", strerror(r));
    return pid;
}

void bwrap_wait(pid_t pid)
{
    int status;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        errx(1, "bwrap failed");
}

uint64_t bwrap_sample(void)
{
    uint64_t started = compare_now_ns();
    bwrap_wait(bwrap_start());
    return compare_now_ns() - started;
}
