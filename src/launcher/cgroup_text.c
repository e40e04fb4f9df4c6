/* The texts in which the kernel tells what a group uses. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/cgroup_internal.h"

uint64_t cgroup_text_number(const char *text)
{
    return text[0] >= '0' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL && end[1] != '\0' ? end + 1 : NULL;
}

uint64_t cgroup_text_key(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL; line = next_line(line)) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ')
            return cgroup_text_number(line + length + 1);
    }
    return 0;
}

/* What follows "major:minor " in a line about the device (about any, if none is known), or NULL. */
static const char *about_device(const char *line, const struct cgroup_device *device)
{
    unsigned major, minor;
    int length = 0;
    if (*line == '\n' || sscanf(line, "%u:%u%n", &major, &minor, &length) != 2 ||
        line[length] != ' ')
        return NULL;
    if (device->found && (major != device->major || minor != device->minor))
        return NULL;
    return line + length + 1;
}

uint64_t cgroup_text_io_v1(const char *text, const struct cgroup_device *device, const char *kind)
{
    size_t length = strlen(kind);
    uint64_t sum = 0;
    for (const char *line = text; line != NULL; line = next_line(line)) {
        const char *rest = about_device(line, device);
        if (rest != NULL && strncmp(rest, kind, length) == 0 && rest[length] == ' ')
            sum += cgroup_text_number(rest + length + 1);
    }
    return sum;
}

/* The words of one line, up to its end. */
static uint64_t find_pair(const char *words, const char *key)
{
    size_t length = strlen(key);
    for (const char *word = words; *word != '\0' && *word != '\n';) {
        if (strncmp(word, key, length) == 0 && word[length] == '=')
            return cgroup_text_number(word + length + 1);
        word += strcspn(word, " \n");
        word += strspn(word, " ");
    }
    return 0;
}

uint64_t cgroup_text_io_v2(const char *text, const struct cgroup_device *device, const char *key)
{
    uint64_t sum = 0;
    for (const char *line = text; line != NULL; line = next_line(line)) {
        const char *rest = about_device(line, device);
        if (rest != NULL)
            sum += find_pair(rest, key);
    }
    return sum;
}
