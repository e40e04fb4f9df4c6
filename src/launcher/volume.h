/* What a sandbox is given besides its image: directories and files of the host, volumes with a
 * name, file systems in memory. This is the launcher's side of it; slots open and mount them
 * (slot_volumes.c).
 *
 * A host path must lie in a directory that the administrator has allowed, by its name here and
 * again when a slot opens it, where no symbolic link is followed at all. The launcher itself never
 * looks at one: it may lie on a dead network file system.
 *
 * A named volume is a directory of the store, volumes/<name> (volume_store.h). Whoever is in the
 * table of sandboxes and names it uses it, from the moment CREATE is accepted until REMOVE. One
 * that was made to be deleted goes when nobody uses it any more: with its maker, or later with the
 * last of the others. Nothing else is remembered about users, so a restart finds the same.
 *
 * What goes wrong, with the code that servers see:
 *   DENIED       a host path that is not allowed, or leads over a symbolic link
 *   NOT_FOUND    no volume of that name, no such host path, and not to be made
 *   INVALID      with sys: a sub-path that is missing or leads over a link; without: the rest
 *   UNSUPPORTED  its file system cannot map ids, its kind of file or its size cannot be had */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/native/message.h"

#define VOLUME_ALLOWED_MAX 64
#define VOLUME_NAMES       "volumes" /* in the sandbox's directory: the names it uses, one a line */

struct launcher;

/* The directories whose contents sandboxes may be given. */
struct volume_allowed {
    const char *items[VOLUME_ALLOWED_MAX]; /* borrowed */
    size_t count;
};

/* Looks at nothing but its form: the directory need not be there yet. */
int volume_allow(struct volume_allowed *allowed, const char *path, struct error *err);

/* The one that a host path lies in, or is: the longest. NULL: none. */
const char *volume_find_allowed(const struct volume_allowed *allowed, const char *path);

/* Those of one sandbox, in the order in which they are mounted: one below another after it. Shared
 * by the sandbox and the slot that is made for it. */
struct volume_list {
    unsigned refs;
    uint32_t count;
    struct message_volume items[];
};

struct volume_list *volume_list_new(const struct message_volume *volumes, uint32_t count);
struct volume_list *volume_list_ref(struct volume_list *list); /* accepts NULL, as the next */
struct volume_list *volume_list_unref(struct volume_list *list);

/* Whether this launcher may give these to a sandbox, as far as can be told without looking at a
 * file. */
int volume_check(const struct launcher *launcher, const struct message_create *request,
                 struct error *err);

/* These are not used any more by one who used them, or wanted to: delete what nobody uses and was
 * to be deleted. The slot or the sandbox is gone from the tables by now. Accepts NULL. */
void volume_release(struct launcher *launcher, const struct volume_list *list);

/* The list of a sandbox that a former launcher made; NULL when it has no named volume. */
int volume_read_names(int sandbox_fd, struct volume_list **ret, struct error *err);

/* From a start, when all sandboxes are known: what a former launcher did not get to. */
void volume_sweep(struct launcher *launcher);
