#include "launcher/image_host_packages.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/copy.h"

#define ENTRIES_MAX 100000u
#define BYTES_MAX   (256ull << 20)
#define INFO        "var/lib/dpkg/info"

static const char *const directories[] = {
    "etc/apt",
    "etc/apt/apt.conf.d",
    "etc/apt/keyrings",
    "etc/apt/preferences.d",
    "etc/apt/sources.list.d",
    "etc/dpkg",
    "etc/dpkg/dpkg.cfg.d",
    "var/lib/dpkg",
    "var/lib/dpkg/info",
    "var/lib/dpkg/parts",
    "var/lib/dpkg/triggers",
    "var/lib/dpkg/updates",
    "var/lib/apt",
    "var/lib/apt/lists",
    "var/lib/apt/lists/partial",
    "var/cache/apt",
    "var/cache/apt/archives",
    "var/cache/apt/archives/partial",
    "var/cache/debconf",
    "var/log/apt",
};

/* Not statoverride: it names users that only the host has, and dpkg stops at a name it cannot find.
 */
static const char *const copied[] = {
    "etc/apt/trusted.gpg.d", /* public keys */
    "etc/debconf.conf",          "etc/dpkg/origins",
    "var/lib/dpkg/alternatives", "var/lib/dpkg/diversions",
};

static const struct {
    const char *name;
    const char *text;
} written[] = {
    {"etc/apt/sources.list", "# Package sources go here or into sources.list.d.\n"},
    {"etc/dpkg/dpkg.cfg", "no-debsig\nlog /var/log/dpkg.log\n"},
    {"var/lib/dpkg/statoverride", ""},
    {"var/lib/dpkg/available", ""},
};

static int make_directories(int root_fd, struct error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(directories); i++) {
        if (mkdirat(root_fd, directories[i], 0755) < 0 ||
            fchmodat(root_fd, directories[i], 0755, 0) < 0) /* mkdir applies the umask */
            return error_set_errno(err, errno, "cannot make directory '%s'", directories[i]);
    }
    return 0;
}

/* What is in a package; what its maintainer does when it comes and goes are scripts. "format" says
 * how the names of the others are to be read. */
static bool is_data(const char *name)
{
    return fnmatch("*.list", name, FNM_PERIOD) == 0 ||
           fnmatch("*.md5sums", name, FNM_PERIOD) == 0 || str_equal(name, "format");
}

/* There are some thousands, so they are linked where that is possible: like /usr itself they are
 * then the host's files below an overlay, and dpkg never changes one in place. Where they are not
 * ours, /usr is not either: nothing can be installed over it, and nobody misses them. */
static int link_or_copy(int from_fd, const char *name, int to_fd, struct copy_budget *budget,
                        struct error *err)
{
    struct stat st;
    bool known = fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (known && st.st_uid != geteuid())
        return 0;
    if (known && S_ISREG(st.st_mode) && st.st_mode & S_IROTH &&
        linkat(from_fd, name, to_fd, name, 0) == 0)
        return 0;
    return copy_tree(from_fd, name, to_fd, name, budget, err);
}

static int copy_file_lists(int host_fd, int root_fd, struct copy_budget *budget, struct error *err)
{
    int from = openat(host_fd, INFO, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int to = openat(root_fd, INFO, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = from < 0 ? NULL : fdopendir(from);
    if (dir == NULL || to < 0) {
        bool absent = from < 0 && errno == ENOENT;
        if (dir)
            closedir(dir);
        return absent ? 0 : error_set_errno(err, errno, "cannot open /%s", INFO);
    }
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (is_data(entry->d_name))
            r = link_or_copy(dirfd(dir), entry->d_name, to, budget, err);
    }
    closedir(dir);
    return r;
}

/* Last, for it makes the others count; dpkg wants it to exist. */
static int copy_status(int host_fd, int root_fd, struct copy_budget *budget, struct error *err)
{
    static const char path[] = "var/lib/dpkg/status";
    int r = copy_tree(host_fd, path, root_fd, path, budget, err);
    if (r == 0 && faccessat(root_fd, path, F_OK, 0) < 0)
        r = copy_text(root_fd, path, "", err);
    return r;
}

int image_host_packages(int host_fd, int root_fd, struct error *err)
{
    struct copy_budget budget = {.entries = ENTRIES_MAX, .bytes = BYTES_MAX};
    int r = make_directories(root_fd, err);
    for (size_t i = 0; i < ARRAY_LEN(copied) && r == 0; i++)
        r = copy_tree(host_fd, copied[i], root_fd, copied[i], &budget, err);
    for (size_t i = 0; i < ARRAY_LEN(written) && r == 0; i++)
        r = copy_text(root_fd, written[i].name, written[i].text, err);
    if (r == 0)
        r = copy_file_lists(host_fd, root_fd, &budget, err);
    if (r == 0)
        r = copy_status(host_fd, root_fd, &budget, err);
    return r;
}
