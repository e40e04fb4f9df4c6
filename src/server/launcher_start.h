/* Finding the launcher, or starting one. It gets a session of its own and outlives this server. */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "base/log.h"
#include "server/config.h"
#include "server/images.h"

struct server_launcher_options {
    const char *state_dir;
    uid_t server_uid; /* who may talk to it besides root */
    int slots;        /* -1: as many as it likes */
    int spare_s;      /* likewise */
    enum server_network network;
    const char *network_pool; /* NULL: as it likes */
    const struct string_list *dns;
    const struct server_images *images;
    const struct string_list *allowed_host_paths;
    enum log_level log_level; /* it logs to our stderr: in our form */
    enum log_format log_format;
};

/* As root, or as the user of both. Returns a connection to the launcher that answers at state_dir's
 * socket, after starting it when there was none; keep it open until the real connection is made,
 * since a launcher without any server and without sandboxes ends. */
int server_launcher_ensure(const struct server_launcher_options *options, struct error *err);

/* The command line that starts it, for people. Caller frees. */
char *server_launcher_command(const struct server_launcher_options *options);
