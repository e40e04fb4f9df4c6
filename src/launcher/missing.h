/* What sandboxes of a launcher that is not root of the machine lack, for the servers. */
#pragma once

#include "runtime/native/message.h"

struct launcher;

/* Fill in what is missing, and no other network than none. Does nothing for root of the machine. */
void missing_tell(const struct launcher *launcher, struct message_welcome *ret);
