#include "execd/bootstrap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "execd/entrypoint.h"

static const char *find_text(const struct execd *execd, const char *name)
{
    const char *value = execd_env_find(&execd->env, name);
    return value != NULL && *value != '\0' ? value : NULL;
}

static void add_shells(struct execd_programs *programs, const struct execd *execd,
                       const char *search)
{
    const char *own = find_text(execd, "BOOTSTRAP_SHELL");
    if (own != NULL) {
        execd_programs_add(programs, own, search);
        return;
    }
    execd_programs_add(programs, "bash", search);
    execd_programs_add(programs, "sh", search);
}

/* The words that follow argv[0], whose place is taken by the program's name. */
static char **make_argv(const char *const *options, char **words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    char **argv = mem_alloc_array(count + 4, sizeof(*argv));
    size_t used = 1;
    for (; *options != NULL; options++)
        argv[used++] = (char *)(uintptr_t)*options; /* execve writes to none of them */
    for (size_t i = 0; i < count; i++)
        argv[used++] = words[i];
    return argv;
}

int execd_bootstrap_start(struct execd *execd, char **words, struct error *err)
{
    static char *no_words[] = {NULL};
    const char *command = find_text(execd, "BOOTSTRAP_CMD");
    const char *search = find_text(execd, "PATH");
    const char *options[] = {NULL, NULL, NULL};
    if (search == NULL)
        search = EXECD_PATH_DEFAULT;
    struct execd_programs programs;
    execd_programs_init(&programs);
    if (command != NULL) {
        add_shells(&programs, execd, search);
        options[0] = "-c";
        options[1] = command;
        words = no_words;
    } else if (words[0] == NULL || str_equal(words[0], "-c")) {
        add_shells(&programs, execd, search);
    } else {
        execd_programs_add(&programs, words[0], search);
        words++;
    }
    AUTO_FREE char **argv = make_argv(options, words);
    int r = execd_entrypoint_start(execd, &programs, argv, err);
    execd_programs_done(&programs);
    return r;
}
