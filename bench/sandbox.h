/* The life of a sandbox as a client of the HTTP API sees it. Exits on trouble. */
#pragma once

#include "blocking_http.h"

struct sandbox_client {
    struct blocking_http http;
    char headers[512];
    char id[37];
};

void sandbox_client_open(struct sandbox_client *client, const char *ip, int port, const char *key);
void sandbox_client_close(struct sandbox_client *client);

void sandbox_create(struct sandbox_client *client);
void sandbox_run_true(struct sandbox_client *client); /* until its last event */
void sandbox_delete(struct sandbox_client *client);
