/* A stand-in for the outer door: an HTTP/2 server on an inherited socket (argument 1: its number), one thread, no network.
 *
 * What it answers depends on the path: /echo sends the body back, /bytes/N that many bytes, /count counts the body, /head shows the request's fields, /hints an
 * interim answer first, /trailers ends with one, /refuse/ID says brome-reason, /early answers before the body, /cut resets half-way, /never waits.
 * /minted/TEXT says brome-minted, /used brome-account, /packed agrees to a WebSocket extension. WebSockets, CONNECT and connect-udp echo. It never judges
 * anything: that is what the tests look at. /leave answers and takes no more, /late/… is not taken by the first process that writes to its file and counted by
 * the next, /gone/… is taken by none. Argument 2: a file in which everything stands that came, as it came. */
#include "base/buf.h"
#include "base/slice.h"

#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct stream {
        struct buf head, down;
        char method[32], path[2048], protocol[32];
        uint64_t left, count;
        bool echo, websocket, ended, trailers, cut;
        uint8_t ws[14 + 125];
        size_t ws_n;
};

static void answer(nghttp2_session *h2, int32_t id, struct stream *s);
static FILE *came; /* NULL: nobody wants to know */
static bool second; /* another one wrote there before */

/* GOAWAY: the last stream that was taken. */
static void leave(nghttp2_session *h2, int32_t last)
{
        nghttp2_submit_goaway(h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

static void note(const void *p, size_t n)
{
        if (came && (fwrite(p, 1, n, came) != n || fflush(came) != 0))
                abort();
}

static nghttp2_nv nv(const char *name, const char *value)
{
        return (nghttp2_nv){ (uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name), strlen(value), 0 };
}

static ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *out, size_t cap, uint32_t *flags, nghttp2_data_source *src, void *user)
{
        struct stream *s = src->ptr;
        size_t n = buf_len(&s->down);

        (void)user;
        if (s->cut && !n)
                return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        if (n) {
                n = n < cap ? n : cap;
                memcpy(out, buf_slice(&s->down).p, n);
                buf_consume(&s->down, n);
                if (s->echo)
                        nghttp2_session_consume(h2, id, n);
        } else if (s->left) {
                n = s->left < cap ? s->left : cap;
                memset(out, 'x', n);
                s->left -= n;
        } else if (!s->ended) {
                return NGHTTP2_ERR_DEFERRED;
        }
        if (s->ended && !s->left && !buf_len(&s->down)) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                if (s->trailers) {
                        nghttp2_nv t = nv("x-trailer", "last");
                        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                        nghttp2_submit_trailer(h2, id, &t, 1);
                }
        }
        return (ssize_t)n;
}

static void respond(nghttp2_session *h2, int32_t id, struct stream *s, const char *name, const char *value)
{
        nghttp2_nv h[] = { nv(":status", "200"), nv("brome-address", "192.0.2.1"), nv(name, value) };
        nghttp2_data_provider p = { .source.ptr = s, .read_callback = read_body };

        nghttp2_submit_response(h2, id, h, 3, &p);
}

static void respond_refusal(nghttp2_session *h2, int32_t id, const char *reason)
{
        nghttp2_nv h[] = { nv(":status", "502"), nv("brome-reason", reason), nv("brome-detail", "made up for the test") };

        nghttp2_submit_response(h2, id, h, 3, NULL);
}

static bool is_counted(const struct stream *s) { return !strcmp(s->path, "/count") || !strncmp(s->path, "/count/", 7) || (second && !strncmp(s->path, "/late/", 6)); }

