#include "execd/proxy.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/options.h"
#include "execd/routes.h"
#include "http/proxy.h"
#include "http/quote.h"

#define EGRESS_PORT 18080
#define IDLE_MAX    16 /* connections kept for the next request */
#define IDLE_MS     30000

enum execd_proxy_parse execd_proxy_parse(const char *target, struct execd_proxy_path *ret)
{
    static const char prefix[] = "/proxy/";
    uint64_t port;
    if (!str_starts_with(target, prefix))
        return EXECD_PROXY_NONE;
    const char *digits = target + strlen(prefix);
    size_t length = strcspn(digits, "/?");
    AUTO_FREE char *text = mem_dup_n(digits, length);
    if (str_to_u64(text, 1, 65535, &port) < 0)
        return EXECD_PROXY_BAD_PORT;
    *ret = (struct execd_proxy_path){.port = (int)port, .rest = digits + length};
    return EXECD_PROXY_OK;
}

/* 44772 always, whatever we listen on: it is the name by which clients know us. */
static bool is_own(const struct execd *execd, int port)
{
    return port == EXECD_PORT_DEFAULT || port == execd->port;
}

/* "?x=1" and "" ask for the root of the program. */
static char *make_target(const char *rest)
{
    return mem_printf("%s%s", rest[0] == '/' ? "" : "/", rest);
}

static void refuse_port(struct http_exchange *exchange, const char *target)
{
    char quoted[HTTP_QUOTE_MAX];
    const char *port = target + strlen("/proxy/");
    http_exchange_reply_error(exchange, 400, "INVALID_PORT",
                              "the port must be a number from 1 to 65535, not \"%s\"",
                              http_quote(quoted, sizeof(quoted), port, strcspn(port, "/?")));
}

static struct http_client *get_client(struct execd *execd)
{
    if (execd->client == NULL) {
        const struct http_client_config config = {
            .loop = execd->loop,
            .idle_max = IDLE_MAX,
            .idle_timeout_ms = IDLE_MS,
        };
        execd->client = http_client_new(&config);
    }
    return execd->client;
}

static void pass_on(struct execd *execd, struct http_exchange *exchange,
                    const struct execd_proxy_path *path)
{
    /* Keys to the sandbox, which what runs inside has no business with. Only the egress proxy is to
     * see its own. */
    static const char *const drop[] = {"X-EXECD-ACCESS-TOKEN", "OPEN-SANDBOX-API-KEY",
                                       "OpenSandbox-Secure-Access", "OPENSANDBOX-EGRESS-AUTH",
                                       NULL};
    static const char *const drop_for_egress[] = {"X-EXECD-ACCESS-TOKEN", "OPEN-SANDBOX-API-KEY",
                                                  "OpenSandbox-Secure-Access", NULL};
    AUTO_FREE char *target = make_target(path->rest);
    struct http_proxy_options options = {
        .client = get_client(execd),
        .target = target,
        .drop = path->port == EGRESS_PORT ? drop_for_egress : drop,
        .forwarded_proto = "http",
        .error_code = "PROXY_FAILED",
    };
    http_address_tcp(&options.address, "127.0.0.1", path->port);
    http_proxy_start(exchange, &options);
}

void execd_proxy_handle(struct http_exchange *exchange, const struct http_route_match *match,
                        void *ctx)
{
    (void)match; /* its port is decoded, and its path has lost the query */
    struct execd *execd = ctx;
    AUTO_FREE char *target = mem_dup(http_exchange_head(exchange)->target);
    for (int depth = 0; depth <= EXECD_PROXY_NESTING_MAX; depth++) {
        struct execd_proxy_path path;
        switch (execd_proxy_parse(target, &path)) {
        case EXECD_PROXY_BAD_PORT:
            refuse_port(exchange, target);
            return;
        case EXECD_PROXY_NONE:
            http_exchange_set_target(exchange, target);
            execd_routes_dispatch(exchange, execd);
            return;
        case EXECD_PROXY_OK:
            break;
        }
        if (!is_own(execd, path.port)) {
            pass_on(execd, exchange, &path);
            return;
        }
        char *inner = make_target(path.rest);
        mem_free_ptr(&target);
        target = inner;
    }
    http_exchange_reply_error(exchange, 400, "INVALID_PORT",
                              "the path leads back here more than %d times",
                              EXECD_PROXY_NESTING_MAX);
}

void execd_proxy_done(struct execd *execd)
{
    execd->client = http_client_free(execd->client);
}
