/* Sandboxes as the API shows them. A field that has no value is left out, never null: published
 * clients cannot read nulls. Each returns a new reference. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "model/sandbox.h"

json_t *sandbox_to_create_json(const struct sandbox *sandbox); /* answer to create */
json_t *sandbox_to_json(const struct sandbox *sandbox);        /* get and list */

/* Pages of a list: page is 1-based. */
json_t *sandbox_pagination_json(int64_t page, int64_t page_size, int64_t total_items);
