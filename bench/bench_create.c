/* A whole life over HTTP beside `bwrap ... true`: create, have the first command answered, delete.
 *
 * Usage: bench-create IP PORT API_KEY COUNT IDLE_COUNT IDLE_MS
 *
 * One sample is the time from sending the create request to having read the answer of the delete. A
 * bwrap sample is spawn to exit. Both are taken back to back and after idling, in the same run. */
#include <stdio.h>
#include <stdlib.h>

#include "bwrap.h"
#include "compare.h"
#include "sandbox.h"

static struct sandbox_client client;

static uint64_t sample_sandbox(void)
{
    uint64_t started = compare_now_ns();
    sandbox_create(&client);
    sandbox_run_true(&client);
    sandbox_delete(&client);
    return compare_now_ns() - started;
}

int main(int argc, char **argv)
{
    if (argc != 7) {
        fprintf(stderr, "usage: bench-create IP PORT API_KEY COUNT IDLE_COUNT IDLE_MS\n");
        return 2;
    }
    struct compare_plan plan = {
        .ours = {"opensandbox", sample_sandbox},
        .peer = {"bwrap", bwrap_sample},
    };
    compare_read_arguments(&plan, argv + 4);
    sandbox_client_open(&client, argv[1], (int)strtol(argv[2], NULL, 10), argv[3]);
    printf("create -> first command -> delete over HTTP, beside:");
    bwrap_print();
    compare_run(&plan);
    sandbox_client_close(&client);
    return 0;
}
