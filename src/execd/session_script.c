/* The order of things in the saved state matters when it is read again: the locale first, since it
 * decides how bytes are read; shell options such as extglob before functions, which may need them
 * to be parsed; functions before aliases, which would be expanded in them; `set -e` and its like
 * last. What bash refuses (its own read-only variables, our functions) it refuses one by one, into
 * nowhere.
 *
 * Editing modes and history are never on between runs: they would make bash read its lines in
 * another way. They may be switched on inside a run; a sourced .bashrc does. */
#include "execd/session_script.h"

#include <stdio.h>
#include <string.h>

_Static_assert(EXECD_SESSION_FD_CONTROL == 93 && EXECD_SESSION_FD_STDOUT == 94 &&
                   EXECD_SESSION_FD_STDERR == 95 && EXECD_SESSION_FD_NOTHING == 96,
               "the script names them by number");
_Static_assert(EXECD_SESSION_STOP_SIGNAL == 61, "the script traps it by number");

const char *const execd_session_script_arguments[] = {
    "--norc", "--noprofile", "--noediting", "-i", "+m", "+H", "+o", "history", NULL,
};

/* bash keeps what a redirection replaces as a close-on-exec duplicate, the first one as number 10,
 * and a duplicate of a duplicate inherits the flag: that is how a shell script gets a close-on-exec
 * file. Should a bash number them in another way, the file is used as it is; the nonce still keeps
 * other programs from speaking for the shell. */
static const char take_files[] = "{ exec 90>&10; } 93>&- || exec 90>&93\n"
                                 "{ exec 91>&10; } 94>&- || exec 91>&94\n"
                                 "{ exec 92>&10; } 95>&- || exec 92>&95\n"
                                 "{ exec 89<&10; } 96<&- || exec 89<&96\n"
                                 "exec 93>&- 94>&- 95>&- 96<&-\n"
                                 "unset HISTFILE MAILCHECK TMOUT\n";

/* What the shell does for us, by name. Kept as text in one array and not as functions: bash writes
 * each line of its state with a system call of its own, and a function is many lines.
 *
 * The first argument is the name. Nothing in here may fail: `set -e` counts inside of `builtin
 * eval`, whatever is around it. `X && builtin :` keeps the status of X and does not end a shell.
 *
 * The user's EXIT trap is wrapped into ours, so that the state is saved after it, and before it in
 * case that it calls exit. To see one that is set and used in the same run, `trap` is a function
 * during runs whose text looks like that; other runs have no such function, since inside of one
 * RETURN and ERR traps behave differently. */
