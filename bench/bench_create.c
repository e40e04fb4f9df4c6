/* Create a sandbox over HTTP and have its first command answered, beside `bwrap ... true`.
 *
 * Usage: bench-create IP PORT API_KEY COUNT IDLE_COUNT IDLE_MS
 *
 * One sample is the time from sending the create request to having read the last byte of the
 * command's event stream; the sandbox is then deleted outside the sample. A bwrap sample is
 * vfork+exec to exit. Both are taken back to back and after idling, in the same run. */
#include <err.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "blocking_http.h"
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

static struct blocking_http http;
static char headers[512];

static uint64_t sample_sandbox(void)
{
    static const char create[] = "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\","
                                 "\"/dev/null\"],\"resourceLimits\":{},\"timeout\":600}";
    uint64_t started = compare_now_ns();
    if (blocking_http_call(&http, "POST", "/v1/sandboxes", headers, create) != 202)
        errx(1, "create: %s", http.body);
    const char *id = strstr(http.body, "\"id\":\"");
    char target[128], path[128];
    if (id == NULL)
        errx(1, "create answered without id: %s", http.body);
    snprintf(target, sizeof(target), "/sandboxes/%.36s/proxy/44772/command", id + 6);
    snprintf(path, sizeof(path), "/v1/sandboxes/%.36s", id + 6);
    if (blocking_http_call(&http, "POST", target, headers, "{\"command\":\"true\"}") != 200 ||
        strstr(http.body, "execution_complete") == NULL)
        errx(1, "command: %s", http.body);
    uint64_t took = compare_now_ns() - started;
    if (blocking_http_call(&http, "DELETE", path, headers, "") != 204)
        errx(1, "delete: %s", http.body);
    return took;
}

static uint64_t sample_bwrap(void)
{
    uint64_t started = compare_now_ns();
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, BWRAP[0], NULL, NULL, (char *const *)BWRAP, environ) != 0)
        errx(1, "bwrap cannot be started: apt-get install bubblewrap");
    if (waitpid(pid, &status, 0) != pid || status != 0)
        errx(1, "bwrap failed with status %d", status);
    return compare_now_ns() - started;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        errx(2, "usage: bench-create IP PORT API_KEY COUNT IDLE_COUNT IDLE_MS");
    struct compare_plan plan = {
        .ours = {"opensandbox", sample_sandbox},
        .peer = {"bwrap", sample_bwrap},
    };
    compare_read_arguments(&plan, argv + 4);
    snprintf(headers, sizeof(headers), "OPEN-SANDBOX-API-KEY: %s\r\n", argv[3]);
    blocking_http_open(&http, argv[1], (int)strtol(argv[2], NULL, 10));
    printf("create -> first command answered over HTTP, beside:");
    for (size_t i = 0; BWRAP[i] != NULL; i++)
        printf(" %s", BWRAP[i]);
    puts("\n");
    compare_run(&plan);
    blocking_http_close(&http);
    return 0;
}
