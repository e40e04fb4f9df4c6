/* The JSON bodies of the file endpoints. Pure: nothing is looked up here.
 *
 *   permissions, directories   {"PATH": {"owner": NAME, "group": NAME, "mode": DIGITS}, ...}
 *   mv                         [{"src": PATH, "dest": PATH}, ...]
 *   replace                    {"PATH": {"old": TEXT, "new": TEXT}, ...}
 *
 * Null counts as absent, also in the place of a whole permission. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define EXECD_BODY_MAX_BYTES     (4 * 1024 * 1024)
#define EXECD_BODY_ITEMS_MAX     1024
#define EXECD_BODY_OLD_MAX_BYTES (1024 * 1024) /* of a text that is searched for */
#define EXECD_BODY_NAME_MAX      256           /* of a user or group */

struct execd_permission {
    const char *owner; /* NULL: leave */
    const char *group;
    bool has_mode;
    mode_t mode;
};

/* Strings are borrowed from the document. */
struct execd_body_item {
    const char *path; /* of mv: `src` */
    const char *dest;
    struct execd_permission permission;
    const char *old_text; /* not empty */
    size_t old_length;
    const char *new_text; /* "" when absent */
    size_t new_length;
};

struct execd_body {
    json_t *json;
    struct execd_body_item *items; /* in the order of the text */
    size_t count;
};

int execd_body_parse_permissions(const char *text, size_t length, struct execd_body *ret,
                                 struct error *err);
int execd_body_parse_moves(const char *text, size_t length, struct execd_body *ret,
                           struct error *err);
int execd_body_parse_replacements(const char *text, size_t length, struct execd_body *ret,
                                  struct error *err);
void execd_body_done(struct execd_body *body);

/* The members of one object; also for the metadata of uploads. */
int execd_body_read_permission(const json_t *object, struct execd_permission *ret,
                               struct error *err);
