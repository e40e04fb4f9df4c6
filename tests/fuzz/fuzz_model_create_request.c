/* The body of a create request. What is accepted must be usable as it is: every bound kept, a
 * program to run, no NUL and no '=' where env names end. What is refused must come with an answer
 * that can be sent. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "model/create_request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

static void check_range(uint64_t value, uint64_t min, uint64_t max)
{
    check(value == 0 || (value >= min && value <= max));
}

static void check_limits(const struct limits *limits)
{
    check_range(limits->memory_bytes, LIMITS_MEMORY_MIN, LIMITS_MEMORY_MAX);
    check_range(limits->disk_bytes, LIMITS_DISK_MIN, LIMITS_DISK_MAX);
    check_range(limits->io_read_bps, LIMITS_IO_BPS_MIN, LIMITS_IO_BPS_MAX);
    check_range(limits->io_write_bps, LIMITS_IO_BPS_MIN, LIMITS_IO_BPS_MAX);
    check_range(limits->io_read_iops, 1, LIMITS_IO_IOPS_MAX);
    check_range(limits->io_write_iops, 1, LIMITS_IO_IOPS_MAX);
    check_range(limits->cpu_millis, 1, LIMITS_CPU_MILLIS_MAX);
    check_range(limits->pids, 1, LIMITS_PIDS_MAX);
    check_range(limits->open_files, LIMITS_OPEN_FILES_MIN, LIMITS_OPEN_FILES_MAX);
}

static void check_volumes(const struct volumes *volumes)
{
    check(volumes->count <= VOLUMES_MAX);
    for (size_t i = 0; i < volumes->count; i++) {
        const struct volume *volume = &volumes->items[i];
        check(strlen(volume->name) >= 1 && strlen(volume->name) <= VOLUMES_NAME_MAX);
        check(volumes_is_plain_path(volume->mount_path, true));
        check(strcmp(volume->mount_path, "/proc") != 0);
        check(volume->sub_path[0] == '\0' || volumes_is_plain_path(volume->sub_path, false));
        check(strstr(volume->sub_path, "../") == NULL);
        switch (volume->kind) {
        case VOLUMES_HOST:
            check(strcmp(volume->source, "/data") == 0 ||
                  strncmp(volume->source, "/data/", 6) == 0);
            check(strstr(volume->source, "/../") == NULL && volume->size_bytes == 0);
            break;
        case VOLUMES_NAMED:
            check(strlen(volume->source) >= 1 && strchr(volume->source, '/') == NULL);
            check(volume->source[0] != '.');
            check_range(volume->size_bytes, LIMITS_DISK_MIN, LIMITS_DISK_MAX);
            break;
        case VOLUMES_TMPFS:
            check(volume->source[0] == '\0' && volume->sub_path[0] == '\0');
            check(volume->size_bytes >= VOLUMES_TMPFS_MIN && !volume->create && !volume->remove);
            break;
        }
    }
}

__attribute__((noinline)) static void check_accepted(const struct create_request *request)
{
    check(strcmp(request->image, "host") == 0 || strcmp(request->image, "other") == 0);
    check(request->entrypoint.count >= 1 &&
          request->entrypoint.count <= CREATE_REQUEST_ENTRYPOINT_MAX);
    check(request->command.count >= 1 && request->command.items[0][0] != '\0');
    check(request->command.items[request->command.count] == NULL);
    check(request->env.count <= CREATE_REQUEST_ENV_MAX);
    for (size_t i = 0; i < request->env.count; i++) {
        check(strchr(request->env.items[i], '=') > request->env.items[i]);
        check(strlen(request->env.items[i]) <= CREATE_REQUEST_STRING_MAX);
    }
    for (size_t i = 0; i < request->metadata.count; i++) {
        const struct label *label = &request->metadata.items[i];
        check(labels_key_is_valid(label->key, strlen(label->key)));
        check(labels_value_is_valid(label->value, strlen(label->value)));
        check(strchr(label->key, '\n') == NULL && strchr(label->value, '\n') == NULL);
    }
    check(request->timeout_s == 0 || (request->timeout_s >= CREATE_REQUEST_TIMEOUT_MIN_S &&
                                      request->timeout_s <= CREATE_REQUEST_TIMEOUT_MAX_S));
    check_limits(&request->limits);
    check_volumes(&request->volumes);
}

static void check_refused(const struct create_request *request, const struct problem *problem)
{
    check(request->image == NULL && request->env.count == 0 && request->command.count == 0 &&
          request->volumes.count == 0);
    check(problem->code != NULL && problem->message[0] != '\0');
    check(str_is_utf8(problem->message, strlen(problem->message)));
    json_t *json = problem_to_json(problem);
    check(json != NULL);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const images[] = {"other", NULL};
    static const char *const host_paths[] = {"/data", NULL};
    const struct create_request_rules rules = {.images = images, .host_paths = host_paths};
    struct create_request request;
    struct problem problem = {0};
    if (create_request_parse((const char *)data, size, &rules, &request, &problem) == 0)
        check_accepted(&request);
    else
        check_refused(&request, &problem);
    create_request_done(&request);
    return 0;
}
