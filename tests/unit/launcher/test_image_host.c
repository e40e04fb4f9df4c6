/* The host image built from a made-up host, in a temporary directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "base/mem.h"
#include "launcher/copy.h"
#include "launcher/image_host.h"

static char top[64];
static int top_fd;

static char *path_of(const char *name)
{
    return mem_printf("%s/%s", top, name);
}

static void put(const char *name, mode_t mode)
{
    AUTO_FREE char *path = path_of(name);
    struct error err = ERROR_INIT;
    AUTO_FREE char *parent = mem_dup_n(path, (size_t)(strrchr(path, '/') - path));
    assert_int_equal(file_make_dirs(parent, 0755, &err), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, "text\n", 5), 5);
    close(fd);
}

static void put_link(const char *name, const char *target)
{
    AUTO_FREE char *path = path_of(name);
    assert_int_equal(symlink(target, path), 0);
}

static bool has(const char *name)
{
    return faccessat(top_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(top_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777;
}

static int setup(void **state)
{
    (void)state;
    snprintf(top, sizeof(top), "/tmp/launcher-image-XXXXXX");
    if (mkdtemp(top) == NULL)
        return -1;
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put("host/etc/shadow", 0640);
    put("host/etc/passwd", 0644);
    put("host/etc/hosts", 0644);
    put("host/etc/ssl/certs/a.pem", 0644);
    put("host/etc/ssl/certs/b.key", 0600);
    put("host/etc/ssl/private/server.key", 0644);
    put("host/etc/ssl/openssl.cnf", 0644);
    put("host/etc/java-17-openjdk/security/java.security", 0644);
    put("host/etc/python3.11/site.py", 0644);
    put("host/etc/nsswitch.conf", 0644);
    put("host/etc/zone", 0644);
    put("host/usr/bin/true", 0755);
    put("host/secret/file", 0644);
    put("host/var/lib/dpkg/status", 0644);
    put("host/var/lib/dpkg/statoverride", 0644);
    put("host/var/lib/dpkg/diversions", 0644);
    put("host/var/lib/dpkg/info/format", 0644);
    put("host/var/lib/dpkg/info/gcc.list", 0644);
    put("host/var/lib/dpkg/info/gcc.md5sums", 0644);
    put("host/var/lib/dpkg/info/gcc.postinst", 0755);
    put("host/var/lib/dpkg/info/hidden.list", 0640);
    put("host/etc/apt/sources.list", 0644);
    put("host/etc/apt/auth.conf", 0644);
    put("host/etc/apt/trusted.gpg.d/archive.asc", 0644);
    put_link("host/etc/localtime", "zone");
    put_link("host/etc/ssl/certs/link.pem", "/usr/share/ca.crt");
    put_link("host/etc/alternatives", "../secret");
    put_link("host/bin", "usr/bin");
    put_link("host/lib64", "/usr/lib64");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(top_fd);
    return file_remove_tree_at(AT_FDCWD, top, NULL);
}

static int build(struct error *err)
{
    AUTO_FREE char *host = path_of("host");
    return image_host_build(top_fd, host, IMAGE_HOST_RESOLV, err);
}

static void test_build(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_false(image_host_exists(top_fd));
    assert_int_equal(build(&err), 0);
    assert_true(image_host_exists(top_fd));
    assert_int_equal(mode_of("image-host/layer/.root"), 0755);
    assert_int_equal(mode_of("image-host/layer/.root/tmp"), 01777);
    assert_int_equal(mode_of("image-host/layer/.root/var/tmp"), 01777);
    assert_int_equal(mode_of("image-host/layer/.root/root"), 0700);
    assert_true(has("image-host/layer/.root/etc/ssl/certs/a.pem"));
    assert_true(has("image-host/layer/.root/etc/ssl/certs/link.pem"));
    assert_true(has("image-host/layer/.root/etc/java-17-openjdk/security/java.security"));
    assert_true(has("image-host/layer/.root/etc/python3.11/site.py"));
    assert_true(has("image-host/layer/.root/lib64"));
    assert_false(has("image-host/layer/.root/lib32"));
}

static void test_secrets_stay_out(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(build(&err), 0);
    assert_false(has("image-host/layer/.root/etc/shadow"));
    assert_false(has("image-host/layer/.root/etc/ssl/private"));
    assert_false(has("image-host/layer/.root/etc/ssl/certs/b.key")); /* not for everybody */
    assert_false(has("image-host/layer/.root/secret"));
    /* A link out is copied as a link, not followed. */
    char target[64] = "";
    assert_true(
        readlinkat(top_fd, "image-host/layer/.root/etc/alternatives", target, sizeof(target)) > 0);
    assert_string_equal(target, "../secret");
    CLEANUP(buf_done) struct buf passwd;
    buf_init(&passwd, 4096);
    assert_int_equal(file_read_at(top_fd, "image-host/layer/.root/etc/passwd", &passwd, &err), 0);
    assert_non_null(strstr(passwd.data, "root:x:0:0:"));
    assert_non_null(strstr(passwd.data, "nobody:x:65534:65534:"));
    struct stat st;
    assert_int_equal(
        fstatat(top_fd, "image-host/layer/.root/etc/localtime", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
}

static void check_text(const char *name, const char *text)
{
    CLEANUP(buf_done) struct buf found;
    buf_init(&found, 4096);
    struct error err = ERROR_INIT;
    assert_int_equal(file_read_at(top_fd, name, &found, &err), 0);
    assert_int_equal(found.length, strlen(text));
    assert_memory_equal(found.data, text, found.length);
}

static void test_packages(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(build(&err), 0);
    check_text("image-host/layer/.root/var/lib/dpkg/status", "text\n");
    check_text("image-host/layer/.root/var/lib/dpkg/diversions", "text\n");
    check_text("image-host/layer/.root/var/lib/dpkg/statoverride",
               ""); /* names users of the host */
    check_text("image-host/layer/.root/var/lib/dpkg/info/gcc.list", "text\n");
    assert_true(has("image-host/layer/.root/var/lib/dpkg/info/format"));
    assert_true(has("image-host/layer/.root/var/lib/dpkg/info/gcc.md5sums"));
    assert_false(has("image-host/layer/.root/var/lib/dpkg/info/gcc.postinst"));
    assert_false(
        has("image-host/layer/.root/var/lib/dpkg/info/hidden.list")); /* not for everybody */
    assert_false(has("image-host/layer/.root/etc/apt/auth.conf"));
    assert_true(has("image-host/layer/.root/etc/apt/trusted.gpg.d/archive.asc"));
    assert_true(has("image-host/layer/.root/var/lib/apt/lists/partial"));
    assert_int_equal(mode_of("image-host/layer/.root/var/cache/apt/archives/partial"), 0755);
    CLEANUP(buf_done) struct buf sources;
    buf_init(&sources, 4096);
    assert_int_equal(
        file_read_at(top_fd, "image-host/layer/.root/etc/apt/sources.list", &sources, &err), 0);
    assert_null(strstr(sources.data, "text"));
}

/* Fedora, say: there is a database then, and nothing in it. */
static void test_no_packages(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(file_remove_tree_at(top_fd, "host/var", &err), 0);
    assert_int_equal(build(&err), 0);
    check_text("image-host/layer/.root/var/lib/dpkg/status", "");
    assert_true(has("image-host/layer/.root/var/lib/dpkg/info"));
}

static void test_mask_is_opaque(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(build(&err), 0);
    AUTO_FREE char *local = path_of("image-host/layer/local");
    char value[4] = "";
    assert_int_equal(getxattr(local, "user.overlay.opaque", value, sizeof(value)), 1);
    assert_int_equal(value[0], 'y');
    assert_true(has("image-host/layer/local/bin"));
}

static void test_rebuild_replaces(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    assert_int_equal(build(&err), 0);
    put("image-host/layer/.root/stale", 0644);
    put("image-host.new/interrupted", 0644);
    assert_int_equal(build(&err), 0);
    assert_false(has("image-host/layer/.root/stale"));
    assert_false(has("image-host.new"));
}

static void test_unmerged_host(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    put("host/sbin/init", 0755);
    assert_true(build(&err) < 0);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "/sbin"));
    assert_false(image_host_exists(top_fd));
}

static void test_copy_budget(void **state)
{
    (void)state;
    struct error err = ERROR_INIT;
    struct copy_budget few = {.entries = 3, .bytes = 1000}, small = {.entries = 100, .bytes = 7};
    assert_true(copy_tree(top_fd, "host/etc", top_fd, "a", &few, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_true(copy_tree(top_fd, "host/etc", top_fd, "b", &small, &err) < 0);
    assert_int_equal(err.code, ERR_LIMIT);
    struct copy_budget enough = {.entries = 100, .bytes = 1000};
    assert_int_equal(copy_tree(top_fd, "host/etc", top_fd, "c", &enough, &err), 0);
    assert_true(enough.entries < 100 && enough.bytes < 1000);
    assert_int_equal(copy_tree(top_fd, "no/such", top_fd, "d", &enough, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_build, setup, teardown),
        cmocka_unit_test_setup_teardown(test_secrets_stay_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_packages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_packages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mask_is_opaque, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rebuild_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unmerged_host, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy_budget, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
