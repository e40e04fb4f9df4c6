#include "launcher/nat_resolv.h"

#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "base/macros.h"
#include "base/str.h"
#include "launcher/nat.h"

#define LINE_MAX_   1024
#define DOMAIN_MAX_ 253
#define OPTION_MAX  32
#define SPACE       " \t\r"

_Static_assert(sizeof(struct nat_resolv) + 200 + NAT_RESOLV_SERVERS * 32 < NAT_RESOLV_MAX,
               "what is written fits");

static bool is_domain(const char *word)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  ".-_";
    size_t length = strlen(word);
    return length <= DOMAIN_MAX_ && strspn(word, allowed) == length && word[0] != '-';
}

/* How often and in which way servers are asked. Not: what the answers are to be trusted for. */
static bool is_option(const char *word)
{
    static const char *const plain[] = {
        "rotate",  "edns0",       "use-vc", "single-request", "single-request-reopen",
        "no-aaaa", "no-tld-query"};
    static const char *const numbered[] = {"ndots:", "timeout:", "attempts:"};
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        if (str_equal(word, plain[i]))
            return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(numbered); i++) {
        uint64_t number;
        if (str_starts_with(word, numbered[i]) &&
            str_to_u64(word + strlen(numbered[i]), 0, 30, &number) == 0)
            return true;
    }
    return false;
}

static void add_word(char *words, size_t size, const char *word)
{
    size_t length = strlen(words);
    if (length + 1 + strlen(word) < size)
        snprintf(words + length, size - length, "%s%s", length > 0 ? " " : "", word);
}

static void add_server(const char *word, bool (*is_reachable)(uint32_t, const void *),
                       const void *context, struct nat_resolv *resolv)
{
    uint32_t server;
    if (address_parse(word, &server) < 0 || resolv->count == NAT_RESOLV_SERVERS ||
        address_is_closed((struct address_network){server, 32}) ||
        (is_reachable != NULL && !is_reachable(server, context)))
        return;
    for (unsigned i = 0; i < resolv->count; i++) {
        if (resolv->servers[i] == server)
            return;
    }
    resolv->servers[resolv->count++] = server;
}

static void parse_line(char *line, bool (*is_reachable)(uint32_t, const void *),
                       const void *context, struct nat_resolv *resolv)
{
    char *save = NULL;
    const char *key = strtok_r(line, SPACE, &save);
    const char *word = key != NULL ? strtok_r(NULL, SPACE, &save) : NULL;
    if (word == NULL)
        return;
    if (str_equal(key, "nameserver")) {
        add_server(word, is_reachable, context, resolv);
    } else if (str_equal(key, "search") || str_equal(key, "domain")) {
        resolv->search[0] = '\0';
        for (; word != NULL; word = strtok_r(NULL, SPACE, &save)) {
            if (is_domain(word))
                add_word(resolv->search, sizeof(resolv->search), word);
        }
    } else if (str_equal(key, "options")) {
        for (; word != NULL; word = strtok_r(NULL, SPACE, &save)) {
            if (strlen(word) < OPTION_MAX && is_option(word))
                add_word(resolv->options, sizeof(resolv->options), word);
        }
    }
}

void nat_resolv_parse(const char *text, bool (*is_reachable)(uint32_t server, const void *context),
                      const void *context, struct nat_resolv *ret)
{
    *ret = (struct nat_resolv){0};
    while (*text != '\0') {
        char line[LINE_MAX_];
        size_t length = strcspn(text, "\n");
        if (length < sizeof(line)) { /* a longer one is nobody's honest line */
            memcpy(line, text, length);
            line[length] = '\0';
            parse_line(line, is_reachable, context, ret);
        }
        text += length + (text[length] == '\n');
    }
}

void nat_resolv_write(const struct nat_resolv *resolv, char *ret, size_t size)
{
    char server[ADDRESS_MAX];
    size_t length = (size_t)snprintf(
        ret, size, "%s",
        resolv->count > 0 ? "" : "# The host has no name server that a sandbox can reach.\n");
    for (unsigned i = 0; i < resolv->count; i++) {
        address_print(resolv->servers[i], server);
        length += (size_t)snprintf(ret + length, size - length, "nameserver %s\n", server);
    }
    if (resolv->search[0] != '\0')
        length += (size_t)snprintf(ret + length, size - length, "search %s\n", resolv->search);
    if (resolv->options[0] != '\0')
        (void)snprintf(ret + length, size - length, "options %s\n", resolv->options);
}
