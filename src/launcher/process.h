/* Children of the launcher and processes it must recognise again.
 *
 * A child starts as a copy of the launcher with all its descriptors, among them the other ends of
 * sockets whose closing means something ("the launcher is gone", "the server is gone"). Therefore
 * every child first keeps the few it was given and closes the rest. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_BOOT_ID_LEN 36

/* fork() with clone flags and a pidfd; cgroup_fd >= 0 puts the child into that v2 group at birth.
 * Returns the pid in the parent, 0 in the child, -errno. */
pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd);

/* Descriptor keep[i] becomes 3 + i (CLOEXEC, as all); every other from 3 up is closed. keep[i] < 0
 * leaves number 3 + i closed. Returns 0 or -errno. */
int process_keep(const int *keep, unsigned count);

/* In a new child: default signal handling, and process_keep(). */
int process_settle(const int *keep, unsigned count);

/* Remember which signals there are to reset, once the process has its own set up, so that a child
 * need not ask for each. */
void process_note_signals(void);

int process_open(pid_t pid, int *ret_pidfd);      /* 0 or -errno; -ESRCH: no such process */
int process_signal(int pidfd, int signal_number); /* 0 or -errno; -ESRCH: it has ended */

/* Whether we have this one (CAP_*) over the machine: the root of a container may lack some, and
 * those of a smaller user namespace's root do not count. */
bool process_has_capability(unsigned capability);

/* From here on act as this user and group, with our capabilities, which what is made then belongs
 * to. *ret_before goes to process_act_as_self(), which must follow. 0 or -errno. */
int process_act_as(uint32_t uid, uint32_t gid, int *ret_before);
void process_act_as_self(int before);

/* End a child of ours and wait until it has: for one that cannot be watched. */
void process_end(int pidfd);

/* The same, but wait only so long: a process in a system call that no signal ends does not end
 * either. False: it has not. */
bool process_end_within(int pidfd, int timeout_ms);

/* Field 22 of /proc/<pid>/stat: with the boot id it names one process for ever. 0 or -errno. */
int process_start_time(pid_t pid, uint64_t *ret_ticks);
int process_parse_start_time(const char *stat, uint64_t *ret_ticks);
int process_boot_id(char ret[PROCESS_BOOT_ID_LEN + 1]);
