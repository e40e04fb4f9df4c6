/* Finding the delimiter. A delimiter is CRLF "--" boundary; the first one may stand at the very
 * beginning, which is handled by starting with the CRLF already matched. CR can only be its first
 * byte (boundaries have none), so after a mismatch the search can only begin anew at the byte that
 * did not match: no table, and nothing but a count is remembered between two feeds. Bytes that
 * looked like a delimiter at the end of one feed and were none are delivered from our own copy of
 * it.
 *
 * What follows the delimiter decides what it was: "--" ends the body, CRLF (after optional white
 * space) begins a part head, and anything else means that the boundary was only the beginning of a
 * longer line of data. Part heads are collected and checked like any head (http/scan.h). */
#include "http/multipart.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"
#include "http/quote.h"
#include "http/scan.h"
#include "http/url.h"

#define BOUNDARY_MAX    70
#define PART_HEAD_MAX   (8 * 1024)
#define PART_FIELDS_MAX 16
#define PARTS_MAX       10000

enum state {
    STATE_PREAMBLE,
    STATE_DATA,
    STATE_DELIMITER,    /* right behind a delimiter */
    STATE_CLOSE_DASH,   /* one '-' seen there */
    STATE_PADDING,      /* white space seen there */
    STATE_DELIMITER_LF, /* CR seen there */
    STATE_PART_HEAD,
    STATE_EPILOGUE,
    STATE_DEAD,
};

struct http_multipart {
    const struct http_multipart_events *events;
    void *ctx;
    enum state state;
    bool in_part; /* on_part was called, on_part_end not yet */
    size_t parts;
    size_t matched; /* bytes of the delimiter seen so far */
    size_t delimiter_length;
    char delimiter[4 + BOUNDARY_MAX + 1];
    struct http_scan scan;
    struct buf head;
};

/* --- parameters: `; name=value; name="value"` --------------------------------------------------
 */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static void skip_spaces(const char **at)
{
    while (is_space(**at))
        (*at)++;
}

/* Behind the opening quote. Only \" and \\ are escapes: a browser sends "C:\new" as it is. */
static char *read_quoted(const char **at)
{
    AUTO_FREE char *value = mem_alloc(strlen(*at) + 1);
    size_t length = 0;

    for (; **at != '"'; (*at)++) {
        if (**at == '\0')
            return NULL;
        if (**at == '\\' && ((*at)[1] == '"' || (*at)[1] == '\\'))
            (*at)++;
        value[length++] = **at;
    }
    (*at)++;
    return TAKE_PTR(value);
}

static char *read_unquoted(const char **at)
{
    size_t length = strcspn(*at, "; \t\"");
    char *value = mem_dup_n(*at, length);
    *at += length;
    return value;
}

/* The next parameter. 1 with both set (caller frees), 0 at the end, -EINVAL when malformed. */
static int next_param(const char **at, char **ret_name, char **ret_value)
{
    skip_spaces(at);
    while (**at == ';') { /* an empty parameter is harmless and some clients end with one */
        (*at)++;
        skip_spaces(at);
        if (**at == '\0')
            return 0;
        if (**at == ';')
            continue;

        size_t length = strcspn(*at, "=; \t\"");
        if (!http_is_token(*at, length))
            return -EINVAL;
        const char *name = *at;
        *at += length;
        skip_spaces(at);
        if (**at != '=')
            return -EINVAL;
        (*at)++;
        skip_spaces(at);
        bool quoted = **at == '"';
        *at += quoted;
        char *value = quoted ? read_quoted(at) : read_unquoted(at);
        if (value == NULL)
            return -EINVAL;
        *ret_name = mem_dup_n(name, length);
        *ret_value = value;
        return 1;
    }
    return **at == '\0' ? 0 : -EINVAL;
}

/* A parameter given twice could be read either way. */
static int set_once(char **member, char **value)
{
    if (*member != NULL)
        return -EINVAL;
    *member = TAKE_PTR(*value);
    return 0;
}

/* The word before the parameters, for example "form-data". */
static bool take_word(const char **at, const char *word)
{
    skip_spaces(at);
    size_t length = strcspn(*at, "; \t");
    bool equal = length == strlen(word) && strncasecmp(*at, word, length) == 0;
    *at += length;
    return equal;
}

/* --- the boundary ----------------------------------------------------------------------------- */

