/* What server and launcher say to each other: fixed-layout messages over a SOCK_SEQPACKET unix
 * socket, one message per packet, host byte order (both ends are one machine).
 *
 * The launcher is root and trusts nothing in here: message_decode() accepts a packet only when
 * magic, version, type and the exact length for that type are right, every string is terminated and
 * zero-padded, every enum is known, every number is in range and every reserved byte is zero. What
 * it hands out needs no further check of form. Env, entrypoint and tokens never pass through here.
 *
 * Each request carries a sequence number of the sender's choice and gets exactly one answer with
 * the same number: MESSAGE_RESULT, or on success MESSAGE_WELCOME for a HELLO, MESSAGE_SANDBOXES for
 * a LIST and MESSAGE_USAGE for a STAT. The answer to a SOCKET carries a descriptor. Events (EXIT)
 * have sequence 0.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

#define MESSAGE_MAGIC   0x5842534fu /* "OSBX" */
#define MESSAGE_VERSION 3
#define MESSAGE_MAX     (16 * 1024)

enum message_type {
    MESSAGE_HELLO = 1, /* server -> launcher, first; anything else before it is refused */
    MESSAGE_CREATE,
    MESSAGE_KILL,   /* SIGKILL to the whole sandbox; its files and record stay; EXIT follows */
    MESSAGE_REMOVE, /* kill if alive, forget it, delete its files (in the background) */
    MESSAGE_LIST,
    MESSAGE_LIMITS,   /* replaces all limits of one that runs or is frozen */
    MESSAGE_DEADLINE, /* replaces its deadline; one in the past kills now */
    MESSAGE_FREEZE,   /* answered when everything in it stands still */
    MESSAGE_THAW,
    MESSAGE_STAT,
    MESSAGE_SOCKET,       /* a new TCP socket in the network of one that runs */
    MESSAGE_RESULT = 100, /* launcher -> server */
    MESSAGE_SANDBOXES,
    MESSAGE_EXIT,
    MESSAGE_USAGE,
    MESSAGE_WELCOME,
};

struct message_header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint32_t sequence;
    uint32_t length; /* of the whole packet */
};

#define MESSAGE_IMAGE_MAX 128

struct message_hello {
    struct message_header header;
};

enum message_network {
    MESSAGE_NETWORK_NONE = 0, /* nothing but its own loopback interface */
    MESSAGE_NETWORK_NAT,      /* and the world beyond the host, behind the host's addresses */
};

/* What sandboxes of a launcher lack that root could give them. */
#define MESSAGE_MISSING_LIMITS  1u /* cpu, memory, pids, disk, I/O: asking for one is refused */
#define MESSAGE_MISSING_IDS     2u /* users besides root */
#define MESSAGE_MISSING_COUNTS  4u /* usage is not counted */
#define MESSAGE_MISSING_OWN_IDS 8u /* all sandboxes have the same ids outside */
#define MESSAGE_MISSING         15u
#define MESSAGE_REASON_MAX      256

struct message_welcome {
    struct message_header header;
    uint32_t networks;                       /* 1 << enum message_network for each there is */
    uint32_t missing;                        /* of MESSAGE_MISSING */
    char network_reason[MESSAGE_REASON_MAX]; /* why there is no nat; "" when there is */
    char missing_reason[MESSAGE_REASON_MAX]; /* "" when nothing is missing */
};

struct message_limits {    /* 0 in each: no limit; for pids and open_files the launcher's default */
    uint64_t memory_bytes; /* 4 MiB .. 1 PiB */
    uint64_t disk_bytes;   /* 16 MiB .. 1 PiB */
    uint64_t io_read_bps;  /* bytes per second: 4 KiB .. 1 TiB */
    uint64_t io_write_bps;
    uint32_t io_read_iops; /* operations per second: 1 .. 1,000,000,000 */
    uint32_t io_write_iops;
    uint32_t cpu_millis; /* 1 .. 1,000,000 */
    uint32_t pids;       /* 1 .. 4,194,304 */
    uint32_t open_files; /* per process: 64 .. 1,048,576 */
    uint32_t reserved;   /* zero */
};

#define MESSAGE_READ_ONLY_ROOT 1u /* flag of CREATE: the root file system cannot be written */
#define MESSAGE_CREATE_FLAGS   MESSAGE_READ_ONLY_ROOT

#define MESSAGE_VOLUMES_MAX 16
#define MESSAGE_PATH_MAX    256 /* with its terminator */
#define MESSAGE_NAME_MAX    63  /* of a named volume */

