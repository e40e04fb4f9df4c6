#include <string.h>

#include "base/mem.h"
#include "base/sha1.h"
#include "base/str.h"
#include "http/websocket.h"

#define KEY_DIGITS 22 /* 16 bytes in base64, before "==" */

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void refuse(struct http_exchange *exchange, int status, const char *message)
{
    if (status == 426) {
        http_exchange_set_header(exchange, "Upgrade", "websocket");
        http_exchange_set_header(exchange, "Sec-WebSocket-Version", "13");
    }
    http_exchange_reply_error(
        exchange, status, status == 426 ? "UPGRADE_REQUIRED" : "INVALID_REQUEST", "%s", message);
}

static bool is_key(const char *key)
{
    return key != NULL && strspn(key, base64_digits) == KEY_DIGITS &&
           strcmp(key + KEY_DIGITS, "==") == 0;
}

bool http_websocket_check(struct http_exchange *exchange)
{
    const struct http_head *head = http_exchange_head(exchange);
    const struct http_headers *headers = &head->headers;
    bool empty = head->framing == HTTP_NO_BODY ||
                 (head->framing == HTTP_LENGTH && head->content_length == 0);
    if (!str_equal(head->method, "GET") || head->minor < 1 || !empty)
        refuse(exchange, 400, "a WebSocket begins with a GET of HTTP/1.1 without a body");
    else if (!head->upgrade || !http_headers_has_token(headers, "Upgrade", "websocket"))
        refuse(exchange, 426,
               "this is a WebSocket: send Connection: Upgrade and Upgrade: websocket");
    else if (!str_equal(http_headers_find(headers, "Sec-WebSocket-Version"), "13"))
        refuse(exchange, 426, "Sec-WebSocket-Version must be 13");
    else if (http_headers_count(headers, "Sec-WebSocket-Key") != 1 ||
             !is_key(http_headers_find(headers, "Sec-WebSocket-Key")))
        refuse(exchange, 400, "Sec-WebSocket-Key must be 16 bytes in base64, once");
    else
        return true;
    return false;
}

void http_websocket_accept_value(const char *key, char ret[HTTP_WEBSOCKET_ACCEPT_LEN + 1])
{
    AUTO_FREE char *text = mem_printf("%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    uint8_t digest[SHA1_LEN + 1] = {0}; /* 21 bytes are 28 digits, the last of which is padding */
    sha1(text, strlen(text), digest);
    char *out = ret;
    for (size_t i = 0; i < sizeof(digest); i += 3) {
        uint32_t bits = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 | digest[i + 2];
        for (unsigned shift = 24; shift > 0; shift -= 6)
            *out++ = base64_digits[bits >> (shift - 6) & 63];
    }
    out[-1] = '=';
    *out = '\0';
}