static bool is_boundary(const char *boundary)
{
    size_t length = strlen(boundary);
    if (length < 1 || length > BOUNDARY_MAX || boundary[length - 1] == ' ')
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = boundary[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && strchr("'()+_,-./:=? ", c) == NULL)
            return false;
    }
    return true;
}

/* NULL when there is none, or more than one, or a parameter is malformed. Caller frees. */
static char *read_boundary(const char *params)
{
    AUTO_FREE char *boundary = NULL;
    int r;
    do {
        AUTO_FREE char *name = NULL;
        AUTO_FREE char *value = NULL;
        r = next_param(&params, &name, &value);
        if (r > 0 && strcasecmp(name, "boundary") == 0)
            r = set_once(&boundary, &value) < 0 ? -EINVAL : r;
    } while (r > 0);
    if (r < 0 || boundary == NULL || !is_boundary(boundary))
        return NULL;
    return TAKE_PTR(boundary);
}

static char *find_boundary(const char *content_type, struct error *err)
{
    const char *params = content_type;
    char quoted[HTTP_QUOTE_MAX];
    char *boundary = NULL;

    http_quote(quoted, sizeof(quoted), content_type, strlen(content_type));
    if (!take_word(&params, "multipart/form-data"))
        error_set(err, ERR_INVALID, "Content-Type must be multipart/form-data, not \"%s\"", quoted);
    else if ((boundary = read_boundary(params)) == NULL)
        error_set(err, ERR_INVALID, "Content-Type has no usable boundary: \"%s\"", quoted);
    return boundary;
}

struct http_multipart *http_multipart_new(const char *content_type,
                                          const struct http_multipart_events *events, void *ctx,
                                          struct error *err)
{
    AUTO_FREE char *boundary = find_boundary(content_type == NULL ? "" : content_type, err);
    if (boundary == NULL)
        return NULL;

    struct http_multipart *multipart = mem_alloc(sizeof(*multipart));
    multipart->events = events;
    multipart->ctx = ctx;
    multipart->delimiter_length = 4 + strlen(boundary);
    memcpy(multipart->delimiter, "\r\n--", 4);
    memcpy(multipart->delimiter + 4, boundary, strlen(boundary));
    multipart->matched = 2;
    buf_init(&multipart->head, PART_HEAD_MAX);
    return multipart;
}

struct http_multipart *http_multipart_free(struct http_multipart *multipart)
{
    if (multipart == NULL)
        return NULL;
    buf_done(&multipart->head);
    free(multipart);
    return NULL;
}

/* --- part heads ------------------------------------------------------------------------------- */

struct part_head {
    char *name;
    char *filename;
    char *filename_extended; /* filename*=, decoded */
    char *type;
    bool has_disposition;
};

static void part_head_done(struct part_head *head)
{
    free(head->name);
    free(head->filename);
    free(head->filename_extended);
    free(head->type);
}

/* charset'language'percent-encoded, UTF-8 only; another charset is as good as absent. */
static int decode_extended(const char *value, char **ret)
{
    const char *first = strchr(value, '\'');
    const char *second = first == NULL ? NULL : strchr(first + 1, '\'');
    if (second == NULL)
        return -EINVAL;
    if (first - value != 5 || strncasecmp(value, "utf-8", 5) != 0)
        return 0;
    return url_decode(second + 1, strlen(second + 1), false, ret);
}

static int read_disposition(struct part_head *head, const char *text)
{
    if (head->has_disposition || !take_word(&text, "form-data"))
        return -EINVAL;
    head->has_disposition = true;

    int r;
    do {
        AUTO_FREE char *name = NULL;
        AUTO_FREE char *value = NULL;
        r = next_param(&text, &name, &value);
        if (r <= 0)
            break;
        int set = 0;
        if (strcasecmp(name, "name") == 0)
            set = set_once(&head->name, &value);
        else if (strcasecmp(name, "filename") == 0)
            set = set_once(&head->filename, &value);
        else if (strcasecmp(name, "filename*") == 0)
            set = head->filename_extended != NULL
                      ? -EINVAL
                      : decode_extended(value, &head->filename_extended);
        if (set < 0)
            r = set;
    } while (r > 0);
    return r;
}

static bool is_plain_encoding(const char *value)
{
    return str_equal_nocase(value, "binary") || str_equal_nocase(value, "8bit") ||
           str_equal_nocase(value, "7bit");
}

