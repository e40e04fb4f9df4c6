#include "launcher/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/place.h"
#include "base/str.h"
#include "launcher/check_probe.h"
#include "launcher/options.h"
#include "launcher/private_root.h"
#include "launcher/userns.h"

#define PROBE_MS 3000
#define ROWS_MAX 96

const char check_usage[] =
    "usage: opensandbox-launcher check [--state DIR] [--cgroup-parent NAME]\n"
    "                                  [--network-pool NET] [--dns ADDRESS] [-o json]\n"
    "\n"
    "Says what this machine offers and what is therefore on or off. Changes nothing.\n"
    "\n"
    "  --state DIR           where sandboxes are to live (default: /var/lib/opensandbox; an\n"
    "                        ordinary user's: $XDG_DATA_HOME/opensandbox or\n"
    "                        ~/.local/share/opensandbox)\n"
    "  --cgroup-parent NAME  where their control groups are to be made\n"
    "  --network-pool NET    their IPv4 addresses, as the launcher is given them\n"
    "  --dns ADDRESS         their name server, likewise (up to three)\n"
    "  -o FORMAT             text or json (default: text)\n"
    "\n"
    "Exit status: 0 sandboxes can run (what is off is listed), 1 they cannot, 2 wrong usage.\n";

static const struct check_probe *const probe_lists[] = {
    check_kernel_probes, check_namespace_probes, check_file_probes, check_disk_probes,
    check_cgroup_probes, check_network_probes,   check_nat_probes,  check_machine_probes,
};

struct check_options {
    const char *state_dir;
    const char *cgroup_parent;
    struct options network;
    bool json;
    bool help;
};

static int parse_options(int argc, char **argv, struct check_options *ret, struct error *err)
{
    *ret = (struct check_options){0};
    options_default_network(&ret->network);
    for (int i = 2; i < argc; i += 2) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (str_equal(name, "--help")) {
            ret->help = true;
            return 0;
        }
        bool known = str_equal(name, "--state") || str_equal(name, "--cgroup-parent") ||
                     str_equal(name, "--network-pool") || str_equal(name, "--dns") ||
                     str_equal(name, "-o");
        if (!known)
            return error_set(err, ERR_INVALID, "check: unknown argument '%s'; see check --help",
                             name);
        if (value == NULL)
            return error_set(err, ERR_INVALID, "check: '%s' needs a value", name);
        if (str_equal(name, "--state")) {
            ret->state_dir = value;
            if (value[0] != '/' || strlen(value) >= PATH_MAX - 64)
                return error_set(err, ERR_INVALID,
                                 "check: --state '%.200s' is not an absolute path", value);
        } else if (str_equal(name, "--cgroup-parent")) {
            ret->cgroup_parent = value;
            if (!options_is_group_path(value))
                return error_set(err, ERR_INVALID,
                                 "check: --cgroup-parent '%s' is not a relative group path", value);
        } else if (!str_equal(name, "-o")) {
            if (options_set_network(&ret->network, name, value, err) < 0)
                return error_wrap(err, "check");
        } else if (str_equal(value, "json") || str_equal(value, "text")) {
            ret->json = str_equal(value, "json");
        } else {
            return error_set(err, ERR_INVALID, "check: -o '%s' is neither text nor json", value);
        }
    }
    return 0;
}

/* The nearest directory of the path that exists: where the state directory would be made. */
static void find_place(struct check_context *context)
{
    snprintf(context->place, sizeof(context->place), "%s", context->state_dir);
    struct stat st;
    while (stat(context->place, &st) < 0) {
        char *slash = strrchr(context->place, '/');
        if ((errno != ENOENT && errno != ENOTDIR) || slash == NULL ||
            str_equal(context->place, "/")) {
            context->place[0] = '\0';
            return;
        }
        slash[slash == context->place ? 1 : 0] = '\0';
    }
    if (!S_ISDIR(st.st_mode))
        context->place[0] = '\0';
}

static bool make_scratch(struct check_context *context, const char *where)
{
    snprintf(context->scratch, sizeof(context->scratch), "%.*s/opensandbox-check-%d", PATH_MAX - 64,
             where, (int)getppid());
    if (mkdir(context->scratch, 0700) < 0)
        context->scratch[0] = '\0';
    return context->scratch[0] != '\0';
}

/* In a child, as every file system may hang. */
static void prepare(void *argument, void *answer)
{
    (void)argument;
    struct check_context *context = answer;
    find_place(context);
    if (context->place[0] != '\0' && make_scratch(context, context->place))
        return;
    context->scratch_elsewhere = true;
    (void)make_scratch(context, "/tmp");
}

static void clean(void *argument, void *answer)
{
    (void)answer;
    const struct check_context *context = argument;
    if (context->scratch[0] != '\0')
        (void)file_remove_tree_at(AT_FDCWD, context->scratch, NULL);
    check_cgroups_clean(context);
}

