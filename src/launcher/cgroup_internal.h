/* What the files that implement cgroup.h share. */
#pragma once

#include "launcher/cgroup.h"

/* Everything that is written in another way on v1 and v2. `name` is the slot's; 0 or -errno. */
struct cgroup_ops {
    /* NULL where a slot makes its own groups by mkdir alone. */
    int (*prepare)(const struct cgroups *groups, const char *name);
    int (*limit_memory)(const struct cgroups *groups, const char *name, uint64_t bytes);
    int (*limit_cpu)(const struct cgroups *groups, const char *name, uint32_t millis);
    int (*limit_io)(const struct cgroups *groups, const char *name,
                    const struct cgroup_limits *limits, bool lift);
    int (*meter)(const struct cgroups *groups, const char *name, struct cgroup_usage *ret);
    void (*usage)(const struct cgroups *groups, const char *name,
                  struct cgroup_usage *ret); /* the rest */
    int (*freeze)(const struct cgroups *groups, const char *name, bool frozen);
    int (*frozen)(const struct cgroups *groups, const char *name, bool *ret_frozen);
    int (*kill)(const struct cgroups *groups, const char *name);
    /* Bring groups without processes as near to new as they will go. The hierarchies in which that
     * is not near enough, a bit for each. NULL where it is so in all. */
    unsigned (*renew)(const struct cgroups *groups, const char *name);
};

extern const struct cgroup_ops cgroup_v1_ops;
extern const struct cgroup_ops cgroup_v2_ops;

#define CGROUP_TEXT_MAX 4096

/* One file of one group, "pids.max" or "work/pids.max". -ENOTSUP without the controller. */
int cgroup_write(const struct cgroups *groups, enum cgroup_controller controller, const char *name,
                 const char *file, const char *format, ...) PRINTF_LIKE(5, 6);
int cgroup_read(const struct cgroups *groups, enum cgroup_controller controller, const char *name,
                const char *file, char ret[CGROUP_TEXT_MAX]);

bool cgroup_has(const struct cgroups *groups, enum cgroup_controller controller);

/* Texts of the kernel, trusted. What is not there is 0. */
uint64_t cgroup_text_number(const char *text);               /* the first word; "max" is 0 */
uint64_t cgroup_text_key(const char *text, const char *key); /* lines of "key number" */
/* Lines of "major:minor Read number", and "major:minor rbytes=number wbytes=..."; of one device, or
 * the sum of all when none is known. */
uint64_t cgroup_text_io_v1(const char *text, const struct cgroup_device *device, const char *kind);
uint64_t cgroup_text_io_v2(const char *text, const struct cgroup_device *device, const char *key);

const char *cgroup_controller_name(enum cgroup_controller controller, bool v2);
bool cgroup_list_has(const char *list, const char *separators, const char *word);

/* Hierarchies of somebody who is not root of the machine: that of version 2, below the group that
 * was given to him, or none, with the reason in groups->none. `relative` is the name of our group
 * below the parent; `parent`: the group to use, NULL: the one we are in. */
void cgroup_open_given(struct cgroups *groups, const struct cgroup_mounts *mounts,
                       const char *parent, const char *relative);

/* Only look: the group that would be used, relative to where v2 is mounted, for the caller to free.
 * Else -errno and why there is none. */
int cgroup_find_given(const struct cgroup_mounts *mounts, const char *parent, char **ret_path,
                      char reason[CGROUP_REASON_MAX]);

/* Use this v2 hierarchy with what is enabled for children of our group in it. */
int cgroup_open_v2(struct cgroups *groups, const char *mount, const char *relative,
                   struct error *err);

/* Fill in the disk of a path. */
void cgroup_find_device(const char *path, struct cgroup_device *ret);

/* Call for the group itself and those below it, children first, a bounded number of levels. The
 * path is relative to the parent group. */
void cgroup_walk(int parent_fd, const char *path,
                 void (*found)(void *context, int parent_fd, const char *path), void *context);

/* Kill what the groups list, for kernels that cannot do it at once. */
void cgroup_kill_listed(const struct cgroups *groups, const char *name);
