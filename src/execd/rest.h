/* Memory that a burst of requests needed goes back to the kernel when it is over: there are many
 * sandboxes on a machine, and most of them wait. */
#pragma once

#include "execd/execd.h"

/* A request has come: look again in a second. */
void execd_rest_postpone(struct execd *execd);
