#include "sandbox.h"

#include <err.h>
#include <stdio.h>
#include <string.h>

void sandbox_client_open(struct sandbox_client *client, const char *ip, int port, const char *key)
{
    snprintf(client->headers, sizeof(client->headers), "OPEN-SANDBOX-API-KEY: %s\r\n", key);
    blocking_http_open(&client->http, ip, port);
}

void sandbox_client_close(struct sandbox_client *client)
{
    blocking_http_close(&client->http);
}

void sandbox_create(struct sandbox_client *client)
{
    static const char body[] = "{\"image\":{\"uri\":\"host\"},\"entrypoint\":[\"tail\",\"-f\","
                               "\"/dev/null\"],\"resourceLimits\":{},\"timeout\":600}";
    struct blocking_http *http = &client->http;
    if (blocking_http_call(http, "POST", "/v1/sandboxes", client->headers, body) != 202)
        errx(1, "create: %s", http->body);
    const char *id = strstr(http->body, "\"id\":\"");
    if (id == NULL)
        errx(1, "create answered without id: %s", http->body);
    snprintf(client->id, sizeof(client->id), "%.36s", id + 6);
}

void sandbox_run_true(struct sandbox_client *client)
{
    struct blocking_http *http = &client->http;
    char target[128];
    snprintf(target, sizeof(target), "/sandboxes/%s/proxy/44772/command", client->id);
    if (blocking_http_call(http, "POST", target, client->headers, "{\"command\":\"true\"}") !=
            200 ||
        strstr(http->body, "execution_complete") == NULL)
        errx(1, "command: %s", http->body);
}

void sandbox_delete(struct sandbox_client *client)
{
    struct blocking_http *http = &client->http;
    char target[128];
    snprintf(target, sizeof(target), "/v1/sandboxes/%s", client->id);
    if (blocking_http_call(http, "DELETE", target, client->headers, "") != 204)
        errx(1, "delete: %s", http->body);
}
