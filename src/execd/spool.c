/* Records, each a header and bytes of one output, follow each other in one endless range of "raw"
 * positions. The end of that range (the tail) is in memory, what came before it is in the store: a
 * file or a piece of memory that is used as a ring, so a raw position is a place in the store
 * modulo its size. Nothing has to be freed to evict: the ring is overwritten.
 *
 * Every so many bytes there is a point: a record's beginning, with its offset and what line
 * splitters hold there. Points are what eviction goes by and where every search begins. The first
 * is the oldest place kept. */
#include "execd/spool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define HEADER_BYTES sizeof(uint32_t)
#define HEADER_TAG   (1U << 31)   /* standard error */
#define PIECE_MAX    (32U * 1024) /* output bytes of one record */
#define TAIL_MAX     4096
#define POINTS_MAX   258 /* one per 1/256 of the store, one more before eviction, one at its end */
#define STEP_MIN     4096
#define BLOCK_BYTES  (TAIL_MAX + HEADER_BYTES + PIECE_MAX)

struct execd_spool {
    uint64_t total;
    char *directory; /* NULL: none of its own */
    uint64_t limit_bytes;

    int fd;       /* -1: none */
    char *memory; /* NULL: none; at most one of these two */
    uint64_t size;
    uint64_t file_bytes; /* high-water mark */
    uint64_t end;        /* raw: behind the last byte in the store */

    struct buf tail;    /* records at raw positions from `end` on */
    size_t last_record; /* header of the last one in the tail, when that is not empty */
    struct execd_spool_point tail_point; /* its beginning */
    struct execd_line_mark marks[2];     /* after everything */

    struct execd_spool_point *points; /* NULL until there is a store */
    size_t point_count;
};

/* What was last read from or written to a file, of any spool: readers mostly go on where they were,
 * and one loop thread serves them all. */
static struct {
    const struct execd_spool *spool;
    uint64_t raw;
    size_t length;
    char bytes[BLOCK_BYTES];
} block;

/* --- life ------------------------------------------------------------------------------------- */

struct execd_spool *execd_spool_new(uint64_t limit_bytes, const char *directory)
{
    assert(limit_bytes >= EXECD_SPOOL_BYTES_MIN && limit_bytes <= EXECD_SPOOL_BYTES_MAX);
    struct execd_spool *spool = mem_alloc(sizeof(*spool));
    spool->fd = -1;
    spool->limit_bytes = limit_bytes;
    spool->directory = mem_dup(directory);
    buf_init(&spool->tail, TAIL_MAX);
    return spool;
}

struct execd_spool *execd_spool_free(struct execd_spool *spool)
{
    if (spool == NULL)
        return NULL;
    if (block.spool == spool)
        block.spool = NULL;
    fd_close(spool->fd);
    free(spool->memory);
    free(spool->directory);
    free(spool->points);
    buf_done(&spool->tail);
    free(spool);
    return NULL;
}

uint64_t execd_spool_total(const struct execd_spool *spool)
{
    return spool == NULL ? 0 : spool->total;
}

uint64_t execd_spool_oldest(const struct execd_spool *spool)
{
    return spool == NULL || spool->points == NULL ? 0 : spool->points[0].offset;
}

uint64_t execd_spool_file_bytes(const struct execd_spool *spool)
{
    return spool == NULL || spool->fd < 0 ? 0 : spool->file_bytes;
}

size_t execd_spool_memory_bytes(const struct execd_spool *spool)
{
    if (spool == NULL)
        return 0;
    return sizeof(*spool) + spool->tail.capacity +
           (spool->points != NULL ? POINTS_MAX * sizeof(*spool->points) : 0) +
           (spool->memory != NULL ? EXECD_SPOOL_MEMORY_BYTES : 0);
}

/* --- the store -------------------------------------------------------------------------------- */

