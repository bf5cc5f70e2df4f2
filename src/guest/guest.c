/* The state machine of PID 1: see guest.h. One exec is one slot; its state says which frames are legal and which descriptors are watched.
 * A connection is an exec without a process: its socket stands in for the pipes.
 * A turn goes: ready descriptors, then frames, then output of ended programs, then deadlines — in this order, because frames may free a slot
 * whose descriptors the poll has just reported. */
#include "guest/guest.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum wait_kind { WAIT_STARTED, WAIT_IN, WAIT_OUT, WAIT_ERR };

enum { CUT_OFF = 1 << 8 }; /* wait status of a connection that was reset */
static const char connect_text[] = "nothing answers at this port inside";
static const enum proto_type out_type[2] = { PROTO_STDOUT, PROTO_STDERR };

int guest_init(struct guest *g, const struct guest_machine *machine)
{
        *g = (struct guest){ .phase = GUEST_HELLO, .machine = machine };
        buf_init(&g->in, GUEST_IN_BYTES);
        buf_init(&g->out, GUEST_OUT_BYTES);
        buf_init(&g->setup, GUEST_SETUP_BYTES);
        return proto_write_u32(&g->out, 0, PROTO_HELLO, PROTO_VERSION);
}

size_t guest_in_room(const struct guest *g) { return GUEST_IN_BYTES - buf_len(&g->in); }
static bool out_is_full(const struct guest *g) { return buf_len(&g->out) >= GUEST_OUT_HIGH_BYTES; }

/* ---- one exec ---- */

static void exec_free(struct exec *e)
{
        process_close(&e->process);
        buf_fini(&e->bytes);
        *e = (struct exec){ .state = EXEC_FREE };
}

void guest_fini(struct guest *g)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (g->execs[i].state != EXEC_FREE)
                        exec_free(&g->execs[i]);
        buf_fini(&g->in);
        buf_fini(&g->out);
        buf_fini(&g->setup);
}

static int *out_fd(struct exec *e, int which) { return which == 0 ? &e->process.out : &e->process.err; }

static void fd_shut(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

static struct exec *exec_find(struct guest *g, uint32_t stream)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (g->execs[i].state != EXEC_FREE && g->execs[i].state != EXEC_LINGERS && g->execs[i].stream == stream)
                        return &g->execs[i];
        return NULL;
}

static int exec_fail(struct guest *g, struct exec *e, int errno_value, const char *text)
{
        int r = proto_write_failed(&g->out, e->stream, errno_value, text);
        exec_free(e);
        return r;
}

/* Its EXIT has been sent, or nobody wants it: free, or wait for what is left of a closed session. */
static void exec_over(struct exec *e)
{
        if (e->closed && process_signal_session(e->process.pid, 0) > 0) {
                process_close(&e->process);
                e->state = EXEC_LINGERS;
                return;
        }
        exec_free(e);
}

static int exec_exit(struct guest *g, struct exec *e)
{
        int r = proto_write_u32(&g->out, e->stream, PROTO_EXIT, (uint32_t)e->status);
        exec_over(e);
        return r;
}

static void exec_ended(struct exec *e)
{
        e->state = EXEC_ENDED;
        e->drain_bytes[0] = e->drain_bytes[1] = PROTO_DRAIN_BYTES;
        fd_shut(&e->process.in);
        fd_shut(&e->process.slave);
        buf_clear(&e->bytes);
}

/* Both directions have ended? The exec may be gone afterwards. */
static int connection_over(struct guest *g, struct exec *e)
{
        bool over = e->port != 0 && e->process.out < 0 && e->process.in < 0;
        return over ? exec_exit(g, e) : 0;
}

