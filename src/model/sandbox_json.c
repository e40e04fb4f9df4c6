#include "model/sandbox_json.h"

#include "base/clock.h"

static json_t *time_json(int64_t unix_ms)
{
    char text[CLOCK_RFC3339_MAX];
    clock_format_rfc3339(unix_ms, text);
    return json_string(text);
}

static json_t *status_json(const struct sandbox *sandbox)
{
    json_t *status = json_pack("{s:s}", "state", sandbox_state_name(sandbox->state));
    if (sandbox->reason != NULL)
        json_object_set_new(status, "reason", json_string(sandbox->reason));
    if (sandbox->message != NULL)
        json_object_set_new(status, "message", json_string(sandbox->message));
    json_object_set_new(status, "lastTransitionAt", time_json(sandbox->last_transition_at_ms));
    return status;
}

json_t *sandbox_to_create_json(const struct sandbox *sandbox)
{
    json_t *object = json_pack("{s:s, s:o}", "id", sandbox->id, "status", status_json(sandbox));
    if (sandbox->metadata.count > 0)
        json_object_set_new(object, "metadata", labels_to_json(&sandbox->metadata));
    if (sandbox->platform_os != NULL)
        json_object_set_new(
            object, "platform",
            json_pack("{s:s, s:s}", "os", sandbox->platform_os, "arch", sandbox->platform_arch));
    if (sandbox->expires_at_ms != 0)
        json_object_set_new(object, "expiresAt", time_json(sandbox->expires_at_ms));
    json_object_set_new(object, "createdAt", time_json(sandbox->created_at_ms));

    json_t *entrypoint = json_array();
    for (size_t i = 0; i < sandbox->entrypoint.count; i++)
        json_array_append_new(entrypoint, json_string(sandbox->entrypoint.items[i]));
    json_object_set_new(object, "entrypoint", entrypoint);
    return object;
}

json_t *sandbox_to_json(const struct sandbox *sandbox)
{
    json_t *object = sandbox_to_create_json(sandbox);
    json_object_set_new(object, "image", json_pack("{s:s}", "uri", sandbox->image));
    return object;
}

json_t *sandbox_pagination_json(int64_t page, int64_t page_size, int64_t total_items)
{
    int64_t total_pages = (total_items + page_size - 1) / page_size;
    return json_pack("{s:I, s:I, s:I, s:I, s:b}", "page", (json_int_t)page, "pageSize",
                     (json_int_t)page_size, "totalItems", (json_int_t)total_items, "totalPages",
                     (json_int_t)total_pages, "hasNextPage", page < total_pages);
}
