#include "execd/session_processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define PROCESSES_MAX 65536
#define STAT_MAX      1024
#define ANCESTORS_MAX 1024 /* a chain longer than this is not followed further */
#define SIGNAL_PASSES 4    /* what forks while it is listed is found by the next one */

struct list {
    struct execd_session_process *items;
    size_t count;
};

bool execd_session_process_parse(const char *line, struct execd_session_process *ret)
{
    struct execd_session_process process = {0};
    char *end;
    long pid = strtol(line, &end, 10);
    const char *rest = strrchr(line, ')');
    if (pid <= 0 || pid > INT_MAX || end[0] != ' ' || end[1] != '(' || rest == NULL)
        return false;
    char state;
    int parent;
    int session;
    /* state ppid pgrp session, 15 numbers of no interest, then the start time. */
    if (sscanf(rest,
               ") %c %d %*d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%" SCNu64,
               &state, &parent, &session, &process.start_ticks) != 4)
        return false;
    process.pid = (pid_t)pid;
    process.parent = parent;
    process.session = session;
    process.dead = state == 'Z' || state == 'X';
    *ret = process;
    return true;
}

uint64_t execd_session_ticks_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec * hz / 1000000000;
}

/* A short file of /proc into `text`, NUL-terminated; false when there is none. */
static bool read_small(int dir_fd, const char *path, char *text, size_t size)
{
    AUTO_CLOSE int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, size - 1);
    if (n < 0)
        return false;
    text[n] = '\0';
    return true;
}

static int compare_pids(const void *a, const void *b)
{
    pid_t first = ((const struct execd_session_process *)a)->pid;
    pid_t second = ((const struct execd_session_process *)b)->pid;
    return (first > second) - (first < second);
}

/* All processes but zombies, by pid. */
static int read_all(struct list *list)
{
    DIR *directory = opendir("/proc");
    if (directory == NULL)
        return -errno;
    size_t capacity = 0;
    struct dirent *entry;
    while (list->count < PROCESSES_MAX && (entry = readdir(directory)) != NULL) {
        char path[300];
        char text[STAT_MAX];
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "%s/stat", entry->d_name);
        if (list->count == capacity) {
            capacity = MAX(capacity * 2, (size_t)64);
            list->items = mem_resize_array(list->items, capacity, sizeof(*list->items));
        }
        if (read_small(dirfd(directory), path, text, sizeof(text)) &&
            execd_session_process_parse(text, &list->items[list->count]) &&
            !list->items[list->count].dead)
            list->count++;
    }
    closedir(directory);
    if (list->count == 0)
        return -ENOENT; /* a folder of that name, but we are not in it */
    qsort(list->items, list->count, sizeof(*list->items), compare_pids);
    return 0;
}

void execd_session_moment_take(struct execd_session_moment *moment, pid_t shell)
{
    char path[64];
    char text[EXECD_SESSION_CHILDREN_MAX * 11 + 1];
    moment->ticks = execd_session_ticks_now();
    moment->child_count = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)shell, (int)shell);
    if (!read_small(AT_FDCWD, path, text, sizeof(text)))
        return;
    const char *at = text;
    while (moment->child_count < EXECD_SESSION_CHILDREN_MAX) {
        char *end;
        long pid = strtol(at, &end, 10);
        if (end == at || *end != ' ') /* each number is followed by a space: this one is cut */
            return;
        moment->children[moment->child_count++] = (pid_t)pid;
        at = end;
    }
}

static const struct execd_session_process *find_process(
    const struct execd_session_process *processes, size_t count, pid_t pid)
{
    struct execd_session_process key = {.pid = pid};
    return bsearch(&key, processes, count, sizeof(*processes), compare_pids);
}

bool execd_session_process_is_since(const struct execd_session_process *processes, size_t count,
                                    size_t index, pid_t shell,
                                    const struct execd_session_moment *moment)
{
    const struct execd_session_process *top = &processes[index];
    if (top->pid == shell || top->session != shell)
        return false;
    for (int step = 0; top->parent != shell && step < ANCESTORS_MAX; step++) {
        const struct execd_session_process *parent = find_process(processes, count, top->parent);
        if (parent == NULL || parent->session != shell)
            return top->start_ticks > moment->ticks; /* an orphan: nothing but its time tells */
        top = parent;
    }
    for (size_t i = 0; i < moment->child_count; i++) {
        if (moment->children[i] == top->pid)
            return false;
    }
    return top->start_ticks >= moment->ticks;
}

static int signal_once(pid_t shell, const struct execd_session_moment *moment, uint64_t min_ticks,
                       int signal)
{
    struct list list = {0};
    int r = read_all(&list);
    int sent = 0;
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        const struct execd_session_process *process = &list.items[i];
        if (process->session != shell || process->pid == shell || process->start_ticks < min_ticks)
            continue;
        if (moment == NULL ||
            execd_session_process_is_since(list.items, list.count, i, shell, moment))
            sent += kill(process->pid, signal) == 0;
    }
    free(list.items);
    return r < 0 ? r : sent;
}

int execd_session_processes_signal(pid_t shell, const struct execd_session_moment *moment,
                                   uint64_t min_ticks, int signal)
{
    int sent = signal_once(shell, moment, min_ticks, signal);
    /* Only killing is repeated: what was killed does not fork any more, so this comes to an end. */
    int more = signal == SIGKILL ? sent : 0;
    for (int pass = 1; more > 0 && pass < SIGNAL_PASSES; pass++)
        more = signal_once(shell, moment, min_ticks, signal);
    return sent;
}

void execd_session_pasts_add(struct execd_session_pasts *pasts, pid_t shell)
{
    if (pasts->count == EXECD_SESSION_PASTS_MAX) {
        pasts->count--;
        memmove(&pasts->items[0], &pasts->items[1], pasts->count * sizeof(pasts->items[0]));
    }
    pasts->items[pasts->count].shell = shell;
    pasts->items[pasts->count].died_ticks = execd_session_ticks_now();
    pasts->count++;
}

int execd_session_pasts_signal(const struct execd_session_pasts *pasts, int signal)
{
    if (pasts->count == 0)
        return 0;
    struct list list = {0};
    int r = read_all(&list);
    int sent = 0;
    for (size_t p = 0; r == 0 && p < pasts->count; p++) {
        uint64_t oldest = UINT64_MAX;
        for (size_t i = 0; i < list.count; i++) {
            if (list.items[i].session == pasts->items[p].shell)
                oldest = MIN(oldest, list.items[i].start_ticks);
        }
        for (size_t i = 0; oldest <= pasts->items[p].died_ticks && i < list.count; i++) {
            if (list.items[i].session == pasts->items[p].shell)
                sent += kill(list.items[i].pid, signal) == 0;
        }
    }
    free(list.items);
    return r < 0 ? r : sent;
}
