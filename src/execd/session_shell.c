/* How a run is stopped, step by step, until bash tells its end or is dead:
 *
 *   1. A signal to what the run has started (SIGINT to interrupt, SIGKILL on timeout), the stop
 *      signal to bash. Waits for bash to begin the run, if it has not: a bash that is interrupted
 *      while it reads would take the rest of the line for another one.
 *   2. The signal to what bash was just about to start.
 *   3. The stop signal and SIGINT to bash, SIGKILL to what the run has started; once more later.
 *   4. SIGKILL to bash and its group. */
#include "execd/session_shell.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/clock.h"
#include "base/mem.h"
#include "execd/execd.h"
#include "execd/session_bash.h"
#include "execd/session_processes.h"

/* Programs may clean up when they are interrupted. */
#define INTERRUPT_GRACE_MS 3000
#define KILL_GRACE_MS      1000
#define LATE_MS            100
#define STOP_STEPS         4
#define TERMINATE_GRACE_MS 1000
#define LOOK_MS            10 /* first look after who is left; each later one waits twice as long */

enum ending { ALIVE, TERMINATED, KILLED };

struct execd_session_shell {
    struct execd *execd;
    struct execd_session_shell_events events;
    void *ctx;
    struct execd_env env;
    struct execd_credentials credentials;
    bool has_credentials;
    char *cwd;

    struct execd_session_bash *bash; /* NULL: none lives */
    pid_t bash_pid;
    struct execd_session_pasts pasts;
    char *state; /* saved by the last bash that could; NULL: none */
    size_t state_length;
    size_t *states;

    bool running;
    bool begun;
    bool retried;  /* with a new bash */
    char *code;    /* until it has begun */
    char *run_cwd; /* the same */
    uint64_t start_ns;
    int stop_signal; /* 0: nobody wants it to stop */
    int stop_step;
    enum ending ending;
    uv_timer_t timeout;
    uv_timer_t grace;   /* until the next step of a stop or an end */
    uint64_t waited_ms; /* how long an end has waited */
    int open_handles;
};

static int start_run(struct execd_session_shell *shell, struct error *err);
static void send_run(struct execd_session_shell *shell);
static void on_grace(uv_timer_t *timer);

/* --- the state -------------------------------------------------------------------------------- */

static void forget_state(struct execd_session_shell *shell)
{
    *shell->states -= shell->state_length;
    free(TAKE_PTR(shell->state));
    shell->state_length = 0;
}

static void keep_state(struct execd_session_shell *shell, const char *text, size_t length)
{
    if (text == NULL || length == 0)
        return; /* the older one is better than none */
    if (length == shell->state_length && memcmp(shell->state, text, length) == 0)
        return;
    if (length > shell->state_length &&
        length - shell->state_length > EXECD_SESSION_STATES_MAX - *shell->states)
        return;
    forget_state(shell);
    shell->state = mem_dup_n(text, length);
    shell->state_length = length;
    *shell->states += length;
}

static void on_state(void *ctx, const char *text, size_t length)
{
    struct execd_session_shell *shell = ctx;
    keep_state(shell, text, length);
    send_run(shell);
}

/* --- the end of a run ------------------------------------------------------------------------- */

static void forget_run(struct execd_session_shell *shell)
{
    shell->running = false;
    uv_timer_stop(&shell->timeout);
    if (!shell->ending)
        uv_timer_stop(&shell->grace);
    free(TAKE_PTR(shell->code));
    free(TAKE_PTR(shell->run_cwd));
}

static void end_run(struct execd_session_shell *shell, struct execd_process_result *result)
{
    forget_run(shell);
    result->duration_ms = (clock_monotonic_ns() - shell->start_ns) / 1000000;
    int signal = shell->ending ? SIGKILL : shell->stop_signal;
    if (signal != 0) {
        result->started = true;
        result->exit = (struct execd_exit){.signal = signal};
    }
    shell->events.on_run_end(shell->ctx, result);
}

