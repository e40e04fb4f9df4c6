/* Parses, walks the whole document through the public functions, and checks what must hold for
 * every input: a document that was walked has no unused key, a refusal has a readable message. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void ask_for_everything(const struct toml *doc, const struct toml_value *table,
                               const char *key)
{
    struct error err = ERROR_INIT;
    const char *string = NULL;
    int64_t integer = 0;
    double number = 0;
    bool boolean = false;
    int answers = 0;
    answers += toml_get_string(doc, table, key, &string, &err) == 0;
    answers += toml_get_int(doc, table, key, INT64_MIN, INT64_MAX, &integer, &err) == 0;
    answers += toml_get_float(doc, table, key, -1e300, 1e300, &number, &err) == 0;
    answers += toml_get_bool(doc, table, key, &boolean, &err) == 0;
    require(answers <= 2); /* an integer is also a float, nothing else is two things */
    require(answers == 4 || str_is_utf8(err.message, strlen(err.message)));
}

static void walk(const struct toml *doc, const struct toml_value *value, int depth)
{
    require(depth <= 16 && toml_line(value) >= 1);
    const char *key;
    switch (toml_type(value)) {
    case TOML_TABLE:
        for (size_t i = 0; (key = toml_table_key(value, i)) != NULL; i++) {
            require(str_is_utf8(key, strlen(key)));
            ask_for_everything(doc, value, key);
            walk(doc, toml_find(value, key), depth + 1);
        }
        break;
    case TOML_ARRAY:
        for (size_t i = 0; i < toml_array_count(value); i++)
            walk(doc, toml_array_at(value, i), depth + 1);
        require(toml_array_at(value, toml_array_count(value)) == NULL);
        break;
    case TOML_STRING:
        require(str_is_utf8(toml_string(value), strlen(toml_string(value))));
        break;
    default:
        require(toml_string(value) == NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    struct toml *doc = NULL;
    if (toml_parse("fuzz", (const char *)data, size, &doc, &err) < 0) {
        require(doc == NULL && err.code != ERR_OK && str_starts_with(err.message, "fuzz:"));
        require(str_is_utf8(err.message, strlen(err.message)));
        return 0;
    }
    const struct toml_value *root = toml_root(doc);
    require(toml_table_key(root, 0) == NULL || toml_check_unused(doc, &err) < 0);
    walk(doc, root, 0);
    require(toml_check_unused(doc, NULL) == 0);
    toml_free(doc);
    return 0;
}
