/* The subordinate ids of a user: what /etc/subuid and /etc/subgid give him, line by line
 * "name:first:count" or "id:first:count". Only what is in files; other sources of ids (a directory
 * in a network) are not asked. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#define SUBIDS_MAX 32 /* lines that are used; more are ignored */

struct subids {
    struct {
        uint32_t first, count;
    } items[SUBIDS_MAX];
    unsigned count;
    uint64_t total;
};

/* From the text of such a file; lines that make no sense are passed over. `name` may be NULL. */
void subids_parse(const char *text, const char *name, uint32_t user, struct subids *ret);

/* From a file; one that cannot be read gives none. */
void subids_read(const char *path, const char *name, uint32_t user, struct subids *ret);
