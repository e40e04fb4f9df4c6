/* Where an installation keeps what it has, when nobody says. */
#pragma once

#include <stdbool.h>

/* /var/lib/opensandbox for root of the machine; else $XDG_DATA_HOME/opensandbox or
 * ~/.local/share/opensandbox. NULL when an ordinary user has neither variable as an absolute path.
 * The caller frees. */
char *place_default_state(bool root);
