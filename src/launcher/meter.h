/* What each sandbox has used, kept over restarts of the launcher.
 *
 * The kernel counts almost everything; only memory over time has to be integrated here, from
 * readings: each adds the mean of its bytes and those of the reading before, times the time between
 * them. Readings come from STAT, from the end of a sandbox and from a timer, which goes through the
 * running ones in small portions, so that a thousand of them never stand between a request and its
 * answer. What was read is written to the file `usage` beside the record once a minute and at the
 * end; after a kill of the launcher the gap is bridged by the same rule. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/cgroup.h"
#include "launcher/loop.h"

#define METER_FILE_MAX 1024

struct launcher;
struct sandbox;

struct meter {
    struct cgroup_usage usage; /* as last read; what counts never falls */
    uint64_t read_ms;          /* of the monotonic clock; 0: never */
    uint64_t read_unix_ms;
    uint64_t disk_bytes; /* used, as last read; 0: no disk limit */
    uint64_t net_rx_bytes, net_tx_bytes;
    uint64_t memory_mib_ms; /* the integral, in mebibyte-milliseconds ... */
    uint64_t memory_rest;   /* ... and what is left of it, in byte-milliseconds: under a mebibyte */
    uint64_t saved_ms;
};

/* The timer of all. */
struct meters {
    struct loop_timer timer;
    char cursor[40]; /* id of the sandbox that was read last */
};

void meter_init_all(struct launcher *launcher);
void meter_wake(struct launcher *launcher); /* there is a running sandbox: the timer goes, if on */
void meter_save_all(struct launcher *launcher);

void meter_start(struct meter *meter);          /* a sandbox begins, with nothing used */
void meter_read(struct sandbox *sandbox);       /* and save it when that is due */
void meter_save(struct sandbox *sandbox);       /* failure is logged */
void meter_load(struct sandbox *sandbox);       /* of a former launcher; absent: begins now */
unsigned meter_hits(const struct meter *meter); /* MESSAGE_HIT_* */

/* The parts, without clock and files. */
void meter_add(struct meter *meter, const struct cgroup_usage *usage, uint64_t now_ms);
void meter_format(const struct meter *meter, struct buf *text);
/* Accepts what version 1 of it wrote, too: without the network. */
int meter_parse(const char *text, size_t length, struct meter *ret, struct error *err);
