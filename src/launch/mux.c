/* The mux: see mux.h. */
#include "launch/mux.h"
#include "base/esc.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum stream_state {
        STREAM_FREE,
        STREAM_OPEN,   /* both sides are there */
        STREAM_ORPHAN, /* the client left and the guest was told; until the guest's EXIT or FAILED */
        STREAM_ENDS,   /* the guest has ended it; what waits is sent to the client, then its socket is closed */
};
enum { TO_STDOUT, TO_STDERR, OUTPUTS };

struct stream {
        enum stream_state state;
        bool connection; /* no program: no errors' stream, no terminal, no signals */
        uint32_t number;
        long long id;
        int client;
        struct buf in, out;              /* from, to the client */
        uint32_t unacked[OUTPUTS];       /* output that the client has not yet given back */
        bool output_ended[OUTPUTS];
        bool started;
        uint32_t unacked_in;             /* input that the guest has not yet given back */
};

struct mux {
        int guest;
        struct mux_events events;
        struct buf in, out;
        struct buf setup; /* payload of SETUP */
        bool hello, ready, ended;
        uint32_t version; /* the guest's, if it is not ours */
        uint32_t last;
        struct stream streams[PROTO_STREAMS];
        uint16_t polled[MUX_FDS]; /* beside the descriptors: which stream */
};

struct mux *mux_new(int guest_fd, struct mux_events events)
{
        struct mux *m = calloc(1, sizeof(*m));

        if (!m)
                return NULL;
        m->guest = guest_fd;
        m->events = events;
        buf_init(&m->in, 0);
        buf_init(&m->out, MUX_GUEST_OUT_BYTES);
        buf_init(&m->setup, 0);
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                m->streams[i].client = -1;
        return m;
}

int mux_setup(struct mux *m, struct slice payload) { return buf_add_slice(&m->setup, payload); }

static void stream_free(struct stream *s)
{
        fd_close(&s->client);
        buf_fini(&s->in);
        buf_fini(&s->out);
        *s = (struct stream){ .client = -1 };
}

void mux_free(struct mux *m)
{
        if (!m)
                return;
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (m->streams[i].state != STREAM_FREE)
                        stream_free(&m->streams[i]);
        buf_fini(&m->in);
        buf_fini(&m->out);
        buf_fini(&m->setup);
        free(m);
}

static struct stream *stream_find(struct mux *m, uint32_t number)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (m->streams[i].state != STREAM_FREE && m->streams[i].number == number)
                        return &m->streams[i];
        return NULL;
}

/* The client left, or broke the rules: the program inside is hung up. */
static void client_gone(struct mux *m, struct stream *s)
{
        if (s->state == STREAM_ENDS) {
                stream_free(s);
                return;
        }
        fd_close(&s->client);
        buf_clear(&s->in);
        buf_clear(&s->out);
        s->state = STREAM_ORPHAN;
        /* A full buffer is sticky and ends the session in mux_turn. */
        (void)!proto_write(&m->out, s->number, PROTO_CLOSE, 0, SLICE_EMPTY);
}

/* The next stream, with `request` (its first frames) on the way to the guest. */
static int stream_begin(struct mux *m, long long id, bool connection, struct slice request, int *client_fd, struct err *err)
{
        struct stream *s = NULL;
        int pair[2];

        for (size_t i = 0; i < PROTO_STREAMS && !s; i++)
                if (m->streams[i].state == STREAM_FREE)
                        s = &m->streams[i];
        if (!s)
                return err_set(err, "%d programs run in this workspace already; end some", PROTO_STREAMS);
        if (buf_len(&m->out) > MUX_GUEST_OUT_HIGH_BYTES || m->last == UINT32_MAX)
                return err_set(err, "the workspace does not answer; stop it and start it again");
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
                return err_sys(err, errno, "socketpair");
        if (buf_add_slice(&m->out, request) < 0) {
                fd_close(&pair[0]);
                fd_close(&pair[1]);
                return err_set(err, "out of memory");
        }
        *s = (struct stream){ .state = STREAM_OPEN, .connection = connection, .number = ++m->last, .id = id, .client = pair[0] };
        buf_init(&s->in, 0);
        buf_init(&s->out, MUX_CLIENT_OUT_BYTES);
        *client_fd = pair[1];
        return 0;
}

