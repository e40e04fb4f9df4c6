/* An owned list of strings that is also a NULL-terminated vector, as exec and the runtimes want it.
 * `items` is NULL only while nothing was ever added. */
#pragma once

#include <stddef.h>

struct string_list {
    char **items; /* items[count] is NULL */
    size_t count;
};

void string_list_done(struct string_list *list); /* frees; empty and usable again */
void string_list_add(struct string_list *list, const char *string); /* copies */
void string_list_take(struct string_list *list, char *string);      /* the list owns it now */
void string_list_copy(struct string_list *to, const struct string_list *from); /* appends copies */

/* For those who take `const char *const *`: never NULL. */
const char *const *string_list_vector(const struct string_list *list);
