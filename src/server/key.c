#include "server/key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/id.h"
#include "base/mem.h"
#include "base/str.h"
#include "server/state_dir.h"

#define KEY_FILE "api-key"

static int check_file(int fd, struct error *err)
{
    struct stat stat;
    if (fstat(fd, &stat) < 0)
        return error_set_errno(err, errno, "cannot examine it");
    if (!S_ISREG(stat.st_mode))
        return error_set(err, ERR_INVALID,
                         "it is not a regular file; remove it, and a new key "
                         "is made at the next start");
    if (stat.st_uid != geteuid() || (stat.st_mode & 077) != 0)
        return error_set(err, ERR_DENIED,
                         "others can read it (owner %u, mode %03o): if nobody has, chown it to "
                         "%u and chmod it to 600; otherwise remove it, and a new key is made at "
                         "the next start",
                         (unsigned)stat.st_uid, (unsigned)stat.st_mode & 0777, (unsigned)geteuid());
    return 0;
}

/* One line. -ENOENT is the caller's business, everything else is an error to report. */
static int read_key(int dir, char **ret, struct error *err)
{
    AUTO_CLOSE int fd = openat(dir, KEY_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set_errno(err, errno, "cannot open it");
    int r = check_file(fd, err);
    if (r < 0)
        return r;
    char text[ID_TOKEN_LEN + 2];
    ssize_t length = read(fd, text, sizeof(text));
    if (length < 0)
        return error_set_errno(err, errno, "cannot read it");
    if (length == ID_TOKEN_LEN + 1 && text[ID_TOKEN_LEN] == '\n')
        length--;
    if (length != ID_TOKEN_LEN || memchr(text, '\0', ID_TOKEN_LEN) != NULL)
        return error_set(err, ERR_INVALID,
                         "it does not hold a key of %d characters; remove it, and a new key is "
                         "made at the next start (a key of your own goes to `server.api_key`)",
                         ID_TOKEN_LEN);
    *ret = mem_dup_n(text, ID_TOKEN_LEN);
    explicit_bzero(text, sizeof(text));
    return 0;
}

static int make_key(int dir, char **ret, struct error *err)
{
    char line[ID_TOKEN_LEN + 2];
    id_new_token(line);
    line[ID_TOKEN_LEN] = '\n';
    int r = file_write_atomic_at(dir, KEY_FILE, line, ID_TOKEN_LEN + 1, 0600, err);
    if (r == 0)
        *ret = mem_dup_n(line, ID_TOKEN_LEN);
    explicit_bzero(line, sizeof(line));
    return r;
}

int server_key_load(const char *state_dir, char **ret, bool *ret_is_new, struct error *err)
{
    AUTO_FREE char *path = mem_printf("%s/%s", state_dir, SERVER_STATE_OWN);
    AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_set_errno(err, errno, "cannot open %s", path);
    struct error why = ERROR_INIT;
    bool is_new = false;
    int r = read_key(dir, ret, &why);
    if (r < 0 && why.code == ERR_NOT_FOUND) {
        is_new = true;
        why = (struct error)ERROR_INIT;
        r = make_key(dir, ret, &why);
    }
    if (r < 0)
        return error_set(err, why.code, "API key file %s/%s: %s", path, KEY_FILE, why.message);
    *ret_is_new = is_new;
    return 0;
}