int mux_exec(struct mux *m, long long id, const struct proto_exec *exec, int *client_fd, struct err *err)
{
        struct buf request;
        int rc;

        buf_init(&request, 0);
        if (proto_exec_write(&request, m->last + 1, exec) < 0)
                rc = err_set(err, "arguments and environment are too large (%d bytes, %d strings at most)", PROTO_EXEC_BYTES, PROTO_EXEC_STRINGS);
        else
                rc = stream_begin(m, id, false, buf_slice(&request), client_fd, err);
        buf_fini(&request);
        return rc;
}

int mux_connect(struct mux *m, long long id, uint16_t port, int *client_fd, struct err *err)
{
        struct buf request;
        size_t open = 0;
        int rc;

        for (size_t i = 0; i < PROTO_STREAMS; i++)
                open += m->streams[i].state != STREAM_FREE && m->streams[i].connection;
        if (open >= MUX_CONNECTIONS)
                return err_set(err, "%d connections into this workspace are open already; close some", MUX_CONNECTIONS);
        buf_init(&request, 0);
        rc = proto_write_connect(&request, m->last + 1, port) < 0 ? err_set(err, "out of memory") : stream_begin(m, id, true, buf_slice(&request), client_fd, err);
        buf_fini(&request);
        return rc;
}

void mux_shutdown(struct mux *m, uint32_t grace_ms) { (void)!proto_write_u32(&m->out, 0, PROTO_SHUTDOWN, grace_ms); }

void mux_clock(struct mux *m, int64_t now_us, const uint8_t seed[PROTO_SEED_BYTES])
{
        uint8_t payload[8 + PROTO_SEED_BYTES];

        if (!m->ready)
                return; /* SETUP has the time */
        for (size_t i = 0; i < 8; i++)
                payload[i] = (uint8_t)((uint64_t)now_us >> 8 * i);
        memcpy(payload + 8, seed, PROTO_SEED_BYTES);
        (void)!proto_write(&m->out, 0, PROTO_CLOCK, 0, slice_of(payload, sizeof(payload)));
}

/* One frame from a client. False: not a frame that a client may send. */
static bool client_frame(struct mux *m, struct stream *s, const struct proto_frame *f)
{
        enum proto_type which;
        uint32_t bytes;

        if (f->stream != 0 || f->flags != 0)
                return false;
        switch (f->type) {
        case PROTO_STDIN:
                if (f->payload.n > PROTO_WINDOW_BYTES - s->unacked_in)
                        return false;
                s->unacked_in += (uint32_t)f->payload.n;
                break;
        case PROTO_WINDOW:
                if (proto_get_window(f->payload, &bytes, &which) < 0 || (which != PROTO_STDOUT && which != PROTO_STDERR) || bytes == 0 ||
                    bytes > s->unacked[which == PROTO_STDERR])
                        return false;
                s->unacked[which == PROTO_STDERR] -= bytes;
                break;
        case PROTO_RESIZE:
        case PROTO_SIGNAL:
                if (s->connection)
                        return false;
                break;
        case PROTO_CLOSE:
                client_gone(m, s);
                return true;
        case PROTO_HELLO: case PROTO_SETUP: case PROTO_READY: case PROTO_EXEC: case PROTO_STARTED: case PROTO_FAILED: case PROTO_STDOUT:
        case PROTO_STDERR: case PROTO_EXIT: case PROTO_SHUTDOWN: case PROTO_CLOCK: case PROTO_CONNECT: case PROTO_TYPE_COUNT:
        default:
                return false;
        }
        return proto_write(&m->out, s->number, f->type, 0, f->payload) == 0;
}

static void client_read(struct mux *m, struct stream *s)
{
        uint8_t *to = buf_reserve(&s->in, MUX_READ_BYTES);
        ssize_t n = to ? read(s->client, to, MUX_READ_BYTES) : -1;
        struct proto_frame f;
        size_t used;
        int rc = 0;

        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
                return;
        if (n <= 0) {
                client_gone(m, s);
                return;
        }
        buf_commit(&s->in, (size_t)n);
        /* Ended by the guest: what the client still says is drained, not judged. */
        if (s->state == STREAM_ENDS) {
                buf_clear(&s->in);
                return;
        }
        while (s->state == STREAM_OPEN && (rc = proto_read(buf_slice(&s->in), &f, &used)) == 1) {
                if (!client_frame(m, s, &f)) {
                        client_gone(m, s);
                        return;
                }
                if (s->state == STREAM_OPEN)
                        buf_consume(&s->in, used);
        }
        if (rc < 0)
                client_gone(m, s);
}

