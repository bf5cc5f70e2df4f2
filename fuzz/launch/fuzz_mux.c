/* The mux between a hostile guest and hostile clients, over socket pairs. The input is a list of steps: the guest sends, a program is started, a client
 * sends, reads or leaves. Whatever they are: a client gets only whole frames of stream 0 that a guest may send, STARTED to EXIT in order, no output
 * beyond its window; the guest gets only whole frames for streams that were started, no input beyond its window; each exec ends once at most; what
 * clients do never ends the session; no descriptor is left. */
#include "base/fd.h"
#include "hold.h"
#include "launch/mux.h"

#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 6 };

struct client {
        int fd;
        bool left, ended, connection; /* ended: EXIT or FAILED was read */
        struct buf in;
        size_t window[2];
};

static struct mux *m;
static int guest;
static struct client clients[CLIENTS];
static size_t client_count;
static unsigned ended_mask, readies;
static struct buf to_guest;
static bool broken;

static void on_ready(void *arg, struct slice notes)
{
        (void)arg;
        HOLDS(notes.n <= PROTO_NOTES_BYTES);
        HOLDS(readies++ == 0);
}

static void on_ended(void *arg, long long id, uint32_t status)
{
        (void)arg, (void)status;
        HOLDS(id >= 0 && id < (long long)client_count && !(ended_mask & 1u << id));
        ended_mask |= 1u << id;
}

static void read_all(int fd, struct buf *out)
{
        uint8_t bytes[8192];
        ssize_t n;

        while ((n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
                HOLDS(buf_add(out, bytes, (size_t)n) == 0);
}

static void check_client(struct client *c)
{
        struct proto_frame f;
        size_t used;
        int rc;

        while ((rc = proto_read(buf_slice(&c->in), &f, &used)) == 1) {
                HOLDS(f.stream == 0 && f.flags == 0 && !c->ended);
                HOLDS(f.type == PROTO_STARTED || f.type == PROTO_FAILED || f.type == PROTO_STDOUT || f.type == PROTO_STDERR || f.type == PROTO_WINDOW || f.type == PROTO_EXIT);
                c->ended = f.type == PROTO_EXIT || f.type == PROTO_FAILED;
                HOLDS(!c->connection || f.type != PROTO_STDERR);
                if (f.type == PROTO_STDOUT || f.type == PROTO_STDERR)
                        c->window[f.type == PROTO_STDERR] += f.payload.n;
                buf_consume(&c->in, used);
        }
        HOLDS(rc == 0);
        HOLDS(c->window[0] <= 2 * PROTO_WINDOW_BYTES && c->window[1] <= 2 * PROTO_WINDOW_BYTES);
}

static void check_guest(void)
{
        struct proto_frame f;
        size_t used;
        int rc;

        while ((rc = proto_read(buf_slice(&to_guest), &f, &used)) == 1) {
                HOLDS(f.stream <= client_count);
                if (f.stream == 0)
                        HOLDS(f.type == PROTO_HELLO || f.type == PROTO_SETUP || f.type == PROTO_SHUTDOWN);
                else
                        HOLDS(f.type == PROTO_EXEC || f.type == PROTO_CONNECT || f.type == PROTO_STDIN || f.type == PROTO_WINDOW || f.type == PROTO_RESIZE || f.type == PROTO_SIGNAL || f.type == PROTO_CLOSE);
                if (f.stream && clients[f.stream - 1].connection)
                        HOLDS(f.type != PROTO_EXEC && f.type != PROTO_RESIZE && f.type != PROTO_SIGNAL);
                buf_consume(&to_guest, used);
        }
        HOLDS(rc == 0);
}

static void turns(void)
{
        static struct pollfd fds[MUX_FDS];
        struct err err = ERR_INIT;

        for (int i = 0; i < 8 && !broken; i++) {
                size_t n = mux_wants(m, fds);

                HOLDS(n <= MUX_FDS);
                if (poll(fds, n, 0) <= 0)
                        break;
                broken = mux_turn(m, fds, n, &err) < 0;
                HOLDS(!broken || err.text[0]);
                read_all(guest, &to_guest);
        }
        check_guest();
}

static void start(bool connection)
{
        static const char *const argv[] = { "/bin/true", NULL };
        struct proto_exec e = { .argv = argv };
        struct err err;
        struct client *c = &clients[client_count];

        if (client_count == CLIENTS || broken)
                return;
        *c = (struct client){ .fd = -1, .connection = connection };
        buf_init(&c->in, 0);
        client_count++;
        if (connection)
                HOLDS(mux_connect(m, (long long)client_count - 1, 8080, &c->fd, &err) == 0);
        else
                HOLDS(mux_exec(m, (long long)client_count - 1, &e, &c->fd, &err) == 0);
}

static void leave(struct client *c)
{
        if (!c->left)
                close(c->fd);
        c->left = true;
}

static void step(struct slice *in)
{
        uint8_t what = fuzz_byte(in), n = fuzz_byte(in);
        struct client *c = client_count ? &clients[(what >> 3) % client_count] : NULL;
        struct slice bytes;

        switch (what & 7) {
        case 0:
        case 1:
        case 2: /* blocking ends: what is sent here fits any socket buffer */
                bytes = fuzz_take(in, n);
                HOLDS(broken || send(guest, bytes.p, bytes.n, MSG_NOSIGNAL) == (ssize_t)bytes.n);
                break;
        case 3:
                start(n & 1);
                break;
        case 4:
        case 5:
                bytes = fuzz_take(in, n);
                if (c && !c->left)
                        (void)!send(c->fd, bytes.p, bytes.n, MSG_NOSIGNAL | MSG_DONTWAIT);
                break;
        case 6:
                if (c && !c->left) {
                        read_all(c->fd, &c->in);
                        check_client(c);
                }
                if (c && n == 1)
                        leave(c);
                break;
        case 7:
                if (n == 1 && !broken)
                        mux_shutdown(m, 100);
                break;
        }
        turns();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static const uint8_t opening[] = { 0, 0, 0, 0, PROTO_HELLO, 0, 4, 0, PROTO_VERSION, 0, 0, 0, 0, 0, 0, 0, PROTO_READY, 0, 0, 0 };
        struct slice in = slice_of(data, n);
        struct mux_events events = { NULL, on_ready, on_ended };
        int pair[2], lowest, after;

        lowest = dup(0);
        HOLDS(lowest >= 0 && close(lowest) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && fd_nonblock(pair[0]) == 0);
        guest = pair[1];
        client_count = 0;
        ended_mask = readies = 0;
        broken = false;
        buf_init(&to_guest, 0);
        m = mux_new(pair[0], events);
        HOLDS(m);
        if (!(fuzz_byte(&in) & 1))
                HOLDS(send(guest, opening, sizeof(opening), MSG_NOSIGNAL) == sizeof(opening));
        turns();
        while (in.n)
                step(&in);
        for (size_t i = 0; i < client_count; i++) {
                if (!clients[i].left) {
                        read_all(clients[i].fd, &clients[i].in);
                        check_client(&clients[i]);
                }
                leave(&clients[i]);
                buf_fini(&clients[i].in);
        }
        mux_free(m);
        close(pair[0]);
        close(pair[1]);
        buf_fini(&to_guest);
        after = dup(0);
        HOLDS(after == lowest && close(after) == 0);
        return 0;
}
