#include "launcher/subids.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#define FILE_MAX (4u << 20)

static void parse_line(char *line, const char *name, const char *number, struct subids *ret)
{
    char *save = NULL;
    const char *who = strtok_r(line, ":", &save);
    const char *first = strtok_r(NULL, ":", &save);
    const char *count = strtok_r(NULL, ":", &save);
    uint64_t from, length;
    if (who == NULL || first == NULL || count == NULL || ret->count == SUBIDS_MAX ||
        (!str_equal(who, name) && !str_equal(who, number)) ||
        str_to_u64(first, 1, UINT32_MAX - 1, &from) < 0 ||
        str_to_u64(count, 1, UINT32_MAX - from, &length) < 0)
        return;
    ret->items[ret->count].first = (uint32_t)from;
    ret->items[ret->count].count = (uint32_t)length;
    ret->count++;
    ret->total += length;
}

void subids_parse(const char *text, const char *name, uint32_t user, struct subids *ret)
{
    char number[16];
    AUTO_FREE char *lines = mem_dup(text);
    char *save = NULL;
    snprintf(number, sizeof(number), "%u", user);
    *ret = (struct subids){0};
    for (char *line = strtok_r(lines, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save))
        parse_line(line, name, number, ret);
}

void subids_read(const char *path, const char *name, uint32_t user, struct subids *ret)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, FILE_MAX);
    *ret = (struct subids){0};
    if (file_read_at(AT_FDCWD, path, &text, NULL) == 0 && text.length > 0)
        subids_parse(text.data, name, user, ret);
}
