/* escapes NAME [ARGUMENT...]        one attack: says PWNED, or how it was held
 * escapes each NAME[:ARGUMENT]...   one after the other, each with its name
 * escapes victim|with-key|root ...  the other side of some; see victim.c */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escapes.h"

#define ARGUMENTS_MAX   8
#define ATTACK_SECONDS  10
#define EXIT_HELD       1
#define EXIT_WRONG_CALL 2

static const struct escape *const lists[] = {
    escapes_of_calls,   escapes_of_devices,  escapes_of_entries, escapes_of_execd,
    escapes_of_files,   escapes_of_ipc,      escapes_of_machine, escapes_of_mounts,
    escapes_of_network, escapes_of_processes};

int escapes_result(long answer)
{
    return answer == -1 ? -errno : 0;
}

int escapes_not_here(char **arguments)
{
    (void)arguments;
    return -ENOSYS;
}

int escapes_past(long answer, int code)
{
    if (answer != -1)
        return 0;
    return errno == code ? 0 : -errno;
}

int escapes_find(int fd, const char *text)
{
    static char bytes[65536];
    size_t length = 0;
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t n = read(fd, bytes + length, sizeof(bytes) - 1 - length);
        if (n < 0) {
            int code = errno;
            close(fd);
            return -code;
        }
        length += (size_t)n;
        if (n == 0 || length == sizeof(bytes) - 1)
            break;
    }
    close(fd);
    return memmem(bytes, length, text, strlen(text)) != NULL ? 0 : TO_NO_AVAIL;
}

int escapes_find_in(const char *path, const char *text)
{
    return escapes_find(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), text);
}

int escapes_write_back(const char *path)
{
    char bytes[4096];
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return -errno;
    ssize_t n = read(from, bytes, sizeof(bytes));
    if (n > 0)
        n = write(to, bytes, (size_t)n);
    int code = errno;
    close(from);
    close(to);
    if (n < 0)
        return -code;
    return n > 0 ? 0 : TO_NO_AVAIL;
}

int escapes_in_child(int (*run)(void))
{
    int status;
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0)
        _exit(-run() & 0xff);
    if (waitpid(pid, &status, 0) < 0)
        return -errno;
    if (!WIFEXITED(status))
        return -EINTR;
    return -WEXITSTATUS(status);
}

static const struct escape *find(const char *name)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        for (const struct escape *one = lists[i]; one->name != NULL; one++) {
            if (strcmp(one->name, name) == 0)
                return one;
        }
    }
    return NULL;
}

static int attack(const char *name, char **arguments, int count)
{
    const struct escape *escape = find(name);
    if (escape == NULL || escape->arguments != count) {
        printf("no such attack\n");
        return EXIT_WRONG_CALL;
    }
    int r = escape->run(arguments);
    if (r == 0)
        printf("PWNED\n");
    else
        printf("held: %s\n", r == TO_NO_AVAIL ? "to no avail" : strerror(-r));
    return r == 0 ? 0 : EXIT_HELD;
}

static void attack_apart(char *words)
{
    char *arguments[ARGUMENTS_MAX], *save = NULL;
    int count = 0, status = 0;
    const char *name = strtok_r(words, ":", &save);
    for (char *word; count < ARGUMENTS_MAX && (word = strtok_r(NULL, ":", &save)) != NULL;)
        arguments[count++] = word;
    printf("%s ", name);
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(ATTACK_SECONDS);
        exit(attack(name, arguments, count));
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        printf("held: %s\n", strerror(errno));
    else if (WIFSIGNALED(status))
        printf("held: %s\n", strsignal(WTERMSIG(status)));
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "victim") == 0 && argc == 3)
        return victim_main(argv + 2);
    if (strcmp(name, "with-key") == 0 && argc > 3)
        return victim_with_key(argv + 2);
    if (strcmp(name, "root") == 0)
        return victim_am_i_root();
    if (strcmp(name, "each") != 0)
        return attack(name, argv + 2, argc - 2 < 0 ? 0 : argc - 2);
    for (int i = 2; i < argc; i++)
        attack_apart(argv[i]);
    return 0;
}
