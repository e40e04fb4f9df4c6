#include "model/string_list.h"

#include <stdlib.h>

#include "base/mem.h"

void string_list_done(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}

void string_list_take(struct string_list *list, char *string)
{
    /* Room doubles at powers of two, so that no capacity has to be kept. */
    if ((list->count & (list->count + 1)) == 0)
        list->items = mem_resize_array(list->items, 2 * (list->count + 1), sizeof(char *));
    list->items[list->count++] = string;
    list->items[list->count] = NULL;
}

void string_list_add(struct string_list *list, const char *string)
{
    string_list_take(list, mem_dup(string));
}

void string_list_copy(struct string_list *to, const struct string_list *from)
{
    for (size_t i = 0; i < from->count; i++)
        string_list_add(to, from->items[i]);
}

const char *const *string_list_vector(const struct string_list *list)
{
    static const char *const none[] = {NULL};
    return list->items != NULL ? (const char *const *)list->items : none;
}
