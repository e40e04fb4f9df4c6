/* The recorded output of a command, against a model that keeps everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macros.h"
#include "execd/spool.h"

#define MODEL_MAX (4 * 1024 * 1024)

struct model {
    struct execd_spool *spool;
    size_t total;
    char bytes[MODEL_MAX];
    char which[MODEL_MAX];
};

static struct model model;

static void open_model(uint64_t limit, const char *directory)
{
    model.spool = execd_spool_new(limit, directory);
    model.total = 0;
}

static void append(enum execd_output which, size_t length)
{
    assert_true(model.total + length <= MODEL_MAX);
    char *to = model.bytes + model.total;
    for (size_t i = 0; i < length; i++)
        to[i] = random() % 40 == 0 ? '\n' : random() % 60 == 0 ? '\r' : (char)('a' + random() % 26);
    memset(model.which + model.total, (int)which, length);
    execd_spool_append(model.spool, which, to, length);
    model.total += length;
    assert_int_equal(execd_spool_total(model.spool), model.total);
    assert_true(execd_spool_oldest(model.spool) <= model.total);
}

static enum execd_output any_output(void)
{
    return random() % 2 == 0 ? EXECD_STDOUT : EXECD_STDERR;
}

/* Everything from `offset` on is as in the model. */
static void check_from(uint64_t offset)
{
    struct execd_spool_cursor cursor;
    assert_int_equal(execd_spool_seek(model.spool, offset, &cursor), 0);
    assert_int_equal(cursor.offset, offset);
    for (;;) {
        enum execd_output which;
        const char *bytes;
        size_t max = 1 + (size_t)random() % 50000;
        uint64_t before = cursor.offset;
        ssize_t n = execd_spool_read(model.spool, &cursor, max, &which, &bytes);
        assert_true(n >= 0 && (size_t)n <= max);
        assert_int_equal(cursor.offset, before + (size_t)n);
        if (n == 0)
            break;
        assert_memory_equal(bytes, model.bytes + before, (size_t)n);
        for (size_t i = 0; i < (size_t)n; i++)
            assert_int_equal(model.which[before + i], which);
    }
    assert_int_equal(cursor.offset, model.total);
}

static void check_some(void)
{
    uint64_t oldest = execd_spool_oldest(model.spool);
    check_from(oldest);
    check_from(model.total);
    for (int i = 0; i < 4; i++)
        check_from(oldest + (uint64_t)random() % (model.total - oldest + 1));
}

static void close_model(void)
{
    model.spool = execd_spool_free(model.spool);
}

static void test_nothing(void **state)
{
    (void)state;
    assert_int_equal(execd_spool_total(NULL), 0);
    assert_int_equal(execd_spool_oldest(NULL), 0);
    struct execd_spool_cursor cursor;
    enum execd_output which;
    const char *bytes;
    assert_int_equal(execd_spool_seek(NULL, 0, &cursor), 0);
    assert_int_equal(execd_spool_read(NULL, &cursor, 10, &which, &bytes), 0);
    struct execd_spool_point point;
    execd_spool_find_point(NULL, 0, &point);
    assert_int_equal(point.offset, 0);
    assert_null(execd_spool_free(NULL));
}

static void test_little_stays_in_memory(void **state)
{
    (void)state;
    open_model(EXECD_SPOOL_BYTES_DEFAULT, NULL);
    for (int i = 0; i < 100; i++)
        append(any_output(), 1 + (size_t)random() % 30);
    check_some();
    assert_int_equal(execd_spool_file_bytes(model.spool), 0);
    assert_true(execd_spool_memory_bytes(model.spool) < 6000);
    close_model();
}

