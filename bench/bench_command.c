/* Run `true` through execd over one keep-alive connection, beside fork and exec of the same shell.
 *
 * Usage: bench-command IP PORT COUNT IDLE_COUNT IDLE_MS
 *
 * One sample is the time from sending the request to having read the last byte of the event stream.
 * A sample of the peer is fork to exit of `bash -c true`, made by this small program. Both are
 * taken back to back and after idling, in turns, in the same run. */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocking_http.h"
#include "compare.h"

static struct blocking_http http;

static uint64_t sample_execd(void)
{
    uint64_t started = compare_now_ns();
    if (blocking_http_call(&http, "POST", "/command", "", "{\"command\":\"true\"}") != 200 ||
        strstr(http.body, "execution_complete") == NULL)
        errx(1, "command: %s", http.body);
    return compare_now_ns() - started;
}

static uint64_t sample_fork(void)
{
    static const char *const shell[] = {"bash", "-c", "true", NULL};
    uint64_t started = compare_now_ns();
    int status;
    pid_t pid = fork();
    if (pid < 0)
        err(1, "fork");
    if (pid == 0) {
        execvp(shell[0], (char *const *)shell);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        errx(1, "bash failed with status %d", status);
    return compare_now_ns() - started;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        errx(2, "usage: bench-command IP PORT COUNT IDLE_COUNT IDLE_MS");
    struct compare_plan plan = {
        .ours = {"execd", sample_execd},
        .peer = {"fork+exec", sample_fork},
        .in_turns = true,
    };
    compare_read_arguments(&plan, argv + 3);
    blocking_http_open(&http, argv[1], (int)strtol(argv[2], NULL, 10));
    puts("POST /command {\"command\":\"true\"} over keep-alive HTTP, beside: bash -c true\n");
    compare_run(&plan);
    blocking_http_close(&http);
    return 0;
}
