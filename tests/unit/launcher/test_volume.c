#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/idrange.h"
#include "launcher/volume.h"
#include "launcher/volume_path.h"
#include "launcher/volume_store.h"

static char folder[] = "/tmp/osb-volume-XXXXXX";
static int top = -1;

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return top < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(top);
    return file_remove_tree_at(AT_FDCWD, folder, NULL);
}

static void test_allowed(void **state)
{
    (void)state;
    struct volume_allowed allowed = {0};
    struct error err = ERROR_INIT;
    assert_int_equal(volume_allow(&allowed, "/data", &err), 0);
    assert_int_equal(volume_allow(&allowed, "/data/deep/er", &err), 0);
    assert_string_equal(volume_find_allowed(&allowed, "/data"), "/data");
    assert_string_equal(volume_find_allowed(&allowed, "/data/x"), "/data");
    assert_string_equal(volume_find_allowed(&allowed, "/data/deep/er/x"), "/data/deep/er");
    assert_string_equal(volume_find_allowed(&allowed, "/data/deep/erx"), "/data");
    assert_null(volume_find_allowed(&allowed, "/database"));
    assert_null(volume_find_allowed(&allowed, "/"));
    static const char *const bad[] = {"", "/", "data", "/data/", "/a//b", "/a/../b", "/a/."};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(volume_allow(&allowed, bad[i], &err) < 0);
    while (allowed.count < VOLUME_ALLOWED_MAX)
        assert_int_equal(volume_allow(&allowed, "/more", &err), 0);
    assert_true(volume_allow(&allowed, "/more", &err) < 0);
}

static void test_order(void **state)
{
    (void)state;
    const struct message_volume volumes[] = {{.mount_path = "/a/b/c"},
                                             {.mount_path = "/z"},
                                             {.mount_path = "/a/b"},
                                             {.mount_path = "/a"}};
    struct volume_list *list = volume_list_new(volumes, ARRAY_LEN(volumes));
    assert_string_equal(list->items[0].mount_path, "/z");
    assert_string_equal(list->items[1].mount_path, "/a");
    assert_string_equal(list->items[2].mount_path, "/a/b");
    assert_string_equal(list->items[3].mount_path, "/a/b/c");
    assert_ptr_equal(volume_list_ref(list), list);
    volume_list_unref(list);
    volume_list_unref(list);
    assert_null(volume_list_new(volumes, 0));
    assert_null(volume_list_ref(NULL));
    assert_null(volume_list_unref(NULL));
}

static void test_ids(void **state)
{
    (void)state;
    static const struct {
        uint32_t uid, gid, want_uid, want_gid;
    } cases[] = {
        {1000, 1000, 1000, 1000},
        {1000, 5000, 1000, 5000},
        {0, 0, IDRANGE_FIRST, IDRANGE_FIRST},                   /* never root */
        {1000, 0, 1000, IDRANGE_FIRST},                         /* nor its group */
        {1000, 6, 1000, IDRANGE_FIRST},                         /* nor disk */
        {33, 33, 33, 33},                                       /* a service's own */
        {IDRANGE_FIRST + 7, 1000, IDRANGE_FIRST, 1000},         /* nor who was inside */
        {0x3fffffff, 0x3fffffff, IDRANGE_FIRST, IDRANGE_FIRST}, /* nor another sandbox */
        {0x40000000, 0x40000000, 0x40000000, 0x40000000},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct volume_ids ids = volume_path_ids(cases[i].uid, cases[i].gid);
        assert_int_equal(ids.uid, cases[i].want_uid);
        assert_int_equal(ids.gid, cases[i].want_gid);
    }
}

static void test_maps(void **state)
{
    (void)state;
    char map[VOLUME_MAP_MAX];
    volume_path_map(1000, 0x20010000, map);
    assert_string_equal(map, "1000 536936448 1\n536870913 536936449 65535\n");
    volume_path_map(IDRANGE_FIRST, 0x20010000, map);
    assert_string_equal(map, "536870912 536936448 65536\n");
}

static ino_t number_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_ino;
}