static void test_single_bytes_are_one_record(void **state)
{
    (void)state;
    open_model(EXECD_SPOOL_BYTES_DEFAULT, NULL);
    struct execd_spool_cursor cursor;
    assert_int_equal(execd_spool_seek(model.spool, 0, &cursor), 0);
    for (int i = 0; i < 4000; i++) {
        append(EXECD_STDOUT, 1);
        if (i % 100 == 50) { /* a reader in the middle of a record that grows */
            enum execd_output which;
            const char *bytes;
            uint64_t at = cursor.offset;
            ssize_t n = execd_spool_read(model.spool, &cursor, SIZE_MAX, &which, &bytes);
            assert_int_equal(at + (uint64_t)n, model.total);
            assert_memory_equal(bytes, model.bytes + at, (size_t)n);
        }
    }
    assert_int_equal(execd_spool_file_bytes(model.spool), 0);
    check_some();
    close_model();
}

static size_t random_length(void)
{
    switch (random() % 4) {
    case 0:
        return 1 + (size_t)random() % 5;
    case 1:
        return 1 + (size_t)random() % 300;
    case 2:
        return 3000 + (size_t)random() % 3000;
    default:
        return 1 + (size_t)random() % 100000;
    }
}

static void fill_and_check(size_t most)
{
    uint64_t oldest = 0;
    while (model.total + 200000 < most) {
        append(any_output(), random_length());
        assert_true(execd_spool_oldest(model.spool) >= oldest);
        oldest = execd_spool_oldest(model.spool);
        if (random() % 4 == 0)
            check_some();
    }
    check_some();
}

static void test_ring(void **state)
{
    (void)state;
    srandom(1);
    for (uint64_t limit = EXECD_SPOOL_BYTES_MIN; limit < 1024 * 1024; limit = limit * 2 + 77) {
        open_model(limit, NULL);
        fill_and_check(3 * 1024 * 1024);
        assert_true(execd_spool_file_bytes(model.spool) > 0);
        assert_true(execd_spool_file_bytes(model.spool) <= limit);
        /* Records are evicted by steps and in order: most of the limit is in use. */
        assert_true(model.total - execd_spool_oldest(model.spool) <= limit);
        assert_true(model.total - execd_spool_oldest(model.spool) >= limit / 3);
        close_model();
    }
}

/* Records of one byte each: the file is bounded all the same. */
static void test_tiny_records(void **state)
{
    (void)state;
    open_model(EXECD_SPOOL_BYTES_MIN, NULL);
    for (int i = 0; i < 100000; i++)
        append(i % 2 == 0 ? EXECD_STDOUT : EXECD_STDERR, 1);
    check_some();
    assert_true(execd_spool_file_bytes(model.spool) <= EXECD_SPOOL_BYTES_MIN);
    assert_true(execd_spool_oldest(model.spool) > 0);
    close_model();
}

/* A reader that goes on while more is recorded: it gets everything, or is told. */
static void test_slow_reader(void **state)
{
    (void)state;
    srandom(7);
    for (int round = 0; round < 20; round++) {
        open_model(EXECD_SPOOL_BYTES_MIN, NULL);
        struct execd_spool_cursor cursor;
        assert_int_equal(execd_spool_seek(model.spool, 0, &cursor), 0);
        size_t stale = 0;
        while (model.total < 1024 * 1024) {
            append(any_output(), 1 + (size_t)random() % 20000);
            for (long i = random() % 4; i > 0; i--) {
                enum execd_output which;
                const char *bytes;
                uint64_t before = cursor.offset;
                ssize_t n = execd_spool_read(model.spool, &cursor, 4096, &which, &bytes);
                if (n == -ESTALE) {
                    uint64_t oldest = execd_spool_oldest(model.spool);
                    assert_true(before < oldest);
                    assert_int_equal(execd_spool_seek(model.spool, oldest, &cursor), 0);
                    stale++;
                    continue;
                }
                assert_true(n >= 0);
                if (n > 0)
                    assert_memory_equal(bytes, model.bytes + before, (size_t)n);
            }
        }
        assert_true(stale > 0);
        close_model();
    }
}

/* --- lines ------------------------------------------------------------------------------------ */

struct line {
    uint64_t end;
    size_t length;
    uint64_t sum;
    size_t missing; /* bytes of its beginning */
};
struct line_list {
    struct execd_lines lines[2];
    enum execd_output which;
    uint64_t after;
    size_t count;
    struct line items[400000];
};

