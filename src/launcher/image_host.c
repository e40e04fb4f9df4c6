#include "launcher/image_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "launcher/copy.h"
#include "launcher/image_host_packages.h"

#define NEW_DIR      IMAGE_HOST_DIR ".new"
#define ENTRIES_MAX  20000u
#define OWN_DEPTH    8u /* of directories that a sandbox owns */
#define BYTES_MAX    (64ull << 20)
#define OPAQUE_XATTR "user.overlay.opaque"

/* What is copied of /etc: how programs in /usr are found and set up, and nothing about this
 * machine's users, services, networks or keys. */
static const char *const etc_allowed[] = {
    "alternatives",  "ca-certificates.conf",
    "chromium.d",    "debian_version",
    "fonts",         "java-*",
    "ld.so.cache",   "ld.so.conf",
    "ld.so.conf.d",  "locale.alias",
    "login.defs",    "magic",
    "magic.mime",    "mime.types",
    "nsswitch.conf", "os-release",
    "perl",          "protocols",
    "python3*",      "rpc",
    "services",      "terminfo",
    "timezone",
};

static const char etc_passwd[] = "root:x:0:0:root:/root:/bin/bash\n"
                                 "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                                 "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                                 "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
                                 "sync:x:4:65534:sync:/bin:/bin/sync\n"
                                 "games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
                                 "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
                                 "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                                 "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                                 "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
                                 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

static const char etc_group[] = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\n"
                                "disk:x:6:\nmail:x:8:\nman:x:12:\nkmem:x:15:\nsudo:x:27:\n"
                                "www-data:x:33:\nshadow:x:42:\nutmp:x:43:\nvideo:x:44:\n"
                                "staff:x:50:\ngames:x:60:\nusers:x:100:\nnogroup:x:65534:\n";

static const struct {
    const char *name;
    const char *text;
} etc_files[] = {
    {"passwd", etc_passwd},
    {"group", etc_group},
    {"hosts", IMAGE_HOST_HOSTS},
    {"hostname", IMAGE_HOST_NAME "\n"},
    {"shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"},
    {"profile", "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                "if [ -d /etc/profile.d ]; then\n"
                "    for file in /etc/profile.d/*.sh; do\n"
                "        [ -r \"$file\" ] && . \"$file\"\n"
                "    done\n"
                "    unset file\n"
                "fi\n"},
    {"environment", ""},
};

struct directory {
    const char *name;
    mode_t mode;
};

static const struct directory root_dirs[] = {
    {"usr", 0755},      {"etc", 0755},       {"etc/ssl", 0755}, {"etc/profile.d", 0755},
    {"home", 0755},     {"root", 0700},      {"tmp", 01777},    {"var", 0755},
    {"var/tmp", 01777}, {"var/lib", 0755},   {"var/log", 0755}, {"var/cache", 0755},
    {"var/mail", 0755}, {"var/spool", 0755}, {"run", 0755},     {"run/lock", 01777},
    {"srv", 0755},      {"opt", 0755},       {"mnt", 0755},     {"media", 0755},
    {"proc", 0555},     {"sys", 0555},       {"dev", 0755},
};

static const struct directory mask_dirs[] = {
    {"local", 0755},           {"local/bin", 0755}, {"local/etc", 0755},  {"local/games", 0755},
    {"local/include", 0755},   {"local/lib", 0755}, {"local/sbin", 0755}, {"local/share", 0755},
    {"local/share/man", 0755}, {"local/src", 0755},
};

static int make_dirs(int fd, const struct directory *dirs, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        /* The mode again: mkdir applies the umask. */
        if (mkdirat(fd, dirs[i].name, dirs[i].mode) < 0 ||
            fchmodat(fd, dirs[i].name, dirs[i].mode, 0) < 0)
            return error_set_errno(err, errno, "cannot make directory '%s'", dirs[i].name);
    }
    return 0;
}

static int make_link(int fd, const char *name, const char *target, struct error *err)
{
    if (symlinkat(target, fd, name) < 0)
        return error_set_errno(err, errno, "cannot make link '%s'", name);
    return 0;
}

