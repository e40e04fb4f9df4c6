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
#include <time.h>
#include <unistd.h>

#include "blocking_http.h"

struct samples {
    const char *name;
    size_t count;
    uint64_t *ns;
};

static struct blocking_http http;

static uint64_t now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t sample_execd(void)
{
    uint64_t started = now_ns();
    if (blocking_http_call(&http, "POST", "/command", "", "{\"command\":\"true\"}") != 200 ||
        strstr(http.body, "execution_complete") == NULL)
        errx(1, "command: %s", http.body);
    return now_ns() - started;
}

static uint64_t sample_fork(void)
{
    static const char *const shell[] = {"bash", "-c", "true", NULL};
    uint64_t started = now_ns();
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
    return now_ns() - started;
}

static void pause_ms(unsigned ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&pause, NULL);
}

static struct samples new_samples(const char *name, size_t count)
{
    struct samples samples = {.name = name, .count = count, .ns = calloc(count, sizeof(uint64_t))};
    if (samples.ns == NULL)
        err(1, "calloc");
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
    printf("%-16s %-12s %5s %9.2f %9.2f %9.2f  ours / fork+exec\n\n", pacing, "ratio", "",
           ms[0][0] / ms[1][0], ms[0][1] / ms[1][1], ms[0][2] / ms[1][2]);
}

/* The two take turns, so that whatever else the machine does falls on both. */
static void measure(const char *pacing, size_t count, unsigned idle_ms)
{
    struct samples ours = new_samples("execd", count);
    struct samples peer = new_samples("fork+exec", count);
    for (size_t i = 0; i < count; i++) {
        pause_ms(idle_ms);
        ours.ns[i] = sample_execd();
        pause_ms(idle_ms);
        peer.ns[i] = sample_fork();
    }
    report(pacing, ours, peer);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        errx(2, "usage: bench-command IP PORT COUNT IDLE_COUNT IDLE_MS");
    size_t count = strtoul(argv[3], NULL, 10), idle_count = strtoul(argv[4], NULL, 10);
    unsigned idle_ms = (unsigned)strtoul(argv[5], NULL, 10);
    if (count == 0 || idle_count == 0)
        errx(2, "counts must be at least 1");
    blocking_http_open(&http, argv[1], (int)strtol(argv[2], NULL, 10));

    printf("POST /command {\"command\":\"true\"} over keep-alive HTTP, beside: bash -c true\n\n"
           "%-16s %-12s %5s %9s %9s %9s\n",
           "pacing", "", "n", "p50", "p95", "p99");
    for (int i = 0; i < 20; i++) { /* caches warm on both sides */
        sample_execd();
        sample_fork();
    }
    measure("back to back", count, 0);
    char pacing[32];
    snprintf(pacing, sizeof(pacing), "after %u ms idle", idle_ms);
    measure(pacing, idle_count, idle_ms);
    blocking_http_close(&http);
    return 0;
}
