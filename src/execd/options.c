/* One table: a row is an option, its variable, where the value goes and what may stand there. The
 * parser and the help are made from it. */
#include "execd/options.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "execd/command.h"
#include "execd/spool.h"

#define HELP_MAX (16 * 1024)

enum kind { FLAG, NUMBER, TEXT, DURATION, FDS };

struct option {
    const char *name;
    const char *variable; /* NULL: none */
    const char *argument; /* as the help calls it; NULL for a FLAG */
    enum kind kind;
    size_t offset; /* of the member of struct execd_options */
    uint64_t min;  /* NUMBER */
    uint64_t max;
    const char *help; /* NULL: not told. Lines are separated by '\n' */
};

#define AT(member) offsetof(struct execd_options, member)

static const struct option table[] = {
    {"port", NULL, "N", NUMBER, AT(port), 0, 65535,
     "listen on TCP port N, all IPv4 addresses (default 44772)"},
    {"listen-fd", NULL, "N", NUMBER, AT(listen_fd), 3, 1 << 20,
     "serve the listening socket inherited as file descriptor N,\n"
     "with /internal/, instead of TCP (unless --port is given too)"},
    {"hold-fd", NULL, "N", NUMBER, AT(hold_fd), 3, 1 << 20,
     "say on the socket inherited as N that we serve (one byte), and\n"
     "end when it does: we wait in a pool"},
    {"name-fd", NULL, "N", NUMBER, AT(name_fd), 3, 1 << 20,
     "with --hold-fd: go on if the listening socket's file, inherited\n"
     "as N, has two names then: we have become somebody's"},
    {"idle-fd", NULL, "N", NUMBER, AT(idle_fd), 3, 1 << 20,
     "the program inherited as file N runs as the entrypoint\n"
     "tail -f /dev/null, which only waits"},
    {"work-fd", NULL, "N", FDS, AT(work_fds), 3, 1 << 20,
     "processes begin by joining a control group: they write 0 to the\n"
     "file inherited as descriptor N; may be given four times"},
    {"pid1", NULL, NULL, FLAG, AT(pid1), 0, 0,
     "be the init: reap orphans, end with the entrypoint"},
    {"bootstrap", NULL, NULL, FLAG, AT(bootstrap), 0, 0,
     "as --pid1, and start the entrypoint: BOOTSTRAP_CMD in a shell,\n"
     "else PROGRAM, else a shell (BOOTSTRAP_SHELL, bash or sh; with -c\n"
     "in place of PROGRAM it gets the arguments). It has our input and\n"
     "output; signals go to it; its exit status is ours, 0 after TERM"},
    {"access-token", "EXECD_ACCESS_TOKEN", "T", TEXT, AT(token), 0, 0,
     "require the header X-EXECD-ACCESS-TOKEN: T"},
    {"log-level", NULL, "N", NUMBER, AT(log_level), 0, 7,
     "0 to 3 errors, 4 warnings, 6 what happens (default), 7 more"},
    {"head-timeout", NULL, "TIME", DURATION, AT(head_timeout_ms), 0, 0,
     "how long the head of a request may take (default 15s)"},
    {"spool-bytes", "EXECD_SPOOL_BYTES", "N", NUMBER, AT(spool_bytes), EXECD_SPOOL_BYTES_MIN,
     EXECD_SPOOL_BYTES_MAX, "bytes kept of each command's output (default 16777216)"},
    {"keep-finished", NULL, "TIME", DURATION, AT(keep_finished_ms), 0, 0,
     "keep finished commands and their output so long (default 10m)"},
    {"jupyter-host", "JUPYTER_HOST", "URL", TEXT, AT(jupyter_host), 0, 0,
     "accepted and checked, not used"},
    {"jupyter-token", "JUPYTER_TOKEN", "T", TEXT, AT(jupyter_token), 0, 0, "accepted, not used"},
    {"graceful-shutdown-timeout", "EXECD_API_GRACE_SHUTDOWN", "TIME", DURATION, AT(shutdown_ms), 0,
     0, "accepted and checked, not used: streams end at once"},
    {"jupyter-idle-poll-interval", "EXECD_JUPYTER_IDLE_POLL_INTERVAL", "TIME", DURATION,
     AT(idle_poll_ms), 0, 0, "accepted and checked, not used"},
    {"help", NULL, NULL, FLAG, AT(show_help), 0, 0, "show this"},
    {"version", NULL, NULL, FLAG, AT(show_version), 0, 0, "show the version"},
};

