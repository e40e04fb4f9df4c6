#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

/* A line goes out in one write() no longer than PIPE_BUF, so that lines of several programs which
 * share a pipe (systemd, docker logs) never mix. */
#define LINE_MAX_BYTES 4096
/* Room kept for what follows a message that was cut: "...", a JSON ending, a newline. */
#define LINE_TAIL_BYTES 8

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const char *const format_names[] = {[LOG_PEOPLE] = "text", [LOG_JSON] = "json"};

static struct {
    const char *program;
    enum log_level level;
    enum log_format format;
    int fd;
} state = {.program = "opensandbox", .level = LOG_INFO, .format = LOG_PEOPLE, .fd = STDERR_FILENO};

struct line {
    char data[LINE_MAX_BYTES];
    size_t length;
};

void log_init(const char *program, enum log_level level, enum log_format format)
{
    state.program = program;
    state.level = level;
    state.format = format;
}

void log_set_fd(int fd)
{
    state.fd = fd;
}

int log_level_parse(const char *text, enum log_level *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (str_equal(text, level_names[i])) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -EINVAL;
}

int log_format_parse(const char *text, enum log_format *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(format_names); i++) {
        if (str_equal(text, format_names[i])) {
            *ret = (enum log_format)i;
            return 0;
        }
    }
    return -EINVAL;
}

/* Characters that end a line, command a terminal, or turn the direction of what follows. */
static bool is_harmful(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code <= 0x9f) || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* Writes the form in which the character at the front of `text` may appear, at most 8 bytes with
 * the NUL, and returns how many bytes of text it stands for. */
static size_t escape_one(const char *text, size_t length, char ret[8])
{
    bool json = state.format == LOG_JSON;
    uint32_t code;
    size_t size = str_utf8_next(text, length, &code);
    if (size == 0) {
        snprintf(ret, 8, "%s%02x", json ? "\\\\x" : "\\x", (unsigned char)*text);
        return 1;
    }
    if (is_harmful(code)) {
        if (code == '\n' || code == '\r' || code == '\t')
            snprintf(ret, 8, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
        else if (code < 0x100 && !json)
            snprintf(ret, 8, "\\x%02x", (unsigned char)code);
        else
            snprintf(ret, 8, "\\u%04x", (unsigned int)code & 0xffff);
        return size;
    }
    bool quote = json && (code == '"' || code == '\\');
    snprintf(ret, 8, "%s%.*s", quote ? "\\" : "", (int)size, text);
    return size;
}

static void add_escaped(struct line *line, const char *text, size_t length, bool cut)
{
    const size_t limit = sizeof(line->data) - LINE_TAIL_BYTES;
    while (length > 0) {
        char escaped[8];
        size_t size = escape_one(text, length, escaped);
        size_t added = strlen(escaped);
        if (line->length + added > limit) {
            cut = true;
            break;
        }
        memcpy(line->data + line->length, escaped, added);
        line->length += added;
        text += size;
        length -= size;
    }
    if (cut) {
        memcpy(line->data + line->length, "...", 3);
        line->length += 3;
    }
}

static void add_prefix(struct line *line, enum log_level level)
{
    int64_t now_ms = clock_unix_ms();
    int length;
    if (state.format == LOG_JSON) {
        char time[CLOCK_RFC3339_MAX];
        clock_format_rfc3339(now_ms, time);
        length = snprintf(line->data, sizeof(line->data) / 2,
                          "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"message\":\"",
                          time, level_names[level], state.program);
    } else {
        time_t seconds = (time_t)(now_ms / 1000);
        struct tm tm = {0};
        localtime_r(&seconds, &tm);
        length =
            snprintf(line->data, sizeof(line->data) / 2, "%02d:%02d:%02d %-5s %s: ", tm.tm_hour,
                     tm.tm_min, tm.tm_sec, level_names[level], state.program);
    }
    line->length = length > 0 ? MIN((size_t)length, sizeof(line->data) / 2 - 1) : 0;
}

static void add_ending(struct line *line)
{
    const char *ending = state.format == LOG_JSON ? "\"}\n" : "\n";
    memcpy(line->data + line->length, ending, strlen(ending));
    line->length += strlen(ending);
}

void log_write(enum log_level level, const char *format, ...)
{
    if (level < state.level || (size_t)level >= ARRAY_LEN(level_names))
        return;
    int saved = errno;
    char message[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (length < 0)
        length = snprintf(message, sizeof(message), "(message cannot be formatted)");

    struct line line;
    add_prefix(&line, level);
    size_t kept = MIN((size_t)length, sizeof(message) - 1);
    add_escaped(&line, message, kept, (size_t)length > kept);
    add_ending(&line);
    /* A log that nobody reads any more is no reason to fail, and there is nobody to tell. */
    while (write(state.fd, line.data, line.length) < 0 && errno == EINTR)
        continue;
    errno = saved;
}

bool log_admits(struct log_limit *limit)
{
    uint64_t now_ms = clock_monotonic_ms();
    if (limit->lines == 0 || now_ms - limit->since_ms >= LOG_LIMIT_MS) {
        if (limit->left_out > 0)
            log_warn("%u more lines like the next one were left out", limit->left_out);
        *limit = (struct log_limit){.since_ms = now_ms};
    }
    if (limit->lines < LOG_LIMIT_LINES) {
        limit->lines++;
        return true;
    }
    limit->left_out++;
    return false;
}
