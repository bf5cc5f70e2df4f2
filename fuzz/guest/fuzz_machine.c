/* The guest's state machine under any sequence of frames, with processes that exist only as pipes: process.c is replaced by what stands here. After the input,
 * the invariants: memory within its bounds, every descriptor closed at the end, nothing sent beyond a window. */
#include "guest/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static pid_t next_pid;
static int open_fds;

int process_start(const struct proto_exec *exec, struct process *out, struct process_failure *failure)
{
        int in[2], to[2], err[2], started[2];
        if (exec->argv[0][0] == '!') {
                *failure = (struct process_failure){ .errno_value = EAGAIN, .step = 2 };
                return -1;
        }
        if (pipe2(in, O_NONBLOCK) < 0 || pipe2(to, O_NONBLOCK) < 0 || pipe2(err, O_NONBLOCK) < 0 || pipe2(started, O_NONBLOCK) < 0)
                abort();
        if (exec->argv[0][0] == '?') {
                struct process_failure f = { .errno_value = 2, .step = 7 };
                if (write(started[1], &f, sizeof(f)) < 0)
                        abort();
        }
        for (int i = 0; i < 4 && exec->argv[0][0] == 'o'; i++) {
                static char b[16000];
                if (write(to[1], b, sizeof(b)) < 0 || write(err[1], b, sizeof(b)) < 0)
                        abort();
        }
        close(in[0]);
        close(to[1]);
        close(err[1]);
        close(started[1]);
        *out = (struct process){ .pid = ++next_pid, .started = started[0], .in = in[1], .out = to[0], .err = exec->pty ? -1 : err[0], .slave = -1 };
        if (exec->pty)
                close(err[0]);
        return 0;
}
const char *process_step_text(int step) { return step == 7 ? "cannot run the program" : "no"; }
void process_close(struct process *p)
{
        int *fds[] = { &p->started, &p->in, &p->out, &p->err, &p->slave };
        for (size_t i = 0; i < 5; i++) {
                if (*fds[i] >= 0)
                        close(*fds[i]);
                *fds[i] = -1;
        }
}
/* Port 1 refuses, 2 refuses on IPv4 alone, 3 at the end of the wait, 4 sends at once and ends. */
static int refused;
int process_connect(uint16_t port, bool v6, struct process *out)
{
        int to[2], from[2];
        if (port == 1 || (port == 2 && !v6)) {
                errno = ECONNREFUSED;
                return -1;
        }
        refused = port == 3 ? ECONNREFUSED : 0;
        if (pipe2(to, O_NONBLOCK) < 0 || pipe2(from, O_NONBLOCK) < 0)
                abort();
        if (port == 4 && write(from[1], "hello", 5) < 0)
                abort();
        *out = (struct process){ .pid = -1, .started = dup(to[1]), .in = to[1], .out = from[0], .err = -1, .slave = -1 };
        close(to[0]);
        close(from[1]);
        return 0;
}
int process_connected(const struct process *p)
{
        (void)p;
        return refused;
}
void process_end_input(struct process *p, bool connection)
{
        (void)connection;
        close(p->in);
        p->in = -1;
}
void process_resize(const struct process *p, uint16_t rows, uint16_t cols)
{
        (void)p;
        (void)rows;
        (void)cols;
}
int process_eof_char(const struct process *p) { return p->pid % 2 ? 4 : -1; }
void process_signal(const struct process *p, int number)
{
        (void)p;
        (void)number;
}
int process_signal_session(pid_t pid, int number) { return number == 0 ? (int)(pid % 2) : 1; }
bool process_signal_all(int number)
{
        (void)number;
        return true;
}
int process_reap(pid_t *pid, int *status)
{
        (void)pid;
        (void)status;
        return -1;
}

/* A machine's part: refuses what begins with "!". */
static int machine_set_up(struct slice payload, const char **text)
{
        if (payload.n > GUEST_SETUP_BYTES)
                abort();
        *text = "no";
        return payload.n > 0 && payload.p[0] == '!' ? -1 : 0;
}
static void machine_clock(uint64_t us, const uint8_t *seed)
{
        volatile uint64_t sum = us; /* the seed is read to its end */
        for (size_t i = 0; seed != NULL && i < PROTO_SEED_BYTES; i++)
                sum += seed[i];
}
static const struct guest_machine machine = { machine_set_up, machine_clock };

static enum guest_result one_turn(struct guest *g, int64_t *now_ms)
{
        static struct pollfd fds[GUEST_POLL_FDS];
        int timeout_ms;
        size_t n = guest_wants(g, fds, *now_ms, &timeout_ms);
        int ready;
        if (n > GUEST_POLL_FDS)
                abort();
        while ((ready = poll(fds, n, 0)) < 0 && errno == EINTR) /* the fuzzer's own alarm, every few seconds */
                ;
        if (ready < 0)
                abort();
        *now_ms += timeout_ms > 0 ? timeout_ms : 1;
        enum guest_result r = guest_turn(g, fds, n, *now_ms);
        if (buf_len(&g->out) > GUEST_OUT_BYTES || buf_len(&g->in) > GUEST_IN_BYTES || (r != GUEST_BROKEN && g->out.failed))
                abort();
        return r;
}

/* Input: "h" first: without the opening; "m" first: a machine, without it. Then 0xff b: reap process b or let the host take b * 1 KiB; anything else is length-prefixed bytes of the channel. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct guest g;
        static const uint8_t hello[] = { 0, 0, 0, 0, PROTO_HELLO, 0, 4, 0, PROTO_VERSION, 0, 0, 0, 0, 0, 0, 0, PROTO_SETUP, 0, 0, 0 };
        int64_t now_ms = 1000;
        enum guest_result r = GUEST_GOES_ON;
        signal(SIGPIPE, SIG_IGN); /* as brome-guest's main does */
        struct slice in = slice_of(data, n);
        next_pid = 1;
        if (open_fds == 0)
                open_fds = dup(0);
        else if (dup2(0, open_fds) < 0)
                abort();
        int lowest = dup(0);
        close(lowest);
        bool is_machine = n > 0 && data[0] == 'm';
        if (guest_init(&g, is_machine ? &machine : NULL) < 0 || buf_add(&g.in, hello, is_machine || (n > 0 && data[0] == 'h') ? 0 : sizeof(hello)) < 0)
                abort();
        while (in.n >= 2 && r == GUEST_GOES_ON) {
                uint8_t op = in.p[0], arg = in.p[1];
                in = slice_skip(in, 2);
                if (op == 0xff) {
                        guest_reaped(&g, 2 + arg % 8, arg);
                        size_t take = (size_t)arg * 1024;
                        buf_consume(&g.out, take < buf_len(&g.out) ? take : buf_len(&g.out));
                        g.childless = arg == 7;
                } else {
                        struct slice piece = slice_first(in, arg);
                        piece = slice_first(piece, guest_in_room(&g));
                        if (buf_add_slice(&g.in, piece) < 0)
                                abort();
                        in = slice_skip(in, piece.n);
                }
                r = one_turn(&g, &now_ms);
                if (g.phase == GUEST_READY && g.machine == NULL && buf_len(&g.setup) != 0)
                        abort();
        }
        for (int i = 0; i < 4 && r == GUEST_GOES_ON; i++)
                r = one_turn(&g, &now_ms);
        guest_fini(&g);
        int after = dup(0);
        close(after);
        if (after != lowest) /* a descriptor was left open */
                abort();
        return 0;
}
