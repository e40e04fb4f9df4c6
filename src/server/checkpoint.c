#include "server/checkpoint.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

struct server_checkpoint {
    uv_loop_t *loop;
    struct store *store;
    struct store_checkpointer *checkpointer; /* the worker's, while running */
    uv_work_t work;
    bool running;
    bool unwanted; /* free when the work is done */
    struct error err;
};

static void destroy(struct server_checkpoint *checkpoint)
{
    store_checkpointer_close(checkpoint->checkpointer);
    free(checkpoint);
}

/* On a thread of libuv's pool. */
static void run(uv_work_t *work)
{
    struct server_checkpoint *checkpoint = work->data;
    store_checkpointer_run(checkpoint->checkpointer, &checkpoint->err);
}

static void on_done(uv_work_t *work, int status)
{
    (void)status; /* never cancelled */
    struct server_checkpoint *checkpoint = work->data;
    checkpoint->running = false;
    if (checkpoint->err.code != ERR_OK)
        log_warn("%s", checkpoint->err.message);
    if (checkpoint->unwanted)
        destroy(checkpoint);
}

static void on_due(void *ctx)
{
    struct server_checkpoint *checkpoint = ctx;
    if (checkpoint->running)
        return;
    checkpoint->running = true;
    checkpoint->err = (struct error)ERROR_INIT;
    uv_queue_work(checkpoint->loop, &checkpoint->work, run, on_done);
}

struct server_checkpoint *server_checkpoint_new(uv_loop_t *loop, struct store *store,
                                                const char *path, struct error *err)
{
    struct store_checkpointer *checkpointer;
    if (store_checkpointer_open(path, &checkpointer, err) < 0)
        return NULL;
    struct server_checkpoint *checkpoint = mem_alloc(sizeof(*checkpoint));
    checkpoint->loop = loop;
    checkpoint->store = store;
    checkpoint->checkpointer = checkpointer;
    checkpoint->work.data = checkpoint;
    store_on_checkpoint_due(store, on_due, checkpoint);
    return checkpoint;
}

struct server_checkpoint *server_checkpoint_free(struct server_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return NULL;
    store_on_checkpoint_due(checkpoint->store, NULL, NULL);
    checkpoint->unwanted = true;
    if (!checkpoint->running)
        destroy(checkpoint);
    return NULL;
}
