#include "compare.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct samples {
    const struct compare_subject *subject;
    size_t count;
    uint64_t *ns;
};

uint64_t compare_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void compare_read_arguments(struct compare_plan *plan, char **arguments)
{
    plan->count = strtoul(arguments[0], NULL, 10);
    plan->idle_count = strtoul(arguments[1], NULL, 10);
    plan->idle_ms = (unsigned)strtoul(arguments[2], NULL, 10);
    if (plan->count == 0 || plan->idle_count == 0)
        errx(2, "counts must be at least 1");
}

static struct samples new_samples(const struct compare_subject *subject, size_t count)
{
    struct samples samples = {
        .subject = subject,
        .count = count,
        .ns = calloc(count, sizeof(uint64_t)),
    };
    if (samples.ns == NULL)
        err(1, "calloc");
    return samples;
}

static void take(struct samples *samples, size_t index, unsigned idle_ms)
{
    if (idle_ms > 0) {
        struct timespec pause = {idle_ms / 1000, (long)(idle_ms % 1000) * 1000000};
        nanosleep(&pause, NULL);
    }
    samples->ns[index] = samples->subject->sample();
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

static void report(const char *pacing, struct samples *ours, struct samples *peer)
{
    static const unsigned percents[] = {50, 95, 99};
    double ms[2][3];
    struct samples *both[2] = {ours, peer};
    for (int who = 0; who < 2; who++) {
        qsort(both[who]->ns, both[who]->count, sizeof(uint64_t), compare);
        for (int i = 0; i < 3; i++)
            ms[who][i] = percentile_ms(both[who], percents[i]);
        printf("%-17s %-12s %5zu %9.2f %9.2f %9.2f  ms\n", pacing, both[who]->subject->name,
               both[who]->count, ms[who][0], ms[who][1], ms[who][2]);
        free(both[who]->ns);
    }
    printf("%-17s %-12s %5s %9.2f %9.2f %9.2f  ours / %s\n\n", pacing, "ratio", "",
           ms[0][0] / ms[1][0], ms[0][1] / ms[1][1], ms[0][2] / ms[1][2], peer->subject->name);
}

static void measure(const struct compare_plan *plan, const char *pacing, size_t count,
                    unsigned idle_ms)
{
    struct samples ours = new_samples(&plan->ours, count);
    struct samples peer = new_samples(&plan->peer, count);
    for (size_t i = 0; i < count; i++) {
        take(&ours, i, idle_ms);
        if (plan->in_turns)
            take(&peer, i, idle_ms);
    }
    for (size_t i = 0; i < count && !plan->in_turns; i++)
        take(&peer, i, idle_ms);
    report(pacing, &ours, &peer);
}

void compare_run(const struct compare_plan *plan)
{
    char pacing[32];
    printf("%-17s %-12s %5s %9s %9s %9s\n", "pacing", "", "n", "p50", "p95", "p99");
    for (int i = 0; i < 10; i++) { /* caches warm on both sides */
        plan->ours.sample();
        plan->peer.sample();
    }
    measure(plan, "back to back", plan->count, 0);
    snprintf(pacing, sizeof(pacing), "after %u ms idle", plan->idle_ms);
    measure(plan, pacing, plan->idle_count, plan->idle_ms);
}