static int open_file(const char *directory)
{
    int fd = open(directory, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    AUTO_FREE char *path = mem_printf("%s/.execd-XXXXXX", directory);
    fd = mkostemp(path, O_CLOEXEC); /* a file system or kernel without O_TMPFILE */
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int open_anywhere(const char *directory)
{
    const char *const places[] = {directory, "/tmp", "/var/tmp", "/"};
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        int fd = places[i] == NULL || places[i][0] != '/' ? -1 : open_file(places[i]);
        if (fd >= 0)
            return fd;
    }
    return -1;
}

static void start_points(struct execd_spool *spool)
{
    if (spool->points == NULL)
        spool->points = mem_alloc_array(POINTS_MAX, sizeof(*spool->points));
    spool->points[0] = spool->tail_point;
    spool->point_count = 1;
}

static void use_memory(struct execd_spool *spool)
{
    spool->fd = fd_close(spool->fd);
    spool->size = EXECD_SPOOL_MEMORY_BYTES;
    spool->memory = mem_alloc(spool->size);
    start_points(spool); /* what the file held is lost */
}

static void open_store(struct execd_spool *spool)
{
    spool->fd = open_anywhere(spool->directory);
    spool->size = spool->limit_bytes;
    if (spool->fd < 0)
        use_memory(spool);
    else
        start_points(spool);
    free(TAKE_PTR(spool->directory));
}

static int write_file(struct execd_spool *spool, uint64_t place, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = pwrite(spool->fd, bytes, length, (off_t)place);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        place += (size_t)n;
        length -= (size_t)n;
        spool->file_bytes = MAX(spool->file_bytes, place);
    }
    return 0;
}

/* The block to its place in the ring, in two parts where the ring ends. */
static int write_block(struct execd_spool *spool)
{
    uint64_t place = spool->end % spool->size;
    size_t first = (size_t)MIN((uint64_t)block.length, spool->size - place);
    if (spool->memory != NULL) {
        memcpy(spool->memory + place, block.bytes, first);
        memcpy(spool->memory, block.bytes + first, block.length - first);
        return 0;
    }
    if (write_file(spool, place, block.bytes, first) < 0)
        return -1;
    return write_file(spool, 0, block.bytes + first, block.length - first);
}

/* --- appending -------------------------------------------------------------------------------- */

/* Make room for `needed` raw bytes behind `end`. */
static void evict(struct execd_spool *spool, size_t needed)
{
    uint64_t end = spool->end + needed;
    size_t gone = 0;
    while (gone < spool->point_count && end - spool->points[gone].raw > spool->size)
        gone++;
    if (gone == spool->point_count) {
        start_points(spool); /* everything before the tail */
        return;
    }
    spool->point_count -= gone;
    memmove(spool->points, spool->points + gone, spool->point_count * sizeof(*spool->points));
}

static void add_point(struct execd_spool *spool)
{
    uint64_t step = MAX(spool->size / 256, (uint64_t)STEP_MIN);
    const struct execd_spool_point *last = &spool->points[spool->point_count - 1];
    if (spool->end - last->raw < step)
        return;
    assert(spool->point_count < POINTS_MAX);
    spool->points[spool->point_count++] = spool->tail_point;
}

/* Move the tail and one more record behind it to the store. */
static void flush(struct execd_spool *spool, uint32_t header, const char *bytes, size_t length)
{
    block.spool = NULL;
    block.length = 0;
    memcpy(block.bytes, spool->tail.data, spool->tail.length);
    memcpy(block.bytes + spool->tail.length, &header, HEADER_BYTES);
    memcpy(block.bytes + spool->tail.length + HEADER_BYTES, bytes, length);
    block.length = spool->tail.length + HEADER_BYTES + length;
    if (spool->points == NULL)
        open_store(spool);
    evict(spool, block.length);
    add_point(spool);
    if (write_block(spool) < 0) {
        use_memory(spool); /* no space, or worse */
        (void)write_block(spool);
    }
    block.spool = spool;
    block.raw = spool->end;
    spool->end += block.length;
    buf_done(&spool->tail);
}

