/* Whatever stands where /proc and the control groups would be: anybody inside can write it when a
 * root has no /proc. The input is cut at NUL bytes into the files that are read first. Nothing may
 * be read or written out of bounds, and what is told is sane. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macros.h"
#include "execd/metrics_sample.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char root[64];

static void remove_root(void)
{
    file_remove_tree_at(AT_FDCWD, root, NULL);
}

static void require(int condition)
{
    if (condition)
        return;
    remove_root();
    abort();
}

static void make_root(void)
{
    char path[128];
    static const char *const folders[] = {"proc/self", "sys/fs/cgroup"};
    snprintf(root, sizeof(root), "/tmp/osb-fuzz-metrics-XXXXXX");
    if (mkdtemp(root) == NULL)
        abort();
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, folders[i]);
        require(file_make_dirs(path, 0755, NULL) == 0);
    }
    atexit(remove_root);
}

static void put(const char *name, const char *bytes, size_t length)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && file_write_all(fd, bytes, length) == 0);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
        "proc/self/cgroup",       "proc/self/mountinfo",      "proc/stat",
        "proc/meminfo",           "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current",
        "sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cpu.max"};
    if (root[0] == '\0')
        make_root();
    const char *at = (const char *)data;
    const char *end = at + size;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *stop = at < end ? memchr(at, '\0', (size_t)(end - at)) : end;
        if (stop == NULL)
            stop = end;
        put(names[i], at, (size_t)(stop - at));
        at = stop < end ? stop + 1 : end;
    }
    struct execd_sample sample;
    if (execd_sample_read(&sample, root, 4, NULL) < 0)
        return 0;
    require(sample.cpu_count >= 1 && sample.cpu_count <= 4);
    struct execd_sample later = sample;
    later.at_ns++;
    later.cpu_used_ns += 1000;
    double percent = execd_sample_cpu_percent(&sample, &later);
    require(percent >= 0 && percent <= 100);
    return 0;
}