/* --- help ------------------------------------------------------------------------------------- */

static void add_option(struct buf *out, const struct option *option)
{
    const char *argument = option->argument != NULL ? option->argument : "";
    int width = (int)strlen(option->name) + (*argument != '\0' ? 1 + (int)strlen(argument) : 0);
    (void)buf_printf(out, "  --%s%s%s", option->name, *argument != '\0' ? " " : "", argument);
    /* A name that leaves no room for the text has a line of its own. */
    if (width <= 20)
        (void)buf_printf(out, "%*s", 22 - width, "");
    else
        (void)buf_printf(out, "\n%26s", "");
    for (const char *line = option->help; line != NULL;) {
        size_t length = strcspn(line, "\n");
        (void)buf_printf(out, "%.*s\n", (int)length, line);
        line = line[length] != '\0' ? line + length + 1 : NULL;
        if (line != NULL)
            (void)buf_printf(out, "%26s", "");
    }
    if (option->variable != NULL)
        (void)buf_printf(out, "%26s(or the variable %s)\n", "", option->variable);
}

char *execd_options_help(void)
{
    struct buf out;
    buf_init(&out, HELP_MAX);
    (void)buf_add_str(&out,
                      "Usage: opensandbox-execd [OPTION...] [--bootstrap [-- PROGRAM ARG...]]\n"
                      "Run commands and move files inside a sandbox, over HTTP.\n\n");
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        add_option(&out, &table[i]);
    (void)buf_add_str(
        &out,
        "\nTIME is a number with a unit, as in 500ms, 3s, 1m30s. Variables besides those above:\n"
        "  EXECD_ENVS              file of NAME=value lines, read anew for every command\n"
        "  EXECD_LOG_FILE          append the log to this file instead of stderr\n"
        "  OPENSANDBOX_LOG_OUTPUT  stdout, stderr or a file: the same, if the former is not set\n"
        "  EXECD_CLONE3_COMPAT     1, true, yes, on or reexec: clone3 answers ENOSYS to all that\n"
        "                          runs here; without CAP_SYS_ADMIN this sets no_new_privs, too.\n"
        "                          Done anyway where clone3 is refused in another way\n");
    return buf_take(&out);
}

/* --- values ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t nanoseconds;
} units[] = {
    {"ns", 1},
    {"us", 1000},
    {"\xc2\xb5s", 1000}, /* both signs for micro that Unicode has */
    {"\xce\xbcs", 1000},
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60LL * 1000000000},
    {"h", 3600LL * 1000000000},
};

/* "1.25": whole part and up to nine digits of the fraction, in billionths. */
static int parse_amount(const char **text, int64_t *ret_whole, int64_t *ret_billionths)
{
    const char *p = *text;
    int64_t whole = 0;
    int64_t billionths = 0;
    size_t digits = 0;
    for (; *p >= '0' && *p <= '9'; p++, digits++) {
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, *p - '0', &whole))
            return -ERANGE;
    }
    if (*p == '.') {
        p++;
        for (int64_t place = 100000000; *p >= '0' && *p <= '9'; p++, digits++, place /= 10)
            billionths += (*p - '0') * place;
    }
    *text = p;
    *ret_whole = whole;
    *ret_billionths = billionths;
    return digits > 0 ? 0 : -EINVAL;
}

static int64_t parse_unit(const char **text)
{
    size_t length = strcspn(*text, "0123456789.");
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        if (strlen(units[i].name) == length && memcmp(units[i].name, *text, length) == 0) {
            *text += length;
            return units[i].nanoseconds;
        }
    }
    return 0;
}

