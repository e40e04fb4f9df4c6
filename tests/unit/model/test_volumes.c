#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "model/volumes.h"

static const char *const allowed[] = {"/data", "/srv/shared", NULL};

static int parse(const char *text, struct volumes *ret, struct problem *problem)
{
    json_t *array = json_loads(text, 0, NULL);
    assert_non_null(array);
    *problem = (struct problem){0};
    int r = volumes_parse(array, allowed, ret, problem);
    json_decref(array);
    return r;
}

static void test_all_kinds(void **state)
{
    (void)state;
    struct volumes volumes;
    struct problem problem;
    const char *text =
        "[{\"name\":\"a\",\"mountPath\":\"/a\",\"host\":{\"path\":\"/data/x\"},\"subPath\":\"y/"
        "z\"},"
        "{\"name\":\"b-1\",\"mountPath\":\"/b/c\",\"readOnly\":true,\"subPath\":\"\","
        "\"pvc\":{\"claimName\":\"claim\",\"createIfNotExists\":false,"
        "\"deleteOnSandboxTermination\":true,\"storage\":\"1.5Gi\",\"storageClass\":\"local\","
        "\"accessModes\":[\"ReadWriteOnce\",\"ReadWriteMany\"]},\"host\":null},"
        "{\"name\":\"c\",\"mountPath\":\"/c\",\"tmpfs\":{\"size\":\"64Mi\"}}]";
    assert_int_equal(parse(text, &volumes, &problem), 0);
    assert_int_equal(volumes.count, 3);
    const struct volume *host = &volumes.items[0], *named = &volumes.items[1];
    const struct volume *memory = &volumes.items[2];
    assert_int_equal(host->kind, VOLUMES_HOST);
    assert_string_equal(host->source, "/data/x");
    assert_string_equal(host->sub_path, "y/z");
    assert_true(host->create && !host->read_only && !host->remove && host->size_bytes == 0);
    assert_int_equal(named->kind, VOLUMES_NAMED);
    assert_string_equal(named->source, "claim");
    assert_string_equal(named->mount_path, "/b/c");
    assert_true(named->read_only && named->remove && !named->create);
    assert_int_equal(named->size_bytes, 3ull << 29);
    assert_int_equal(memory->kind, VOLUMES_TMPFS);
    assert_string_equal(memory->source, "");
    assert_int_equal(memory->size_bytes, 64u << 20);
    volumes_done(&volumes);
}

static void test_defaults_of_a_claim(void **state)
{
    (void)state;
    struct volumes volumes;
    struct problem problem;
    assert_int_equal(parse("[{\"name\":\"v\",\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\","
                           "\"storageClass\":\"\",\"storage\":null}}]",
                           &volumes, &problem),
                     0);
    assert_true(volumes.items[0].create && !volumes.items[0].remove);
    assert_false(volumes.items[0].read_only);
    assert_int_equal(volumes.items[0].size_bytes, 0);
    volumes_done(&volumes);
    assert_int_equal(parse("[]", &volumes, &problem), 0);
    assert_int_equal(volumes.count, 0);
}

#define INVALID "SANDBOX::INVALID_PARAMETER"

