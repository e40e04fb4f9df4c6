/* The host's package database in the host image: dpkg inside knows what is in /usr and which
 * package each file belongs to, so that installing one more package installs just that. Maintainer
 * scripts of installed packages are not copied, nor are package sources, proxies and passwords of
 * apt's: which repositories a sandbox uses is its own business. */
#pragma once

#include "base/error.h"

/* Into the root of an image that has /etc, /var/lib, /var/cache and /var/log. A host without dpkg
 * gets an empty database. */
int image_host_packages(int host_fd, int root_fd, struct error *err);