static void answer(nghttp2_session *h2, int32_t id, struct stream *s)
{
        if (!strcmp(s->method, "CONNECT")) {
                s->echo = true;
                s->websocket = !strcmp(s->protocol, "websocket");
                if (!strcmp(s->path, "/packed"))
                        respond(h2, id, s, "sec-websocket-extensions", "permessage-deflate");
                else
                        respond(h2, id, s, "x-kind", s->protocol);
        } else if (!strncmp(s->path, "/bytes/", 7)) {
                char length[24];
                s->left = strtoull(s->path + 7, NULL, 10);
                s->ended = true;
                snprintf(length, sizeof(length), "%llu", (unsigned long long)s->left);
                respond(h2, id, s, "content-length", length);
        } else if (!strcmp(s->path, "/echo")) {
                s->echo = true;
                respond(h2, id, s, "x-kind", "echo");
        } else if (!strncmp(s->path, "/minted/", 8)) {
                s->ended = true;
                respond(h2, id, s, "brome-minted", s->path + 8);
        } else if (!strcmp(s->path, "/used")) {
                s->ended = true;
                respond(h2, id, s, "brome-account", "forge");
        } else if (is_counted(s)) {
                /* answered at the end of the body */
        } else if (!strcmp(s->path, "/hints")) {
                nghttp2_nv h[] = { nv(":status", "103"), nv("link", "</x>") };
                nghttp2_submit_headers(h2, NGHTTP2_FLAG_NONE, id, NULL, h, 2, NULL);
                buf_add_str(&s->down, "hinted\n");
                s->ended = true;
                respond(h2, id, s, "x-kind", "hints");
        } else if (!strcmp(s->path, "/trailers")) {
                buf_add_str(&s->down, "body\n");
                s->ended = s->trailers = true;
                respond(h2, id, s, "x-kind", "trailers");
        } else if (!strncmp(s->path, "/refuse/", 8)) {
                respond_refusal(h2, id, s->path + 8);
        } else if (!strcmp(s->path, "/cut")) {
                buf_add_str(&s->down, "half");
                s->cut = true;
                respond(h2, id, s, "x-kind", "cut");
        } else if (!strncmp(s->path, "/gone/", 6) || (!strncmp(s->path, "/late/", 6) && !second)) {
                leave(h2, id > 2 ? id - 2 : 0);
        } else if (!strcmp(s->path, "/leave")) {
                s->ended = true;
                respond(h2, id, s, "x-kind", "leave");
                leave(h2, id);
        } else if (!strcmp(s->path, "/never")) {
                /* no answer at all */
        } else {
                buf_add_slice(&s->down, buf_slice(&s->head));
                s->ended = true;
                respond(h2, id, s, "content-type", "text/plain");
        }
}

static int on_begin(nghttp2_session *h2, const nghttp2_frame *f, void *user)
{
        struct stream *s;

        (void)user;
        if (nghttp2_session_get_stream_user_data(h2, f->hd.stream_id))
                return 0;
        s = calloc(1, sizeof(*s));
        if (!s)
                abort();
        nghttp2_session_set_stream_user_data(h2, f->hd.stream_id, s);
        return 0;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *f, const uint8_t *n, size_t nn, const uint8_t *v, size_t vn, uint8_t flags, void *user)
{
        struct stream *s = nghttp2_session_get_stream_user_data(h2, f->hd.stream_id);

        (void)flags, (void)user;
        if (slice_is(slice_of(n, nn), ":method"))
                snprintf(s->method, sizeof(s->method), "%.*s", (int)vn, v);
        if (slice_is(slice_of(n, nn), ":path"))
                snprintf(s->path, sizeof(s->path), "%.*s", (int)vn, v);
        if (slice_is(slice_of(n, nn), ":protocol"))
                snprintf(s->protocol, sizeof(s->protocol), "%.*s", (int)vn, v);
        note(n, nn), note(": ", 2), note(v, vn), note("\n", 1);
        buf_addf(&s->head, "%.*s: %.*s\n", (int)nn, n, (int)vn, v);
        return 0;
}

/* Small client frames come back unmasked. */
static void ws_echo(struct stream *s, const uint8_t *p, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                size_t len;
                if (s->ws_n < sizeof(s->ws))
                        s->ws[s->ws_n++] = p[i];
                if (s->ws_n < 6 || s->ws_n < 6 + (len = s->ws[1] & 127))
                        continue;
                for (size_t k = 0; k < len; k++)
                        s->ws[6 + k] ^= s->ws[2 + k % 4];
                buf_add(&s->down, &s->ws[0], 1);
                buf_add(&s->down, &(uint8_t){ (uint8_t)len }, 1);
                buf_add(&s->down, s->ws + 6, len);
                s->ws_n = 0;
        }
}

