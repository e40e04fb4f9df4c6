/* The host as an image.
 *
 * A sandbox of it is one overlay with two layers below: the host's /usr, and over it
 * image-host/layer, of our making. That hides /usr/local by an opaque directory and has, in
 * `.root`, everything else: an almost empty root with an /etc we write, so that nothing of the
 * host's configuration, users or secrets is in it. `.root` of the overlay becomes the sandbox's
 * root, and the overlay itself is put on /usr in it: a second overlay would do the same more
 * plainly, but costs a third of a millisecond and a tenth of an idle sandbox's memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define IMAGE_HOST_DIR   "image-host"
#define IMAGE_HOST_LAYER IMAGE_HOST_DIR "/layer"
#define IMAGE_HOST_ROOT  ".root" /* in the layer */

/* What every sandbox is called, and the files of /etc that go with it, whatever its image. */
#define IMAGE_HOST_NAME "sandbox"
#define IMAGE_HOST_HOSTS                                                \
    "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" \
    "127.0.1.1\t" IMAGE_HOST_NAME "\n"
#define IMAGE_HOST_RESOLV "# This sandbox has no name servers.\n"

/* Build it anew below dir_fd from the tree at host_root ("/"; tests have another). The one before
 * must not be the lower directory of a living sandbox. `resolv` is its /etc/resolv.conf.
 * ERR_UNSUPPORTED when the host keeps programs outside of /usr. */
int image_host_build(int dir_fd, const char *host_root, const char *resolv, struct error *err);

/* What the one there is has as /etc/resolv.conf; "" when that cannot be told. */
void image_host_resolv(int dir_fd, char *ret, size_t size);

bool image_host_exists(int dir_fd);

/* For sandboxes that have ids of their own where no mount can map them: each would see the layer's
 * files as nobody's. Make the layer's directories again in the upper layer, and the files of /etc
 * that we write: what root inside makes, replaces or edits is then where he may. To be called as
 * their owner. 0 or -errno. */
int image_host_own(int layer_fd, int upper_fd);
