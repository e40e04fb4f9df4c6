/* A request target as the server takes it apart: proxied paths and the query of a list. A path that
 * names /internal plainly must never pass as something else, and whatever a filter holds must be
 * within its bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "server/list_query.h"
#include "server/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

__attribute__((noinline)) static void try_proxy(const char *target)
{
    struct server_proxy_path path;
    if (!server_proxy_parse(target, &path))
        return;
    check(str_starts_with(target, "/sandboxes/") || str_starts_with(target, "/v1/sandboxes/"));
    check(path.port >= 0 && path.port <= 65535);
    check(!path.id_is_valid || id_is_uuid(path.id));
    check(path.rest >= target && path.rest <= target + strlen(target));
    check(path.rest[0] == '\0' || path.rest[0] == '/' || path.rest[0] == '?');
    if (str_starts_with(path.rest, "/internal/start"))
        check(server_proxy_is_internal(path.rest) || strstr(path.rest, "..") != NULL ||
              path.rest[strlen("/internal/start")] != '\0');
}

__attribute__((noinline)) static void try_list(const char *query)
{
    struct store_filter filter;
    struct problem problem = {0};
    if (server_list_query_parse(query, &filter, &problem) < 0) {
        check(problem.code != NULL && str_is_utf8(problem.message, strlen(problem.message)));
        check(filter.labels.count == 0);
        return;
    }
    check(filter.page >= 1 && filter.page <= SERVER_LIST_PAGE_MAX);
    check(filter.page_size >= 1 && filter.page_size <= SERVER_LIST_PAGE_SIZE_MAX);
    check(filter.states < 1u << SANDBOX_STATE_COUNT);
    server_list_query_done(&filter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    AUTO_FREE char *text = mem_dup_n((const char *)data, size);
    try_proxy(text);
    (void)server_proxy_is_internal(text);
    const char *query = strchr(text, '?');
    try_list(query != NULL ? query + 1 : text);
    return 0;
}