int execd_duration_parse(const char *text, int64_t *ret_ms)
{
    int64_t total = 0;
    if (*text == '-')
        return -ERANGE;
    if (*text == '+')
        text++;
    if (str_equal(text, "0")) {
        *ret_ms = 0;
        return 0;
    }
    if (*text == '\0')
        return -EINVAL;
    while (*text != '\0') {
        int64_t whole;
        int64_t billionths;
        int64_t part;
        int r = parse_amount(&text, &whole, &billionths);
        int64_t unit = r == 0 ? parse_unit(&text) : 0;
        if (r < 0 || unit == 0)
            return r < 0 ? r : -EINVAL;
        /* The fraction in two steps: billionths of an hour in nanoseconds do not fit at once. */
        int64_t fraction =
            unit >= 1000000000 ? unit / 1000000000 * billionths : unit * billionths / 1000000000;
        if (__builtin_mul_overflow(whole, unit, &part) ||
            __builtin_add_overflow(total, part, &total) ||
            __builtin_add_overflow(total, fraction, &total))
            return -ERANGE;
    }
    *ret_ms = total / 1000000;
    return 0;
}

static int add_fd(struct execd_fd_list *list, int fd, const char *source, struct error *err)
{
    if (list->count == ARRAY_LEN(list->items))
        return error_set(err, ERR_INVALID, "%s cannot be given more than %zu times", source,
                         ARRAY_LEN(list->items));
    list->items[list->count++] = fd;
    return 0;
}

/* `source` is "--port" or "the variable X", for messages. */
static int set_value(struct execd_options *options, const struct option *option, const char *source,
                     const char *value, struct error *err)
{
    void *member = (char *)options + option->offset;
    uint64_t number = 0;
    int64_t ms;
    if ((option->kind == NUMBER || option->kind == FDS) &&
        str_to_u64(value, option->min, option->max, &number) < 0)
        return error_set(err, ERR_INVALID, "%s must be a number from %llu to %llu, not \"%.80s\"",
                         source, (unsigned long long)option->min, (unsigned long long)option->max,
                         value);
    switch (option->kind) {
    case FLAG:
        *(bool *)member = true;
        return 0;
    case TEXT:
        *(const char **)member = value;
        return 0;
    case NUMBER:
        *(int64_t *)member = (int64_t)number;
        return 0;
    case FDS:
        return add_fd(member, (int)number, source, err);
    case DURATION:
        if (execd_duration_parse(value, &ms) < 0)
            return error_set(err, ERR_INVALID,
                             "%s must be a time such as 500ms, 3s or 1m30s, not \"%.80s\"", source,
                             value);
        *(int64_t *)member = ms;
        return 0;
    }
    return 0;
}

/* --- where values come from ------------------------------------------------------------------- */

/* Variables that are empty count as absent. */
static const char *find_variable(execd_getenv_fn *get_variable, const char *name)
{
    const char *value = name != NULL ? get_variable(name) : NULL;
    return value != NULL && *value != '\0' ? value : NULL;
}

static int read_variables(struct execd_options *options, execd_getenv_fn *get_variable,
                          struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const char *value = find_variable(get_variable, table[i].variable);
        AUTO_FREE char *source =
            value != NULL ? mem_printf("the variable %s", table[i].variable) : NULL;
        if (value != NULL && set_value(options, &table[i], source, value, err) < 0)
            return -EINVAL;
    }
    options->log_file = find_variable(get_variable, "EXECD_LOG_FILE");
    if (options->log_file == NULL)
        options->log_file = find_variable(get_variable, "OPENSANDBOX_LOG_OUTPUT");
    return 0;
}