static void append_piece(struct execd_spool *spool, enum execd_output which, const char *bytes,
                         size_t length)
{
    uint32_t tag = which == EXECD_STDERR ? HEADER_TAG : 0;
    uint32_t header = tag | (uint32_t)length;
    struct buf *tail = &spool->tail;
    uint32_t last = 0;
    if (tail->length > 0)
        memcpy(&last, tail->data + spool->last_record, HEADER_BYTES);
    if (last != 0 && (last & HEADER_TAG) == tag && length <= TAIL_MAX - tail->length) {
        last += (uint32_t)length; /* programs that write byte by byte get one record all the same */
        memcpy(tail->data + spool->last_record, &last, HEADER_BYTES);
        (void)buf_add(tail, bytes, length);
    } else if (HEADER_BYTES + length <= TAIL_MAX - tail->length) {
        spool->last_record = tail->length;
        (void)buf_add(tail, &header, HEADER_BYTES);
        (void)buf_add(tail, bytes, length);
    } else {
        flush(spool, header, bytes, length);
    }
    execd_line_mark_feed(&spool->marks[which], EXECD_LINE_MAX, bytes, length, spool->total);
    spool->total += length;
    if (tail->length == 0)
        spool->tail_point = (struct execd_spool_point){
            .offset = spool->total,
            .raw = spool->end,
            .marks = {spool->marks[0], spool->marks[1]},
        };
}

