#include "launcher/fields.h"

#include <string.h>

#include "base/str.h"

#define DIGITS_MAX 20 /* of the largest uint64_t */

/* The value behind "name ", or NULL. */
static const char *find_value(const char *line, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0 || line[length] != ' ')
        return NULL;
    return line + length + 1;
}

bool fields_take_number(const char **at, const char *name, uint64_t max, uint64_t *ret)
{
    const char *digits = find_value(*at, name);
    if (digits == NULL)
        return false;
    size_t count = strspn(digits, "0123456789");
    if (count == 0 || count > DIGITS_MAX || digits[count] != '\n' ||
        (count > 1 && digits[0] == '0'))
        return false;
    char number[DIGITS_MAX + 1];
    memcpy(number, digits, count);
    number[count] = '\0';
    if (str_to_u64(number, 0, max, ret) < 0)
        return false;
    *at = digits + count + 1;
    return true;
}

bool fields_take_u32(const char **at, const char *name, uint32_t max, uint32_t *ret)
{
    uint64_t number;
    if (!fields_take_number(at, name, max, &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

bool fields_take_bool(const char **at, const char *name, bool *ret)
{
    uint32_t number;
    if (!fields_take_u32(at, name, 1, &number))
        return false;
    *ret = number == 1;
    return true;
}

bool fields_take_word(const char **at, const char *name, char *ret, size_t size)
{
    const char *word = find_value(*at, name);
    if (word == NULL)
        return false;
    size_t count = strcspn(word, " \n");
    if (count == 0 || count >= size || word[count] != '\n')
        return false;
    memcpy(ret, word, count);
    ret[count] = '\0';
    *at = word + count + 1;
    return true;
}