static int on_chunk(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *p, size_t n, void *user)
{
        struct stream *s = nghttp2_session_get_stream_user_data(h2, id);

        (void)flags, (void)user;
        if (!s) {
                nghttp2_session_consume(h2, id, n);
                return 0;
        }
        note(p, n);
        s->count += n;
        if (s->websocket) {
                ws_echo(s, p, n);
                nghttp2_session_consume(h2, id, n);
                s->echo = false;
        } else if (s->echo) {
                buf_add(&s->down, p, n);
        } else {
                nghttp2_session_consume(h2, id, n);
                return 0;
        }
        nghttp2_session_resume_data(h2, id);
        return 0;
}

static int on_frame(nghttp2_session *h2, const nghttp2_frame *f, void *user)
{
        struct stream *s = nghttp2_session_get_stream_user_data(h2, f->hd.stream_id);

        (void)user;
        if (!s)
                return 0;
        if (f->hd.type == NGHTTP2_HEADERS && f->headers.cat == NGHTTP2_HCAT_REQUEST)
                answer(h2, f->hd.stream_id, s);
        if ((f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA) && (f->hd.flags & NGHTTP2_FLAG_END_STREAM)) {
                if (is_counted(s)) {
                        buf_addf(&s->down, "%llu\n", (unsigned long long)s->count);
                        s->ended = true;
                        respond(h2, f->hd.stream_id, s, "x-kind", "count");
                }
                s->ended = !s->cut;
                nghttp2_session_resume_data(h2, f->hd.stream_id);
        }
        return 0;
}

static int on_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user)
{
        struct stream *s = nghttp2_session_get_stream_user_data(h2, id);

        (void)code, (void)user;
        if (s) {
                buf_fini(&s->head);
                buf_fini(&s->down);
                free(s);
        }
        return 0;
}

static nghttp2_session *session(void)
{
        nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 4096 }, { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 20 },
                                              { NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1 } };
        nghttp2_session_callbacks *cb;
        nghttp2_option *opt;
        nghttp2_session *h2;

        nghttp2_session_callbacks_new(&cb);
        nghttp2_option_new(&opt);
        nghttp2_option_set_no_auto_window_update(opt, 1);
        nghttp2_option_set_stream_reset_rate_limit(opt, 100000, 100000);
        nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_session_server_new2(&h2, cb, NULL, opt);
        nghttp2_session_callbacks_del(cb);
        nghttp2_option_del(opt);
        nghttp2_submit_settings(h2, 0, settings, 3);
        nghttp2_session_set_local_window_size(h2, 0, 0, 16 << 20);
        return h2;
}

int main(int argc, char **argv)
{
        static uint8_t in[256 * 1024];
        struct buf out;
        nghttp2_session *h2 = session();
        int fd = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 3;

        buf_init(&out, 0);
        if (argc > 2 && !(came = fopen(argv[2], "ab")))
                return 1;
        second = came && fseek(came, 0, SEEK_END) == 0 && ftell(came) > 0;
        for (;;) {
                const uint8_t *p;
                ssize_t n;
                struct pollfd pfd = { .fd = fd, .events = POLLIN };

                while (buf_len(&out) < 256 * 1024 && (n = nghttp2_session_mem_send(h2, &p)) > 0)
                        buf_add(&out, p, (size_t)n);
                if (buf_len(&out))
                        pfd.events |= POLLOUT;
                if (poll(&pfd, 1, -1) < 0)
                        return 1;
                if ((pfd.revents & POLLOUT) && (n = write(fd, buf_slice(&out).p, buf_len(&out))) > 0)
                        buf_consume(&out, (size_t)n);
                if (!(pfd.revents & (POLLIN | POLLHUP)))
                        continue;
                n = read(fd, in, sizeof(in));
                if (n <= 0) {
                        buf_fini(&out);
                        nghttp2_session_del(h2);
                        return 0;
                }
                if (nghttp2_session_mem_recv(h2, in, (size_t)n) != n)
                        return 1;
        }
}