static void on_end(void *ctx, int status, const char *cwd)
{
    struct execd_session_shell *shell = ctx;
    if (cwd[0] == '/') {
        free(shell->cwd);
        shell->cwd = mem_dup(cwd);
    }
    struct execd_process_result result = {.started = true, .exit = {.code = status}};
    end_run(shell, &result);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void stop_step(struct execd_session_shell *shell)
{
    struct execd_session_bash *bash = shell->bash;
    if (bash == NULL || !execd_session_bash_is_alive(bash))
        return; /* its exit is on the way */
    uint64_t grace_ms = KILL_GRACE_MS;
    switch (shell->begun ? shell->stop_step++ : STOP_STEPS) {
    case 0:
        execd_session_bash_stop(bash, shell->stop_signal);
        grace_ms = LATE_MS;
        break;
    case 1:
        execd_session_bash_stop_late(bash, shell->stop_signal);
        if (shell->stop_signal == SIGINT)
            grace_ms = INTERRUPT_GRACE_MS;
        break;
    case 2:
    case 3: /* bash forgets a SIGINT that comes while it starts a program */
        execd_session_bash_stop_again(bash);
        break;
    default:
        execd_session_bash_kill(bash, false);
        return;
    }
    uv_timer_start(&shell->grace, on_grace, grace_ms, 0);
}

static void stop(struct execd_session_shell *shell, int signal)
{
    if (!shell->running || shell->ending)
        return;
    if (shell->stop_signal != 0 && (shell->stop_signal == SIGKILL || signal == SIGINT))
        return; /* it is being done */
    shell->stop_signal = signal;
    shell->stop_step = 0;
    if (shell->begun)
        stop_step(shell);
    else
        uv_timer_start(&shell->grace, on_grace, INTERRUPT_GRACE_MS, 0);
}

static void on_timeout(uv_timer_t *timer)
{
    stop(timer->data, SIGKILL);
}

void execd_session_shell_interrupt(struct execd_session_shell *shell)
{
    stop(shell, SIGINT);
}

static void on_begin(void *ctx)
{
    struct execd_session_shell *shell = ctx;
    shell->begun = true;
    free(TAKE_PTR(shell->code));
    free(TAKE_PTR(shell->run_cwd));
    if (shell->stop_signal != 0)
        stop_step(shell);
}

/* --- the end of the shell --------------------------------------------------------------------- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct execd_session_shell *shell = handle->data;
    if (--shell->open_handles > 0)
        return;
    struct execd_session_shell_events events = shell->events;
    void *ctx = shell->ctx;
    forget_state(shell);
    execd_env_done(&shell->env);
    free(shell->cwd);
    free(shell);
    events.on_over(ctx);
}

static void close_shell(struct execd_session_shell *shell)
{
    uv_close((uv_handle_t *)&shell->timeout, on_handle_closed);
    uv_close((uv_handle_t *)&shell->grace, on_handle_closed);
}

/* To everything but the shell; signal 0 only asks. True when there was somebody. */
static bool signal_others(struct execd_session_shell *shell, int signal)
{
    bool past = execd_session_pasts_signal(&shell->pasts, signal) > 0;
    bool present = shell->bash != NULL && execd_session_bash_signal_others(shell->bash, signal);
    return past || present;
}

/* True when there is somebody to wait for. */
static bool terminate(struct execd_session_shell *shell)
{
    static const int signals[] = {SIGTERM, SIGCONT};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        any |= signal_others(shell, signals[i]);
    return any;
}

/* Nobody tells us when processes end that are not our children, so we look, less and less often. */
static void wait_for_others(struct execd_session_shell *shell)
{
    uint64_t more_ms = MAX(shell->waited_ms, (uint64_t)LOOK_MS);
    shell->waited_ms += more_ms;
    uv_timer_start(&shell->grace, on_grace, more_ms, 0);
}

static void kill_all(struct execd_session_shell *shell)
{
    shell->ending = KILLED;
    uv_timer_stop(&shell->grace);
    execd_session_pasts_signal(&shell->pasts, SIGKILL);
    if (shell->bash == NULL)
        close_shell(shell);
    else
        execd_session_bash_kill(shell->bash, true);
}

void execd_session_shell_end(struct execd_session_shell *shell, bool now)
{
    if (shell->ending == KILLED || (shell->ending == TERMINATED && !now))
        return;
    shell->ending = TERMINATED;
    uv_timer_stop(&shell->timeout);
    if (shell->bash != NULL)
        execd_session_bash_resume(shell->bash); /* the end does not wait for a reader */
    if (now || !terminate(shell))
        kill_all(shell);
    else
        wait_for_others(shell);
}

static void on_grace(uv_timer_t *timer)
{
    struct execd_session_shell *shell = timer->data;
    if (!shell->ending)
        stop_step(shell);
    else if (shell->waited_ms < TERMINATE_GRACE_MS && signal_others(shell, 0))
        wait_for_others(shell);
    else
        kill_all(shell);
}

static void on_bash_exit(void *ctx, const struct execd_process_result *exit)
{
    struct execd_session_shell *shell = ctx;
    struct execd_process_result result = *exit;
    shell->bash = NULL;
    if (result.started)
        execd_session_pasts_add(&shell->pasts, shell->bash_pid);
    if (shell->running && !shell->begun && !shell->retried && !shell->ending &&
        shell->stop_signal == 0 && result.started) {
        shell->retried = true; /* the old one died before it began: nothing has happened yet */
        if (start_run(shell, &result.error) == 0)
            return;
        result.started = false;
    }
    if (shell->running)
        end_run(shell, &result);
    if (shell->ending == KILLED)
        close_shell(shell);
}

/* --- the start -------------------------------------------------------------------------------- */

static void on_output(void *ctx, enum execd_output which, const char *bytes, size_t length)
{
    struct execd_session_shell *shell = ctx;
    if (shell->running) /* what background jobs write between runs is nobody's */
        shell->events.on_output(shell->ctx, which, bytes, length);
}

static int start_bash(struct execd_session_shell *shell, struct error *err)
{
    static const struct execd_session_bash_events events = {
        .on_output = on_output,
        .on_begin = on_begin,
        .on_end = on_end,
        .on_state = on_state,
        .on_exit = on_bash_exit,
    };
    struct execd_session_bash_options options = {
        .env = &shell->env,
        .empty = shell->state != NULL,
        /* The state knows the way, if it still exists. */
        .cwd = shell->state != NULL ? "/" : shell->cwd,
        .credentials = shell->has_credentials ? &shell->credentials : NULL,
        .state = shell->state,
        .state_length = shell->state_length,
    };
    shell->bash = execd_session_bash_start(shell->execd, &options, &events, shell, err);
    if (shell->bash == NULL)
        return -1;
    shell->bash_pid = execd_session_bash_pid(shell->bash);
    return 0;
}

/* When bash is ready; its on_state or on_exit comes back to it otherwise. */
static void send_run(struct execd_session_shell *shell)
{
    if (!shell->running || shell->begun || shell->ending ||
        !execd_session_bash_is_ready(shell->bash))
        return;
    execd_session_bash_run(shell->bash, shell->code, shell->run_cwd);
}

static int start_run(struct execd_session_shell *shell, struct error *err)
{
    if (shell->bash == NULL && start_bash(shell, err) < 0)
        return -1;
    send_run(shell);
    return 0;
}

int execd_session_shell_run(struct execd_session_shell *shell, const char *code, const char *cwd,
                            uint64_t timeout_ms, struct error *err)
{
    shell->running = true;
    shell->begun = false;
    shell->retried = false;
    shell->stop_signal = 0;
    shell->start_ns = clock_monotonic_ns();
    shell->code = mem_dup(code);
    shell->run_cwd = mem_dup(cwd);
    if (start_run(shell, err) < 0) {
        forget_run(shell);
        return -1;
    }
    if (timeout_ms > 0)
        uv_timer_start(&shell->timeout, on_timeout, timeout_ms, 0);
    return 0;
}

void execd_session_shell_pause(struct execd_session_shell *shell)
{
    if (shell->bash != NULL && !shell->ending)
        execd_session_bash_pause(shell->bash);
}

void execd_session_shell_resume(struct execd_session_shell *shell)
{
    if (shell->bash != NULL)
        execd_session_bash_resume(shell->bash);
}

const char *execd_session_shell_cwd(const struct execd_session_shell *shell)
{
    return shell->cwd;
}

const struct execd_env *execd_session_shell_env(const struct execd_session_shell *shell)
{
    return &shell->env;
}

struct execd_session_shell *execd_session_shell_new(struct execd *execd, struct execd_env *env,
                                                    const char *cwd,
                                                    const struct execd_credentials *credentials,
                                                    size_t *states,
                                                    const struct execd_session_shell_events *events,
                                                    void *ctx)
{
    struct execd_session_shell *shell = mem_alloc(sizeof(*shell));
    shell->execd = execd;
    shell->events = *events;
    shell->ctx = ctx;
    shell->env = *env;
    execd_env_init(env);
    shell->cwd = mem_dup(cwd);
    shell->has_credentials = credentials != NULL;
    if (credentials != NULL)
        shell->credentials = *credentials;
    shell->states = states;
    uv_timer_init(execd->loop, &shell->timeout);
    uv_timer_init(execd->loop, &shell->grace);
    shell->timeout.data = shell;
    shell->grace.data = shell;
    shell->open_handles = 2;
    return shell;
}