/* `volume` is what is between the braces, without a name. */
static const struct {
    const char *volume;
    const char *code;
    const char *member;
    const char *word;
} refused[] = {
    {"\"mountPath\":\"/v\"", "VOLUME::INVALID_BACKEND", "0.host", "only one"},
    {"\"mountPath\":\"/v\",\"tmpfs\":{\"size\":\"1Mi\"},\"pvc\":{\"claimName\":\"c\"}",
     "VOLUME::INVALID_BACKEND", "0.host", "only one"},
    {"\"mountPath\":\"/v\",\"host\":\"/data\"", "VOLUME::INVALID_BACKEND", "0.host", "object"},
    {"\"mountPath\":\"/v\",\"ossfs\":{\"bucket\":\"b\"}", "VOLUME::UNSUPPORTED_BACKEND", "0.ossfs",
     "not supported"},
    {"\"host\":{\"path\":\"/data\"}", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "absolute"},
    {"\"mountPath\":\"/\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "other than /"},
    {"\"mountPath\":\"v\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "\"v\""},
    {"\"mountPath\":\"/v/../proc\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "'..'"},
    {"\"mountPath\":\"/v/\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "final '/'"},
    {"\"mountPath\":\"//v\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "'//'"},
    {"\"mountPath\":\"/proc\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "kernel"},
    {"\"mountPath\":\"/proc/sys\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "kernel"},
    {"\"mountPath\":\"/dev/shm\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "kernel"},
    {"\"mountPath\":\"/sys\"", "VOLUME::INVALID_MOUNT_PATH", "0.mountPath", "kernel"},
    {"\"mountPath\":7", INVALID, "0.mountPath", "string"},
    {"\"mountPath\":\"/v\",\"readonly\":true,\"host\":{\"path\":\"/data\"}", INVALID, "0.readonly",
     "not known"},
    {"\"mountPath\":\"/v\",\"readOnly\":\"true\",\"host\":{\"path\":\"/data\"}", INVALID,
     "0.readOnly", "true or false"},
    {"\"mountPath\":\"/v\",\"host\":{}", "VOLUME::INVALID_HOST_PATH", "0.host.path", "absolute"},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"C:\\\\x\"}", "VOLUME::INVALID_HOST_PATH",
     "0.host.path", "absolute"},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/data/..\"}", "VOLUME::INVALID_HOST_PATH",
     "0.host.path", "\"/data/..\""},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/data//x\"}", "VOLUME::INVALID_HOST_PATH",
     "0.host.path", "'//'"},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/database\"}", "VOLUME::HOST_PATH_NOT_ALLOWED",
     "0.host.path", "\"/database\""},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/srv\"}", "VOLUME::HOST_PATH_NOT_ALLOWED",
     "0.host.path", "allowed_host_paths"},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/data\",\"x\":1}", INVALID, "0.host.x", "known"},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/data\"},\"subPath\":\"../x\"",
     "VOLUME::INVALID_SUB_PATH", "0.subPath", "\"../x\""},
    {"\"mountPath\":\"/v\",\"host\":{\"path\":\"/data\"},\"subPath\":\"/x\"",
     "VOLUME::INVALID_SUB_PATH", "0.subPath", "relative"},
    {"\"mountPath\":\"/v\",\"tmpfs\":{\"size\":\"1Mi\"},\"subPath\":\"x\"",
     "VOLUME::INVALID_SUB_PATH", "0.subPath", "left out"},
    {"\"mountPath\":\"/v\",\"tmpfs\":{}", INVALID, "0.tmpfs.size", "4Ki"},
    {"\"mountPath\":\"/v\",\"tmpfs\":{\"size\":\"1\"}", INVALID, "0.tmpfs.size", "\"1\""},
    {"\"mountPath\":\"/v\",\"pvc\":{}", "VOLUME::INVALID_PVC_NAME", "0.pvc.claimName", "63"},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"../x\"}", "VOLUME::INVALID_PVC_NAME",
     "0.pvc.claimName", "\"../x\""},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"-x\"}", "VOLUME::INVALID_PVC_NAME",
     "0.pvc.claimName", "begin"},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"storage\":\"1\"}", INVALID,
     "0.pvc.storage", "16Mi"},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"storage\":\"2Ei\"}", INVALID,
     "0.pvc.storage", "\"2Ei\""},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"storageClass\":\"fast\"}", INVALID,
     "0.pvc.storageClass", "\"fast\""},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"accessModes\":[\"ReadWriteOncePod\"]}",
     INVALID, "0.pvc.accessModes", "ReadWriteOncePod"},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"accessModes\":\"ReadWriteOnce\"}",
     INVALID, "0.pvc.accessModes", "array"},
    {"\"mountPath\":\"/v\",\"pvc\":{\"claimName\":\"c\",\"createIfNotExists\":1}", INVALID,
     "0.pvc.createIfNotExists", "true or false"},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        struct volumes volumes;
        struct problem problem;
        AUTO_FREE char *text = mem_printf("[{\"name\":\"v\",%s}]", refused[i].volume);
        assert_true(parse(text, &volumes, &problem) < 0);
        assert_int_equal(volumes.count, 0);
        assert_string_equal(problem.code, refused[i].code);
        assert_string_equal(problem.field, "volumes");
        assert_string_equal(problem.member, refused[i].member);
        assert_non_null(strstr(problem.message, refused[i].word));
    }
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "\"name\":\"\",",
                                      "\"name\":\"A\",",
                                      "\"name\":\"a_b\",",
                                      "\"name\":\"a-\",",
                                      "\"name\":\"-a\","};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct volumes volumes;
        struct problem problem;
        AUTO_FREE char *text =
            mem_printf("[{%s\"mountPath\":\"/v\",\"tmpfs\":{\"size\":\"1Mi\"}}]", bad[i]);
        assert_true(parse(text, &volumes, &problem) < 0);
        assert_string_equal(problem.code, "VOLUME::INVALID_NAME");
    }
}