/* Reads once and sends. Closes our end at the end of output, at its limit, or (ended) when nothing is there now. */
static int exec_output(struct guest *g, struct exec *e, int which)
{
        int *fd = out_fd(e, which);
        size_t n = sizeof(g->scratch);
        n = e->window[which] < n ? e->window[which] : n;
        if (e->state == EXEC_ENDED)
                n = e->drain_bytes[which] < n ? e->drain_bytes[which] : n;
        if (*fd < 0 || out_is_full(g) || e->window[which] == 0)
                return 0;
        ssize_t got = n > 0 ? read(*fd, g->scratch, n) : 0;
        if (got < 0 && (errno == EINTR || (errno == EAGAIN && e->state != EXEC_ENDED)))
                return 0;
        if (got <= 0) { /* a terminal whose last holder is gone reads as EIO */
                fd_shut(fd);
                if (got < 0 && e->port != 0) { /* no end that looks whole before it */
                        e->status = CUT_OFF;
                        return exec_exit(g, e);
                }
                return proto_write(&g->out, e->stream, out_type[which], 0, SLICE_EMPTY) < 0 ? -1 : connection_over(g, e);
        }
        e->window[which] -= (uint32_t)got;
        if (e->state == EXEC_ENDED)
                e->drain_bytes[which] -= (uint32_t)got;
        return proto_write(&g->out, e->stream, out_type[which], 0, slice_of(g->scratch, (size_t)got));
}

static int exec_drain(struct guest *g, struct exec *e)
{
        if (exec_output(g, e, 0) < 0 || exec_output(g, e, 1) < 0)
                return -1;
        return e->process.out < 0 && e->process.err < 0 ? exec_exit(g, e) : 0;
}

static int exec_give_window(struct guest *g, struct exec *e, size_t n)
{
        e->consumed += (uint32_t)n;
        if (e->consumed < GUEST_ACK_BYTES)
                return 0;
        n = e->consumed;
        e->consumed = 0;
        return proto_write_window(&g->out, e->stream, (uint32_t)n, PROTO_STDIN);
}

/* All input is written: hang up the pipe, or press the terminal's end-of-file key, twice where a half line waits. */
static void exec_input_end(struct exec *e)
{
        int key = process_eof_char(&e->process);
        if (e->process.slave < 0) {
                process_end_input(&e->process, e->port != 0);
                return;
        }
        e->input_ends = false;
        for (int times = e->line_open ? 2 : 1; key >= 0 && times > 0; times--) {
                uint8_t c = (uint8_t)key;
                if (write(e->process.in, &c, 1) != 1)
                        return;
        }
}

static int exec_input(struct guest *g, struct exec *e)
{
        struct slice s = buf_slice(&e->bytes);
        if (s.n > 0 && e->process.in >= 0) {
                ssize_t n = write(e->process.in, s.p, s.n);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return 0;
                if (n > 0) {
                        e->line_open = s.p[n - 1] != '\n';
                        buf_consume(&e->bytes, (size_t)n);
                        if (exec_give_window(g, e, (size_t)n) < 0)
                                return -1;
                } else {
                        fd_shut(&e->process.in); /* the program reads no more: swallow the rest */
                }
        }
        if (e->process.in < 0 && buf_len(&e->bytes) > 0) {
                size_t rest = buf_len(&e->bytes);
                buf_clear(&e->bytes);
                return exec_give_window(g, e, rest);
        }
        if (buf_len(&e->bytes) == 0 && e->input_ends && e->process.in >= 0)
                exec_input_end(e);
        return connection_over(g, e);
}

/* ---- a connection ---- */

static int connection_begin(struct guest *g, struct exec *e)
{
        if (process_connect(e->port, e->v6, &e->process) == 0)
                return 0;
        if (e->v6 || errno != ECONNREFUSED)
                return exec_fail(g, e, errno, connect_text);
        e->v6 = true;
        return connection_begin(g, e);
}

static int connection_decided(struct guest *g, struct exec *e)
{
        int why = process_connected(&e->process);
        if (why == ECONNREFUSED && !e->v6) {
                process_close(&e->process);
                e->v6 = true;
                return connection_begin(g, e);
        }
        if (why != 0)
                return exec_fail(g, e, why, connect_text);
        fd_shut(&e->process.started);
        e->state = EXEC_RUNNING;
        e->kill_at_ms = 0;
        return proto_write_u32(&g->out, e->stream, PROTO_STARTED, 0) < 0 ? -1 : exec_input(g, e);
}