static void add_line(void *ctx, const char *text, size_t length, uint64_t end)
{
    struct line_list *list = ctx;
    if (end <= list->after)
        return;
    assert_true(list->count < ARRAY_LEN(list->items));
    struct line *line = &list->items[list->count++];
    *line = (struct line){end, length, 0, list->lines[list->which].missing};
    for (size_t i = 0; i < length; i++)
        line->sum = line->sum * 31 + (unsigned char)text[i];
}

static void list_start(struct line_list *list, const struct execd_spool_point *point,
                       uint64_t after)
{
    list->count = 0;
    list->after = after;
    for (size_t i = 0; i < 2; i++) {
        execd_lines_init(&list->lines[i], EXECD_LINE_MAX);
        execd_lines_resume(&list->lines[i], &point->marks[i]);
    }
}

static void list_end(struct line_list *list)
{
    execd_lines_done(&list->lines[0]);
    execd_lines_done(&list->lines[1]);
}

/* All lines that the spool still has behind `after`, from the point it names. */
static void list_from(struct line_list *list, uint64_t after)
{
    struct execd_spool_point point;
    struct execd_spool_cursor cursor;
    execd_spool_find_point(model.spool, after, &point);
    assert_true(point.offset >= execd_spool_oldest(model.spool));
    assert_true(point.offset <= MAX(after, execd_spool_oldest(model.spool)));
    assert_int_equal(execd_spool_seek(model.spool, point.offset, &cursor), 0);
    list_start(list, &point, after);
    for (;;) {
        const char *bytes;
        uint64_t at = cursor.offset;
        ssize_t n = execd_spool_read(model.spool, &cursor, SIZE_MAX, &list->which, &bytes);
        assert_true(n >= 0);
        if (n == 0)
            break;
        execd_lines_feed(&list->lines[list->which], bytes, (size_t)n, at, add_line, list);
    }
    list_end(list);
}

static void list_model(struct line_list *list)
{
    static const struct execd_spool_point beginning;
    list_start(list, &beginning, 0);
    for (size_t i = 0, n; i < model.total; i += n) {
        for (n = 1; i + n < model.total && model.which[i + n] == model.which[i];)
            n++;
        list->which = (enum execd_output)model.which[i];
        execd_lines_feed(&list->lines[list->which], model.bytes + i, n, i, add_line, list);
    }
    list_end(list);
}

/* Whoever comes back with the end of the last line it saw gets exactly the lines after it; only at
 * the oldest end of what is kept one line of each output may have lost its beginning. */
static size_t check_lines(const struct line *got, const struct line *want, size_t count)
{
    size_t cut = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(got[i].end, want[i].end);
        assert_int_equal(got[i].length + got[i].missing, want[i].length);
        if (got[i].missing == 0)
            assert_true(got[i].sum == want[i].sum);
        else
            cut++;
    }
    return cut;
}

static void test_no_line_twice_and_none_lost(void **state)
{
    (void)state;
    static struct line_list all;
    static struct line_list some;
    srandom(3);
    for (int round = 0; round < 6; round++) {
        open_model(round % 2 == 0 ? EXECD_SPOOL_BYTES_DEFAULT : 512 * 1024, NULL);
        while (model.total < 3 * 1024 * 1024)
            append(any_output(), random_length());
        list_model(&all);
        uint64_t oldest = execd_spool_oldest(model.spool);
        for (int i = 0; i < 60; i++) {
            size_t last = (size_t)random() % all.count;
            uint64_t after = all.items[last].end;
            if (after < oldest)
                continue;
            list_from(&some, after);
            assert_int_equal(some.count, all.count - last - 1);
            size_t cut = check_lines(some.items, all.items + last + 1, some.count);
            assert_true(cut <= (oldest == 0 ? 0 : 2));
        }
        close_model();
    }
}

