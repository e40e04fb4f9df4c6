/* Connections at rest. They keep reading, so that one leaves the pool when its peer closes it. The
 * most recently used comes first: it is the least likely to be closed by its peer just now. */
#include <netinet/in.h>
#include <string.h>

#include "http/client_internal.h"

static bool same_address(const struct http_address *a, const struct http_address *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == HTTP_ADDRESS_UNIX)
        return strcmp(a->unix_path, b->unix_path) == 0;
    if (a->kind == HTTP_ADDRESS_CONNECTOR)
        return a->made.connector == b->made.connector && a->made.port == b->made.port &&
               strcmp(a->made.host, b->made.host) == 0;
    if (a->tcp.ss_family != b->tcp.ss_family)
        return false;
    if (a->tcp.ss_family == AF_INET) {
        const struct sockaddr_in *x = (const struct sockaddr_in *)&a->tcp;
        const struct sockaddr_in *y = (const struct sockaddr_in *)&b->tcp;
        return x->sin_port == y->sin_port && x->sin_addr.s_addr == y->sin_addr.s_addr;
    }
    const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)&a->tcp;
    const struct sockaddr_in6 *y = (const struct sockaddr_in6 *)&b->tcp;
    return x->sin6_port == y->sin6_port && x->sin6_scope_id == y->sin6_scope_id &&
           memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
}

void http_pool_add(struct http_link *connection)
{
    struct http_client *client = connection->client;
    connection->idle_since = uv_now(client->config.loop);
    TAILQ_INSERT_HEAD(&client->pool, connection, link);
    if (++client->pool_count > client->config.idle_max)
        http_link_close(TAILQ_LAST(&client->pool, http_link_list));
    http_schedule_deadline(&client->schedule,
                           connection->idle_since + client->config.idle_timeout_ms);
}

void http_pool_remove(struct http_link *connection)
{
    TAILQ_REMOVE(&connection->client->pool, connection, link);
    connection->client->pool_count--;
}

struct http_link *http_pool_find(struct http_client *client, const struct http_address *address)
{
    struct http_link *connection = TAILQ_FIRST(&client->pool);
    while (connection != NULL) {
        struct http_link *next = TAILQ_NEXT(connection, link);
        if (same_address(&connection->address, address)) {
            if (http_stream_is_quiet(connection->stream))
                return connection;
            http_link_close(connection); /* closed by the peer; the loop has not told us yet */
        }
        connection = next;
    }
    return NULL;
}

/* Does `wanted`, of a drop, mean this one? */
static bool is_meant(const struct http_address *wanted, const struct http_address *address)
{
    if (wanted == NULL)
        return true;
    if (wanted->kind != HTTP_ADDRESS_CONNECTOR || wanted->made.port != 0)
        return same_address(wanted, address);
    struct http_address any = *address;
    any.made.port = 0;
    return same_address(wanted, &any);
}

void http_pool_drop(struct http_client *client, const struct http_address *address)
{
    struct http_link *connection = TAILQ_FIRST(&client->pool);
    while (connection != NULL) {
        struct http_link *next = TAILQ_NEXT(connection, link);
        if (is_meant(address, &connection->address))
            http_link_close(connection);
        connection = next;
    }
}

uint64_t http_pool_sweep(struct http_client *client, uint64_t now_ms)
{
    struct http_link *oldest;
    while ((oldest = TAILQ_LAST(&client->pool, http_link_list)) != NULL) {
        uint64_t deadline_ms = oldest->idle_since + client->config.idle_timeout_ms;
        if (deadline_ms > now_ms)
            return deadline_ms;
        http_link_close(oldest);
    }
    return HTTP_NO_DEADLINE;
}
