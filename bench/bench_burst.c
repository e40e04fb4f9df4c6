/* Many sandboxes wanted at the same moment, each with a first command, beside as many `bwrap ...
 * true` at the same moment.
 *
 * Usage: bench-burst IP PORT API_KEY SANDBOXES ROUNDS
 *
 * One sample is the time from the moment all clients are let go to the moment the last of them has
 * its command's answer. Each client has a connection of its own. Deleting is not part of it. */
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bwrap.h"
#include "compare.h"
#include "sandbox.h"

#define SANDBOXES_MAX 256
#define ROUNDS_MAX    64
#define REST_MS       1500 /* between samples: what was used is taken away and made anew */

static pthread_barrier_t gate;
static pthread_barrier_t done;
static unsigned rounds;

static void *run_client(void *argument)
{
    struct sandbox_client *client = argument;
    for (unsigned i = 0; i < rounds; i++) {
        pthread_barrier_wait(&gate);
        sandbox_create(client);
        sandbox_run_true(client);
        pthread_barrier_wait(&done);
        sandbox_delete(client);
    }
    return NULL;
}

static uint64_t sample_bwrap(unsigned count)
{
    pid_t pids[SANDBOXES_MAX];
    uint64_t started = compare_now_ns();
    for (unsigned i = 0; i < count; i++)
        pids[i] = bwrap_start();
    for (unsigned i = 0; i < count; i++)
        bwrap_wait(pids[i]);
    return compare_now_ns() - started;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static double report(const char *name, uint64_t *ns)
{
    qsort(ns, rounds, sizeof(*ns), compare_ns);
    size_t middle = rounds / 2;
    double median = (double)ns[middle] / 1e6;
    printf("%-12s %6.0f %6.0f %6.0f  ms (best, median, worst of %u)\n", name, (double)ns[0] / 1e6,
           median, (double)ns[rounds - 1] / 1e6, rounds);
    return median;
}

static void rest(void)
{
    struct timespec pause = {REST_MS / 1000, (REST_MS % 1000) * 1000000l};
    nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
    unsigned count = argc == 6 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    rounds = argc == 6 ? (unsigned)strtoul(argv[5], NULL, 10) : 0;
    if (count < 1 || count > SANDBOXES_MAX || rounds < 1 || rounds > ROUNDS_MAX)
        errx(2, "usage: bench-burst IP PORT API_KEY SANDBOXES(1-%d) ROUNDS(1-%d)", SANDBOXES_MAX,
             ROUNDS_MAX);
    struct sandbox_client *clients = calloc(count, sizeof(*clients));
    pthread_t threads[SANDBOXES_MAX];
    uint64_t ours[ROUNDS_MAX], peer[ROUNDS_MAX];
    if (clients == NULL)
        err(1, "calloc");
    pthread_barrier_init(&gate, NULL, count + 1);
    pthread_barrier_init(&done, NULL, count + 1);
    for (unsigned i = 0; i < count; i++) {
        sandbox_client_open(&clients[i], argv[1], (int)strtol(argv[2], NULL, 10), argv[3]);
        if (pthread_create(&threads[i], NULL, run_client, &clients[i]) != 0)
            errx(1, "cannot make a thread");
    }
    printf("%u at once, each with a command answered, beside as many of:", count);
    bwrap_print();
    for (unsigned i = 0; i < rounds; i++) {
        rest();
        uint64_t started = compare_now_ns();
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&done);
        ours[i] = compare_now_ns() - started;
        rest();
        peer[i] = sample_bwrap(count);
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sandbox_client_close(&clients[i]);
    }
    double median = report("opensandbox", ours);
    printf("%-12s %6s %6.2f %6s  ours / bwrap\n\n", "ratio", "", median / report("bwrap", peer),
           "");
    free(clients);
    return 0;
}