#define MEMORY(name, path) \
    "{\"name\":\"" name "\",\"mountPath\":\"" path "\",\"tmpfs\":{\"size\":\"1Mi\"}}"

static void test_twice(void **state)
{
    (void)state;
    struct volumes volumes;
    struct problem problem;
    assert_true(parse("[" MEMORY("a", "/a") "," MEMORY("a", "/b") "]", &volumes, &problem) < 0);
    assert_string_equal(problem.code, "VOLUME::DUPLICATE_NAME");
    assert_string_equal(problem.member, "1.name");
    assert_true(parse("[" MEMORY("a", "/a") "," MEMORY("b", "/a") "]", &volumes, &problem) < 0);
    assert_string_equal(problem.code, "VOLUME::INVALID_MOUNT_PATH");
    assert_int_equal(parse("[" MEMORY("a", "/a/b") "," MEMORY("b", "/a") "]", &volumes, &problem),
                     0);
    volumes_done(&volumes);
}

static void test_too_many(void **state)
{
    (void)state;
    struct volumes volumes;
    struct problem problem;
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, 4096);
    for (int i = 0; i < VOLUMES_MAX; i++)
        buf_printf(&text,
                   "%s{\"name\":\"v%d\",\"mountPath\":\"/v%d\",\"tmpfs\":{\"size\":\"1Mi\"}}",
                   i > 0 ? "," : "[", i, i);
    AUTO_FREE char *most = mem_printf("%s]", text.data);
    AUTO_FREE char *more = mem_printf("%s," MEMORY("x", "/x") "]", text.data);
    assert_int_equal(parse(most, &volumes, &problem), 0);
    volumes_done(&volumes);
    assert_true(parse(more, &volumes, &problem) < 0);
    assert_non_null(strstr(problem.message, "at most 16"));
    assert_true(parse("{}", &volumes, &problem) < 0);
    assert_true(parse("[7]", &volumes, &problem) < 0);
    assert_non_null(strstr(problem.message, "volumes[0]"));
}

static void test_nothing_is_allowed_by_default(void **state)
{
    (void)state;
    struct volumes volumes;
    struct problem problem = {0};
    json_t *array = json_loads(
        "[{\"name\":\"v\",\"mountPath\":\"/v\",\"host\":{\"path\":\"/data\"}}]", 0, NULL);
    assert_true(volumes_parse(array, NULL, &volumes, &problem) < 0);
    json_decref(array);
    assert_string_equal(problem.code, VOLUMES_NOT_ALLOWED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds),
        cmocka_unit_test(test_defaults_of_a_claim),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_nothing_is_allowed_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