struct task {
    const struct check_context *context;
    const struct check_probe *probe;
};

static void run_probe(void *argument, void *answer)
{
    const struct task *task = argument;
    task->probe->run(task->context, answer);
}

static void add_defaults(const struct check_context *context, const struct check_probe *probe,
                         struct check_result *result)
{
    if (result->effect[0] == '\0')
        check_effect(result, "%s",
                     result->found == CHECK_UNKNOWN ? "not known"
                     : result->found == CHECK_NO    ? probe->off
                                                    : probe->on);
    if (result->advice[0] == '\0' && result->found == CHECK_UNKNOWN && !context->root &&
        !context->rootless)
        check_advice(result, "run this check as root");
    else if (result->advice[0] == '\0' && result->found != CHECK_YES && probe->advice != NULL)
        check_advice(result, "%s", probe->advice);
}

static void run_row(const struct check_context *context, const struct check_probe *probe,
                    struct check_row *row)
{
    *row =
        (struct check_row){.section = probe->section, .name = probe->name, .weight = probe->weight};
    struct task task = {.context = context, .probe = probe};
    int signal_number = 0;
    int r = check_bounded(run_probe, &task, &row->result, sizeof(row->result), PROBE_MS,
                          &signal_number);
    if (r == -ETIMEDOUT)
        check_say(&row->result, CHECK_UNKNOWN, "no answer within %d s", PROBE_MS / 1000);
    else if (r == -EPIPE && signal_number != 0)
        check_say(&row->result, CHECK_NO, "whoever tries it is ended: %s",
                  strsignal(signal_number));
    else if (r < 0)
        check_say(&row->result, CHECK_UNKNOWN, "cannot be tried: %s", strerror(-r));
    add_defaults(context, probe, &row->result);
}

static size_t run_all(struct check_context *context, struct check_row *rows)
{
    context->rows = rows;
    for (size_t i = 0; i < ARRAY_LEN(probe_lists); i++) {
        for (const struct check_probe *probe = probe_lists[i]; probe->name != NULL; probe++) {
            if (context->count < ROWS_MAX)
                run_row(context, probe, &rows[context->count++]);
        }
    }
    return context->count;
}

static int print(const struct check_report *report, bool json)
{
    CLEANUP(buf_done) struct buf out;
    buf_init(&out, CHECK_PRINT_MAX);
    if (json)
        check_print_json(report, &out);
    else
        check_print_people(report, &out);
    return file_write_all(STDOUT_FILENO, out.data, out.length);
}

/* An ordinary user goes on as his launcher does; where that fails, as who he is. */
static void find_powers(struct check_context *context, char **argv)
{
    struct error err = ERROR_INIT;
    if (geteuid() != 0)
        (void)userns_enter(NULL, argv, &context->obstacle); /* returns when it cannot */
    if (geteuid() != 0 || powers_find(&context->powers, &err) < 0)
        return;
    context->root = context->powers.machine;
    context->rootless = !context->root;
    if (context->rootless && private_root_enter(&context->obstacle) < 0)
        context->rootless = false;
}

int check_main(int argc, char **argv)
{
    struct check_options options;
    struct error err = ERROR_INIT;
    if (parse_options(argc, argv, &options, &err) < 0) {
        fprintf(stderr, "opensandbox-launcher: %s\n", err.message);
        return 2;
    }
    if (options.help) {
        fputs(check_usage, stdout);
        return 0;
    }
    struct check_context context = {
        .cgroup_parent = options.cgroup_parent,
        .network = &options.network,
    };
    find_powers(&context, argv);
    AUTO_FREE char *place = place_default_state(context.root);
    context.state_dir = options.state_dir != NULL ? options.state_dir : place;
    if (context.state_dir == NULL) {
        fprintf(stderr, "opensandbox-launcher: check: give --state: HOME is not set\n");
        return 2;
    }
    snprintf(context.group, sizeof(context.group), "opensandbox-check-%d", (int)getpid());
    int signal_number;
    (void)check_bounded(prepare, NULL, &context, sizeof(context), PROBE_MS, &signal_number);
    AUTO_FREE struct check_row *rows = mem_alloc_array(ROWS_MAX, sizeof(*rows));
    struct check_report report = {
        .state_dir = context.state_dir,
        .cgroup_parent = options.cgroup_parent,
        .rows = rows,
        .count = run_all(&context, rows),
    };
    char nothing = 0;
    (void)check_bounded(clean, &context, &nothing, sizeof(nothing), PROBE_MS, &signal_number);
    int r = print(&report, options.json);
    if (r < 0)
        fprintf(stderr, "opensandbox-launcher: cannot write the report: %s\n", strerror(-r));
    return r == 0 && check_can_run(&report) ? 0 : 1;
}
