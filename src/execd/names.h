/* Names of users and groups, for threads of the work queue and for many files at once: libc's
 * readers of /etc/passwd and /etc/group keep their answers in one static place, and reading the
 * files anew for each of a million entries would take for ever. Here each id is looked up once and
 * remembered for as long as the object lives, which is one request.
 *
 * The files belong to whoever is root inside: see execd/credentials.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "execd/credentials.h"

#define EXECD_NAMES_KEPT 64 /* ids remembered; others push them out */

enum execd_names_kind { EXECD_NAMES_USER, EXECD_NAMES_GROUP };

struct execd_names {
    const struct execd_users *users;
    struct execd_names_entry {
        uint32_t id;
        char *name; /* NULL: empty slot */
    } kept[2][EXECD_NAMES_KEPT];
};

void execd_names_init(struct execd_names *names, const struct execd_users *users);
void execd_names_done(struct execd_names *names);

/* The name, or the number in digits when there is none. Borrowed until the next call. */
const char *execd_names_get(struct execd_names *names, enum execd_names_kind kind, uint32_t id);

/* The id of a name; a decimal number that is nobody's name stands for itself. */
bool execd_names_parse(const struct execd_users *users, enum execd_names_kind kind,
                       const char *text, uint32_t *ret);