static const struct {
    const char *name;
    const char *text;
} actions[] = {
    {"begin", "builtin unset -v PROMPT_COMMAND\n"
              "PS1=$__execd_ps1\n"
              "if [[ -n $__execd_prompt ]]; then PROMPT_COMMAND=$__execd_prompt; fi\n"
              "if [[ -n $__execd_cwd ]] && ! builtin cd -- \"$__execd_cwd\"; then\n"
              "    __execd_code='builtin cd -- \"$__execd_cwd\"'\n" /* where it can be heard */
              "fi\n"
              "if [[ $__execd_on == trap ]]; then\n"
              "    if builtin declare -F trap; then __execd_on=yes\n"
              "    else trap() { __execd trap \"$@\"; }; fi\n"
              "fi\n"
              "builtin export -n ${!__execd_@}\n" /* `set -a` is no reason to tell our children */
              "builtin printf 'B%s\\0' \"$__execd_nonce\" >&90\n"
              "return \"$__execd_status\"\n"},
    /* STATUS PARAMETER... The stop signal does nothing from `ending` on. A SIGINT can break this
     * off anywhere: then the next line goes on with it, and execd may be told of the end twice. */
    {"end", "case ${__execd_on-unset} in\n"
            "'') return 0 ;;\n"
            "saving) ;;\n"
            "*)\n"
            "    if [[ $__execd_on == trap ]]; then builtin unset -f trap; fi\n"
            "    if [[ $__execd_on != ending ]]; then __execd_status=$2; fi\n"
            "    __execd_on=ending\n"
            "    builtin printf 'E%s %d %s\\0' \"$__execd_nonce\" \"$2\" \"$PWD\" >&90\n"
            "    if [[ -n $__execd_int ]]; then builtin eval \"$__execd_int\"; fi\n"
            "    __execd tidy ;;\n"
            "esac\n"
            "builtin unset -v PROMPT_COMMAND\n"
            "__execd save \"${@:3}\"\n"
            "__execd_on=\n"
            "case :$SHELLOPTS: in\n"
            "*:vi:*|*:emacs:*|*:hist*) builtin set +o vi +o emacs +o history +o histexpand ;;\n"
            "esac\n"},
    /* Once, or what it keeps is lost. */
    {"tidy", "__execd_int= __execd_code= __execd_cwd= __execd_ps1=${PS1-} PS1= "
             "__execd_prompt=${PROMPT_COMMAND-} __execd_on=saving\n"},
    /* The trap of the stop signal: back to the top level. */
    {"stop", "case $__execd_on in ''|ending|saving) return 0 ;; esac\n"
             "if [[ $__execd_on == trap ]]; then builtin unset -f trap; fi\n"
             "if [[ $__execd_on != stopped ]]; then __execd_int=$(builtin trap -p INT); fi\n"
             "__execd_on=stopped\n"
             "builtin trap - INT\n"
             "builtin kill -INT \"$$\"\n"},
    /* ARGUMENT... of trap */
    {"trap", "builtin trap \"${@:2}\" || return\n"
             "for __execd_words in \"${@:3}\"; do\n"
             "    if [[ $BASHPID == \"$$\" && $__execd_words == @(EXIT|exit|SIGEXIT|0) ]]; then\n"
             "        __execd wrap\n"
             "        return 0\n"
             "    fi\n"
             "done\n"},
    {"wrap",
     "builtin eval \"__execd_words=($(builtin trap -p EXIT))\"\n"
     "case ${__execd_words[2]-} in\n"
     "'') builtin trap '__execd exit \"$?\" \"$@\" && builtin :' EXIT ;;\n"
     "'__execd exit '*) ;;\n"
     "*) builtin trap '__execd exit \"$?\" \"$@\" && builtin :\n'"
     "\"${__execd_words[2]}\"'\n__execd exit \"$__execd_status\" \"$@\" && builtin :' EXIT\n"
     "esac\n"
     "builtin unset -v __execd_words\n"},
    /* STATUS PARAMETER... bash has undone the redirections, but the user's trap may want to speak.
     */
    {"exit", "if [[ $BASHPID == \"$$\" ]]; then\n"
             "    if [[ $__execd_on == trap ]]; then builtin unset -f trap; fi\n"
             "    __execd_status=$2\n"
             "    if [[ $__execd_on != saving ]]; then __execd tidy; fi\n"
             "    builtin unset -v PROMPT_COMMAND\n"
             "    __execd save \"${@:3}\"\n"
             "    exec <&89 >&91 2>&92\n"
             "fi\n"
             "return \"$2\"\n"},
    /* PARAMETER... */
    {"save", "{\n"
             "    builtin printf 'S%s ' \"$__execd_nonce\"\n"
             "    builtin declare -p LC_ALL LC_CTYPE LANG 2>&- || builtin :\n"
             "    builtin printf '__execd shopts %q\\nbuiltin cd -- %q\\n' \"$BASHOPTS\" \"$PWD\"\n"
             "    builtin umask -p\n"
             "    builtin declare -p\n"
             "    builtin printf 'set --'\n"
             "    if (($# > 1)); then builtin printf ' %q' \"${@:2}\"; fi\n"
             "    builtin printf '\\n'\n"
             "    builtin declare -f\n"
             "    builtin declare -F\n" /* their attributes */
             "    builtin trap -p\n"
             "    builtin alias -p\n"
             "    builtin printf '__execd options %q\\n\\0' \"$SHELLOPTS\"\n"
             "} >&90\n"},
    /* LIST of those that are on. This comes first in a new shell: IFS is as it should be. */
    {"shopts", "for __execd_words in $(builtin shopt -p); do\n"
               "    case $__execd_words:$2: in\n"
               "    shopt:*|-?:*) ;;\n"
               "    *:$__execd_words:*) builtin shopt -s $__execd_words ;;\n"
               "    *) builtin shopt -u $__execd_words ;;\n"
               "    esac\n"
               "done\n"
               "builtin unset -v __execd_words\n"},
    /* LIST of those that are on. */
    {"options", "for __execd_words in allexport braceexpand errtrace functrace hashall keyword \\\n"
                "    monitor noclobber noglob notify nounset physical pipefail posix verbose \\\n"
                "    errexit xtrace; do\n"
                "    case :$2: in\n"
                "    *:$__execd_words:*) builtin set -o $__execd_words ;;\n"
                "    *) builtin set +o $__execd_words ;;\n"
                "    esac\n"
                "done\n"
                "builtin unset -v __execd_words\n"},
};