static int read_clone3(struct execd_options *options, execd_getenv_fn *get_variable,
                       struct error *err)
{
    static const char *const on[] = {"1", "true", "yes", "on", "reexec"};
    static const char *const off[] = {"0", "false", "no", "off"};
    const char *value = find_variable(get_variable, "EXECD_CLONE3_COMPAT");
    if (value == NULL)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(on); i++)
        options->block_clone3 |= str_equal_nocase(value, on[i]);
    bool known = options->block_clone3;
    for (size_t i = 0; i < ARRAY_LEN(off); i++)
        known |= str_equal_nocase(value, off[i]);
    if (!known)
        return error_set(err, ERR_INVALID,
                         "the variable EXECD_CLONE3_COMPAT must be 1, true, yes, on, reexec, 0, "
                         "false, no or off, not \"%.80s\"",
                         value);
    return 0;
}

static const struct option *find_option(const char *name, size_t length)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    }
    return NULL;
}

/* One option at argv[*index]; afterwards *index is at the next word. */
static int read_word(struct execd_options *options, char **argv, int *index, struct error *err)
{
    const char *word = argv[(*index)++];
    const char *name = word + (word[1] == '-' ? 2 : 1);
    size_t length = strcspn(name, "=");
    const struct option *option = find_option(name, length);
    if (option == NULL)
        return error_set(err, ERR_INVALID, "there is no option %.80s", word);
    const char *value = name[length] == '=' ? name + length + 1 : NULL;
    if (option->kind == FLAG && value != NULL)
        return error_set(err, ERR_INVALID, "--%s takes no value", option->name);
    if (option->kind != FLAG && value == NULL) {
        if (argv[*index] == NULL)
            return error_set(err, ERR_INVALID, "--%s needs a value: %s", option->name,
                             option->argument);
        value = argv[(*index)++];
    }
    AUTO_FREE char *source = mem_printf("--%s", option->name);
    return set_value(options, option, source, value, err);
}

static int check(struct execd_options *options, struct error *err)
{
    if (options->entrypoint[0] != NULL && !options->bootstrap)
        return error_set(err, ERR_INVALID, "unexpected argument \"%.80s\" (without --bootstrap)",
                         options->entrypoint[0]);
    if (options->jupyter_host != NULL && !str_starts_with(options->jupyter_host, "http://") &&
        !str_starts_with(options->jupyter_host, "https://"))
        return error_set(err, ERR_INVALID,
                         "--jupyter-host (or the variable JUPYTER_HOST) must begin with http:// or "
                         "https://, not \"%.80s\"",
                         options->jupyter_host);
    if (options->token != NULL && *options->token == '\0')
        options->token = NULL;
    if (options->port < 0 && options->listen_fd < 0)
        options->port = EXECD_PORT_DEFAULT;
    options->pid1 |= options->bootstrap;
    return 0;
}

int execd_options_parse(struct execd_options *options, int argc, char **argv,
                        execd_getenv_fn *get_variable, struct error *err)
{
    *options = (struct execd_options){
        .port = -1,
        .listen_fd = -1,
        .hold_fd = -1,
        .name_fd = -1,
        .idle_fd = -1,
        .log_level = 6,
        .spool_bytes = EXECD_SPOOL_BYTES_DEFAULT,
        .keep_finished_ms = EXECD_COMMANDS_KEEP_MS,
    };
    int r = read_variables(options, get_variable, err);
    if (r == 0)
        r = read_clone3(options, get_variable, err);
    int index = argc > 0 ? 1 : 0;
    while (r == 0 && argv[index] != NULL && argv[index][0] == '-' && argv[index][1] != '\0') {
        if (str_equal(argv[index], "--")) {
            index++;
            break;
        }
        r = read_word(options, argv, &index, err);
    }
    if (r < 0)
        return r;
    options->entrypoint = argv + index;
    return options->show_help || options->show_version ? 0 : check(options, err);
}

enum log_level execd_options_log_level(const struct execd_options *options)
{
    if (options->log_level <= 3)
        return LOG_ERROR;
    if (options->log_level == 4)
        return LOG_WARN;
    return options->log_level <= 6 ? LOG_INFO : LOG_DEBUG;
}
