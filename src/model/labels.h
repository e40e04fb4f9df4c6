/* Metadata of a sandbox: labels in the form that Kubernetes uses, so that every runtime can carry
 * them. A key is `name` or `prefix/name`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "model/problem.h"

#define LABELS_MAX             128
#define LABELS_NAME_MAX        63
#define LABELS_PREFIX_MAX      253
#define LABELS_VALUE_MAX       63
#define LABELS_RESERVED_PREFIX "opensandbox.io/"

struct label {
    char *key;
    char *value;
};

struct labels {
    struct label *items;
    size_t count;
};

void labels_done(struct labels *labels); /* frees; empty and usable again */
/* Copies. A key that is there already gets the new value. */
void labels_set(struct labels *labels, const char *key, const char *value);
const char *labels_find(const struct labels *labels, const char *key); /* or NULL */

/* The rules of form, over exactly `length` bytes: a trailing newline is as wrong as any other. */
bool labels_key_is_valid(const char *key, size_t length);
bool labels_value_is_valid(const char *value, size_t length);

/* From a JSON object of strings; keys with the reserved prefix are refused. On failure `labels` is
 * left empty. */
int labels_parse(const json_t *object, struct labels *labels, struct problem *problem);

/* An object in the order of the list. */
json_t *labels_to_json(const struct labels *labels);
