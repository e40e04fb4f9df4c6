/* Where the hierarchies are, from /proc/self/mountinfo. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "launcher/cgroup_internal.h"

static const char *const controller_names[CGROUP_CONTROLLERS] = {
    [CGROUP_MEMORY] = "memory", [CGROUP_CPU] = "cpu",         [CGROUP_PIDS] = "pids",
    [CGROUP_IO] = "blkio",      [CGROUP_CPUACCT] = "cpuacct", [CGROUP_FREEZER] = "freezer",
};

const char *cgroup_controller_name(enum cgroup_controller controller, bool v2)
{
    return v2 && controller == CGROUP_IO ? "io" : controller_names[controller];
}

/* The kernel writes space, tab, newline and backslash of a path as three octal digits. */
static char *unescape(const char *escaped)
{
    char *path = mem_dup(escaped);
    char *out = path;
    for (const char *in = escaped; *in != '\0'; in++) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
            in[3] >= '0' && in[3] <= '7') {
            *out++ = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 3;
        } else {
            *out++ = *in;
        }
    }
    *out = '\0';
    return path;
}

bool cgroup_list_has(const char *list, const char *separators, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at != '\0';) {
        size_t step = strcspn(at, separators);
        if (step == length && strncmp(at, word, length) == 0)
            return true;
        at += step;
        at += strspn(at, separators);
    }
    return false;
}

/* One line: id parent major:minor root mount-point options optional... - type source super-options
 */
static void parse_line(char *line, struct cgroup_mounts *mounts)
{
    char *tail = strstr(line, " - ");
    if (tail == NULL)
        return;
    *tail = '\0';
    char *save = NULL;
    char *type = strtok_r(tail + 3, " ", &save);
    strtok_r(NULL, " ", &save);
    char *options = strtok_r(NULL, " ", &save);
    char *point = line;
    for (int field = 1; field < 5 && point != NULL; field++) {
        point = strchr(point, ' ');
        if (point != NULL)
            point++;
    }
    if (point == NULL || type == NULL || options == NULL)
        return;
    point[strcspn(point, " ")] = '\0';

    if (str_equal(type, "cgroup2") && mounts->v2 == NULL)
        mounts->v2 = unescape(point);
    if (!str_equal(type, "cgroup"))
        return;
    if (mounts->cpuset == NULL && cgroup_list_has(options, ",", "cpuset"))
        mounts->cpuset = unescape(point);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (mounts->v1[i] == NULL &&
            cgroup_list_has(options, ",", cgroup_controller_name(i, false)))
            mounts->v1[i] = unescape(point);
    }
}

void cgroup_mounts_parse(const char *mountinfo, struct cgroup_mounts *ret)
{
    AUTO_FREE char *text = mem_dup(mountinfo);
    *ret = (struct cgroup_mounts){0};
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save))
        parse_line(line, ret);
}

void cgroup_mounts_done(struct cgroup_mounts *mounts)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        free(TAKE_PTR(mounts->v1[i]));
    free(TAKE_PTR(mounts->cpuset));
    free(TAKE_PTR(mounts->v2));
}

bool cgroup_mounts_prefer_v2(const struct cgroup_mounts *mounts, const char *v2_controllers)
{
    static const enum cgroup_controller limiting[] = {CGROUP_MEMORY, CGROUP_CPU, CGROUP_PIDS,
                                                      CGROUP_IO};
    unsigned v1 = 0;
    unsigned v2 = 0;
    for (size_t i = 0; i < ARRAY_LEN(limiting); i++) {
        v1 += mounts->v1[limiting[i]] != NULL;
        v2 += cgroup_list_has(v2_controllers, " \n", cgroup_controller_name(limiting[i], true));
    }
    return mounts->v2 != NULL && v2 >= v1;
}