/* /bin and its like as links into /usr, those the host has. */
static int link_merged(int host_fd, int root_fd, struct error *err)
{
    static const char *const names[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char target[PATH_MAX], merged[16];
        snprintf(merged, sizeof(merged), "usr/%s", names[i]);
        ssize_t length = readlinkat(host_fd, names[i], target, sizeof(target) - 1);
        if (length < 0 && errno == ENOENT)
            continue;
        target[MAX(length, 0)] = '\0';
        if (!str_equal(target[0] == '/' ? target + 1 : target, merged))
            return error_set(err, ERR_UNSUPPORTED,
                             "/%s of the host is not a link to /usr/%s; the host image needs a "
                             "system with merged /usr",
                             names[i], names[i]);
        int r = make_link(root_fd, names[i], merged, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_etc_allowed(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(etc_allowed); i++) {
        if (fnmatch(etc_allowed[i], name, FNM_PERIOD) == 0)
            return true;
    }
    return false;
}

static int copy_etc(int host_etc, int etc, struct error *err)
{
    struct copy_budget budget = {.entries = ENTRIES_MAX, .bytes = BYTES_MAX};
    int copy = fcntl(host_etc, F_DUPFD_CLOEXEC, 0);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        fd_close(copy);
        return error_set_errno(err, errno, "cannot read the host's /etc");
    }
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (is_etc_allowed(entry->d_name))
            r = copy_tree(host_etc, entry->d_name, etc, entry->d_name, &budget, err);
    }
    closedir(dir);
    /* Of /etc/ssl never the whole: its neighbour is private/. */
    if (r == 0)
        r = copy_tree(host_etc, "ssl/certs", etc, "ssl/certs", &budget, err);
    if (r == 0)
        r = copy_tree(host_etc, "ssl/openssl.cnf", etc, "ssl/openssl.cnf", &budget, err);
    return r;
}