static int exec_started(struct guest *g, struct exec *e)
{
        struct process_failure f;
        if (e->port != 0)
                return connection_decided(g, e);
        ssize_t n = read(e->process.started, &f, sizeof(f));
        if (n < 0 && errno == EINTR)
                return 0;
        fd_shut(&e->process.started);
        if (n == (ssize_t)sizeof(f)) {
                if (!e->closed)
                        return exec_fail(g, e, f.errno_value, process_step_text(f.step));
                exec_free(e);
                return 0;
        }
        e->state = EXEC_RUNNING;
        if (!e->closed && proto_write_u32(&g->out, e->stream, PROTO_STARTED, (uint32_t)e->process.pid) < 0)
                return -1;
        if (e->reaped)
                exec_ended(e);
        return e->reaped ? 0 : exec_input(g, e);
}

static void exec_close(struct exec *e, int64_t now_ms)
{
        if (e->state == EXEC_PIECES) {
                exec_free(e);
                return;
        }
        e->closed = true;
        e->kill_at_ms = now_ms + GUEST_CLOSE_GRACE_MS;
        process_signal_session(e->process.pid, SIGHUP);
        process_signal_session(e->process.pid, SIGCONT);
        fd_shut(&e->process.in);
        fd_shut(&e->process.out);
        fd_shut(&e->process.err);
        fd_shut(&e->process.slave);
        buf_clear(&e->bytes);
}

void guest_reaped(struct guest *g, pid_t pid, int status)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++) {
                struct exec *e = &g->execs[i];
                if ((e->state != EXEC_STARTING && e->state != EXEC_RUNNING) || e->process.pid != pid || e->reaped)
                        continue;
                e->reaped = true;
                e->status = status;
                if (e->state == EXEC_RUNNING)
                        exec_ended(e);
                return;
        }
}

/* ---- frames ---- */

static int exec_start(struct guest *g, struct exec *e)
{
        struct proto_exec request;
        struct process_failure failure;
        void *block;
        if (proto_exec_read(buf_slice(&e->bytes), &request, &block) < 0)
                return exec_fail(g, e, EINVAL, "the request is malformed");
        int r = process_start(&request, &e->process, &failure);
        free(block);
        if (r < 0)
                return exec_fail(g, e, failure.errno_value, process_step_text(failure.step));
        buf_fini(&e->bytes);
        buf_init(&e->bytes, PROTO_WINDOW_BYTES);
        e->state = EXEC_STARTING;
        e->window[0] = e->window[1] = PROTO_WINDOW_BYTES;
        g->childless = false;
        return 0;
}

/* A slot for a new stream; numbers only go up, so that one that has ended cannot come back. 1: *out; 0: ended already, or refused; -1. */
static int new_stream(struct guest *g, uint32_t stream, struct exec **out)
{
        struct exec *e = NULL;
        if (stream <= g->last_stream)
                return 0;
        g->last_stream = stream;
        for (size_t i = 0; i < PROTO_STREAMS && e == NULL; i++)
                if (g->execs[i].state == EXEC_FREE)
                        e = &g->execs[i];
        if (e == NULL)
                return proto_write_failed(&g->out, stream, EAGAIN, "too many programs at once");
        if (g->phase == GUEST_STOPS)
                return proto_write_failed(&g->out, stream, ESHUTDOWN, "the workspace is stopping");
        *e = (struct exec){ .state = EXEC_PIECES, .stream = stream, .process = PROCESS_NONE };
        *out = e;
        return 1;
}

static int frame_connect(struct guest *g, struct exec *e, const struct proto_frame *f, int64_t now_ms)
{
        uint16_t port;
        if (e != NULL || proto_get_connect(f->payload, &port) < 0)
                return -1;
        int r = new_stream(g, f->stream, &e);
        if (r <= 0)
                return r;
        buf_init(&e->bytes, PROTO_WINDOW_BYTES);
        e->state = EXEC_STARTING;
        e->port = port;
        e->window[0] = PROTO_WINDOW_BYTES;
        e->kill_at_ms = now_ms + GUEST_CONNECT_MS;
        return connection_begin(g, e);
}

static int frame_exec(struct guest *g, struct exec *e, const struct proto_frame *f)
{
        if (e == NULL) {
                int r = new_stream(g, f->stream, &e);
                if (r <= 0)
                        return r;
                buf_init(&e->bytes, PROTO_EXEC_BYTES);
        }
        if (e->state != EXEC_PIECES)
                return -1;
        if (buf_add_slice(&e->bytes, f->payload) < 0)
                return exec_fail(g, e, E2BIG, "the request is too large");
        return f->flags & PROTO_LAST_PIECE ? exec_start(g, e) : 0;
}

