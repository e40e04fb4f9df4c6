/* A stream of requests or responses: byte 0 chooses which, bytes 1 to 4 the sizes of the pieces.
 * Whole, in those pieces, and with every event asking to stop, the events must be the same. */
#include "http_events.h"

#define PREFIX 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < PREFIX)
        return 0;
    enum http_parser_kind kind = data[0] & 1 ? HTTP_PARSE_RESPONSES : HTTP_PARSE_REQUESTS;
    const char *method = data[0] & 2 ? "HEAD" : "GET";
    struct events_log whole = {0};
    struct events_log pieces = {0};
    struct events_log stopped = {.stop = true};

    events_run(&whole, kind, method, "", data + PREFIX, size - PREFIX, NULL, 0);
    events_run(&pieces, kind, method, "", data + PREFIX, size - PREFIX, data + 1, PREFIX - 1);
    events_run(&stopped, kind, method, "", data + PREFIX, size - PREFIX, data + 1, 2);
    events_assert_equal(&whole, &pieces);
    events_assert_equal(&whole, &stopped);
    events_done(&whole);
    events_done(&pieces);
    events_done(&stopped);
    return 0;
}