static void client_write(struct mux *m, struct stream *s)
{
        struct slice out = buf_slice(&s->out);
        ssize_t n = out.n ? send(s->client, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return;
        if (n < 0) {
                client_gone(m, s);
                return;
        }
        buf_consume(&s->out, (size_t)n);
        if (s->state == STREAM_ENDS && buf_len(&s->out) == 0)
                stream_free(s);
}

/* Output from the guest: inside its window, and nothing after its end. */
static bool output_allowed(struct stream *s, const struct proto_frame *f)
{
        int which = f->type == PROTO_STDERR ? TO_STDERR : TO_STDOUT;

        if (s->output_ended[which] || f->payload.n > PROTO_WINDOW_BYTES - s->unacked[which])
                return false;
        s->unacked[which] += (uint32_t)f->payload.n;
        s->output_ended[which] = f->payload.n == 0;
        return true;
}

static bool input_given_back(struct stream *s, const struct proto_frame *f)
{
        enum proto_type which;
        uint32_t bytes;

        if (proto_get_window(f->payload, &bytes, &which) < 0 || which != PROTO_STDIN || bytes == 0 || bytes > s->unacked_in)
                return false;
        s->unacked_in -= bytes;
        return true;
}

static void stream_ended(struct mux *m, struct stream *s, uint32_t status)
{
        long long id = s->id;

        if (s->state == STREAM_ORPHAN) {
                stream_free(s);
        } else {
                s->state = STREAM_ENDS;
                client_write(m, s);
        }
        m->events.ended(m->events.arg, id, status);
}

static bool stream_frame(struct mux *m, struct stream *s, const struct proto_frame *f)
{
        uint32_t value = 0;
        struct slice text;
        bool good = s->state != STREAM_ENDS && f->flags == 0;

        switch (f->type) {
        case PROTO_STARTED:
                /* Once: frames that no window counts could otherwise go on for ever. */
                good = good && !s->started && proto_get_u32(f->payload, &value) == 0;
                s->started = true;
                break;
        case PROTO_FAILED:
                good = good && proto_get_failed(f->payload, &value, &text) == 0;
                value = 127u << 8;
                break;
        case PROTO_STDOUT:
        case PROTO_STDERR:
                /* An orphan's window is given back by nobody; its output is dropped. */
                good = good && !(s->connection && f->type == PROTO_STDERR) && (s->state == STREAM_ORPHAN || output_allowed(s, f));
                break;
        case PROTO_WINDOW:
                good = good && input_given_back(s, f);
                break;
        case PROTO_EXIT:
                good = good && proto_get_u32(f->payload, &value) == 0;
                break;
        case PROTO_HELLO: case PROTO_SETUP: case PROTO_READY: case PROTO_EXEC: case PROTO_STDIN: case PROTO_RESIZE: case PROTO_SIGNAL:
        case PROTO_CLOSE: case PROTO_SHUTDOWN: case PROTO_CLOCK: case PROTO_CONNECT: case PROTO_TYPE_COUNT:
        default:
                return false;
        }
        if (!good || (s->state == STREAM_OPEN && proto_write(&s->out, 0, f->type, 0, f->payload) < 0))
                return false;
        if (f->type == PROTO_EXIT || f->type == PROTO_FAILED)
                stream_ended(m, s, value);
        return true;
}

/* In as many pieces as it takes, one at least. */
static bool write_setup(struct mux *m)
{
        struct slice rest = buf_slice(&m->setup);

        for (;;) {
                struct slice piece = slice_first(rest, PROTO_PAYLOAD_BYTES);

                rest = slice_skip(rest, piece.n);
                if (proto_write(&m->out, 0, PROTO_SETUP, rest.n ? 0 : PROTO_LAST_PIECE, piece) < 0)
                        return false;
                if (rest.n == 0)
                        return true;
        }
}

static bool guest_frame(struct mux *m, const struct proto_frame *f)
{
        struct stream *s;
        uint32_t version = 0;

        if (f->stream == 0) {
                if (f->type == PROTO_HELLO && !m->hello && proto_get_u32(f->payload, &version) == 0) {
                        m->version = version;
                        if (version != PROTO_VERSION)
                                return false;
                        m->hello = true;
                        return proto_write_u32(&m->out, 0, PROTO_HELLO, PROTO_VERSION) == 0 && write_setup(m);
                }
                if (f->type != PROTO_READY || f->payload.n > PROTO_NOTES_BYTES || !m->hello || m->ready)
                        return false;
                m->ready = true;
                m->events.ready(m->events.arg, f->payload);
                return true;
        }
        if (!m->ready || f->stream > m->last)
                return false;
        s = stream_find(m, f->stream);
        return !s || stream_frame(m, s, f); /* one that has ended: under way when it did */
}

/* A machine that could not be set up says why, instead of READY, and ends: the sentence is its own. */
static bool guest_gave_up(const struct mux *m, const struct proto_frame *f, struct err *err)
{
        uint32_t number;
        struct slice text;

        if (f->stream != 0 || f->type != PROTO_FAILED || !m->hello || m->ready || proto_get_failed(f->payload, &number, &text) < 0)
                return false;
        err_set(err, "the workspace could not be set up inside: %s", esc(text));
        return true;
}

static int guest_read(struct mux *m, struct err *err)
{
        uint8_t *to = buf_reserve(&m->in, MUX_READ_BYTES);
        ssize_t n = to ? read(m->guest, to, MUX_READ_BYTES) : -1;
        struct proto_frame f;
        size_t used;
        int rc;

        if (n < 0 && to && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) {
                m->ended = true;
                return err_set(err, "the guest's channel ended");
        }
        buf_commit(&m->in, (size_t)n);
        while ((rc = proto_read(buf_slice(&m->in), &f, &used)) == 1) {
                if (guest_gave_up(m, &f, err))
                        return -1;
                if (!guest_frame(m, &f))
                        return !m->hello && m->version
                                       ? err_set(err, "the guest speaks version %u of its protocol, not %d: an image of another brome is made anew with `brome image build`", m->version, PROTO_VERSION)
                                       : err_set(err, "the guest broke its protocol (frame type %d)", (int)f.type);
                buf_consume(&m->in, used);
        }
        return rc < 0 ? err_set(err, "the guest broke its protocol") : 0;
}

static int guest_write(struct mux *m, struct err *err)
{
        struct slice out = buf_slice(&m->out);
        ssize_t n = out.n ? send(m->guest, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n < 0 && errno != EAGAIN && errno != EINTR)
                return err_set(err, "the guest's channel ended");
        if (n > 0)
                buf_consume(&m->out, (size_t)n);
        return 0;
}

size_t mux_wants(struct mux *m, struct pollfd *fds)
{
        bool may_read = buf_len(&m->out) <= MUX_GUEST_OUT_HIGH_BYTES;
        size_t n = 1;

        fds[0] = (struct pollfd){ .fd = m->guest, .events = (short)(POLLIN | (buf_len(&m->out) ? POLLOUT : 0)) };
        for (size_t i = 0; i < PROTO_STREAMS; i++) {
                const struct stream *s = &m->streams[i];
                if (s->client < 0)
                        continue;
                m->polled[n] = (uint16_t)i;
                fds[n++] = (struct pollfd){ .fd = s->client, .events = (short)((may_read ? POLLIN : 0) | (buf_len(&s->out) ? POLLOUT : 0)) };
        }
        return n;
}

int mux_turn(struct mux *m, const struct pollfd *fds, size_t count, struct err *err)
{
        for (size_t i = 1; i < count; i++) {
                struct stream *s = &m->streams[m->polled[i]];
                if ((fds[i].revents & POLLOUT) && s->client == fds[i].fd)
                        client_write(m, s);
                if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) && s->client == fds[i].fd)
                        client_read(m, s);
        }
        if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) && guest_read(m, err) < 0)
                return -1;
        /* At once, without another round through poll: this is a key stroke's way. */
        if (m->guest >= 0 && buf_len(&m->out) && guest_write(m, err) < 0)
                return -1;
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (m->streams[i].client >= 0 && buf_len(&m->streams[i].out))
                        client_write(m, &m->streams[i]);
        return m->out.failed ? err_set(err, "the guest has stopped reading its channel") : 0;
}

void mux_guest_gone(struct mux *m)
{
        m->guest = -1;
        buf_clear(&m->out);
}

bool mux_channel_ended(const struct mux *m) { return m->ended; }

bool mux_greeted(const struct mux *m) { return m->hello; }

bool mux_guest_is_gone(const struct mux *m) { return m->guest < 0; }

bool mux_idle(const struct mux *m)
{
        for (size_t i = 0; i < PROTO_STREAMS; i++)
                if (m->streams[i].client >= 0 && buf_len(&m->streams[i].out))
                        return false;
        return true;
}
