/* The directory images of the configuration: [images.NAME]. The launcher opens the directories;
 * here is what the sandboxes made from them begin with. */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "base/toml.h"
#include "model/string_list.h"

#define SERVER_IMAGES_MAX 64 /* as many as the launcher takes */

struct server_image {
    char *path;
    char *user;    /* NULL: root */
    char *workdir; /* NULL: / */
};

struct server_images {
    struct string_list names; /* items[i] is that of names.items[i] */
    struct server_image *items;
};

void server_images_done(struct server_images *images);

/* Add what one table says. */
int server_images_read(struct server_images *images, const struct toml *doc, const char *document,
                       const char *name, const struct toml_value *table, struct error *err);

/* NULL when there is none of this name; "host" is none of these. */
const struct server_image *server_images_find(const struct server_images *images, const char *name);
