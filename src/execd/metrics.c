#include "execd/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execd/metrics_sample.h"
#include "http/sse.h"

#define TICK_MS       1000
#define FIRST_TICK_MS 100
/* A difference over less than this says more about the scheduler than about the sandbox. */
#define SPAN_MIN_NS 500000000U
/* So long after the last question the looks are stopped. */
#define QUIET_TICKS    10
#define LINE_MAX_BYTES 512

/* Somebody who waits for samples: one, or all to come. */
struct asker {
    TAILQ_ENTRY(asker) link;
    struct execd_metrics *metrics;
    struct http_exchange *exchange;
    bool watches;
    bool answered; /* a GET that has its answer, or a stream that has begun */
};

struct execd_metrics {
    uv_timer_t timer;
    TAILQ_HEAD(, asker) askers;
    size_t watchers;
    unsigned quiet_ticks;
    int looks; /* how many of these are there: 0, 1 (only `newer`) or 2 */
    struct execd_sample older;
    struct execd_sample newer;
};

/* --- samples ---------------------------------------------------------------------------------- */

static int look(struct execd_sample *ret, struct error *err)
{
    return execd_sample_read(ret, "", execd_sample_cpus(), err);
}

static void keep(struct execd_metrics *metrics, const struct execd_sample *sample)
{
    metrics->older = metrics->newer;
    metrics->newer = *sample;
    metrics->looks = MIN(metrics->looks + 1, 2);
}

/* The look that `now` is compared with: the last one, unless that was just taken. */
static const struct execd_sample *base_for(const struct execd_metrics *metrics,
                                           const struct execd_sample *now)
{
    bool recent = now->at_ns - metrics->newer.at_ns < SPAN_MIN_NS;
    return recent && metrics->looks == 2 ? &metrics->older : &metrics->newer;
}

/* The names of the protocol, and those that the published command line reads instead. cpu_count is
 * always a whole number: some clients take no other. */
static int format(char *line, const struct execd_sample *sample, double percent)
{
    const double mib = 1024.0 * 1024.0;
    double total = (double)sample->memory_total / mib;
    double used = (double)sample->memory_used / mib;
    return snprintf(line, LINE_MAX_BYTES,
                    "{\"cpu_count\":%d,\"cpu_used_pct\":%.2f,\"mem_total_mib\":%.2f,"
                    "\"mem_used_mib\":%.2f,\"timestamp\":%" PRId64
                    ",\"cpu_used_percentage\":%.2f,\"memory_total_in_mib\":%.2f,"
                    "\"memory_used_in_mib\":%.2f}",
                    sample->cpu_count, percent, total, used, clock_unix_ms(), percent, total, used);
}

/* --- answers ---------------------------------------------------------------------------------- */

static void answer(struct asker *asker, const struct execd_sample *now)
{
    char line[LINE_MAX_BYTES + 2];
    struct execd_metrics *metrics = asker->metrics;
    int length = format(line, now, execd_sample_cpu_percent(base_for(metrics, now), now));
    if (!asker->watches) {
        http_exchange_reply(asker->exchange, 200, "application/json", line, (size_t)length);
    } else {
        if (!asker->answered)
            http_sse_begin(asker->exchange);
        line[length++] = '\n';
        line[length++] = '\n'; /* readers of event streams wait for an empty line */
        if (!http_exchange_is_full(asker->exchange))
            http_exchange_write(asker->exchange, line, (size_t)length);
    }
    asker->answered = true;
}

/* What could be read a moment ago cannot be any more. */
static void fail(struct asker *asker, const struct error *err)
{
    if (!asker->answered)
        http_exchange_reply_error(asker->exchange, 500, "RUNTIME_ERROR", "%s", err->message);
    else if (asker->watches)
        http_exchange_end(asker->exchange);
    asker->answered = true;
}

static void on_tick(uv_timer_t *timer)
{
    struct execd_metrics *metrics = timer->data;
    struct execd_sample now;
    struct error err = ERROR_INIT;
    int r = look(&now, &err);
    struct asker *asker;
    TAILQ_FOREACH(asker, &metrics->askers, link)
    {
        if (r < 0)
            fail(asker, &err);
        else if (asker->watches || !asker->answered)
            answer(asker, &now);
    }
    if (r == 0)
        keep(metrics, &now);
    metrics->quiet_ticks = metrics->watchers > 0 ? 0 : metrics->quiet_ticks + 1;
    if (r < 0 || metrics->quiet_ticks > QUIET_TICKS) {
        uv_timer_stop(timer);
        metrics->looks = 0;
    }
}

/* --- questions -------------------------------------------------------------------------------- */

static struct execd_metrics *get_metrics(struct execd *execd)
{
    if (execd->metrics == NULL) {
        execd->metrics = mem_alloc(sizeof(*execd->metrics));
        TAILQ_INIT(&execd->metrics->askers);
        uv_timer_init(execd->loop, &execd->metrics->timer);
        execd->metrics->timer.data = execd->metrics;
    }
    return execd->metrics;
}

static void on_close(struct http_exchange *exchange, bool completed, void *ctx)
{
    (void)exchange;
    (void)completed;
    struct asker *asker = ctx;
    TAILQ_REMOVE(&asker->metrics->askers, asker, link);
    if (asker->watches)
        asker->metrics->watchers--;
    free(asker);
}

static void ask(struct execd *execd, struct http_exchange *exchange, bool watches)
{
    struct execd_metrics *metrics = get_metrics(execd);
    struct execd_sample now;
    struct error err = ERROR_INIT;
    if (watches && metrics->watchers == EXECD_METRICS_WATCHERS_MAX) {
        http_exchange_reply_error(exchange, 503, "RUNTIME_ERROR",
                                  "%d clients watch already, which is the limit",
                                  EXECD_METRICS_WATCHERS_MAX);
        return;
    }
    if (look(&now, &err) < 0) {
        http_exchange_reply_error(exchange, 500, "RUNTIME_ERROR", "%s", err.message);
        return;
    }
    struct asker *asker = mem_alloc(sizeof(*asker));
    *asker = (struct asker){.metrics = metrics, .exchange = exchange, .watches = watches};
    TAILQ_INSERT_TAIL(&metrics->askers, asker, link);
    metrics->watchers += watches;
    metrics->quiet_ticks = 0;
    http_exchange_on_close(exchange, on_close, asker);
    if (metrics->looks == 0) {
        keep(metrics, &now);
        uv_timer_start(&metrics->timer, on_tick, FIRST_TICK_MS, TICK_MS);
    } else if (metrics->looks == 2) {
        answer(asker, &now);
    } /* else the second look is on its way */
}

void execd_metrics_handle_get(struct http_exchange *exchange, const struct http_route_match *match,
                              void *execd)
{
    (void)match;
    ask(execd, exchange, false);
}

void execd_metrics_handle_watch(struct http_exchange *exchange,
                                const struct http_route_match *match, void *execd)
{
    (void)match;
    ask(execd, exchange, true);
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void execd_metrics_done(struct execd *execd)
{
    struct execd_metrics *metrics = TAKE_PTR(execd->metrics);
    if (metrics != NULL)
        uv_close((uv_handle_t *)&metrics->timer, on_timer_closed);
}
