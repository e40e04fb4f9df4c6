/* How an ordinary user's launcher becomes a root: that of a user namespace of its own.
 *
 * The map has the user himself as 0, and his subordinate ids (subids.h) from 1 on, if there are at
 * least 65,535 of both kinds and newuidmap and newgidmap, which alone may write such a map; else
 * there is only 0. Then the program is executed again: so its memory belongs to the new namespace,
 * too, and its files in /proc stay ours whenever we act as another user.
 *
 * Sandboxes that a former launcher made are in namespaces below the one it had, over which a new
 * one beside it has no power. As long as one of them lives, that one is entered again; it is kept
 * by them and belongs to the user, who may. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Not as root. Does not return on success. `state_dir` is where sandboxes of a former launcher are
 * looked for; NULL: nowhere. */
int userns_enter(const char *state_dir, char *const argv[], struct error *err);

/* Which setting of this machine keeps ordinary users from namespaces, and its value, as part of a
 * sentence; "" when none does. */
#define USERNS_REASON_MAX 192
void userns_obstacle(char ret[USERNS_REASON_MAX]);

/* Why this user has no ids but his own: for the one whose launcher has mapped only that. */
void userns_why_one_id(uint32_t user, char ret[USERNS_REASON_MAX]);
