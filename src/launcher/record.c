#include "launcher/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/fields.h"
#include "launcher/idrange.h"
#include "launcher/link_pool.h"
#include "runtime/native/message.h"

void record_format(const struct record *record, struct buf *text)
{
    const struct message_limits *limits = &record->limits;
    buf_printf(text,
               "opensandbox-record 3\n"
               "id %s\npid %d\nstart %" PRIu64 "\nboot %s\nrange %u\ncgroup %s\nimage %s\n"
               "read-only %u\nfrozen %u\nlimits-known %u\n",
               record->id, (int)record->pid, record->start_ticks, record->boot_id, record->range,
               record->cgroup, record->image, record->read_only, record->frozen,
               record->limits_known);
    buf_printf(text,
               "memory %" PRIu64 "\ndisk %" PRIu64 "\nio-read-bps %" PRIu64
               "\nio-write-bps %" PRIu64 "\nio-read-iops %" PRIu32 "\nio-write-iops %" PRIu32
               "\ncpu %" PRIu32 "\npids %" PRIu32 "\nopen-files %" PRIu32 "\n",
               limits->memory_bytes, limits->disk_bytes, limits->io_read_bps, limits->io_write_bps,
               limits->io_read_iops, limits->io_write_iops, limits->cpu_millis, limits->pids,
               limits->open_files);
    buf_printf(text,
               "created %" PRIu64 "\ndeadline %" PRIu64
               "\nreason %u\nstatus %d\noom %u\nhit %u\nnetwork %u\n",
               record->created_unix_ms, record->deadline_unix_ms, record->exit_reason,
               record->exit_status, record->oom_kills, record->limits_hit, record->network);
}

static bool in_range(const struct record *record)
{
    return id_is_uuid(record->id) && record->pid > 1 && record->range > 0 &&
           record->range < IDRANGE_COUNT && record->exit_reason <= MESSAGE_EXIT_LOST &&
           record->exit_status >= 0 && record->exit_status <= 255 &&
           strchr(record->cgroup, '/') == NULL && record->cgroup[0] != '.' &&
           message_is_image_name(record->image) && (record->limits_hit & ~MESSAGE_HITS) == 0 &&
           message_check_limits(&record->limits, NULL) == 0;
}

static bool take_process(const char **at, struct record *record)
{
    uint32_t pid = 0;
    bool taken = fields_take_word(at, "id", record->id, sizeof(record->id)) &&
                 fields_take_u32(at, "pid", INT32_MAX, &pid) &&
                 fields_take_number(at, "start", UINT64_MAX, &record->start_ticks) &&
                 fields_take_word(at, "boot", record->boot_id, sizeof(record->boot_id)) &&
                 fields_take_u32(at, "range", IDRANGE_COUNT, &record->range) &&
                 fields_take_word(at, "cgroup", record->cgroup, sizeof(record->cgroup));
    record->pid = (pid_t)pid;
    return taken;
}

static bool take_limits(const char **at, struct message_limits *limits)
{
    return fields_take_number(at, "memory", UINT64_MAX, &limits->memory_bytes) &&
           fields_take_number(at, "disk", UINT64_MAX, &limits->disk_bytes) &&
           fields_take_number(at, "io-read-bps", UINT64_MAX, &limits->io_read_bps) &&
           fields_take_number(at, "io-write-bps", UINT64_MAX, &limits->io_write_bps) &&
           fields_take_u32(at, "io-read-iops", UINT32_MAX, &limits->io_read_iops) &&
           fields_take_u32(at, "io-write-iops", UINT32_MAX, &limits->io_write_iops) &&
           fields_take_u32(at, "cpu", UINT32_MAX, &limits->cpu_millis) &&
           fields_take_u32(at, "pids", UINT32_MAX, &limits->pids) &&
           fields_take_u32(at, "open-files", UINT32_MAX, &limits->open_files);
}

static bool take_end(const char **at, struct record *record)
{
    uint32_t status = 0;
    bool taken = fields_take_number(at, "created", UINT64_MAX, &record->created_unix_ms) &&
                 fields_take_number(at, "deadline", UINT64_MAX, &record->deadline_unix_ms) &&
                 fields_take_u32(at, "reason", MESSAGE_EXIT_LOST, &record->exit_reason) &&
                 fields_take_u32(at, "status", INT32_MAX, &status) &&
                 fields_take_u32(at, "oom", UINT32_MAX, &record->oom_kills);
    record->exit_status = (int)status;
    return taken;
}

static bool take_version_1(const char **at, struct record *record)
{
    memcpy(record->image, "host", sizeof("host")); /* there was no other */
    return take_process(at, record) && take_end(at, record);
}

static bool take_version_2(const char **at, struct record *record)
{
    return take_process(at, record) &&
           fields_take_word(at, "image", record->image, sizeof(record->image)) &&
           fields_take_bool(at, "read-only", &record->read_only) &&
           fields_take_bool(at, "frozen", &record->frozen) &&
           fields_take_bool(at, "limits-known", &record->limits_known) &&
           take_limits(at, &record->limits) && take_end(at, record) &&
           fields_take_u32(at, "hit", UINT32_MAX, &record->limits_hit);
}

static bool take_version_3(const char **at, struct record *record)
{
    return take_version_2(at, record) &&
           fields_take_u32(at, "network", LINK_POOL_MAX, &record->network);
}

int record_parse(const char *text, size_t length, struct record *ret, struct error *err)
{
    struct record record;
    memset(&record, 0, sizeof(record));
    const char *at = text;
    uint32_t version = 0;
    if (!fields_take_u32(&at, "opensandbox-record", UINT32_MAX, &version))
        return error_set(err, ERR_INVALID, "record has no version");
    bool taken = (version == 1 && take_version_1(&at, &record)) ||
                 (version == 2 && take_version_2(&at, &record)) ||
                 (version == 3 && take_version_3(&at, &record));
    if (!taken || at != text + length || !in_range(&record))
        return error_set(err, ERR_INVALID, "record (version %u) is damaged", version);
    *ret = record;
    return 0;
}

int record_write(int dir_fd, const struct record *record, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, RECORD_MAX);
    record_format(record, &text);

    /* Not O_TRUNC: ext4 takes a truncated file for one that is being replaced by a careless
     * program, and writes it to the disk when it is closed. A slot has made an empty one; a longer
     * one is left of a launcher that died here. */
    AUTO_CLOSE int fd =
        openat(dir_fd, RECORD_NEW, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || (st.st_size != 0 && ftruncate(fd, 0) < 0))
        return error_set_errno(err, errno, "cannot make the record");
    int r = file_write_all(fd, text.data, text.length);
    if (r < 0)
        return error_set_errno(err, -r, "cannot write the record");
    if (renameat(dir_fd, RECORD_NEW, dir_fd, "record") < 0)
        return error_set_errno(err, errno, "cannot replace the record");
    return 0;
}

int record_read(int dir_fd, struct record *ret, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, RECORD_MAX);
    int r = file_read_at(dir_fd, "record", &text, err);
    if (r < 0)
        return r;
    return record_parse(text.data, text.length, ret, err);
}

/* The pidfd first: once it is open the pid cannot be given to another process unseen. */
int record_open_process(const struct record *record, const char *boot_id)
{
    AUTO_CLOSE int pidfd = -1;
    uint64_t start = 0;
    if (!str_equal(record->boot_id, boot_id) || record->exit_reason != MESSAGE_EXIT_NONE ||
        process_open(record->pid, &pidfd) < 0 || process_start_time(record->pid, &start) < 0 ||
        start != record->start_ticks)
        return -1;
    return TAKE_FD(pidfd);
}