static int frame_stdin(struct guest *g, struct exec *e, const struct proto_frame *f)
{
        if (e->closed || e->reaped || e->input_ends)
                return 0;
        if (f->payload.n > PROTO_WINDOW_BYTES - e->consumed - buf_len(&e->bytes) || buf_add_slice(&e->bytes, f->payload) < 0)
                return -1; /* beyond its window */
        e->input_ends = f->payload.n == 0;
        return e->state == EXEC_RUNNING ? exec_input(g, e) : 0;
}

static int frame_window(struct exec *e, const struct proto_frame *f)
{
        uint32_t bytes;
        enum proto_type which;
        if (proto_get_window(f->payload, &bytes, &which) < 0 || which == PROTO_STDIN || (which == PROTO_STDERR && e->port != 0))
                return -1;
        uint32_t *window = &e->window[which == PROTO_STDERR];
        if (bytes > PROTO_WINDOW_BYTES - *window)
                return -1;
        *window += bytes;
        return 0;
}

static int frame_small(struct exec *e, const struct proto_frame *f)
{
        uint16_t rows, cols;
        uint32_t number;
        if (e->port != 0) /* nobody there to take it */
                return -1;
        if (f->type == PROTO_RESIZE) {
                if (proto_get_resize(f->payload, &rows, &cols) < 0)
                        return -1;
                if (!e->closed)
                        process_resize(&e->process, rows, cols);
                return 0;
        }
        if (proto_get_u32(f->payload, &number) < 0)
                return -1;
        if (number > 0 && number < NSIG && !e->reaped && !e->closed)
                process_signal(&e->process, (int)number);
        return 0;
}

static int frame_of_exec(struct guest *g, const struct proto_frame *f, int64_t now_ms)
{
        struct exec *e = exec_find(g, f->stream);
        if (g->phase != GUEST_READY && g->phase != GUEST_STOPS)
                return -1;
        if (f->type == PROTO_EXEC)
                return frame_exec(g, e, f);
        if (f->type == PROTO_CONNECT)
                return frame_connect(g, e, f, now_ms);
        if (e == NULL)
                return f->stream <= g->last_stream ? 0 : -1; /* over, or never opened */
        if (f->type == PROTO_CLOSE) {
                if (f->payload.n != 0)
                        return -1;
                if (e->port != 0)
                        return exec_exit(g, e);
                if (!e->closed)
                        exec_close(e, now_ms);
                return 0;
        }
        if (e->state == EXEC_PIECES)
                return -1;
        switch ((int)f->type) {
        case PROTO_STDIN:
                return frame_stdin(g, e, f);
        case PROTO_WINDOW:
                return frame_window(e, f);
        case PROTO_RESIZE:
        case PROTO_SIGNAL:
                return frame_small(e, f);
        default:
                return -1;
        }
}

static void signal_everyone(struct guest *g, int number)
{
        if (process_signal_all(number))
                return;
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                process_signal_session(g->execs[i].process.pid, number);
}

static int guest_stop(struct guest *g, const struct proto_frame *f, int64_t now_ms)
{
        uint32_t grace_ms;
        if (proto_get_u32(f->payload, &grace_ms) < 0 || (g->phase != GUEST_READY && g->phase != GUEST_STOPS))
                return -1;
        if (grace_ms > GUEST_SHUTDOWN_MAX_MS)
                grace_ms = GUEST_SHUTDOWN_MAX_MS;
        g->phase = GUEST_STOPS;
        g->kill_at_ms = now_ms + grace_ms;
        g->hang_up_at_ms = now_ms + grace_ms / 2; /* a shell at its prompt ignores TERM, but not this */
        signal_everyone(g, SIGTERM);
        signal_everyone(g, SIGCONT); /* a stopped program hears nothing */
        return 0;
}

static int guest_clock(struct guest *g, const struct proto_frame *f)
{
        uint64_t us;
        const uint8_t *seed;
        if (g->phase != GUEST_READY || proto_get_clock(f->payload, &us, &seed) < 0)
                return -1;
        if (g->machine != NULL)
                g->machine->clock(us, seed);
        return 0;
}

