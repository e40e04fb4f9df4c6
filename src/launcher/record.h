/* What the launcher must remember of a sandbox to find it again: one small text file,
 * sandboxes/<id>/record.
 *
 * Replaced by rename, so that a launcher killed at any instant leaves the old or the new one. Not
 * synced to disk: a machine that lost power has no sandbox left to recognise, and a sync would cost
 * more than everything else on the way to a running sandbox. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "launcher/process.h"
#include "runtime/native/message.h"

#define RECORD_NEW        "record.new" /* where it is written before it replaces `record` */
#define RECORD_MAX        2048
#define RECORD_CGROUP_MAX 32

struct record {
    char id[ID_UUID_LEN + 1];
    pid_t pid;
    uint64_t start_ticks; /* with boot_id: whether pid is still the same process */
    char boot_id[PROCESS_BOOT_ID_LEN + 1];
    unsigned range;
    char cgroup[RECORD_CGROUP_MAX]; /* name of its group below ours */
    char image[MESSAGE_IMAGE_MAX];
    unsigned network; /* number of its network of mode nat; 0: of mode none, or it has ended */
    bool read_only;   /* its root file system */
    bool frozen;      /* it shall stand still, whether it does so already or not */
    /* False for one that was made before limits were recorded: its limits are those the kernel has.
     */
    bool limits_known;
    struct message_limits limits;
    uint64_t created_unix_ms;
    uint64_t deadline_unix_ms; /* 0: none */
    unsigned exit_reason;      /* enum message_exit_reason; NONE while it runs */
    int exit_status;
    unsigned oom_kills;  /* when it ended */
    unsigned limits_hit; /* the same; MESSAGE_HIT_* */
};

void record_format(const struct record *record, struct buf *text);

/* Accepts exactly what record_format() writes, and what versions 1 and 2 of it wrote: sandboxes
 * outlive the launcher that made them. */
int record_parse(const char *text, size_t length, struct record *ret, struct error *err);

/* Below dir_fd, which is the directory of the sandbox. */
int record_write(int dir_fd, const struct record *record, struct error *err);
int record_read(int dir_fd, struct record *ret, struct error *err);

/* A pidfd of the recorded process, or -1 if it is not that process any more. */
int record_open_process(const struct record *record, const char *boot_id);
