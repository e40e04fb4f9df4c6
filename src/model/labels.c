#include "model/labels.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

/* Letters and digits at both ends; '-', '_' and '.' also between them. */
static bool is_name(const char *text, size_t length, size_t max)
{
    if (length == 0 || length > max || !is_alnum(text[0]) || !is_alnum(text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_alnum(text[i]) && text[i] != '-' && text[i] != '_' && text[i] != '.')
            return false;
    return true;
}

/* Lower-case DNS name: labels of letters, digits and inner '-', joined by single dots. */
static bool is_dns_name(const char *text, size_t length)
{
    if (length == 0 || length > LABELS_PREFIX_MAX)
        return false;
    char before = '.';
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '.' || c == '-') {
            if (before == '.' || (c == '.' && before == '-'))
                return false;
        } else if (!is_lower_or_digit(c)) {
            return false;
        }
        before = c;
    }
    return before != '.' && before != '-';
}

bool labels_key_is_valid(const char *key, size_t length)
{
    const char *slash = memchr(key, '/', length);
    if (slash == NULL)
        return is_name(key, length, LABELS_NAME_MAX);
    size_t prefix = (size_t)(slash - key);
    return is_dns_name(key, prefix) && is_name(slash + 1, length - prefix - 1, LABELS_NAME_MAX);
}

bool labels_value_is_valid(const char *value, size_t length)
{
    return length == 0 || is_name(value, length, LABELS_VALUE_MAX);
}

void labels_done(struct labels *labels)
{
    for (size_t i = 0; i < labels->count; i++) {
        free(labels->items[i].key);
        free(labels->items[i].value);
    }
    free(labels->items);
    *labels = (struct labels){0};
}

static struct label *find(const struct labels *labels, const char *key)
{
    for (size_t i = 0; i < labels->count; i++)
        if (strcmp(labels->items[i].key, key) == 0)
            return &labels->items[i];
    return NULL;
}

void labels_set(struct labels *labels, const char *key, const char *value)
{
    struct label *label = find(labels, key);
    if (label != NULL) {
        free(label->value);
        label->value = mem_dup(value);
        return;
    }
    labels->items = mem_resize_array(labels->items, labels->count + 1, sizeof(struct label));
    labels->items[labels->count++] = (struct label){.key = mem_dup(key), .value = mem_dup(value)};
}

const char *labels_find(const struct labels *labels, const char *key)
{
    const struct label *label = find(labels, key);
    return label != NULL ? label->value : NULL;
}

static int check_label(const char *key, const json_t *value, struct problem *problem)
{
    char quoted[PROBLEM_QUOTE_MAX];
    char quoted_value[PROBLEM_QUOTE_MAX];
    problem_quote(key, quoted);
    if (!json_is_string(value))
        return problem_set(problem, PROBLEM_LABEL, "string_type", "metadata", key,
                           "`metadata`: the value of \"%s\" must be a string", quoted);
    if (str_starts_with(key, LABELS_RESERVED_PREFIX))
        return problem_set(problem, PROBLEM_LABEL, "value_error", "metadata", key,
                           "`metadata`: \"%s\" is reserved; keys that start with %s belong to the "
                           "server",
                           quoted, LABELS_RESERVED_PREFIX);
    if (!labels_key_is_valid(key, strlen(key)))
        return problem_set(
            problem, PROBLEM_LABEL, "value_error", "metadata", key,
            "`metadata`: \"%s\" is not a label key; allowed is a name of 1 to 63 letters, digits, "
            "'-', '_' and '.' that starts and ends with a letter or digit, with an optional "
            "lower-case DNS name and '/' before it",
            quoted);
    if (!labels_value_is_valid(json_string_value(value), json_string_length(value)))
        return problem_set(
            problem, PROBLEM_LABEL, "value_error", "metadata", key,
            "`metadata`: \"%s\" of \"%s\" is not a label value; allowed are 0 to 63 letters, "
            "digits, '-', '_' and '.' that start and end with a letter or digit",
            problem_quote(json_string_value(value), quoted_value), quoted);
    return 0;
}

int labels_parse(const json_t *object, struct labels *labels, struct problem *problem)
{
    *labels = (struct labels){0};
    if (!json_is_object(object))
        return problem_set(problem, PROBLEM_LABEL, "dict_type", "metadata", NULL,
                           "`metadata` must be an object of strings");
    if (json_object_size(object) > LABELS_MAX)
        return problem_set(problem, PROBLEM_LABEL, "too_long", "metadata", NULL,
                           "`metadata` has %zu entries; at most %d are allowed",
                           json_object_size(object), LABELS_MAX);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        int r = check_label(key, value, problem);
        if (r < 0) {
            labels_done(labels);
            return r;
        }
        labels_set(labels, key, json_string_value(value));
    }
    return 0;
}

json_t *labels_to_json(const struct labels *labels)
{
    json_t *object = json_object();
    for (size_t i = 0; i < labels->count; i++)
        json_object_set_new(object, labels->items[i].key, json_string(labels->items[i].value));
    return object;
}
