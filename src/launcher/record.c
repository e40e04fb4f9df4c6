#include "launcher/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "launcher/idrange.h"
#include "runtime/native/message.h"

void record_format(const struct record *record, struct buf *text)
{
    buf_printf(text,
               "opensandbox-record 1\n"
               "id %s\npid %d\nstart %" PRIu64 "\nboot %s\nrange %u\ncgroup %s\n"
               "created %" PRIu64 "\ndeadline %" PRIu64 "\nreason %u\nstatus %d\noom %u\n",
               record->id, (int)record->pid, record->start_ticks, record->boot_id, record->range,
               record->cgroup, record->created_unix_ms, record->deadline_unix_ms,
               record->exit_reason, record->exit_status, record->oom_kills);
}

static bool in_range(const struct record *record)
{
    return id_is_uuid(record->id) && record->pid > 1 && record->range > 0 &&
           record->range < IDRANGE_COUNT && record->exit_reason <= MESSAGE_EXIT_LOST &&
           record->exit_status >= 0 && record->exit_status <= 255 &&
           strchr(record->cgroup, '/') == NULL && record->cgroup[0] != '.';
}

int record_parse(const char *text, size_t length, struct record *ret, struct error *err)
{
    struct record record;
    memset(&record, 0, sizeof(record));
    int pid = 0;
    /* The widths are those of the fields, without the terminator. */
    int fields = sscanf(text,
                        "opensandbox-record 1\n"
                        "id %36s\npid %d\nstart %" SCNu64 "\nboot %36s\nrange %u\ncgroup %31s\n"
                        "created %" SCNu64 "\ndeadline %" SCNu64 "\nreason %u\nstatus %d\noom %u\n",
                        record.id, &pid, &record.start_ticks, record.boot_id, &record.range,
                        record.cgroup, &record.created_unix_ms, &record.deadline_unix_ms,
                        &record.exit_reason, &record.exit_status, &record.oom_kills);
    record.pid = pid;
    if (fields != 11 || !in_range(&record))
        return error_set(err, ERR_INVALID, "record is damaged");

    /* scanf is lenient about space, signs and overflow; writing it again shows what it let pass. */
    CLEANUP(buf_done) struct buf again;
    buf_init(&again, RECORD_MAX);
    record_format(&record, &again);
    if (again.length != length || memcmp(again.data, text, length) != 0)
        return error_set(err, ERR_INVALID, "record is not in the form the launcher writes");
    *ret = record;
    return 0;
}

int record_write(int dir_fd, const struct record *record, struct error *err)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, RECORD_MAX);
    record_format(record, &text);

    AUTO_CLOSE int fd =
        openat(dir_fd, RECORD_NEW, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
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
