/* Which names and directories are taken as images. The directories are made in /tmp, which is
 * sticky: that others can write there does not matter. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/images.h"

struct fixture {
    struct images images;
    char directory[64];
    char text[160];
};

static int set_up(void **state)
{
    struct fixture *f = mem_alloc(sizeof(*f));
    snprintf(f->directory, sizeof(f->directory), "/tmp/osb-test-images-XXXXXX");
    *state = f;
    return mkdtemp(f->directory) == NULL ? -1 : chmod(f->directory, 0755);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    struct error err = ERROR_INIT;
    images_close(&f->images);
    int r = file_remove_tree_at(AT_FDCWD, f->directory, &err);
    free(f);
    return r;
}

static void test_form(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *what; /* NULL: taken */
    } rows[] = {
        {"a=/srv/a", NULL},
        {"debian:12=/srv/a=b", NULL},
        {"team/tools@1+x=/srv/a b", NULL},
        {"a=/other", "twice"},
        {"host=/srv/a", "host"},
        {"=/srv/a", "NAME=DIR"},
        {"b", "NAME=DIR"},
        {"", "NAME=DIR"},
        {".b=/srv/a", "NAME=DIR"},
        {"b..c=/srv/a", "NAME=DIR"},
        {"b c=/srv/a", "NAME=DIR"},
        {"b=", "absolute"},
        {"b=srv", "absolute"},
        {"b=/", "absolute"},
        {"b=/srv/", "absolute"},
        {"b=/srv//a", "absolute"},
        {"b=/srv/../a", "absolute"},
        {"b=/srv/.", "absolute"},
    };
    struct images images = {0};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct error err = ERROR_INIT;
        int r = images_add(&images, rows[i].text, &err);
        const char *what = rows[i].what;
        if ((r == 0) != (what == NULL))
            fail_msg("\"%s\": %d %s", rows[i].text, r, err.message);
        else if (what != NULL && (err.code != ERR_INVALID || strstr(err.message, what) == NULL))
            fail_msg("\"%s\": %s", rows[i].text, err.message);
    }
    assert_int_equal(images.count, 3);
    assert_string_equal(images.items[1].name, "debian:12");
    assert_string_equal(images.items[1].path, "/srv/a=b");
}

static void test_long_name(void **state)
{
    (void)state;
    char text[MESSAGE_IMAGE_MAX + 8];
    struct images images = {0};
    memset(text, 'a', sizeof(text));
    snprintf(text + MESSAGE_IMAGE_MAX, sizeof(text) - MESSAGE_IMAGE_MAX, "=/a");
    assert_true(images_add(&images, text, NULL) < 0);
    assert_int_equal(images_add(&images, text + 1, NULL), 0);
    assert_int_equal(strlen(images.items[0].name), MESSAGE_IMAGE_MAX - 1);
}

static void test_many(void **state)
{
    (void)state;
    static char text[IMAGES_MAX + 1][32];
    struct images images = {0};
    struct error err = ERROR_INIT;
    for (int i = 0; i < IMAGES_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "image-%d=/srv/a", i);
        assert_int_equal(images_add(&images, text[i], NULL), 0);
    }
    assert_true(images_add(&images, "one-more=/srv/a", &err) < 0);
    assert_non_null(strstr(err.message, "64"));

    int fd;
    assert_true(images_get(&images, "none", &fd, &err) < 0);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no image 'none'; this launcher has: host, image-0, "));
    assert_non_null(strstr(err.message, " more"));
}

static void add(struct fixture *f, const char *text)
{
    struct error err = ERROR_INIT;
    snprintf(f->text, sizeof(f->text), "x=%s%s", f->directory, text);
    f->images.count = 0;
    if (images_add(&f->images, f->text, &err) < 0)
        fail_msg("%s", err.message);
}

static void refuse(struct fixture *f, const char *text, const char *what)
{
    struct error err = ERROR_INIT;
    int fd;
    add(f, text);
    images_open(&f->images); /* says why not, and goes on */
    assert_int_equal(f->images.items[0].fd, -1);
    assert_true(images_get(&f->images, "x", &fd, &err) < 0);
    assert_int_equal(err.code, ERR_INTERNAL);
    if (strstr(err.message, what) == NULL)
        fail_msg("'%s' does not contain '%s'", err.message, what);
}

static void make(const struct fixture *f, const char *text, mode_t mode)
{
    char path[160];
    snprintf(path, sizeof(path), "%s%s", f->directory, text);
    if (mkdir(path, 0755) < 0 || chmod(path, mode) < 0)
        fail_msg("cannot make %s", path);
}

static void link_to(const struct fixture *f, const char *target, const char *text)
{
    char path[160];
    snprintf(path, sizeof(path), "%s%s", f->directory, text);
    assert_int_equal(symlink(target, path), 0);
}

static void test_directories(void **state)
{
    struct fixture *f = *state;
    int fd = -1;
    if (geteuid() != 0)
        skip();
    refuse(f, "/absent", "No such file");
    make(f, "/tree", 0755);
    link_to(f, "tree", "/link");
    refuse(f, "/link", "links are not followed");
    link_to(f, ".", "/here");
    refuse(f, "/here/tree", "links are not followed");
    make(f, "/open", 0775);
    refuse(f, "/open", "0775");
    make(f, "/open/tree", 0755);
    refuse(f, "/open/tree", "0775");
    make(f, "/sticky", 01777);
    refuse(f, "/sticky", "1777");
    make(f, "/sticky/tree", 0700);
    add(f, "/sticky/tree");
    assert_int_equal(images_get(&f->images, "x", &fd, NULL), 0);
    images_close(&f->images);

    make(f, "/other", 0755);
    snprintf(f->text, sizeof(f->text), "%s/other", f->directory);
    assert_int_equal(chown(f->text, 1000, 0), 0);
    refuse(f, "/other", "user 1000");
}

/* Opened once, and again only when what was opened exists no more. */
static void test_kept(void **state)
{
    struct fixture *f = *state;
    int first = -1, second = -1;
    struct stat st, now;
    if (geteuid() != 0)
        skip();
    add(f, "/tree");
    images_open(&f->images);
    make(f, "/tree", 0755);
    assert_int_equal(images_get(&f->images, "x", &first, NULL), 0);
    assert_int_equal(images_get(&f->images, "x", &second, NULL), 0);
    assert_int_equal(first, second);
    assert_int_equal(rmdir(f->images.items[0].path), 0);
    assert_true(images_get(&f->images, "x", &second, NULL) < 0);
    make(f, "/tree", 0755);
    assert_int_equal(stat(f->images.items[0].path, &st), 0);
    assert_int_equal(images_get(&f->images, "x", &second, NULL), 0);
    assert_int_equal(fstat(second, &now), 0);
    assert_int_equal(now.st_ino, st.st_ino);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_form),
        cmocka_unit_test(test_long_name),
        cmocka_unit_test(test_many),
        cmocka_unit_test_setup_teardown(test_directories, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