enum message_volume_kind {
    MESSAGE_VOLUME_HOST = 1, /* a directory or file of the host, in what the launcher may show */
    MESSAGE_VOLUME_NAMED,    /* a directory in the launcher's store, shared by those that name it */
    MESSAGE_VOLUME_TMPFS,    /* in memory, of this sandbox alone */
};

#define MESSAGE_VOLUME_READ_ONLY 1u
#define MESSAGE_VOLUME_CREATE    2u /* HOST, NAMED: make the directory when it is missing */
#define MESSAGE_VOLUME_DELETE    4u /* NAMED, made by this CREATE: delete it with the sandbox */
#define MESSAGE_VOLUME_FLAGS     7u

struct message_volume {
    uint32_t kind;  /* enum message_volume_kind */
    uint32_t flags; /* of MESSAGE_VOLUME_FLAGS; each only where it has a meaning */
    uint64_t
        size_bytes; /* TMPFS: 4 KiB .. 1 PiB; NAMED when made: the same, 0: no limit; HOST: 0 */
    char source[MESSAGE_PATH_MAX];   /* HOST: absolute and plain; NAMED: its name; TMPFS: "" */
    char sub_path[MESSAGE_PATH_MAX]; /* HOST, NAMED: relative and plain, below the source; or "" */
    char mount_path[MESSAGE_PATH_MAX]; /* absolute and plain, not / */
};

struct message_create {
    struct message_header header;
    char id[ID_UUID_LEN + 4];      /* a UUID, zero-padded */
    char image[MESSAGE_IMAGE_MAX]; /* name of an image in the launcher's store; "host" */
    struct message_limits limits;
    uint64_t deadline_unix_ms; /* 0: none; killed by the launcher when it passes */
    uint32_t network;          /* enum message_network */
    uint32_t flags;            /* of MESSAGE_CREATE_FLAGS */
    uint32_t volume_count;
    uint32_t reserved;                                  /* zero */
    struct message_volume volumes[MESSAGE_VOLUMES_MAX]; /* unused ones are zero */
};

struct message_socket { /* SOCKET */
    struct message_header header;
    char id[ID_UUID_LEN + 4];
    uint32_t family;   /* 4 or 6 */
    uint32_t reserved; /* zero */
};

struct message_target { /* KILL, REMOVE, FREEZE and THAW */
    struct message_header header;
    char id[ID_UUID_LEN + 4];
};

struct message_set_limits { /* LIMITS */
    struct message_header header;
    char id[ID_UUID_LEN + 4];
    struct message_limits limits;
};

struct message_deadline { /* DEADLINE */
    struct message_header header;
    char id[ID_UUID_LEN + 4];
    uint64_t deadline_unix_ms; /* 0: none */
};

struct message_list { /* LIST and STAT */
    struct message_header header;
    char after[ID_UUID_LEN + 4]; /* "" for the first page, else the last id of the page before */
};

struct message_result {
    struct message_header header;
    uint32_t code; /* enum error_code, ERR_OK on success */
    int32_t sys;
    char message[ERROR_MESSAGE_MAX];
    char socket[108]; /* CREATE: path of execd's unix socket */
};

enum message_state { MESSAGE_RUNNING = 1, MESSAGE_EXITED = 2, MESSAGE_FROZEN = 3 };
enum message_exit_reason {
    MESSAGE_EXIT_NONE = 0,
    MESSAGE_EXIT_STATUS,   /* execd ended by itself: status is the entrypoint's exit code */
    MESSAGE_EXIT_SIGNAL,   /* killed by a signal from inside or by the kernel */
    MESSAGE_EXIT_KILLED,   /* KILL or REMOVE */
    MESSAGE_EXIT_DEADLINE, /* its deadline passed */
    MESSAGE_EXIT_LOST,     /* it ended while no launcher was watching */
};

/* Limits that a sandbox ran into at least once. */
#define MESSAGE_HIT_MEMORY 1u
#define MESSAGE_HIT_PIDS   2u
#define MESSAGE_HIT_DISK   4u
#define MESSAGE_HIT_CPU    8u
#define MESSAGE_HITS       15u

struct message_sandbox {
    char id[ID_UUID_LEN + 4];
    uint32_t state;       /* enum message_state */
    uint32_t exit_reason; /* enum message_exit_reason */
    int32_t exit_status;  /* code or signal number */
    uint32_t oom_kills;
    uint64_t created_unix_ms;
    char socket[108];
    uint32_t limits_hit; /* MESSAGE_HIT_* */
};