static int guest_set_up(struct guest *g, const struct proto_frame *f, int64_t now_ms)
{
        const char *text = "the set-up message is too long";
        if (g->phase != GUEST_SETUP || (g->machine == NULL && f->payload.n != 0)) /* nothing to set up in a namespace */
                return -1;
        int r = buf_add_slice(&g->setup, f->payload);
        if (r == 0 && g->machine != NULL && !(f->flags & PROTO_LAST_PIECE))
                return 0;
        if (r == 0 && g->machine != NULL)
                r = g->machine->set_up(buf_slice(&g->setup), &text);
        buf_clear(&g->setup);
        g->phase = r < 0 ? GUEST_FAILS : GUEST_READY;
        g->leave_at_ms = now_ms + GUEST_FLUSH_MS;
        return r < 0 ? proto_write_failed(&g->out, 0, EINVAL, text)
                     : proto_write(&g->out, 0, PROTO_READY, 0, g->machine != NULL ? slice_first(slice_str(text), PROTO_NOTES_BYTES) : SLICE_EMPTY);
}

static int frame_of_guest(struct guest *g, const struct proto_frame *f, int64_t now_ms)
{
        uint32_t version;
        switch ((int)f->type) {
        case PROTO_HELLO:
                if (g->phase != GUEST_HELLO || proto_get_u32(f->payload, &version) < 0 || version != PROTO_VERSION)
                        return -1;
                g->phase = GUEST_SETUP;
                return 0;
        case PROTO_CLOSE:
                if (g->machine == NULL || f->payload.n != 0)
                        return -1;
                g->knocked = g->phase != GUEST_STOPS;
                return 0;
        case PROTO_SETUP:
                return guest_set_up(g, f, now_ms);
        case PROTO_SHUTDOWN:
                return guest_stop(g, f, now_ms);
        case PROTO_CLOCK:
                return guest_clock(g, f);
        default:
                return -1;
        }
}

static int guest_frames(struct guest *g, int64_t now_ms)
{
        struct proto_frame f;
        size_t used;
        int r = 1;
        while (g->phase != GUEST_FAILS && !g->knocked && !out_is_full(g) && (r = proto_read(buf_slice(&g->in), &f, &used)) == 1) {
                if ((f.stream == 0 ? frame_of_guest(g, &f, now_ms) : frame_of_exec(g, &f, now_ms)) < 0)
                        return -1;
                buf_consume(&g->in, used);
        }
        return r < 0 ? -1 : 0;
}

/* ---- turns ---- */

static void want(struct guest *g, struct pollfd *fds, size_t *n, size_t exec, enum wait_kind which, int fd, short events)
{
        fds[*n] = (struct pollfd){ .fd = fd, .events = events };
        g->waits[*n] = (struct guest_wait){ .exec = (uint16_t)exec, .which = (uint8_t)which };
        (*n)++;
}

static void sooner(int *timeout_ms, int64_t at_ms, int64_t now_ms)
{
        if (at_ms == 0)
                return;
        int64_t left = at_ms > now_ms ? at_ms - now_ms : 0;
        if (*timeout_ms < 0 || left < *timeout_ms)
                *timeout_ms = (int)left;
}

static bool may_output(struct guest *g, struct exec *e, int which) { return *out_fd(e, which) >= 0 && e->window[which] > 0 && !out_is_full(g); }

