/* GET /files/download: a whole file, one byte range of it, or some of its lines.
 *
 * The kernel sends the file from its page cache (lines are read and written in pieces), on the
 * loop, as fast as the client takes it and never more than a little per turn, so that one download
 * cannot stop everything else; memory does not depend on its size. The length is announced from
 * fstat(): a file that shrinks while it is sent cuts the connection, one that grows is sent as it
 * was. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/conditions.h"
#include "execd/files.h"
#include "execd/files_range.h"
#include "execd/reply.h"
#include "execd/request.h"

#define PIECE_BYTES     (32 * 1024)
#define PIECES_PER_TURN 16
#define ETAG_MAX        80

enum mode { BYTES, UNTIL_END, LINES };

/* What the query and headers ask for. */
struct wish {
    char *path; /* expanded */
    const char *range;
    bool lines;
    uint64_t offset;
    uint64_t limit;
};

struct download {
    struct http_exchange *exchange;
    enum mode mode;
    int fd;
    uint64_t position; /* BYTES */
    uint64_t left;     /* BYTES */
    struct execd_line_window window;
    uv_idle_t next_turn;
};

/* --- sending ---------------------------------------------------------------------------------- */

static void finish(struct download *download)
{
    uv_idle_stop(&download->next_turn);
    http_exchange_end(download->exchange);
}

/* Shrunk or unreadable: never a wrong length. */
static bool cut(struct download *download)
{
    uv_idle_stop(&download->next_turn);
    http_exchange_abort(download->exchange);
    return false;
}

/* One piece; false when the answer is over, one way or the other. */
static bool send_piece(struct download *download)
{
    char bytes[PIECE_BYTES];
    ssize_t n = read(download->fd, bytes, sizeof(bytes));
    if (n < 0)
        return cut(download);
    bool over = n == 0;
    if (download->mode == LINES) {
        struct buf text;
        buf_init(&text, PIECE_BYTES + 2);
        over |= execd_line_window_feed(&download->window, bytes, (size_t)n, &text);
        if (text.length > 0)
            http_exchange_write(download->exchange, text.data, text.length);
        buf_done(&text);
    } else if (n > 0) {
        http_exchange_write(download->exchange, bytes, (size_t)n);
    }
    if (over)
        finish(download);
    return !over;
}

static bool send_from_file(struct download *download)
{
    ssize_t n = http_exchange_write_file(download->exchange, download->fd, download->position,
                                         (size_t)MIN(download->left, (uint64_t)SSIZE_MAX));
    if (n <= 0)
        return cut(download);
    download->position += (uint64_t)n;
    download->left -= (uint64_t)n;
    if (download->left == 0)
        finish(download);
    return download->left > 0;
}

static void on_turn(uv_idle_t *idle)
{
    struct download *download = idle->data;
    if (download->mode == BYTES) {
        if (send_from_file(download) && http_exchange_is_full(download->exchange))
            uv_idle_stop(idle); /* until on_drain */
        return;
    }
    for (int i = 0; i < PIECES_PER_TURN; i++) {
        if (http_exchange_is_full(download->exchange)) {
            uv_idle_stop(idle); /* until on_drain */
            return;
        }
        if (!send_piece(download))
            return;
    }
}

static void on_drain(struct http_exchange *exchange, void *ctx)
{
    (void)exchange;
    struct download *download = ctx;
    uv_idle_start(&download->next_turn, on_turn);
}

static void free_download(uv_handle_t *handle)
{
    struct download *download = handle->data;
    fd_close(download->fd);
    free(download);
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct download *download = ctx;
    uv_close((uv_handle_t *)&download->next_turn, free_download);
}

static struct download *new_download(struct http_exchange *exchange, int fd, enum mode mode)
{
    struct download *download = mem_alloc(sizeof(*download));
    download->exchange = exchange;
    download->fd = fd;
    download->mode = mode;
    uv_idle_init(http_exchange_loop(exchange), &download->next_turn);
    download->next_turn.data = download;
    http_exchange_on_close(exchange, on_close, download);
    http_exchange_on_drain(exchange, on_drain, download);
    return download;
}

/* --- the answer's head ------------------------------------------------------------------------ */