#define MESSAGE_SANDBOXES_MAX 64

struct message_sandboxes {
    struct message_header header;
    uint32_t count;
    uint32_t more;                                       /* 1 when another page follows */
    struct message_sandbox items[MESSAGE_SANDBOXES_MAX]; /* sorted by id; unused ones are zero */
};

/* What a sandbox has used since it was made, and what it holds now. Those that count only grow. */
struct message_usage {
    char id[ID_UUID_LEN + 4];
    uint32_t state;             /* enum message_state */
    uint32_t limits_hit;        /* MESSAGE_HIT_* */
    uint64_t read_unix_ms;      /* when these numbers were read */
    uint64_t cpu_ns;            /* of all its processes together */
    uint64_t memory_bytes;      /* now */
    uint64_t memory_peak_bytes; /* at most so far */
    uint64_t memory_mib_ms;     /* memory over time, in mebibyte-milliseconds */
    uint64_t disk_bytes;        /* now; 0 where there is no disk limit */
    uint64_t io_read_bytes;
    uint64_t io_write_bytes;
    uint64_t io_read_ops;
    uint64_t io_write_ops;
    uint64_t net_rx_bytes; /* beyond loopback: 0 in network mode none */
    uint64_t net_tx_bytes;
    uint64_t oom_kills;
    uint64_t memory_refused; /* times the memory limit was hit */
    uint64_t pids_refused;   /* forks refused */
    uint64_t cpu_throttled;  /* periods in which the cpu limit stopped it */
    uint32_t pids;           /* now */
    uint32_t reserved;       /* zero */
};

#define MESSAGE_USAGE_MAX 64

struct message_usage_page {
    struct message_header header;
    uint32_t count;
    uint32_t more;                                 /* 1 when another page follows */
    struct message_usage items[MESSAGE_USAGE_MAX]; /* sorted by id; unused ones are zero */
};

struct message_exit {
    struct message_header header;
    struct message_sandbox sandbox;
};

union message {
    struct message_header header;
    struct message_hello hello;
    struct message_create create;
    struct message_target target;
    struct message_set_limits limits;
    struct message_deadline deadline;
    struct message_list list;
    struct message_result result;
    struct message_sandboxes sandboxes;
    struct message_exit exit;
    struct message_usage_page usage;
    struct message_welcome welcome;
    struct message_socket socket;
};

/* A zeroed message of this type with a right header. */
void message_init(union message *message, enum message_type type, uint32_t sequence);

/* Whether every limit is in its range. Used wherever limits come from outside: packets, records. */
int message_check_limits(const struct message_limits *limits, struct error *err);

/* Whether this can be the name of an image: 1 to MESSAGE_IMAGE_MAX - 1 characters that cannot walk
 * out of the directory they name something in. */
bool message_is_image_name(const char *name);

/* Whether this can be the name of a volume: [a-z0-9] and inside of it [-a-z0-9.]. */
bool message_is_volume_name(const char *name);

/* Whether a path is plain: not empty, within MESSAGE_PATH_MAX, no control characters, no empty
 * component, none that is . or .., no slash at the end; absolute or relative as asked. */
bool message_is_plain_path(const char *path, bool absolute);

/* Whether every field of a volume is in its range and suits the others. Of records as well. */
int message_check_volume(const struct message_volume *volume, struct error *err);

/* Check and copy a received packet. `from_server` tells which direction's types are allowed. */
int message_decode(const void *packet, size_t length, bool from_server, union message *ret,
                   struct error *err);

/* Bytes to send: header.length. Negative -errno of send (-EAGAIN when the peer does not read). */
int message_send(int socket, const union message *message);

/* The same with a descriptor, which stays the caller's; -1: none. */
int message_send_with(int socket, const union message *message, int fd);

/* One packet. 1 and *ret filled; 0 at end of stream; negative -errno (-EAGAIN: nothing there) or
 * -EPROTO with err filled for a packet that does not decode; ret->header is then the header as sent
 * if it has our magic and version (so that the answer can carry its sequence), else zero. */
int message_receive(int socket, bool from_server, union message *ret, struct error *err);

/* The same, for those who may be sent a descriptor: *ret_fd is the caller's to close, -1 without.
 * It is never left open when the result is not 1. */
int message_receive_with(int socket, bool from_server, union message *ret, int *ret_fd,
                         struct error *err);
