#include "execd/names.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"

#define DATABASE_MAX_BYTES (4 * 1024 * 1024)
#define FIELD_MAX          256
#define ID_LAST            (UINT32_MAX - 1) /* the one above means "leave it" to the kernel */

/* One line of either file, of which the first and the third field are read: name:...:id:... */
struct line {
    unsigned field; /* number of the current one */
    size_t name_length;
    size_t id_length;
    char name[FIELD_MAX];
    char id[16];
};

/* What is looked for: by name when that is not NULL, else by id. */
struct wanted {
    const char *name;
    uint32_t id;
};

static void add_byte(struct line *line, char c)
{
    if (c == ':')
        line->field++;
    else if (line->field == 0 && line->name_length < sizeof(line->name))
        line->name[line->name_length++] = c;
    else if (line->field == 2 && line->id_length < sizeof(line->id))
        line->id[line->id_length++] = c;
}

/* Lines that are cut here because a field is too long match nothing. */
static bool is_match(struct line *line, struct wanted *wanted)
{
    uint64_t id;
    if (line->field < 2 || line->name_length == 0 || line->name_length == sizeof(line->name) ||
        line->id_length == sizeof(line->id) || strchr("#+-", line->name[0]) != NULL)
        return false;
    line->name[line->name_length] = '\0';
    line->id[line->id_length] = '\0';
    if (str_to_u64(line->id, 0, ID_LAST, &id) < 0)
        return false;
    if (wanted->name != NULL ? strcmp(line->name, wanted->name) != 0 : id != wanted->id)
        return false;
    wanted->id = (uint32_t)id;
    return true;
}

static int open_database(const struct execd_users *users, enum execd_names_kind kind)
{
    const char *path = kind == EXECD_NAMES_USER ? users->passwd_path : users->group_path;
    /* O_NONBLOCK: opening a FIFO must not wait for its writer. */
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > DATABASE_MAX_BYTES)
        return -1;
    return TAKE_FD(fd);
}

/* The first match; fills `line` and the id that is wanted. */
static bool find(const struct execd_users *users, enum execd_names_kind kind, struct wanted *wanted,
                 struct line *line)
{
    AUTO_CLOSE int fd = open_database(users, kind);
    char bytes[4096];
    ssize_t n;
    size_t total = 0;
    *line = (struct line){0};
    while (fd >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0) {
        total += (size_t)n;
        if (total > DATABASE_MAX_BYTES)
            return false; /* it grows while we read */
        for (ssize_t i = 0; i < n; i++) {
            if (bytes[i] != '\n') {
                add_byte(line, bytes[i]);
            } else if (is_match(line, wanted)) {
                return true;
            } else {
                *line = (struct line){0};
            }
        }
    }
    return is_match(line, wanted);
}

void execd_names_init(struct execd_names *names, const struct execd_users *users)
{
    *names = (struct execd_names){.users = users};
}

void execd_names_done(struct execd_names *names)
{
    for (size_t kind = 0; kind < ARRAY_LEN(names->kept); kind++) {
        for (size_t i = 0; i < EXECD_NAMES_KEPT; i++)
            free(TAKE_PTR(names->kept[kind][i].name));
    }
}

const char *execd_names_get(struct execd_names *names, enum execd_names_kind kind, uint32_t id)
{
    struct execd_names_entry *entry = &names->kept[kind][id % EXECD_NAMES_KEPT];
    if (entry->name != NULL && entry->id == id)
        return entry->name;
    struct wanted wanted = {.id = id};
    struct line line;
    free(entry->name);
    entry->id = id;
    entry->name =
        find(names->users, kind, &wanted, &line) ? mem_dup(line.name) : mem_printf("%u", id);
    return entry->name;
}

bool execd_names_parse(const struct execd_users *users, enum execd_names_kind kind,
                       const char *text, uint32_t *ret)
{
    struct wanted wanted = {.name = text};
    struct line line;
    uint64_t number;
    if (find(users, kind, &wanted, &line)) {
        *ret = wanted.id;
        return true;
    }
    if (str_to_u64(text, 0, ID_LAST, &number) < 0)
        return false;
    *ret = (uint32_t)number;
    return true;
}