/* A line that is longer than everything that is kept: its pieces end where they ended before. */
static void test_endless_line(void **state)
{
    (void)state;
    static struct line_list all;
    static struct line_list some;
    open_model(512 * 1024, NULL);
    while (model.total + 20000 < MODEL_MAX) {
        size_t length = 20000;
        memset(model.bytes + model.total, 'x', length);
        memset(model.which + model.total, EXECD_STDOUT, length);
        execd_spool_append(model.spool, EXECD_STDOUT, model.bytes + model.total, length);
        model.total += length;
        if (model.total < 3 * EXECD_LINE_MAX)
            continue;
        list_model(&all);
        list_from(&some, all.items[all.count - 1].end);
        assert_int_equal(some.count, 0);
        if (execd_spool_oldest(model.spool) < all.items[all.count - 1].end)
            list_from(&some, all.items[all.count - 2].end);
        if (some.count == 0)
            continue;
        assert_int_equal(some.count, 1);
        assert_int_equal(check_lines(some.items, &all.items[all.count - 1], 1), 1);
    }
    close_model();
}

/* --- trouble ---------------------------------------------------------------------------------- */

/* Files may not grow over so many bytes. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state)
{
    (void)state;
    srandom(11);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 500000; room = room * 3 + 5000) {
        limit_files(room);
        open_model(EXECD_SPOOL_BYTES_DEFAULT, NULL);
        fill_and_check(2 * 1024 * 1024);
        limit_files(RLIM_INFINITY);
        assert_int_equal(execd_spool_file_bytes(model.spool), 0);
        uint64_t kept = model.total - execd_spool_oldest(model.spool);
        assert_true(kept > 0 && kept <= EXECD_SPOOL_MEMORY_BYTES + 4096);
        close_model();
    }
}

/* Number of an fd that only a spool's file can have: the only one of this size that was unlinked.
 */
static int find_file(uint64_t size)
{
    for (int fd = 3; fd < 64; fd++) {
        struct stat st;
        if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0 &&
            (uint64_t)st.st_size == size)
            return fd;
    }
    return -1;
}

/* Programs of the sandbox may write to the file. */
static void test_tampered_file(void **state)
{
    (void)state;
    srandom(13);
    size_t refused = 0;
    for (int round = 0; round < 60; round++) {
        open_model(EXECD_SPOOL_BYTES_MIN, NULL);
        while (model.total < 200000)
            append(any_output(), random_length());
        int fd = find_file(execd_spool_file_bytes(model.spool));
        assert_true(fd >= 0);
        if (round % 4 == 0)
            assert_int_equal(ftruncate(fd, random() % 60000), 0);
        for (int i = 0; i < 200 && round % 4 != 0; i++) {
            uint32_t garbage = (uint32_t)random();
            assert_int_equal(pwrite(fd, &garbage, sizeof(garbage), random() % 60000), 4);
        }
        struct execd_spool_cursor cursor;
        if (execd_spool_seek(model.spool, execd_spool_oldest(model.spool), &cursor) < 0) {
            refused++;
        } else {
            enum execd_output which;
            const char *bytes;
            ssize_t n;
            while ((n = execd_spool_read(model.spool, &cursor, 5000, &which, &bytes)) > 0)
                assert_true(cursor.offset <= model.total);
            refused += n == -EIO;
        }
        close_model();
    }
    assert_true(refused > 10);
}

static void test_directory(void **state)
{
    (void)state;
    char directory[] = "/tmp/osb-spool-XXXXXX";
    assert_non_null(mkdtemp(directory));
    static const char *const bad[] = {"/no/such/directory", "relative", "", "/etc/passwd"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        open_model(EXECD_SPOOL_BYTES_MIN, bad[i]);
        append(EXECD_STDOUT, 50000);
        assert_true(execd_spool_file_bytes(model.spool) > 0); /* somewhere else */
        check_some();
        close_model();
    }
    open_model(EXECD_SPOOL_BYTES_MIN, directory);
    append(EXECD_STDOUT, 50000);
    check_some();
    close_model();
    assert_int_equal(rmdir(directory), 0); /* it has no name there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_little_stays_in_memory),
        cmocka_unit_test(test_single_bytes_are_one_record),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_tiny_records),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_no_line_twice_and_none_lost),
        cmocka_unit_test(test_endless_line),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_tampered_file),
        cmocka_unit_test(test_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
