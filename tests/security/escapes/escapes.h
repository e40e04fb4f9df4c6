/* What hostile code, root in a sandbox, would try.
 *
 * Each attack is a function that answers 0 when it worked, which then is a bug or the control of a
 * test, and otherwise -errno, or TO_NO_AVAIL when nothing was refused and still nothing came of it.
 * None harms the machine where it works: it attacks what the test made, writes back what was there,
 * or asks for something impossible in a way that is refused only after privileges were looked at.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define TO_NO_AVAIL (-200) /* no errno has this number */

struct escape {
    const char *name;
    int arguments;
    int (*run)(char **arguments);
};

/* Each list ends with a NULL name. */
extern const struct escape escapes_of_calls[];
extern const struct escape escapes_of_devices[];
extern const struct escape escapes_of_entries[];
extern const struct escape escapes_of_execd[];
extern const struct escape escapes_of_files[];
extern const struct escape escapes_of_ipc[];
extern const struct escape escapes_of_machine[];
extern const struct escape escapes_of_mounts[];
extern const struct escape escapes_of_network[];
extern const struct escape escapes_of_processes[];

/* 0, or -errno when the call answered -1. */
int escapes_result(long answer);

/* A call that cannot succeed: 0 when it was refused with `code`, which it is after privileges have
 * been looked at; else -errno. */
int escapes_past(long answer, int code);

/* 0 when what can be read from it contains the text. It is closed. */
int escapes_find(int fd, const char *text);
int escapes_find_in(const char *path, const char *text);

/* Write to a file what it says. */
int escapes_write_back(const char *path);

/* What a process answers that is forked for it. */
int escapes_in_child(int (*run)(void));

/* In the place of an attack that is about another processor. */
int escapes_not_here(char **arguments);

/* Shows on the host what attacks look for; prints what they have to know, and stays. */
int victim_main(char **arguments);
/* A command with a key in its session keyring. */
int victim_with_key(char **arguments);
/* Said by a program that has gained privileges. */
int victim_am_i_root(void);