static void set_disposition(struct http_exchange *exchange, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    bool plain = true;
    for (const char *c = base; *c != '\0'; c++)
        plain &= *c >= ' ' && *c <= '~' && *c != '"' && *c != '\\';
    AUTO_FREE char *value = NULL;
    if (plain) {
        value = mem_printf("attachment; filename=\"%s\"", base);
    } else {
        struct buf encoded;
        buf_init(&encoded, 3 * strlen(base));
        url_encode(&encoded, base);
        value = mem_printf("attachment; filename=\"%s\"; filename*=UTF-8''%s", encoded.data,
                           encoded.data);
        buf_done(&encoded);
    }
    http_exchange_set_header(exchange, "Content-Disposition", value);
}

/* Without reading it: a file that is written again in the same instant of its file system's clock,
 * to the same length, keeps its tag. */
static void format_etag(const struct stat *st, char text[ETAG_MAX])
{
    snprintf(text, ETAG_MAX, "\"%llx-%llx-%llx%08lx\"", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, (unsigned long long)st->st_mtim.tv_sec,
             (unsigned long)st->st_mtim.tv_nsec);
}

static void reply_bad_range(struct http_exchange *exchange, const char *range, uint64_t size)
{
    char text[64];
    snprintf(text, sizeof(text), "bytes */%llu", (unsigned long long)size);
    http_exchange_set_header(exchange, "Content-Range", text);
    http_exchange_reply_error(exchange, 416, "UNKNOWN",
                              "Range \"%.100s\" is not bytes=FIRST-LAST, bytes=FIRST- or "
                              "bytes=-COUNT within the file's %llu bytes",
                              range, (unsigned long long)size);
}

/* Takes fd. */
static void send_lines(struct http_exchange *exchange, const struct wish *wish, int fd)
{
    struct download *download = new_download(exchange, fd, LINES);
    execd_line_window_init(&download->window, wish->offset, wish->limit);
    http_exchange_set_header(exchange, "Content-Type", "text/plain; charset=utf-8");
    http_exchange_begin(exchange, 200, -1);
    uv_idle_start(&download->next_turn, on_turn);
}

/* Answered without the file, because of what the client has or expects. */
static bool is_answered(struct http_exchange *exchange, const char *path,
                        const struct execd_version *version)
{
    int status = execd_conditions_check(&http_exchange_head(exchange)->headers, version);
    if (status == 304)
        http_exchange_reply(exchange, 304, NULL, NULL, 0);
    else if (status != 0)
        http_exchange_reply_error(exchange, status, "PRECONDITION_FAILED",
                                  "%.300s is not the version that the request expects", path);
    return status != 0;
}

/* What the head says of the file and its version. False when that was the whole answer. */
static bool set_version(struct http_exchange *exchange, const char *path, const struct stat *st,
                        bool *ret_range_allowed)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    char modified[EXECD_HTTP_DATE_MAX];
    char etag[ETAG_MAX];
    execd_http_date_write(st->st_mtime, modified);
    format_etag(st, etag);
    const struct execd_version version = {.etag = etag, .modified = st->st_mtime};
    http_exchange_set_header(exchange, "Last-Modified", modified);
    http_exchange_set_header(exchange, "ETag", etag);
    *ret_range_allowed = execd_conditions_allow_range(headers, &version);
    return !is_answered(exchange, path, &version);
}

static void set_range(struct http_exchange *exchange, uint64_t first, uint64_t last, uint64_t size)
{
    char text[96];
    snprintf(text, sizeof(text), "bytes %llu-%llu/%llu", (unsigned long long)first,
             (unsigned long long)last, (unsigned long long)size);
    http_exchange_set_header(exchange, "Content-Range", text);
}

/* `length` bytes from `first` on, or all there are (-1). Takes fd. */
static void send_part(struct http_exchange *exchange, int fd, int status, uint64_t first,
                      int64_t length)
{
    struct download *download = new_download(exchange, fd, length < 0 ? UNTIL_END : BYTES);
    download->position = first;
    download->left = length < 0 ? 0 : (uint64_t)length;
    http_exchange_begin(exchange, status, length);
    if (length == 0)
        finish(download);
    else
        uv_idle_start(&download->next_turn, on_turn);
}