static int read_field(struct part_head *head, const char *name, char *value, struct error *err)
{
    char quoted[HTTP_QUOTE_MAX];
    http_quote(quoted, sizeof(quoted), value, strlen(value));
    if (strcasecmp(name, "Content-Disposition") == 0 && read_disposition(head, value) < 0)
        return error_set(err, ERR_INVALID, "malformed Content-Disposition of a part: \"%s\"",
                         quoted);
    if (strcasecmp(name, "Content-Type") == 0) {
        if (head->type != NULL)
            return error_set(err, ERR_INVALID, "a part has two Content-Type fields");
        head->type = mem_dup(value);
    }
    if (strcasecmp(name, "Content-Transfer-Encoding") == 0 && !is_plain_encoding(value))
        return error_set(err, ERR_UNSUPPORTED,
                         "Content-Transfer-Encoding of a part must be binary, not \"%s\"", quoted);
    return 0;
}

/* The scanner has seen to it that every line is `name ":" value CRLF` and the last one is empty. */
static int read_part_head(const char *text, struct part_head *head, struct error *err)
{
    while (*text != '\r') {
        size_t name_length = strcspn(text, ":");
        AUTO_FREE char *name = mem_dup_n(text, name_length);
        text += name_length + 1;
        size_t line_length = strcspn(text, "\r");
        size_t length = line_length;
        size_t begin = 0;
        while (begin < length && is_space(text[begin]))
            begin++;
        while (length > begin && is_space(text[length - 1]))
            length--;
        AUTO_FREE char *value = mem_dup_n(text + begin, length - begin);
        int r = read_field(head, name, value, err);
        if (r < 0)
            return r;
        text += line_length + 2;
    }
    return 0;
}

static int announce_part(struct http_multipart *multipart, struct error *err)
{
    CLEANUP(part_head_done) struct part_head head = {0};
    int r = read_part_head(multipart->head.data, &head, err);
    if (r < 0)
        return r;
    struct http_multipart_part part = {
        .name = head.name == NULL ? "" : head.name,
        .filename = head.filename != NULL ? head.filename : head.filename_extended,
        .type = head.type,
    };
    multipart->in_part = true;
    return multipart->events->on_part(multipart->ctx, &part, err);
}

static int step_part_head(struct http_multipart *multipart, struct http_input *in,
                          struct error *err)
{
    ssize_t scanned = http_scan_feed(&multipart->scan, in->bytes, in->length, err);
    if (scanned < 0)
        return (int)scanned;
    if (buf_add(&multipart->head, in->bytes, (size_t)scanned) < 0)
        return error_set(err, ERR_LIMIT, "part head: more than %d bytes", PART_HEAD_MAX);
    http_input_skip(in, (size_t)scanned);
    if (multipart->scan.state != HTTP_SCAN_DONE)
        return 0;
    int r = announce_part(multipart, err);
    buf_done(&multipart->head);
    multipart->state = STATE_DATA;
    return r;
}

/* --- data and delimiters ---------------------------------------------------------------------- */

static int deliver(struct http_multipart *multipart, const char *bytes, size_t length,
                   struct error *err)
{
    if (multipart->state == STATE_PREAMBLE || length == 0)
        return 0;
    return multipart->events->on_data(multipart->ctx, bytes, length, err);
}

/* Data up to a delimiter or the end of input. */
static int step_data(struct http_multipart *multipart, struct http_input *in, struct error *err)
{
    const char *start = in->bytes; /* of what is not yet delivered */
    const char *end = in->bytes + in->length;
    const char *at = start;
    size_t carried = multipart->matched; /* delimiter bytes that came with an earlier feed */

    while (at < end) {
        if (multipart->matched == 0) {
            const char *cr = memchr(at, '\r', (size_t)(end - at));
            multipart->matched = cr != NULL;
            at = cr == NULL ? end : cr + 1;
        } else if (*at == multipart->delimiter[multipart->matched]) {
            at++;
            if (++multipart->matched == multipart->delimiter_length)
                break;
        } else {
            int r = deliver(multipart, multipart->delimiter, carried, err);
            if (r < 0)
                return r;
            carried = 0;
            multipart->matched = 0;
        }
    }
    /* What is matched at the end of the input stays back, apart from what was never in it. */
    size_t data = (size_t)(at - start) - (multipart->matched - carried);
    in->bytes = at;
    in->length = (size_t)(end - at);
    int r = deliver(multipart, start, data, err);
    if (r == 0 && multipart->matched == multipart->delimiter_length)
        multipart->state = STATE_DELIMITER;
    return r;
}

