/* The host as an image.
 *
 * A sandbox of it is two overlays. The first has image-host/root below: an almost empty root with
 * an /etc we write, so that nothing of the host's configuration, users or secrets is in it. The
 * second lies on /usr and has image-host/usr-mask over the host's /usr below: the programs of the
 * host without /usr/local, which an opaque directory hides. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

#define IMAGE_HOST_DIR  "image-host"
#define IMAGE_HOST_ROOT IMAGE_HOST_DIR "/root"
#define IMAGE_HOST_MASK IMAGE_HOST_DIR "/usr-mask"

/* Build it anew below dir_fd from the tree at host_root ("/"; tests have another). The one before
 * must not be the lower directory of a living sandbox. ERR_UNSUPPORTED when the host keeps programs
 * outside of /usr. */
int image_host_build(int dir_fd, const char *host_root, struct error *err);

bool image_host_exists(int dir_fd);