/* A link to wherever the host keeps its time zone; inside it must be a file of its own. */
static int copy_localtime(int host_etc, int etc, struct error *err)
{
    CLEANUP(buf_done) struct buf zone;
    buf_init(&zone, 1u << 20);
    if (file_read_at(host_etc, "localtime", &zone, NULL) < 0)
        return 0;
    AUTO_CLOSE int fd = openat(etc, "localtime", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : file_write_all(fd, zone.data, zone.length);
    if (r < 0)
        return error_set_errno(err, -r, "cannot write localtime");
    return 0;
}

static int fill_etc(int host_fd, int root_fd, const char *resolv, struct error *err)
{
    AUTO_CLOSE int host_etc = openat(host_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    AUTO_CLOSE int etc = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host_etc < 0 || etc < 0)
        return error_set_errno(err, errno, "cannot open /etc");
    int r = copy_etc(host_etc, etc, err);
    if (r == 0)
        r = copy_localtime(host_etc, etc, err);
    for (size_t i = 0; i < ARRAY_LEN(etc_files) && r == 0; i++)
        r = copy_text(etc, etc_files[i].name, etc_files[i].text, err);
    if (r == 0)
        r = copy_text(etc, "resolv.conf", resolv, err);
    if (r == 0)
        r = make_link(etc, "mtab", "/proc/self/mounts", err);
    return r;
}

static int build_root(int host_fd, int root_fd, const char *resolv, struct error *err)
{
    int r = make_dirs(root_fd, root_dirs, ARRAY_LEN(root_dirs), err);
    if (r == 0)
        r = link_merged(host_fd, root_fd, err);
    if (r == 0)
        r = make_link(root_fd, "var/run", "/run", err);
    if (r == 0)
        r = make_link(root_fd, "var/lock", "/run/lock", err);
    if (r == 0)
        r = fill_etc(host_fd, root_fd, resolv, err);
    if (r == 0)
        r = image_host_packages(host_fd, root_fd, err);
    return r;
}

static int build_mask(int layer_fd, struct error *err)
{
    int r = make_dirs(layer_fd, mask_dirs, ARRAY_LEN(mask_dirs), err);
    if (r == 0)
        r = make_link(layer_fd, "local/man", "share/man", err);
    if (r < 0)
        return r;
    AUTO_CLOSE int local = openat(layer_fd, "local", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (local < 0 || fsetxattr(local, OPAQUE_XATTR, "y", 1, 0) < 0)
        return error_set_errno(
            err, errno,
            "cannot set an extended attribute in the state directory; it must be "
            "on a file system with user attributes");
    return 0;
}

static int make_open(int dir_fd, const char *name, int *ret_fd, struct error *err)
{
    if (mkdirat(dir_fd, name, 0755) == 0 && fchmodat(dir_fd, name, 0755, 0) == 0)
        *ret_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*ret_fd < 0)
        return error_set_errno(err, errno, "cannot make directory '%s'", name);
    return 0;
}

static int build_new(int dir_fd, int host_fd, const char *resolv, struct error *err)
{
    AUTO_CLOSE int new_fd = -1, layer_fd = -1, root_fd = -1;
    int r = make_open(dir_fd, NEW_DIR, &new_fd, err);
    if (r == 0)
        r = make_open(new_fd, "layer", &layer_fd, err);
    if (r == 0)
        r = make_open(layer_fd, IMAGE_HOST_ROOT, &root_fd, err);
    if (r == 0)
        r = build_root(host_fd, root_fd, resolv, err);
    if (r == 0)
        r = build_mask(layer_fd, err);
    return r;
}

bool image_host_exists(int dir_fd)
{
    return faccessat(dir_fd, IMAGE_HOST_LAYER, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void image_host_resolv(int dir_fd, char *ret, size_t size)
{
    CLEANUP(buf_done) struct buf text;
    buf_init(&text, size - 1);
    bool read = file_read_at(dir_fd, IMAGE_HOST_LAYER "/" IMAGE_HOST_ROOT "/etc/resolv.conf", &text,
                             NULL) == 0;
    snprintf(ret, size, "%s", read ? text.data : "");
}

int image_host_build(int dir_fd, const char *host_root, const char *resolv, struct error *err)
{
    AUTO_CLOSE int host_fd = open(host_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host_fd < 0)
        return error_set_errno(err, errno, "cannot open '%s'", host_root);
    int r = file_remove_tree_at(dir_fd, NEW_DIR, err);
    if (r == 0)
        r = build_new(dir_fd, host_fd, resolv, err);
    if (r < 0)
        return error_wrap(err, "cannot build the host image");

    /* A complete image takes the place of a complete image; what is left over is under the name of
     * the next attempt and goes with it. */
    if (renameat2(dir_fd, NEW_DIR, dir_fd, IMAGE_HOST_DIR, RENAME_EXCHANGE) < 0 &&
        renameat(dir_fd, NEW_DIR, dir_fd, IMAGE_HOST_DIR) < 0)
        return error_set_errno(err, errno, "cannot put the host image in place");
    return file_remove_tree_at(dir_fd, NEW_DIR, err);
}

static int own_directory(int from_fd, int to_fd, const char *name, unsigned depth);

static int own_directories(int from_fd, int to_fd, unsigned depth)
{
    int copy = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (dir == NULL) {
        int r = -errno;
        fd_close(copy);
        return r;
    }
    int r = 0;
    struct dirent *entry;
    while (r == 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_type == DT_DIR && !str_equal(entry->d_name, ".") &&
            !str_equal(entry->d_name, ".."))
            r = own_directory(dirfd(dir), to_fd, entry->d_name, depth);
    }
    closedir(dir);
    return r;
}

static int own_directory(int from_fd, int to_fd, const char *name, unsigned depth)
{
    struct stat st;
    if (depth == 0)
        return 0;
    AUTO_CLOSE int from = openat(from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0 || fstat(from, &st) < 0 || mkdirat(to_fd, name, 0700) < 0 ||
        fchmodat(to_fd, name, st.st_mode & 07777, 0) < 0)
        return -errno;
    AUTO_CLOSE int to = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return to < 0 ? -errno : own_directories(from, to, depth - 1);
}

int image_host_own(int layer_fd, int upper_fd)
{
    struct error err = ERROR_INIT;
    int r = own_directories(layer_fd, upper_fd, OWN_DEPTH);
    if (r < 0)
        return r;
    AUTO_CLOSE int etc =
        openat(upper_fd, IMAGE_HOST_ROOT "/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (etc < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(etc_files); i++) {
        if (copy_text(etc, etc_files[i].name, etc_files[i].text, &err) < 0)
            return err.sys != 0 ? -err.sys : -EIO;
    }
    return 0;
}