static int end_part(struct http_multipart *multipart, struct error *err)
{
    if (!multipart->in_part)
        return 0;
    multipart->in_part = false;
    return multipart->events->on_part_end(multipart->ctx, err);
}

/* The delimiter was only the beginning of a longer line: it is data (or preamble) after all. */
static int resume_data(struct http_multipart *multipart, struct error *err)
{
    multipart->matched = 0;
    multipart->state = multipart->in_part ? STATE_DATA : STATE_PREAMBLE;
    return deliver(multipart, multipart->delimiter, multipart->delimiter_length, err);
}

static int step_delimiter(struct http_multipart *multipart, struct http_input *in,
                          struct error *err)
{
    char c = in->bytes[0];
    if (c != '-' && c != '\r' && !is_space(c))
        return resume_data(multipart, err);
    http_input_skip(in, 1);
    multipart->state = c == '-' ? STATE_CLOSE_DASH : c == '\r' ? STATE_DELIMITER_LF : STATE_PADDING;
    return end_part(multipart, err);
}

static int refuse_delimiter(char c, struct error *err)
{
    return error_set(err, ERR_INVALID, "byte 0x%02x is not allowed behind a multipart delimiter",
                     (unsigned char)c);
}

static int step_close_dash(struct http_multipart *multipart, struct http_input *in,
                           struct error *err)
{
    if (in->bytes[0] != '-')
        return refuse_delimiter(in->bytes[0], err);
    http_input_skip(in, 1);
    multipart->state = STATE_EPILOGUE;
    return 0;
}

static int step_padding(struct http_multipart *multipart, struct http_input *in, struct error *err)
{
    char c = in->bytes[0];
    if (c != '\r' && !is_space(c))
        return refuse_delimiter(c, err);
    http_input_skip(in, 1);
    if (c == '\r')
        multipart->state = STATE_DELIMITER_LF;
    return 0;
}

static int step_delimiter_lf(struct http_multipart *multipart, struct http_input *in,
                             struct error *err)
{
    if (in->bytes[0] != '\n')
        return refuse_delimiter(in->bytes[0], err);
    if (++multipart->parts > PARTS_MAX)
        return error_set(err, ERR_LIMIT, "multipart body of more than %d parts", PARTS_MAX);
    http_input_skip(in, 1);
    http_scan_init(&multipart->scan, "part head", false, PART_HEAD_MAX, PART_FIELDS_MAX);
    multipart->matched = 0;
    multipart->state = STATE_PART_HEAD;
    return 0;
}

static int step_epilogue(struct http_multipart *multipart, struct http_input *in, struct error *err)
{
    (void)multipart;
    (void)err;
    http_input_skip(in, in->length);
    return 0;
}

static int step_dead(struct http_multipart *multipart, struct http_input *in, struct error *err)
{
    (void)multipart;
    (void)in;
    return error_set(err, ERR_INVALID, "the multipart body was refused before");
}

int http_multipart_feed(struct http_multipart *multipart, const char *bytes, size_t length,
                        struct error *err)
{
    static int (*const steps[])(struct http_multipart *, struct http_input *, struct error *) = {
        [STATE_PREAMBLE] = step_data,       [STATE_DATA] = step_data,
        [STATE_DELIMITER] = step_delimiter, [STATE_CLOSE_DASH] = step_close_dash,
        [STATE_PADDING] = step_padding,     [STATE_DELIMITER_LF] = step_delimiter_lf,
        [STATE_PART_HEAD] = step_part_head, [STATE_EPILOGUE] = step_epilogue,
        [STATE_DEAD] = step_dead,
    };
    struct http_input in = {bytes, length};

    while (in.length > 0) {
        int r = steps[multipart->state](multipart, &in, err);
        if (r < 0) {
            multipart->state = STATE_DEAD;
            return r;
        }
    }
    return 0;
}

int http_multipart_end(struct http_multipart *multipart, struct error *err)
{
    if (multipart->state == STATE_EPILOGUE)
        return 0;
    multipart->state = STATE_DEAD;
    return error_set(err, ERR_INVALID, "the multipart body ends without its closing delimiter");
}
