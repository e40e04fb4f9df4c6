/* Directory images: root file systems in directories of the host, which the administrator names on
 * the launcher's command line. A message carries only the name: a broken server cannot choose a
 * path.
 *
 * What lies in an image is handed to every sandbox that asks for it, with root's files as root's.
 * So nobody but root may be able to put something there: neither the directory nor any directory
 * above it may be writable by others (a sticky one above may), and no component of the path may be
 * a symbolic link. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "runtime/native/message.h"

#define IMAGES_MAX 64

struct image {
    char name[MESSAGE_IMAGE_MAX];
    const char *path; /* borrowed */
    int fd;           /* opened once and kept; -1: could not be used so far */
};

struct images {
    struct image items[IMAGES_MAX];
    size_t count;
    /* We are root of a user namespace only: everybody outside, root among them, is the same nobody
     * to us, and passes as an owner. Whoever names an image looks himself whose it is. */
    bool owners_hidden;
};

/* From "NAME=DIR"; the text is borrowed. Looks at nothing but its form. */
int images_add(struct images *images, const char *text, struct error *err);

/* Open those that can be used now; the others are tried again when somebody asks for them. */
void images_open(struct images *images);
void images_close(struct images *images);

/* The directory of an image that is not the host's; the fd stays the table's. ERR_NOT_FOUND names
 * those there are; ERR_INTERNAL says why this one cannot be used. */
int images_get(struct images *images, const char *name, int *ret_fd, struct error *err);
