/* The only place that makes processes.
 *
 * A child is a plain fork, not a vfork: of the millisecond that a shell takes, vfork would save
 * some 60 microseconds, but stop our loop until the exec is done, however slow the directory or the
 * program's file is, and let a child that has changed its user share our memory.
 *
 * What can fail in the child is reported over a pipe that the successful exec closes: end of file
 * means the program runs. The child then exits with 127, and its exit is seen by the reaper like
 * every other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "execd/credentials.h"

#define EXECD_PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Program files to try, in this order; the first that the kernel executes wins. */
#define EXECD_PROGRAMS_MAX 256

struct execd_program {
    char *path;
    const char *name; /* argv[0] for it; borrowed */
};
struct execd_programs {
    struct execd_program items[EXECD_PROGRAMS_MAX];
    size_t count; /* what does not fit is not tried */
};

void execd_programs_init(struct execd_programs *programs);
void execd_programs_done(struct execd_programs *programs);
/* `name` itself when it holds a '/', else one candidate per directory of `search` (as PATH). `name`
 * must outlive the list. */
void execd_programs_add(struct execd_programs *programs, const char *name, const char *search);

/* A file that the program finds open under a number of our choice, besides 0, 1 and 2. */
#define EXECD_PASS_MAX 4

struct execd_pass {
    int fd;
    int number; /* 3 to 100, and the same for no two */
};

struct execd_spawn {
    const struct execd_programs *programs;
    int program_fd; /* > 0: this open file is tried before them */
    char **argv;    /* argv[0] is replaced by the program's name; NULL-terminated */
    char *const *envp;
    const char *cwd;
    const struct execd_credentials *credentials; /* NULL: as execd itself */
    int in_fd;                                   /* -1: /dev/null */
    int out_fd;                                  /* -1: /dev/null */
    int err_fd;                                  /* -1: /dev/null */
    struct execd_pass pass[EXECD_PASS_MAX];
    size_t pass_count;
    bool new_session; /* else only a new process group */
    bool terminal;    /* with new_session: in_fd becomes its controlling terminal */
};

/* On success the child exists and is a group leader (its pid is the group's number), and
 * *ret_report is the non-blocking read end of the report pipe, for execd_spawn_check(). The caller
 * gives the pid to the reaper before it returns to the loop. */
int execd_spawn_start(const struct execd_spawn *spawn, pid_t *ret_pid, int *ret_report,
                      struct error *err);

/* 1: the program runs (or ran); 0: not known yet; negative: it could not be started, err says why.
 * A child that has exited always has an answer. */
int execd_spawn_check(int report, struct error *err);
