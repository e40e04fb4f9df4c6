#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/store.h"

struct fixture {
    char dir[64];
    char *path;
    struct store *store;
};

static int set_up(void **state)
{
    struct fixture *fixture = mem_alloc(sizeof(*fixture));
    strcpy(fixture->dir, "/tmp/osb-store-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->path = mem_printf("%s/server.db", fixture->dir);
    assert_int_equal(store_open(fixture->path, &fixture->store, NULL), 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    store_close(fixture->store);
    AUTO_FREE char *wal = mem_printf("%s-wal", fixture->path);
    AUTO_FREE char *shm = mem_printf("%s-shm", fixture->path);
    unlink(fixture->path);
    unlink(wal);
    unlink(shm);
    assert_int_equal(rmdir(fixture->dir), 0);
    free(fixture->path);
    free(fixture);
    return 0;
}

/* Number n: created at n, with an id that sorts by n. */
static struct sandbox sandbox_number(int n)
{
    struct sandbox sandbox = {
        .image = mem_dup("host"),
        .created_at_ms = n,
        .last_transition_at_ms = n,
        .state = SANDBOX_PENDING,
    };
    snprintf(sandbox.id, sizeof(sandbox.id), "00000000-0000-4000-8000-%012d", n);
    snprintf(sandbox.execd_token, sizeof(sandbox.execd_token), "token-%d", n);
    string_list_add(&sandbox.entrypoint, "true");
    return sandbox;
}

static void insert(struct store *store, struct sandbox *sandbox)
{
    struct error err = ERROR_INIT;
    if (store_insert_sandbox(store, sandbox, &err) < 0)
        fail_msg("%s", err.message);
    sandbox_done(sandbox);
}

static void test_round_trip(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox sandbox = sandbox_number(1);
    sandbox.platform_os = mem_dup("linux");
    sandbox.platform_arch = mem_dup("amd64");
    sandbox.limits = (struct limits){.memory_bytes = 1ull << 50,
                                     .disk_bytes = 1ull << 49,
                                     .io_read_bps = 1ull << 40,
                                     .io_write_bps = 1ull << 39,
                                     .io_read_iops = 1000000000,
                                     .io_write_iops = 11,
                                     .cpu_millis = 1500,
                                     .pids = 7,
                                     .open_files = 1024};
    sandbox.expires_at_ms = 1767323105000;
    sandbox.reason = mem_dup("R");
    sandbox.message = mem_dup("it's \"quoted\"; DROP TABLE sandbox; --");
    string_list_add(&sandbox.entrypoint, "a 'b' \"c\" \n \xc3\xa9");
    string_list_add(&sandbox.entrypoint, "");
    labels_set(&sandbox.metadata, "z", "1");
    labels_set(&sandbox.metadata, "a.b/c", "");
    insert(fixture->store, &sandbox);

    /* Another connection, as after a restart. */
    store_close(fixture->store);
    assert_int_equal(store_open(fixture->path, &fixture->store, NULL), 0);
    struct sandbox got = {0};
    assert_int_equal(
        store_get_sandbox(fixture->store, "00000000-0000-4000-8000-000000000001", &got, NULL), 0);
    assert_string_equal(got.image, "host");
    assert_string_equal(got.platform_os, "linux");
    assert_string_equal(got.platform_arch, "amd64");
    assert_true(got.limits.memory_bytes == 1ull << 50);
    assert_int_equal(got.limits.cpu_millis, 1500);
    assert_int_equal(got.limits.pids, 7);
    assert_true(got.limits.disk_bytes == 1ull << 49);
    assert_true(got.limits.io_read_bps == 1ull << 40);
    assert_true(got.limits.io_write_bps == 1ull << 39);
    assert_int_equal(got.limits.io_read_iops, 1000000000);
    assert_int_equal(got.limits.io_write_iops, 11);
    assert_int_equal(got.limits.open_files, 1024);
    assert_int_equal(got.created_at_ms, 1);
    assert_true(got.expires_at_ms == 1767323105000);
    assert_int_equal(got.state, SANDBOX_PENDING);
    assert_string_equal(got.reason, "R");
    assert_string_equal(got.message, "it's \"quoted\"; DROP TABLE sandbox; --");
    assert_string_equal(got.execd_token, "token-1");
    assert_int_equal(got.entrypoint.count, 3);
    assert_string_equal(got.entrypoint.items[1], "a 'b' \"c\" \n \xc3\xa9");
    assert_string_equal(got.entrypoint.items[2], "");
    assert_int_equal(got.metadata.count, 2);
    assert_string_equal(labels_find(&got.metadata, "a.b/c"), "");
    sandbox_done(&got);
}

static void test_least(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox sandbox = sandbox_number(1);
    insert(fixture->store, &sandbox);
    struct sandbox got = {0};
    assert_int_equal(
        store_get_sandbox(fixture->store, "00000000-0000-4000-8000-000000000001", &got, NULL), 0);
    assert_null(got.platform_os);
    assert_null(got.reason);
    assert_int_equal(got.expires_at_ms, 0);
    assert_int_equal(got.limits.memory_bytes, 0);
    assert_int_equal(got.metadata.count, 0);
    sandbox_done(&got);
}

static void test_absent(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox got = {0};
    struct store_access access;
    struct error err = ERROR_INIT;
    assert_true(store_get_sandbox(fixture->store, "nobody", &got, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err.code = ERR_OK;
    assert_true(store_get_access(fixture->store, "nobody", &access, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err.code = ERR_OK;
    assert_true(store_delete_sandbox(fixture->store, "nobody", &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    err.code = ERR_OK;
    struct sandbox sandbox = sandbox_number(1);
    assert_true(store_update_state(fixture->store, &sandbox, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    sandbox_done(&sandbox);
}

static void test_same_id_twice(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox first = sandbox_number(1);
    struct sandbox second = sandbox_number(1);
    labels_set(&first.metadata, "a", "1");
    labels_set(&second.metadata, "b", "2");
    insert(fixture->store, &first);
    struct error err = ERROR_INIT;
    assert_true(store_insert_sandbox(fixture->store, &second, &err) < 0);
    assert_int_equal(err.code, ERR_CONFLICT);
    sandbox_done(&second);
    /* Nothing of the second is there, and the connection is usable. */
    struct sandbox got = {0};
    assert_int_equal(
        store_get_sandbox(fixture->store, "00000000-0000-4000-8000-000000000001", &got, NULL), 0);
    assert_null(labels_find(&got.metadata, "b"));
    sandbox_done(&got);
    struct sandbox third = sandbox_number(3);
    insert(fixture->store, &third);
}

static void test_update_and_delete(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox sandbox = sandbox_number(1);
    labels_set(&sandbox.metadata, "a", "1");
    assert_int_equal(store_insert_sandbox(fixture->store, &sandbox, NULL), 0);
    assert_int_equal(sandbox_set_state(&sandbox, SANDBOX_RUNNING, "UP", NULL, 99, NULL), 0);
    assert_int_equal(store_update_state(fixture->store, &sandbox, NULL), 0);

    struct store_access access;
    assert_int_equal(store_get_access(fixture->store, sandbox.id, &access, NULL), 0);
    assert_int_equal(access.state, SANDBOX_RUNNING);
    assert_string_equal(access.execd_token, "token-1");
    struct sandbox got = {0};
    assert_int_equal(store_get_sandbox(fixture->store, sandbox.id, &got, NULL), 0);
    assert_string_equal(got.reason, "UP");
    assert_null(got.message);
    assert_int_equal(got.last_transition_at_ms, 99);
    sandbox_done(&got);

    assert_int_equal(store_delete_sandbox(fixture->store, sandbox.id, NULL), 0);
    assert_true(store_get_access(fixture->store, sandbox.id, &access, NULL) < 0);
    /* Its labels went with it: the id can be used again. */
    assert_int_equal(store_insert_sandbox(fixture->store, &sandbox, NULL), 0);
    sandbox_done(&sandbox);
}

/* --- lists ------------------------------------------------------------------------------------ */

/* The numbers of the sandboxes on a page, such as "5 4 3", and "/total". */
static void expect_page(struct store *store, struct store_filter *filter, const char *expected)
{
    struct store_page page;
    struct error err = ERROR_INIT;
    if (filter->page == 0)
        filter->page = 1;
    if (filter->page_size == 0)
        filter->page_size = 20;
    if (store_list_sandboxes(store, filter, &page, &err) < 0)
        fail_msg("%s", err.message);
    char text[256] = "";
    for (size_t i = 0; i < page.count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
                 (int)page.items[i].created_at_ms);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "/%d", (int)page.total);
    assert_string_equal(text, expected);
    store_page_done(&page);
    labels_done(&filter->labels);
}

static void insert_seven(struct store *store)
{
    for (int n = 1; n <= 7; n++) {
        struct sandbox sandbox = sandbox_number(n);
        sandbox.state = n % 2 == 0 ? SANDBOX_RUNNING : SANDBOX_FAILED;
        labels_set(&sandbox.metadata, "parity", n % 2 == 0 ? "even" : "odd");
        if (n > 4)
            labels_set(&sandbox.metadata, "size", "big");
        if (n == 7)
            labels_set(&sandbox.metadata, "empty", "");
        insert(store, &sandbox);
    }
}

static void test_list_pages(void **state)
{
    struct fixture *fixture = *state;
    expect_page(fixture->store, &(struct store_filter){0}, "/0");
    insert_seven(fixture->store);
    expect_page(fixture->store, &(struct store_filter){0}, "7 6 5 4 3 2 1 /7");
    expect_page(fixture->store, &(struct store_filter){.page = 1, .page_size = 3}, "7 6 5 /7");
    expect_page(fixture->store, &(struct store_filter){.page = 3, .page_size = 3}, "1 /7");
    expect_page(fixture->store, &(struct store_filter){.page = 4, .page_size = 3}, "/7");
    expect_page(fixture->store, &(struct store_filter){.page = 1000000000, .page_size = 200}, "/7");
}

static void test_list_by_state(void **state)
{
    struct fixture *fixture = *state;
    insert_seven(fixture->store);
    struct store *store = fixture->store;
    expect_page(store, &(struct store_filter){.by_state = true, .states = 1u << SANDBOX_RUNNING},
                "6 4 2 /3");
    expect_page(store,
                &(struct store_filter){.by_state = true,
                                       .states = 1u << SANDBOX_RUNNING | 1u << SANDBOX_FAILED},
                "7 6 5 4 3 2 1 /7");
    expect_page(store, &(struct store_filter){.by_state = true, .states = 1u << SANDBOX_PAUSED},
                "/0");
    expect_page(store, &(struct store_filter){.by_state = true, .states = 0}, "/0");
}

static void test_list_by_labels(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store;
    insert_seven(store);
    struct store_filter filter = {0};
    labels_set(&filter.labels, "parity", "even");
    expect_page(store, &filter, "6 4 2 /3");
    labels_set(&filter.labels, "parity", "even");
    labels_set(&filter.labels, "size", "big");
    expect_page(store, &filter, "6 /1");
    labels_set(&filter.labels, "parity", "EVEN");
    expect_page(store, &filter, "/0");
    labels_set(&filter.labels, "empty", "");
    expect_page(store, &filter, "7 /1");
    labels_set(&filter.labels, "absent", "");
    expect_page(store, &filter, "/0");
    labels_set(&filter.labels, "parity", "odd' OR 1=1 --");
    expect_page(store, &filter, "/0");
    labels_set(&filter.labels, "par\"]ity\\", "\xc3\xa9");
    expect_page(store, &filter, "/0");
    labels_set(&filter.labels, "parity", "odd");
    filter.by_state = true;
    filter.states = 1u << SANDBOX_RUNNING;
    expect_page(store, &filter, "/0");
}

static void test_list_by_label_that_is_not_utf8(void **state)
{
    struct fixture *fixture = *state;
    insert_seven(fixture->store);
    struct store_filter filter = {.page = 1, .page_size = 20};
    labels_set(&filter.labels, "parity", "\xff");
    struct store_page page = {0};
    struct error err = ERROR_INIT;
    assert_true(store_list_sandboxes(fixture->store, &filter, &page, &err) < 0);
    assert_int_equal(err.code, ERR_INVALID);
    labels_done(&filter.labels);
}

static void expect_ids(const struct string_list *ids, const char *expected)
{
    char text[128] = "";
    for (size_t i = 0; i < ids->count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ",
                 atoi(strrchr(ids->items[i], '-') + 1));
    assert_string_equal(text, expected);
}

static void test_expiry(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store;
    int64_t next = -1;
    assert_int_equal(store_next_expiry(store, &next, NULL), 0);
    assert_int_equal(next, 0);
    static const int64_t expiries[] = {500, 0, 300, 400, 0};
    for (int n = 0; n < 5; n++) {
        struct sandbox sandbox = sandbox_number(n);
        sandbox.expires_at_ms = expiries[n];
        insert(store, &sandbox);
    }
    assert_int_equal(store_next_expiry(store, &next, NULL), 0);
    assert_int_equal(next, 300);
    struct string_list ids = {0};
    assert_int_equal(store_list_expired(store, 299, 10, &ids, NULL), 0);
    expect_ids(&ids, "");
    assert_int_equal(store_list_expired(store, 400, 10, &ids, NULL), 0);
    expect_ids(&ids, "2 3 ");
    string_list_done(&ids);
    assert_int_equal(store_list_expired(store, 1000, 2, &ids, NULL), 0);
    expect_ids(&ids, "2 3 ");
    string_list_done(&ids);
    assert_int_equal(store_list_ids(store, &ids, NULL), 0);
    expect_ids(&ids, "0 1 2 3 4 ");
    string_list_done(&ids);
}

/* --- the log ---------------------------------------------------------------------------------- */

static void count_due(void *ctx)
{
    ++*(int *)ctx;
}

static off_t log_size(struct fixture *fixture)
{
    AUTO_FREE char *wal = mem_printf("%s-wal", fixture->path);
    struct stat st;
    assert_int_equal(stat(wal, &st), 0);
    return st.st_size;
}

/* SQLite does not write what does not change. */
static void update_again(struct store *store, struct sandbox *sandbox)
{
    sandbox->last_transition_at_ms++;
    assert_int_equal(store_update_state(store, sandbox, NULL), 0);
}

/* Without a checkpoint the log would grow with every commit; with one it is used again. */
static void test_checkpoint(void **state)
{
    struct fixture *fixture = *state;
    struct store *store = fixture->store;
    int due = 0;
    store_on_checkpoint_due(store, count_due, &due);
    struct sandbox sandbox = sandbox_number(1);
    assert_int_equal(store_insert_sandbox(store, &sandbox, NULL), 0);
    assert_int_equal(due, 0);
    for (int i = 0; i < 5000 && due == 0; i++)
        update_again(store, &sandbox);
    assert_int_equal(due, 1);
    off_t grown = log_size(fixture);
    assert_true(grown > 1000 * 4096);
    struct store_checkpointer *checkpointer;
    struct error err = ERROR_INIT;
    if (store_checkpointer_open(fixture->path, &checkpointer, &err) < 0)
        fail_msg("%s", err.message);
    for (int round = 0; round < 3; round++) {
        if (store_checkpointer_run(checkpointer, &err) < 0)
            fail_msg("%s", err.message);
        for (int i = 0; i < 500; i++)
            update_again(store, &sandbox);
    }
    assert_int_equal(log_size(fixture), grown);
    assert_int_equal(due, 1);
    sandbox_done(&sandbox);
    store_checkpointer_close(checkpointer);
    assert_true(store_checkpointer_open("/nonexistent/db", &checkpointer, &err) < 0);
}

/* --- the file --------------------------------------------------------------------------------- */

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* A file of the version that knew three limits. */
static void test_version_1_is_brought_up(void **state)
{
    struct fixture *fixture = *state;
    static const char *const columns[] = {"disk_bytes",   "io_read_bps",   "io_write_bps",
                                          "io_read_iops", "io_write_iops", "open_files"};
    struct sandbox sandbox = sandbox_number(1);
    sandbox.limits = (struct limits){.memory_bytes = 64 << 20};
    insert(fixture->store, &sandbox);
    fixture->store = store_close(fixture->store);
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        AUTO_FREE char *sql = mem_printf("ALTER TABLE sandbox DROP COLUMN %s", columns[i]);
        run_sql(fixture->path, sql);
    }
    run_sql(fixture->path, "PRAGMA user_version = 1");

    assert_int_equal(store_open(fixture->path, &fixture->store, NULL), 0);
    struct sandbox got = {0};
    assert_int_equal(
        store_get_sandbox(fixture->store, "00000000-0000-4000-8000-000000000001", &got, NULL), 0);
    assert_int_equal(got.limits.memory_bytes, 64 << 20);
    assert_int_equal(got.limits.disk_bytes, 0);
    sandbox_done(&got);
    sandbox = sandbox_number(2);
    sandbox.limits = (struct limits){.disk_bytes = 32 << 20, .open_files = 77};
    insert(fixture->store, &sandbox);
    assert_int_equal(
        store_get_sandbox(fixture->store, "00000000-0000-4000-8000-000000000002", &got, NULL), 0);
    assert_int_equal(got.limits.disk_bytes, 32 << 20);
    assert_int_equal(got.limits.open_files, 77);
    sandbox_done(&got);
}

static void test_newer_schema_is_refused(void **state)
{
    struct fixture *fixture = *state;
    fixture->store = store_close(fixture->store);
    run_sql(fixture->path, "PRAGMA user_version = 99");
    struct error err = ERROR_INIT;
    assert_true(store_open(fixture->path, &fixture->store, &err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "99"));
    assert_null(fixture->store);
}

static void test_not_a_database(void **state)
{
    struct fixture *fixture = *state;
    fixture->store = store_close(fixture->store);
    FILE *file = fopen(fixture->path, "w");
    fputs(
        "this is a text file that is long enough to be looked at as a database header, is it not? "
        "yes it is, by now",
        file);
    fclose(file);
    struct error err = ERROR_INIT;
    assert_true(store_open(fixture->path, &fixture->store, &err) < 0);
    assert_non_null(strstr(err.message, fixture->path));
}

static void test_damaged_rows_are_errors(void **state)
{
    struct fixture *fixture = *state;
    struct sandbox sandbox = sandbox_number(1);
    insert(fixture->store, &sandbox);
    run_sql(fixture->path, "UPDATE sandbox SET state = 'Dancing'");
    struct sandbox got = {0};
    struct error err = ERROR_INIT;
    const char *id = "00000000-0000-4000-8000-000000000001";
    assert_true(store_get_sandbox(fixture->store, id, &got, &err) < 0);
    assert_int_equal(err.code, ERR_INTERNAL);
    run_sql(fixture->path, "UPDATE sandbox SET state = 'Running', entrypoint = '{}'");
    assert_true(store_get_sandbox(fixture->store, id, &got, &err) < 0);
    assert_int_equal(err.code, ERR_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_version_1_is_brought_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_least, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_absent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_id_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_update_and_delete, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_pages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_by_state, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_by_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_by_label_that_is_not_utf8, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expiry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checkpoint, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_newer_schema_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_not_a_database, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damaged_rows_are_errors, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