size_t guest_wants(struct guest *g, struct pollfd *fds, int64_t now_ms, int *timeout_ms)
{
        size_t n = 0;
        *timeout_ms = -1;
        if (g->phase == GUEST_FAILS)
                sooner(timeout_ms, buf_len(&g->out) == 0 ? now_ms : g->leave_at_ms, now_ms);
        if (g->phase == GUEST_STOPS) {
                sooner(timeout_ms, g->hang_up_at_ms, now_ms);
                sooner(timeout_ms, g->kill_at_ms, now_ms);
                sooner(timeout_ms, g->childless && g->leave_at_ms == 0 ? now_ms : g->leave_at_ms, now_ms);
        }
        for (size_t i = 0; i < PROTO_STREAMS; i++) {
                struct exec *e = &g->execs[i];
                if (e->state == EXEC_FREE || e->state == EXEC_PIECES)
                        continue;
                sooner(timeout_ms, e->kill_at_ms, now_ms);
                if (e->state == EXEC_ENDED && (may_output(g, e, 0) || may_output(g, e, 1)))
                        *timeout_ms = 0;
                if (e->state == EXEC_STARTING && e->process.started >= 0)
                        want(g, fds, &n, i, WAIT_STARTED, e->process.started, e->port != 0 ? POLLOUT : POLLIN);
                if (e->state != EXEC_RUNNING)
                        continue;
                if (e->process.in >= 0 && buf_len(&e->bytes) > 0 && !out_is_full(g))
                        want(g, fds, &n, i, WAIT_IN, e->process.in, POLLOUT);
                if (may_output(g, e, 0))
                        want(g, fds, &n, i, WAIT_OUT, e->process.out, POLLIN);
                if (may_output(g, e, 1))
                        want(g, fds, &n, i, WAIT_ERR, e->process.err, POLLIN);
        }
        return n;
}

static int exec_ready(struct guest *g, struct exec *e, enum wait_kind which, int fd)
{
        if (which == WAIT_STARTED)
                return e->state == EXEC_STARTING && e->process.started == fd ? exec_started(g, e) : 0;
        if (e->state != EXEC_RUNNING)
                return 0;
        if (which == WAIT_IN)
                return e->process.in == fd ? exec_input(g, e) : 0;
        int out = which == WAIT_ERR;
        return *out_fd(e, out) == fd ? exec_output(g, e, out) : 0;
}

static int exec_deadlines(struct guest *g, struct exec *e, int64_t now_ms)
{
        if (e->state == EXEC_ENDED && exec_drain(g, e) < 0)
                return -1;
        if (e->kill_at_ms == 0 || now_ms < e->kill_at_ms)
                return 0;
        if (e->port != 0)
                return exec_fail(g, e, ETIMEDOUT, connect_text);
        process_signal_session(e->process.pid, SIGKILL);
        if (e->state == EXEC_LINGERS)
                exec_free(e);
        else
                e->kill_at_ms = now_ms + GUEST_CLOSE_GRACE_MS; /* what cannot be killed now, later */
        return 0;
}

static enum guest_result guest_stopping(struct guest *g, int64_t now_ms)
{
        bool busy = false;
        if (g->hang_up_at_ms != 0 && now_ms >= g->hang_up_at_ms) {
                signal_everyone(g, SIGHUP);
                g->hang_up_at_ms = 0;
        }
        if (g->kill_at_ms != 0 && now_ms >= g->kill_at_ms) {
                signal_everyone(g, SIGKILL);
                g->kill_at_ms = g->childless ? 0 : now_ms + GUEST_CLOSE_GRACE_MS;
        }
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                busy = busy || (g->execs[i].state != EXEC_FREE && g->execs[i].port == 0 && g->execs[i].state != EXEC_LINGERS && g->execs[i].state != EXEC_PIECES);
        if (!g->childless)
                return GUEST_GOES_ON;
        if (g->leave_at_ms == 0)
                g->leave_at_ms = now_ms + GUEST_FLUSH_MS;
        return (!busy && buf_len(&g->out) == 0) || now_ms >= g->leave_at_ms ? GUEST_ENDS : GUEST_GOES_ON;
}

enum guest_result guest_turn(struct guest *g, const struct pollfd *fds, size_t count, int64_t now_ms)
{
        for (size_t i = 0; i < count; i++)
                if (fds[i].revents != 0 && exec_ready(g, &g->execs[g->waits[i].exec], (enum wait_kind)g->waits[i].which, fds[i].fd) < 0)
                        return GUEST_BROKEN;
        if (guest_frames(g, now_ms) < 0)
                return GUEST_BROKEN;
        if (g->knocked)
                return GUEST_KNOCKED;
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (g->execs[i].state != EXEC_FREE && exec_deadlines(g, &g->execs[i], now_ms) < 0)
                        return GUEST_BROKEN;
        if (g->phase == GUEST_FAILS)
                return buf_len(&g->out) == 0 || now_ms >= g->leave_at_ms ? GUEST_ENDS : GUEST_GOES_ON;
        return g->phase == GUEST_STOPS ? guest_stopping(g, now_ms) : GUEST_GOES_ON;
}
