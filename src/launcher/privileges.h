/* What the launcher gives up of root when it starts. */
#pragma once

#include "base/error.h"

/* Drops the capabilities that making, changing and removing a sandbox does not take, from every
 * set, so that neither the launcher nor a program that it starts (mkfs) nor a slot has them; and
 * sets no_new_privs. docs/security.md lists what is left with the reasons. */
int privileges_drop(struct error *err);
