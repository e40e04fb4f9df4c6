/* The launcher's command line: all the configuration it has. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

#define OPTIONS_SLOTS_DEFAULT 4
#define OPTIONS_SLOTS_MAX     64
#define OPTIONS_METER_DEFAULT 5
#define OPTIONS_METER_MAX     3600

struct options { /* strings are borrowed from argv */
    const char *listen_path;
    int fd; /* -1: none */
    const char *state_dir;
    const char *execd;
    const char *cgroup_parent; /* NULL: the root of each hierarchy */
    uint32_t server_uid;
    unsigned slots;
    unsigned meter_s; /* between two readings of each sandbox's memory; 0: only when asked */
    enum log_format log_format;
    enum log_level log_level;
    bool help;
    bool version;
};

int options_parse(int argc, char **argv, struct options *ret, struct error *err);
extern const char options_usage[];
