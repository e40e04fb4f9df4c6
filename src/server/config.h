/* What an operator can set: a TOML file (optional), two environment variables and the command line,
 * the later winning. A key nobody knows is an error with its line, not a silent typo. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "model/string_list.h"
#include "server/images.h"

#define SERVER_CONFIG_PATH_ENV    "SANDBOX_CONFIG_PATH"
#define SERVER_CONFIG_API_KEY_ENV "OPENSANDBOX_SERVER_API_KEY"

#define SERVER_CONFIG_DNS_MAX 3

/* The network of a sandbox that asks for none by name. */
enum server_network {
    SERVER_NETWORK_AUTO, /* nat where the launcher has it, else none */
    SERVER_NETWORK_NAT,  /* no sandbox is made where it has not */
    SERVER_NETWORK_NONE, /* nobody gets another one either */
};

struct server_config {
    char *host;      /* numeric address to listen on */
    int port;        /* 0: any free one */
    char *api_key;   /* NULL: the one kept in state_dir */
    char *eip;       /* host[:port][/path] that endpoints show; NULL: the request's Host */
    char *user;      /* whom to become */
    char *state_dir; /* NULL: an ordinary user whose home is not known, and nothing was said */
    int64_t max_sandbox_timeout_seconds; /* 0: none */
    int launcher_slots;                  /* sandboxes it keeps prepared; -1: as it likes */
    int launcher_spare_s; /* how long it keeps what sandboxes leave; -1: as it likes */
    enum server_network network;
    char *network_pool;                    /* ADDRESS/BITS; NULL: the launcher's choice */
    struct string_list dns;                /* IPv4 addresses; none: the launcher's choice */
    struct server_images images;           /* those besides "host" */
    struct string_list allowed_host_paths; /* of which sandboxes may have volumes */
    enum log_level log_level;
    enum log_format log_format;
};

void server_config_init(struct server_config *config); /* the defaults */
void server_config_done(struct server_config *config);

/* Read a document over what is there. `name` is for messages. */
int server_config_parse(struct server_config *config, const char *name, const char *text,
                        size_t length, struct error *err);
/* The same from a file, which must exist. */
int server_config_load(struct server_config *config, const char *path, struct error *err);

/* Replace the key, as the environment does. Refuses what cannot be sent in a header. */
int server_config_set_api_key(struct server_config *config, const char *key, struct error *err);

/* "IP:PORT" or "[IPv6]:PORT", as the command line has it. */
int server_config_set_listen(struct server_config *config, const char *text, struct error *err);
int server_config_set_state_dir(struct server_config *config, const char *path, struct error *err);
