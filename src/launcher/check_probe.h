/* The probes of `opensandbox-launcher check`, shared by the files that implement them. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/check.h"
#include "launcher/powers.h"

struct options;

struct check_context {
    const char *state_dir;     /* as it was given; need not exist */
    const char *cgroup_parent; /* or NULL */
    char place[PATH_MAX];      /* the state directory or its nearest ancestor that exists, or "" */
    char scratch[PATH_MAX];    /* a directory of ours to try things out in, or "" */
    char group[64];            /* name for a control group of ours */
    bool scratch_elsewhere;    /* not on the file system of the state directory */
    bool root;                 /* of the machine */
    bool rootless;             /* an ordinary user's launcher: root of a user namespace */
    struct powers powers;      /* of either; else all zero */
    struct error obstacle;     /* why an ordinary user has no user namespace; else ERR_OK */
    const struct options *network; /* of which the pool and the name servers count */
    const struct check_row *rows;  /* of the probes before this one */
    size_t count;
};

struct check_probe {
    const char *section, *name;
    enum check_weight weight;
    void (*run)(const struct check_context *context, struct check_result *result);
    const char *on;     /* the effect when it is there, wholly or partly */
    const char *off;    /* the effect when it is not */
    const char *advice; /* unless it is wholly there; NULL: none */
};

/* Each list ends with a NULL name. */
extern const struct check_probe check_kernel_probes[];
extern const struct check_probe check_namespace_probes[];
extern const struct check_probe check_file_probes[];
extern const struct check_probe check_disk_probes[];
extern const struct check_probe check_cgroup_probes[];
extern const struct check_probe check_network_probes[];
extern const struct check_probe check_nat_probes[];
extern const struct check_probe check_machine_probes[];

/* What a probe says. The last word counts; effect and advice replace those of the table. */
void check_say(struct check_result *result, enum check_found found, const char *format, ...)
    PRINTF_LIKE(3, 4);
void check_effect(struct check_result *result, const char *format, ...) PRINTF_LIKE(2, 3);
void check_advice(struct check_result *result, const char *format, ...) PRINTF_LIKE(2, 3);

/* The outcome of trying `what`: 0 is yes, -errno no; a refusal to somebody who is no root at all
 * tells nothing about the machine. */
void check_say_outcome(const struct check_context *context, struct check_result *result, int r,
                       const char *what);

enum check_found check_found_of(const struct check_context *context, const char *name);

/* Small files of /proc and /sys. Return 0 or -errno. */
int check_read(const char *path, struct buf *text);
int check_read_number(const char *path, uint64_t *ret);

/* Parsers. */
int check_parse_release(const char *release, unsigned *ret_major, unsigned *ret_minor);
int check_parse_meminfo(const char *text, const char *key, uint64_t *ret_bytes);
/* Counts the lines of a passwd or group file (`first_only`: name:x:id:...) or of a subuid file
 * (name:first:count) that reach into [first, last]; the name of the first such line goes to
 * `ret_name` (cut to fit, "" when there is none). */
unsigned check_parse_ids(const char *text, bool subordinate, uint64_t first, uint64_t last,
                         char *ret_name, size_t size);

/* A new user namespace with one of our ranges of ids mapped; the fd is the namespace's. */
int check_user_namespace(const struct powers *powers, int *ret_fd);

/* Removes what a cgroup probe that was ended could not. */
void check_cgroups_clean(const struct check_context *context);

/* Run in a child, at most `timeout_ms`: what `work` wrote to `answer` comes back. Returns 0, or
 * -ETIMEDOUT, or -EPIPE with the number of the signal that ended the child in *ret_signal. */
int check_bounded(void (*work)(void *argument, void *answer), void *argument, void *answer,
                  size_t size, int timeout_ms, int *ret_signal);