void execd_spool_append(struct execd_spool *spool, enum execd_output which, const char *bytes,
                        size_t length)
{
    while (length > 0) {
        size_t part = MIN(length, (size_t)PIECE_MAX);
        append_piece(spool, which, bytes, part);
        bytes += part;
        length -= part;
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static uint64_t raw_end(const struct execd_spool *spool)
{
    return spool->end + spool->tail.length;
}

/* Some bytes at a raw position that is kept, at least one, at most *ret_length; NULL when the file
 * cannot be read. */
static const char *peek_file(struct execd_spool *spool, uint64_t raw, size_t *ret_length)
{
    if (block.spool != spool || raw < block.raw || raw >= block.raw + block.length) {
        uint64_t place = raw % spool->size;
        uint64_t most = MIN(spool->end - raw, spool->size - place);
        ssize_t n =
            pread(spool->fd, block.bytes, (size_t)MIN(most, sizeof(block.bytes)), (off_t)place);
        block.spool = NULL;
        if (n <= 0)
            return NULL;
        block.spool = spool;
        block.raw = raw;
        block.length = (size_t)n;
    }
    size_t skip = (size_t)(raw - block.raw);
    *ret_length = MIN(*ret_length, block.length - skip);
    return block.bytes + skip;
}

static const char *peek(struct execd_spool *spool, uint64_t raw, size_t *ret_length)
{
    if (raw >= spool->end) {
        size_t skip = (size_t)(raw - spool->end);
        *ret_length = MIN(*ret_length, spool->tail.length - skip);
        return spool->tail.data + skip;
    }
    if (spool->memory == NULL)
        return peek_file(spool, raw, ret_length);
    uint64_t place = raw % spool->size;
    uint64_t most = MIN(spool->end - raw, spool->size - place);
    *ret_length = (size_t)MIN((uint64_t)*ret_length, most);
    return spool->memory + place;
}

/* The record at a raw position: its output and its length, within what there is. */
static int read_header(struct execd_spool *spool, uint64_t record, uint64_t offset,
                       enum execd_output *ret_which, size_t *ret_length)
{
    uint32_t header;
    char *to = (char *)&header;
    if (raw_end(spool) - record <= HEADER_BYTES)
        return -EIO;
    for (size_t have = 0; have < HEADER_BYTES;) {
        size_t part = HEADER_BYTES - have;
        const char *bytes = peek(spool, record + have, &part);
        if (bytes == NULL)
            return -EIO;
        memcpy(to + have, bytes, part);
        have += part;
    }
    size_t length = header & ~HEADER_TAG;
    if (length == 0 || length > PIECE_MAX || length > spool->total - offset ||
        length > raw_end(spool) - record - HEADER_BYTES)
        return -EIO;
    *ret_which = (header & HEADER_TAG) != 0 ? EXECD_STDERR : EXECD_STDOUT;
    *ret_length = length;
    return 0;
}

/* The last point at or before an offset that is kept. */
static const struct execd_spool_point *point_before(const struct execd_spool *spool,
                                                    uint64_t offset)
{
    static const struct execd_spool_point beginning;
    if (offset >= spool->tail_point.offset)
        return &spool->tail_point;
    if (spool->points == NULL)
        return &beginning;
    size_t low = 0;
    size_t high = spool->point_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (spool->points[middle].offset <= offset)
            low = middle;
        else
            high = middle;
    }
    return &spool->points[low];
}

int execd_spool_seek(struct execd_spool *spool, uint64_t offset, struct execd_spool_cursor *ret)
{
    assert(offset >= execd_spool_oldest(spool) && offset <= execd_spool_total(spool));
    if (spool == NULL) {
        *ret = (struct execd_spool_cursor){0};
        return 0;
    }
    const struct execd_spool_point *point = point_before(spool, offset);
    struct execd_spool_cursor at = {.offset = point->offset, .record = point->raw};
    while (at.offset < offset) {
        enum execd_output which;
        size_t length;
        if (read_header(spool, at.record, at.offset, &which, &length) < 0)
            return -EIO;
        at.skip = (size_t)MIN(offset - at.offset, (uint64_t)length);
        at.offset += at.skip;
        if (at.skip == length && at.offset < offset) {
            at.record += HEADER_BYTES + length;
            at.skip = 0;
        }
    }
    *ret = at;
    return 0;
}

ssize_t execd_spool_read(struct execd_spool *spool, struct execd_spool_cursor *cursor, size_t max,
                         enum execd_output *ret_which, const char **ret_bytes)
{
    if (cursor->offset == execd_spool_total(spool))
        return 0;
    if (cursor->offset < execd_spool_oldest(spool))
        return -ESTALE;
    /* The record read last is gone, and the next one is the oldest now. */
    if (spool->points != NULL && cursor->record < spool->points[0].raw)
        *cursor = (struct execd_spool_cursor){cursor->offset, spool->points[0].raw, 0};
    size_t length = 0;
    if (read_header(spool, cursor->record, cursor->offset - cursor->skip, ret_which, &length) < 0 ||
        cursor->skip > length)
        return -EIO;
    if (cursor->skip == length) { /* there is more, so there is another record */
        cursor->record += HEADER_BYTES + length;
        cursor->skip = 0;
        if (read_header(spool, cursor->record, cursor->offset, ret_which, &length) < 0)
            return -EIO;
    }
    size_t part = MIN(max, length - cursor->skip);
    *ret_bytes = peek(spool, cursor->record + HEADER_BYTES + cursor->skip, &part);
    if (*ret_bytes == NULL)
        return -EIO;
    cursor->offset += part;
    cursor->skip += part;
    return (ssize_t)part;
}

void execd_spool_find_point(const struct execd_spool *spool, uint64_t offset,
                            struct execd_spool_point *ret)
{
    if (spool == NULL) {
        *ret = (struct execd_spool_point){0};
        return;
    }
    uint64_t oldest = execd_spool_oldest(spool);
    const struct execd_spool_point *point = point_before(spool, MAX(offset, oldest));
    /* Before the lines that are unfinished there. Those unfinished at the place found then have
     * ended by the first one, so before `offset`. */
    uint64_t start = point->offset;
    for (size_t i = 0; i < ARRAY_LEN(point->marks); i++) {
        if (point->marks[i].length > 0)
            start = MIN(start, point->marks[i].start);
    }
    *ret = *point_before(spool, MAX(start, oldest));
}
