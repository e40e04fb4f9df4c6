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
#include <time.h>
#include <unistd.h>

#include "blocking_http.h"

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

struct samples {
    const char *name;
    size_t count;
    uint64_t *ns;
};

static struct blocking_http http;
static char headers[512];

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t sample_sandbox(void)
{
    static const char create[] = "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\","
                                 "\"/dev/null\"],\"resourceLimits\":{},\"timeout\":600}";
    uint64_t started = now_ns();
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
    uint64_t took = now_ns() - started;
    if (blocking_http_call(&http, "DELETE", path, headers, "") != 204)
        errx(1, "delete: %s", http.body);
    return took;
}

static uint64_t sample_bwrap(void)
{
    uint64_t started = now_ns();
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, BWRAP[0], NULL, NULL, (char *const *)BWRAP, environ) != 0)
        errx(1, "bwrap cannot be started: apt-get install bubblewrap");
    if (waitpid(pid, &status, 0) != pid || status != 0)
        errx(1, "bwrap failed with status %d", status);
    return now_ns() - started;
}

static struct samples measure(const char *name, uint64_t (*sample)(void), size_t count,
                              unsigned idle_ms)
{
    struct samples samples = {.name = name, .count = count, .ns = calloc(count, sizeof(uint64_t))};
    if (samples.ns == NULL)
        err(1, "calloc");
    for (size_t i = 0; i < count; i++) {
        if (idle_ms > 0) {
            struct timespec pause = {idle_ms / 1000, (long)(idle_ms % 1000) * 1000000};
            nanosleep(&pause, NULL);
        }
        samples.ns[i] = sample();
    }
    return samples;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double percentile_ms(const struct samples *samples, unsigned percent)
{
    size_t index = (samples->count * percent + 99) / 100;
    return (double)samples->ns[index > 0 ? index - 1 : 0] / 1e6;
}

static void report(const char *pacing, struct samples ours, struct samples peer)
{
    static const unsigned percents[] = {50, 95, 99};
    double ms[2][3];
    struct samples *both[2] = {&ours, &peer};
    for (int who = 0; who < 2; who++) {
        qsort(both[who]->ns, both[who]->count, sizeof(uint64_t), compare);
        for (int i = 0; i < 3; i++)
            ms[who][i] = percentile_ms(both[who], percents[i]);
        printf("%-16s %-12s %5zu %9.2f %9.2f %9.2f  ms\n", pacing, both[who]->name,
               both[who]->count, ms[who][0], ms[who][1], ms[who][2]);
        free(both[who]->ns);
    }
    printf("%-16s %-12s %5s %9.2f %9.2f %9.2f  ours / bwrap\n\n", pacing, "ratio", "",
           ms[0][0] / ms[1][0], ms[0][1] / ms[1][1], ms[0][2] / ms[1][2]);
}

int main(int argc, char **argv)
{
    if (argc != 7)
        errx(2, "usage: bench-create IP PORT API_KEY COUNT IDLE_COUNT IDLE_MS");
    size_t count = strtoul(argv[4], NULL, 10), idle_count = strtoul(argv[5], NULL, 10);
    unsigned idle_ms = (unsigned)strtoul(argv[6], NULL, 10);
    if (count == 0 || idle_count == 0)
        errx(2, "counts must be at least 1");
    snprintf(headers, sizeof(headers), "OPEN-SANDBOX-API-KEY: %s\r\n", argv[3]);
    blocking_http_open(&http, argv[1], (int)strtol(argv[2], NULL, 10));

    printf("create -> first command answered over HTTP, beside:");
    for (size_t i = 0; BWRAP[i] != NULL; i++)
        printf(" %s", BWRAP[i]);
    printf("\n\n%-16s %-12s %5s %9s %9s %9s\n", "pacing", "", "n", "p50", "p95", "p99");
    for (int i = 0; i < 5; i++) { /* caches warm on both sides */
        sample_sandbox();
        sample_bwrap();
    }
    struct samples ours = measure("opensandbox", sample_sandbox, count, 0);
    report("back to back", ours, measure("bwrap", sample_bwrap, count, 0));
    char pacing[32];
    snprintf(pacing, sizeof(pacing), "after %u ms idle", idle_ms);
    ours = measure("opensandbox", sample_sandbox, idle_count, idle_ms);
    report(pacing, ours, measure("bwrap", sample_bwrap, idle_count, idle_ms));
    blocking_http_close(&http);
    return 0;
}
