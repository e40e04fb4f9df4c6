/* The body of POST /sandboxes: read, checked, and turned into what store and runtime need.
 *
 * Null counts as absent everywhere. Unknown members are ignored; members that the API knows and
 * this version does not do are refused by name, since a policy or a volume that is silently dropped
 * is worse than an error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/labels.h"
#include "model/limits.h"
#include "model/problem.h"
#include "model/string_list.h"
#include "model/volumes.h"

#define CREATE_REQUEST_BODY_MAX       (1024 * 1024)
#define CREATE_REQUEST_TIMEOUT_MIN_S  60
#define CREATE_REQUEST_TIMEOUT_MAX_S  (10ll * 365 * 24 * 3600)
#define CREATE_REQUEST_ENV_MAX        1024
#define CREATE_REQUEST_ENTRYPOINT_MAX 1024
#define CREATE_REQUEST_STRING_MAX     (128 * 1024 - 1) /* what execve takes in one string */
#define CREATE_REQUEST_EXTENSIONS_MAX 64

#define CREATE_REQUEST_IMAGE_NOT_FOUND "SANDBOX::IMAGE_NOT_FOUND"
#define CREATE_REQUEST_READ_ONLY_ROOT  "opensandbox.extensions.read-only-root"
#define CREATE_REQUEST_NETWORK         "opensandbox.extensions.network"
#define CREATE_REQUEST_NO_POOLS        "SANDBOX::UNSUPPORTED_POOL_REF"

enum create_request_network {
    CREATE_REQUEST_ANY_NETWORK, /* what the server gives by default */
    CREATE_REQUEST_NO_NETWORK,  /* by name, or by a policy that allows nothing */
    CREATE_REQUEST_NAT,
};

struct create_request {
    char *image;
    struct string_list entrypoint; /* as sent: what answers echo */
    struct string_list command;    /* what is run: a single entrypoint string is split into words */
    struct string_list env;        /* NAME=VALUE; secret */
    struct labels metadata;
    struct limits limits;
    int64_t timeout_s; /* 0: no time limit, the client cleans up */
    char *platform_os; /* NULL both when the request had none */
    char *platform_arch;
    bool read_only_root;
    struct volumes volumes;
    enum create_request_network network;
};

struct create_request_rules {
    int64_t timeout_max_s;         /* 0: only the built-in maximum */
    const char *const *images;     /* names besides "host", NULL-terminated; NULL: none */
    const char *const *host_paths; /* in which volumes of the host may lie; likewise */
};

/* On failure `ret` is left empty and the problem says what to change. */
int create_request_parse(const char *body, size_t length, const struct create_request_rules *rules,
                         struct create_request *ret, struct problem *problem);
void create_request_done(struct create_request *request); /* frees; wipes env */
