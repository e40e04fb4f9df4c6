/* The log: one line per event on stderr, for people ("21:04:05 info  server: listening ...") or,
 * with LOG_JSON, one JSON object per line. Libraries do not log; the owner of an operation logs
 * once. Control characters and invalid UTF-8 in a message are escaped, so that nothing a client or
 * a sandbox chose can forge a line or speak to a terminal. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_PEOPLE, LOG_JSON };

/* `program` is borrowed for ever (a literal). */
void log_init(const char *program, enum log_level level, enum log_format format);
void log_set_fd(int fd); /* tests; default 2 */

int log_level_parse(const char *text, enum log_level *ret);   /* "debug" ... ; -EINVAL */
int log_format_parse(const char *text, enum log_format *ret); /* "text" or "json"; -EINVAL */

void log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)

/* For lines that somebody else can cause as often as he likes: so many in so long, the rest are
 * counted. Zeroed it is ready. */
#define LOG_LIMIT_LINES 20
#define LOG_LIMIT_MS    10000

struct log_limit {
    uint64_t since_ms;
    unsigned lines;
    unsigned left_out;
};

/* Whether another line may be written now; tells before the first one of a new period how many were
 * left out in the last. */
bool log_admits(struct log_limit *limit);
