#include "server/list_query.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http/url.h"

#define METADATA_FORMAT "INVALID_METADATA_FORMAT"

static int parse_number(const struct url_query *query, const char *name, int64_t max,
                        int64_t *value, struct problem *problem)
{
    const char *text = url_query_find(query, name);
    char quoted[PROBLEM_QUOTE_MAX];
    if (text == NULL || str_to_i64(text, 1, max, value) == 0)
        return 0;
    return problem_set(problem, PROBLEM_INVALID, "value_error", name, NULL,
                       "`%s` must be a number from 1 to %lld, not \"%s\"", name, (long long)max,
                       problem_quote(text, quoted));
}

/* The parameter is itself a query string, encoded once more. Every part needs its '='. */
static bool is_strict(const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "&");
        if (memchr(text, '=', length) == NULL)
            return false;
        text += length;
        if (*text == '&' && *++text == '\0')
            return false;
    }
    return true;
}

static bool is_utf8(const struct url_query *pairs)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (!str_is_utf8(pairs->items[i].name, strlen(pairs->items[i].name)) ||
            !str_is_utf8(pairs->items[i].value, strlen(pairs->items[i].value)))
            return false;
    return true;
}

static int parse_metadata(const char *text, struct labels *labels, struct problem *problem)
{
    struct url_query pairs = {0};
    char quoted[PROBLEM_QUOTE_MAX];
    if (!is_strict(text) || url_query_parse(text, &pairs) < 0 || !is_utf8(&pairs)) {
        url_query_done(&pairs);
        return problem_set(problem, METADATA_FORMAT, "value_error", "metadata", NULL,
                           "`metadata` must look like key=value&key2=value2, percent-encoded once "
                           "more as a whole; bad query field in \"%s\"",
                           problem_quote(text, quoted));
    }
    for (size_t i = 0; i < pairs.count; i++)
        labels_set(labels, pairs.items[i].name, pairs.items[i].value);
    url_query_done(&pairs);
    return 0;
}

/* A state nobody has matches nothing, which is a valid question. */
static void parse_states(const struct url_query *query, struct store_filter *ret)
{
    for (size_t i = 0; i < query->count; i++) {
        if (strcmp(query->items[i].name, "state") != 0)
            continue;
        enum sandbox_state state;
        ret->by_state = true;
        if (sandbox_state_parse(query->items[i].value, &state) == 0)
            ret->states |= 1u << state;
    }
}

static int parse_parameters(const struct url_query *query, struct store_filter *ret,
                            struct problem *problem)
{
    int r = parse_number(query, "page", SERVER_LIST_PAGE_MAX, &ret->page, problem);
    if (r == 0)
        r = parse_number(query, "pageSize", SERVER_LIST_PAGE_SIZE_MAX, &ret->page_size, problem);
    const char *metadata = url_query_find(query, "metadata");
    if (r == 0 && metadata != NULL)
        r = parse_metadata(metadata, &ret->labels, problem);
    parse_states(query, ret);
    return r;
}

int server_list_query_parse(const char *text, struct store_filter *ret, struct problem *problem)
{
    *ret = (struct store_filter){.page = 1, .page_size = SERVER_LIST_PAGE_SIZE_DEFAULT};
    problem->in = "query";
    struct url_query query;
    if (url_query_parse(text, &query) < 0)
        return problem_set(problem, PROBLEM_INVALID, "value_error", "", NULL,
                           "the query string has a broken escape or more than %d parameters",
                           URL_QUERY_MAX);
    int r = parse_parameters(&query, ret, problem);
    url_query_done(&query);
    if (r < 0)
        server_list_query_done(ret);
    return r;
}

void server_list_query_done(struct store_filter *filter)
{
    labels_done(&filter->labels);
}
