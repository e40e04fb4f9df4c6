/* Two things timed beside each other, and what comes out: percentiles of both and their ratio. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct compare_subject {
    const char *name;
    uint64_t (*sample)(void); /* nanoseconds */
};

struct compare_plan {
    struct compare_subject ours;
    struct compare_subject peer;
    size_t count;      /* samples of each, back to back */
    size_t idle_count; /* and after idling */
    unsigned idle_ms;
    /* One of ours, one of the peer's and so on, so that whatever else the machine does falls on
     * both; else first all of ours, as fast as they come. */
    bool in_turns;
};

/* The last three arguments of a benchmark program; exits when they are wrong. */
void compare_read_arguments(struct compare_plan *plan, char **arguments);

void compare_run(const struct compare_plan *plan); /* prints the table */

uint64_t compare_now_ns(void);
