/* Two streams joined after a protocol switch: bytes go both ways, with back-pressure and
 * half-close, until both sides have ended or one breaks. Lives on its own; cut with the client it
 * came from. */
#pragma once

#include "http/client.h"
#include "http/stream.h"

/* Takes both streams, which must be open and have no other owner. */
void http_tunnel_start(struct http_client *client, struct http_stream *a, struct http_stream *b);
