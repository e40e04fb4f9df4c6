/* Query parameters of GET /sandboxes: state (repeatable), metadata, page, pageSize. */
#pragma once

#include "model/problem.h"
#include "store/store.h"

#define SERVER_LIST_PAGE_SIZE_DEFAULT 20
#define SERVER_LIST_PAGE_SIZE_MAX     200
#define SERVER_LIST_PAGE_MAX          1000000000

/* Release with server_list_query_done(). On failure `ret` is left empty. */
int server_list_query_parse(const char *query, struct store_filter *ret, struct problem *problem);
void server_list_query_done(struct store_filter *filter);
