/* /etc/passwd and /etc/group of an image, and what is looked up in them: the input is user, passwd
 * and group, with NUL bytes between them. Whatever they say, nobody becomes the one id that means
 * "stay what you are" to the kernel, and groups stay within their bound. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "execd/credentials.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
    if (!good)
        abort();
}

/* A file with a path that is made once and filled for each input. */
struct file {
    int fd;
    char path[32];
};

static void fill(struct file *file, const char *text, size_t length)
{
    if (file->path[0] == '\0') {
        file->fd = memfd_create("database", MFD_CLOEXEC);
        snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
    }
    check(ftruncate(file->fd, 0) == 0);
    check(pwrite(file->fd, text, length, 0) == (ssize_t)length);
}

__attribute__((noinline)) static void check_credentials(const struct execd_credentials *credentials)
{
    check(credentials->uid != UINT32_MAX && credentials->gid != UINT32_MAX);
    check(credentials->group_count <= EXECD_GROUPS_MAX);
    for (size_t i = 0; i < credentials->group_count; i++) {
        check(credentials->groups[i] != UINT32_MAX);
        for (size_t j = 0; j < i; j++)
            check(credentials->groups[i] != credentials->groups[j]);
    }
}

static void check_names(const struct execd_users *users, uint32_t id)
{
    AUTO_FREE char *name = execd_users_find_name(users, id);
    AUTO_FREE char *home = execd_users_find_home(users, id);
    AUTO_FREE char *group = execd_users_find_group_name(users, id);
    uint32_t found;
    check((name == NULL) == (home == NULL));
    check(name == NULL || (name[0] != '\0' && execd_users_find_uid(users, name, &found)));
    check(group == NULL || (group[0] != '\0' && execd_users_find_gid(users, group, &found)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct file passwd, group;
    AUTO_FREE char *text = mem_dup_n((const char *)data, size);
    size_t user_length = strnlen(text, size);
    size_t passwd_at = user_length < size ? user_length + 1 : size;
    size_t passwd_length = strnlen(text + passwd_at, size - passwd_at);
    size_t group_at = passwd_at + passwd_length < size ? passwd_at + passwd_length + 1 : size;
    fill(&passwd, text + passwd_at, passwd_length);
    fill(&group, text + group_at, size - group_at);

    const struct execd_users users = {.passwd_path = passwd.path, .group_path = group.path};
    struct execd_credentials credentials = {0};
    struct error err = ERROR_INIT;
    if (execd_credentials_from_user(&credentials, &users, text, &err) == 0)
        check_credentials(&credentials);
    else
        check(err.code == ERR_INVALID && err.message[0] != '\0');
    check_names(&users, 0);
    check_names(&users, credentials.uid);
    return 0;
}
