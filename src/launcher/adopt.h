/* What a starting launcher finds: sandboxes of a former one that live, that died meanwhile, and
 * remains of what was being made or removed. */
#pragma once

#include "base/error.h"

struct launcher;

int adopt_all(struct launcher *launcher, struct error *err);
