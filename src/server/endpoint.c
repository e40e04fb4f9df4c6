#include "server/endpoint.h"

#include <string.h>

#include "server/auth.h"

#define EXECD_PORT 44772
#define HOST_MAX   255

bool server_endpoint_host_is_valid(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_:[]";
    size_t length = strlen(host);
    return length > 0 && length <= HOST_MAX && strspn(host, allowed) == length;
}

json_t *server_endpoint_to_json(const char *base, const char *id, int port, const char *execd_token)
{
    json_t *answer = json_object();
    json_object_set_new(answer, "endpoint",
                        json_sprintf("%s/sandboxes/%s/proxy/%d", base, id, port));
    if (port == EXECD_PORT)
        json_object_set_new(answer, "headers",
                            json_pack("{s:s}", SERVER_AUTH_EXECD_HEADER, execd_token));
    return answer;
}
