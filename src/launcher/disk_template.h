/* Formatted empty file systems, one file per size: launcher/templates/<bytes>.img.
 *
 * Copying one costs a fraction of formatting. A template is complete from the moment it has a name
 * (it is made without one and linked), never changes, and may be deleted at any time: whoever has
 * it open keeps it, the next one makes it anew. So slots need no lock among each other: two that
 * make the same size at once make two, of which one gets the name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISK_TEMPLATES      "templates"
#define DISK_TEMPLATES_MAX  16 /* sizes kept; those used longest ago go */
#define DISK_MKE2FS_PACKAGE "e2fsprogs"

/* The next multiple of 1 MiB, so that nearly equal limits share a template. */
uint64_t disk_template_round(uint64_t bytes);

/* The path of mke2fs, or NULL when it is not installed. */
const char *disk_template_program(void);

/* Whether there is a template for this size that looks right. */
int disk_template_check(int launcher_fd, uint64_t bytes); /* 0 or -errno */

/* A new file `name` in dir_fd, open for reading and writing, with an empty file system of `bytes`
 * in it. Makes the template first if need be; `fresh` replaces the one there is. Runs mke2fs and
 * waits for it: for slots. Returns the descriptor or -errno. */
int disk_template_copy(int launcher_fd, uint64_t bytes, bool fresh, int dir_fd, const char *name);

/* From here on: for tests. */

/* Only the data of `from`, which is `bytes` long. 0 or -errno. */
int disk_template_copy_data(int from, int to, uint64_t bytes);

/* Delete the least recently used beyond `keep`. */
void disk_template_prune(int templates_fd, unsigned keep);

#define DISK_MKE2FS_ARGS 24
/* The command line, ended by NULL; `size` has room for a number. */
void disk_template_arguments(const char *program, const char *path, uint64_t bytes, char size[24],
                             const char *ret[DISK_MKE2FS_ARGS]);
