/* A document, and every reader on its members. What was read must be within the limits, survive
 * being written and read again, and no message may carry bytes of the input as they are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Number of values; aborts when nested too deeply. */
static size_t count_values(const json_t *value, int depth)
{
    size_t count = 1;
    size_t index;
    const char *key;
    const json_t *child;
    if ((json_is_array(value) || json_is_object(value)) && ++depth > HTTP_JSON_DEPTH_MAX)
        abort();
    json_array_foreach(value, index, child) count += count_values(child, depth);
    json_object_foreach((json_t *)value, key, child) count += count_values(child, depth);
    return count;
}

static void check_message(int r, const struct error *err)
{
    if (r == 0)
        return;
    if (err->code != ERR_INVALID || err->message[0] == '\0')
        abort();
}

static void check_printable(const struct error *err)
{
    for (const char *at = err->message; *at != '\0'; at++)
        if (*at < 0x20 || *at > 0x7e)
            abort();
}

static void read_members(json_t *object)
{
    static const char *const keys[] = {"a", "b", "timeout", ""};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct error err = ERROR_INIT;
        const char *string = NULL;
        int64_t integer = 5;
        bool boolean = false;
        json_t *member = NULL;
        check_message(http_json_string(object, keys[i], 8, &string, &err), &err);
        if (string != NULL && strlen(string) > 8)
            abort();
        check_message(http_json_int(object, keys[i], -5, 5, &integer, &err), &err);
        if (integer < -5 || integer > 5)
            abort();
        check_message(http_json_bool(object, keys[i], &boolean, &err), &err);
        check_message(http_json_object(object, keys[i], &member, &err), &err);
        check_message(http_json_array(object, keys[i], &member, &err), &err);
        check_printable(&err);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = ERROR_INIT;
    json_t *value = http_json_parse((const char *)data, size, &err);
    if (value == NULL) {
        check_message(-1, &err);
        check_printable(&err);
        return 0;
    }
    if (count_values(value, 0) > HTTP_JSON_VALUES_MAX)
        abort();
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        abort();
    json_t *again = http_json_parse(text, strlen(text), &err);
    if (again == NULL || !json_equal(value, again))
        abort();
    read_members(value);
    json_decref(again);
    json_decref(value);
    free(text);
    return 0;
}
