/* One stream: see stream.h. */
#include "attach/stream.h"
#include "base/esc.h"
#include "base/fd.h"
#include "guest/proto.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
        READ_BYTES = 64 * 1024,
        ACK_BYTES = 32 * 1024, /* give window back in such pieces */
};

static const enum proto_type output_type[STREAM_OUTPUTS] = { PROTO_STDOUT, PROTO_STDERR };

void stream_open(struct stream *s, int fd)
{
        *s = (struct stream){ .fd = fd, .window = PROTO_WINDOW_BYTES, .err = ERR_INIT };
        buf_init(&s->in, PROTO_HEAD_BYTES + PROTO_PAYLOAD_BYTES + READ_BYTES);
        buf_init(&s->out, 0);
        for (int i = 0; i < STREAM_OUTPUTS; i++)
                buf_init(&s->output[i].bytes, PROTO_WINDOW_BYTES);
        if (fd >= 0)
                (void)!fd_nonblock(fd); /* a blocking one: sends and reads do not wait all the same, see MSG_DONTWAIT */
}

void stream_close(struct stream *s)
{
        fd_close(&s->fd);
        buf_fini(&s->in);
        buf_fini(&s->out);
        for (int i = 0; i < STREAM_OUTPUTS; i++)
                buf_fini(&s->output[i].bytes);
}

static int on_output(struct stream *s, enum stream_output which, struct slice payload)
{
        if (s->output[which].ended || payload.n > PROTO_WINDOW_BYTES - s->output[which].unacked)
                return -1;
        s->output[which].ended = payload.n == 0;
        s->output[which].unacked += (uint32_t)payload.n;
        return buf_add_slice(&s->output[which].bytes, payload);
}

static int on_window(struct stream *s, struct slice payload)
{
        enum proto_type which;
        uint32_t bytes;

        if (proto_get_window(payload, &bytes, &which) < 0 || which != PROTO_STDIN || bytes > PROTO_WINDOW_BYTES - s->window)
                return -1;
        s->window += bytes;
        return 0;
}

static int on_failed(struct stream *s, struct slice payload)
{
        struct slice text;
        uint32_t code;

        if (proto_get_failed(payload, &code, &text) < 0)
                return -1;
        s->over = s->failed = true;
        s->code = (int)(code & 0xfff);
        s->status = 127 << 8;
        err_set(&s->err, "%s: %s", esc(text), strerror(s->code));
        return 0;
}

static int on_frame(struct stream *s, const struct proto_frame *f)
{
        uint32_t value;

        if (f->stream != 0 || f->flags != 0)
                return -1;
        switch ((int)f->type) {
        case PROTO_STARTED:
                if (s->started || proto_get_u32(f->payload, &value) < 0)
                        return -1;
                s->started = true;
                return 0;
        case PROTO_STDOUT:
        case PROTO_STDERR:
                return on_output(s, f->type == PROTO_STDERR ? STREAM_STDERR : STREAM_STDOUT, f->payload);
        case PROTO_WINDOW:
                return on_window(s, f->payload);
        case PROTO_EXIT:
                if (proto_get_u32(f->payload, &value) < 0)
                        return -1;
                s->status = (int)value;
                s->over = true;
                return 0;
        case PROTO_FAILED:
                return on_failed(s, f->payload);
        default:
                return -1;
        }
}

int stream_feed(struct stream *s, struct slice bytes)
{
        struct proto_frame f;
        size_t used;
        int rc = buf_add_slice(&s->in, bytes) < 0 ? -1 : 1;

        while (!s->over && rc == 1 && (rc = proto_read(buf_slice(&s->in), &f, &used)) == 1) {
                rc = on_frame(s, &f) < 0 ? -1 : 1;
                buf_consume(&s->in, used);
        }
        return rc < 0 ? err_set(&s->err, "the workspace sent what it may not") : 0;
}

int stream_read(struct stream *s)
{
        static uint8_t bytes[READ_BYTES];
        ssize_t n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return s->over ? 0 : err_set(&s->err, "the workspace ended meanwhile");
        return stream_feed(s, slice_of(bytes, (size_t)n));
}

bool stream_has_to_write(const struct stream *s) { return buf_len(&s->out) > 0; }

int stream_write(struct stream *s)
{
        struct slice out = buf_slice(&s->out);
        ssize_t n = out.n ? send(s->fd, out.p, out.n, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

        if (n > 0)
                buf_consume(&s->out, (size_t)n);
        return n >= 0 || errno == EAGAIN || errno == EINTR ? 0 : -1;
}

size_t stream_room(const struct stream *s)
{
        size_t room = s->window < PROTO_PAYLOAD_BYTES ? s->window : PROTO_PAYLOAD_BYTES;

        return s->over || buf_len(&s->out) > STREAM_OUT_HIGH ? 0 : room;
}

int stream_send(struct stream *s, struct slice bytes)
{
        if (bytes.n > s->window)
                return -1;
        s->window -= (uint32_t)bytes.n;
        return proto_write(&s->out, 0, PROTO_STDIN, 0, bytes);
}

int stream_signal(struct stream *s, int number) { return proto_write_u32(&s->out, 0, PROTO_SIGNAL, (uint32_t)number); }

int stream_take(struct stream *s, enum stream_output which, size_t n)
{
        uint32_t back;

        buf_consume(&s->output[which].bytes, n);
        s->output[which].taken += (uint32_t)n;
        back = s->output[which].taken;
        if (back < ACK_BYTES || s->over)
                return 0;
        s->output[which].taken = 0;
        s->output[which].unacked -= back;
        return proto_write_window(&s->out, 0, back, output_type[which]);
}