static void test_paths(void **state)
{
    (void)state;
    umask(0);
    AUTO_CLOSE int made = volume_path_open(top, "a/b/c", VOLUME_PATH_DIRECTORY, 0750);
    AUTO_CLOSE int found = volume_path_open(top, "a/b/c", VOLUME_PATH_ANY, 0);
    AUTO_CLOSE int self = volume_path_open(top, "", VOLUME_PATH_ANY, 0);
    AUTO_CLOSE int file = volume_path_open(top, "a/d/file", VOLUME_PATH_FILE, 0644);
    AUTO_CLOSE int same = volume_path_open(file, "", VOLUME_PATH_ANY, 0);
    assert_int_equal(number_of(made), number_of(found));
    assert_int_equal(number_of(self), number_of(top));
    assert_int_equal(number_of(file), number_of(same));
    assert_int_equal(volume_path_open(top, "a/none", VOLUME_PATH_ANY, 0), -ENOENT);
    assert_int_equal(volume_path_open(top, "a/d/file/x", VOLUME_PATH_DIRECTORY, 0755), -ENOTDIR);
    assert_int_equal(volume_path_open(file, "x", VOLUME_PATH_ANY, 0), -ENOTDIR);
    const char *rest;
    AUTO_CLOSE int deepest = volume_path_deepest(top, "a/b/new/er", &rest);
    assert_string_equal(rest, "new/er");
    AUTO_CLOSE int b = volume_path_open(top, "a/b", VOLUME_PATH_ANY, 0);
    assert_int_equal(number_of(deepest), number_of(b));
}

/* A link is a link wherever it leads, also to where one might have gone. */
static void test_links(void **state)
{
    (void)state;
    assert_int_equal(mkdirat(top, "real", 0755), 0);
    assert_int_equal(symlinkat("/etc", top, "out"), 0);
    assert_int_equal(symlinkat("real", top, "in"), 0);
    assert_int_equal(symlinkat("nowhere", top, "dangling"), 0);
    static const char *const paths[] = {"out",  "out/passwd", "in",
                                        "in/x", "dangling",   "dangling/x"};
    static const enum volume_path_end ends[] = {VOLUME_PATH_ANY, VOLUME_PATH_DIRECTORY,
                                                VOLUME_PATH_FILE};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        for (size_t k = 0; k < ARRAY_LEN(ends); k++)
            assert_int_equal(volume_path_open(top, paths[i], ends[k], 0755), -ELOOP);
        const char *rest;
        assert_int_equal(volume_path_deepest(top, paths[i], &rest), -ELOOP);
    }
    assert_int_equal(faccessat(top, "nowhere", F_OK, 0), -1);
    assert_true(volume_path_open(top, "..", VOLUME_PATH_ANY, 0) < 0);
}

static void test_description(void **state)
{
    (void)state;
    char text[64];
    struct error err = ERROR_INIT;
    struct volume_store_info info = {.remove = true, .size_bytes = 1ull << 50}, again = {0};
    volume_store_format(&info, text);
    assert_int_equal(volume_store_parse(text, strlen(text), &again, &err), 0);
    assert_true(again.remove && again.size_bytes == info.size_bytes);
    static const char *const bad[] = {
        "",
        "opensandbox-volume 2\nremove 0\nsize 0\n",
        "opensandbox-volume 1\nremove 2\nsize 0\n",
        "opensandbox-volume 1\nremove 0\nsize 0\nmore 1\n",
        "opensandbox-volume 1\nremove 0\nsize -1\n",
        "opensandbox-volume 1\nremove 0\nsize 0",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_true(volume_store_parse(bad[i], strlen(bad[i]), &again, &err) < 0);
}

static int read_names(const char *text, struct volume_list **ret)
{
    AUTO_CLOSE int fd = openat(top, VOLUME_NAMES, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(file_write_all(fd, text, strlen(text)), 0);
    return volume_read_names(top, ret, NULL);
}

static void test_names(void **state)
{
    (void)state;
    struct volume_list *list;
    assert_int_equal(volume_read_names(top, &list, NULL), 0); /* none, no file */
    assert_null(list);
    assert_int_equal(read_names("one\ntwo-2\n", &list), 0);
    assert_int_equal(list->count, 2);
    assert_string_equal(list->items[1].source, "two-2");
    assert_int_equal(list->items[1].kind, MESSAGE_VOLUME_NAMED);
    volume_list_unref(list);
    static const char *const bad[] = {"one", "../x\n", "one\n\n", "UPPER\n"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_true(read_names(bad[i], &list) < 0);
        assert_null(list);
    }
    char many[MESSAGE_VOLUMES_MAX * 2 + 3] = "";
    for (int i = 0; i <= MESSAGE_VOLUMES_MAX; i++)
        strcat(many, "a\n");
    assert_true(read_names(many, &list) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allowed),     cmocka_unit_test(test_order),
        cmocka_unit_test(test_ids),         cmocka_unit_test(test_maps),
        cmocka_unit_test(test_paths),       cmocka_unit_test(test_links),
        cmocka_unit_test(test_description), cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