static const char declare[] = "builtin declare -A __execd_do\n";
static const char set_up[] =
    "__execd() { builtin eval \"${__execd_do[$1]}\"; }\n"
    "builtin readonly -f __execd\n"
    "builtin readonly __execd_do\n"
    "builtin readonly __execd_go='__execd begin && builtin :; builtin eval \"$__execd_code\" <&89 "
    ">&91 2>&92; __execd end \"$?\" \"$@\" && builtin :'\n"
    "__execd_status=0 __execd_on= __execd_int= __execd_code= __execd_cwd=\n"
    "__execd_ps1=${PS1-} PS1= PS2=\n"
    "__execd_prompt=${PROMPT_COMMAND-}\n"
    "builtin unset -v PROMPT_COMMAND\n"
    "builtin trap '__execd stop' 61\n";

/* With printf, and without a quote inside of the quotes: bash takes a time that grows with the
 * square of their number for a word like 'a'\''b' (and makes one of $'a\'b'). */
int execd_session_script_assign(struct buf *out, const char *name, const char *bytes, size_t length)
{
    int r = buf_printf(out, "builtin printf -v %s %%b '", name);
    size_t plain = 0; /* where the bytes begin that are not added yet */
    for (size_t i = 0; r == 0 && i < length; i++) {
        const char *escape = bytes[i] == '\'' ? "\\0047" : bytes[i] == '\\' ? "\\\\" : "\\n";
        if (bytes[i] != '\'' && bytes[i] != '\\' && bytes[i] != '\n')
            continue;
        r = buf_add(out, bytes + plain, i - plain);
        if (r == 0)
            r = buf_add_str(out, escape);
        plain = i + 1;
    }
    if (r == 0)
        r = buf_add(out, bytes + plain, length - plain);
    return r == 0 ? buf_add_str(out, "'; ") : r;
}

static int add_actions(struct buf *out)
{
    int r = buf_add_str(out, declare);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(actions); i++) {
        char name[32];
        snprintf(name, sizeof(name), "__execd_do[%s]", actions[i].name);
        r = execd_session_script_assign(out, name, actions[i].text, strlen(actions[i].text));
        if (r == 0)
            r = buf_add_char(out, '\n');
    }
    return r == 0 ? buf_add_str(out, set_up) : r;
}

int execd_session_script_start(struct buf *out, const char *nonce, const char *state, size_t length)
{
    int r = buf_add_str(out, take_files);
    if (r == 0)
        r = add_actions(out);
    if (r == 0 && length > 0) {
        r = execd_session_script_assign(out, "__execd_code", state, length);
        if (r == 0)
            r = buf_add_str(out, "builtin eval \"$__execd_code\" || builtin :\n");
    }
    if (r < 0)
        return r;
    return buf_printf(out, "__execd_nonce=%s; __execd_on= __execd_code=; __execd wrap\n", nonce);
}

bool execd_session_script_is_wrapped(const char *state)
{
    return strstr(state, "\ntrap -- '__execd exit ") != NULL;
}

/* Here and not in bash, which takes minutes to look for a pattern in a megabyte. */
static bool sets_exit_trap(const char *code)
{
    const char *trap = strstr(code, "trap");
    return trap != NULL && (strcasestr(trap, "exit") != NULL || strchr(trap, '0') != NULL);
}

int execd_session_script_run(struct buf *out, const char *nonce, const char *code, const char *cwd,
                             bool wrap)
{
    int r = wrap ? buf_add_str(out, "__execd wrap\n") : 0;
    if (r == 0 && cwd != NULL)
        r = execd_session_script_assign(out, "__execd_cwd", cwd, strlen(cwd));
    if (r == 0)
        r = execd_session_script_assign(out, "__execd_code", code, strlen(code));
    if (r < 0)
        return r;
    return buf_printf(out, "__execd_nonce=%s __execd_on=%s PROMPT_COMMAND=$__execd_go\n", nonce,
                      sets_exit_trap(code) ? "trap" : "yes");
}

int execd_session_script_end(struct buf *out)
{
    /* More than once: a signal that came before may be taken between the reading and the running
     * of a line, which is then lost. */
    static const char lines[] = "__execd end \"$?\" \"$@\" && builtin :\n"
                                "__execd end \"$?\" \"$@\" && builtin :\n"
                                "__execd end \"$?\" \"$@\" && builtin :\n";
    return buf_add_str(out, lines);
}