static void send_bytes(struct http_exchange *exchange, const struct wish *wish, int fd_taken,
                       const struct stat *st)
{
    AUTO_CLOSE int fd = fd_taken;
    uint64_t size = (uint64_t)st->st_size;
    uint64_t first = 0;
    uint64_t last = 0;
    bool range_allowed;
    if (!set_version(exchange, wish->path, st, &range_allowed))
        return;
    /* A part is only good together with the version of the file it continues. */
    bool ranged = wish->range != NULL && range_allowed;
    if (ranged && execd_range_parse(wish->range, size, &first, &last) < 0) {
        reply_bad_range(exchange, wish->range, size);
        return;
    }
    http_exchange_set_header(exchange, "Content-Type", "application/octet-stream");
    http_exchange_set_header(exchange, "Accept-Ranges", "bytes");
    set_disposition(exchange, wish->path);
    if (ranged) {
        set_range(exchange, first, last, size);
        send_part(exchange, TAKE_FD(fd), 206, first, (int64_t)(last - first + 1));
        return;
    }
    /* Files of /proc and the like say 0 and have content all the same. */
    char probe;
    bool unknown = size == 0 && pread(fd, &probe, 1, 0) > 0;
    send_part(exchange, TAKE_FD(fd), 200, 0, unknown ? -1 : (int64_t)size);
}

/* --- the request ------------------------------------------------------------------------------ */

static int read_number(const struct url_query *query, const char *name, bool *ret_present,
                       uint64_t *ret, struct error *err)
{
    const char *text = url_query_find(query, name);
    if (text == NULL)
        return 0;
    if (str_to_u64(text, 1, INT64_MAX, ret) < 0)
        return error_set(err, ERR_INVALID, "`%s` must be a whole number from 1, not \"%.40s\"",
                         name, text);
    *ret_present = true;
    return 0;
}

static int read_wish(const struct execd *execd, const struct http_exchange *exchange,
                     const struct url_query *query, struct wish *wish, struct error *err)
{
    const struct http_headers *headers = &http_exchange_head(exchange)->headers;
    *wish = (struct wish){
        .range = http_headers_find(headers, "Range"),
        .offset = 1,
        .limit = UINT64_MAX,
    };
    if (read_number(query, "offset", &wish->lines, &wish->offset, err) < 0 ||
        read_number(query, "limit", &wish->lines, &wish->limit, err) < 0)
        return -1;
    if (wish->lines && wish->range != NULL)
        return error_set(err, ERR_INVALID,
                         "`offset` and `limit` (lines) cannot be combined with a Range header");
    return execd_files_resolve(execd, url_query_find(query, "path"), &wish->path, err);
}

static void open_and_send(struct http_exchange *exchange, const struct wish *wish)
{
    /* O_NONBLOCK: opening a FIFO must not wait. Regular files do not know it. */
    AUTO_CLOSE int fd = open(wish->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        struct error err = ERROR_INIT;
        execd_files_error(&err, errno, wish->path);
        execd_reply_failure(exchange, "INVALID_FILE", &err);
        return;
    }
    if (!S_ISREG(st.st_mode)) {
        http_exchange_reply_error(exchange, 400, "INVALID_FILE", "%.300s is %s", wish->path,
                                  S_ISDIR(st.st_mode) ? "a directory" : "not a regular file");
        return;
    }
    if (wish->lines)
        send_lines(exchange, wish, TAKE_FD(fd));
    else
        send_bytes(exchange, wish, TAKE_FD(fd), &st);
}

void execd_files_handle_download(struct http_exchange *exchange,
                                 const struct http_route_match *match, void *ctx)
{
    (void)match;
    struct execd *execd = ctx;
    struct url_query query;
    struct error err = ERROR_INIT;
    if (!execd_request_query(exchange, &query))
        return;
    struct wish wish = {0};
    const char *path = url_query_find(&query, "path");
    if (path == NULL || *path == '\0')
        http_exchange_reply_error(exchange, 400, "MISSING_QUERY", "`path` is required");
    else if (read_wish(execd, exchange, &query, &wish, &err) < 0)
        execd_reply_failure(exchange, "INVALID_REQUEST_BODY", &err);
    else
        open_and_send(exchange, &wish);
    free(TAKE_PTR(wish.path));
    url_query_done(&query);
}
