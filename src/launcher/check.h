/* `opensandbox-launcher check`: what this machine offers, and what is therefore on or off.
 *
 * A table of probes is tried one by one, each in a child of its own that is given a few seconds:
 * whatever a kernel answers, kills or never answers, the next probe runs. Nothing is changed; what
 * a probe makes to try something out is removed again, by the parent if the probe cannot. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CHECK_TEXT_MAX 256

enum check_found {
    CHECK_UNKNOWN, /* could not be tried */
    CHECK_NO,
    CHECK_PARTLY,
    CHECK_YES,
};

enum check_weight {
    CHECK_NEEDED,  /* without it no sandbox runs */
    CHECK_FEATURE, /* without it sandboxes run, and something is off */
    CHECK_NOTE,    /* worth knowing; nothing is on or off by it alone */
};

/* Sent from a child to its parent, hence without pointers. */
struct check_result {
    enum check_found found;
    char detail[CHECK_TEXT_MAX]; /* what was seen */
    char effect[CHECK_TEXT_MAX]; /* what it means for sandboxes */
    char advice[CHECK_TEXT_MAX]; /* what to do about it; "" when there is nothing to do */
};

struct check_row {
    const char *section;
    const char *name; /* lower case, with '-'; part of the JSON contract */
    enum check_weight weight;
    struct check_result result;
};

struct check_report {
    const char *state_dir;
    const char
        *cgroup_parent; /* NULL: the root of each hierarchy; an ordinary user: where we are */
    const struct check_row *rows;
    size_t count;
};

bool check_can_run(const struct check_report *report);        /* all that is needed was found */
bool check_has_everything(const struct check_report *report); /* and every feature, too */

#define CHECK_PRINT_MAX (1u << 20) /* enough for any report */

void check_print_people(const struct check_report *report, struct buf *out);
void check_print_json(const struct check_report *report, struct buf *out);

extern const char check_usage[];

/* argv[1] is "check". An ordinary user is checked as his launcher would be, inside of a user
 * namespace, if one can be made. Returns the exit status: 0 sandboxes can run, 1 they cannot, 2
 * usage. */
int check_main(int argc, char **argv);
