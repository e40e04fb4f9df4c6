/* Copying trees of the host into an image, within a budget.
 *
 * Symbolic links are copied as links and never followed. Only what every user of the host may read
 * is copied, so that no secret gets into a sandbox by lying in a directory of the list; sockets,
 * fifos and devices are left out. Files get mode 0644 or 0755, directories 0755. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct copy_budget {
    unsigned entries;
    uint64_t bytes;
};

/* from_fd/from to to_fd/to, whose parent must exist. Absent is success. ERR_LIMIT when the budget
 * is used up. */
int copy_tree(int from_fd, const char *from, int to_fd, const char *to, struct copy_budget *budget,
              struct error *err);

/* A file of our own making. */
int copy_text(int to_fd, const char *to, const char *text, struct error *err);
