/* Plays bromed and the inner door for one brome-outer: sends start and policy, opens streams on the link as told on standard input, and
 * prints what comes back, one JSON object a line. Commands, words separated by one blank (a value may hold %XX):
 *   policy FILE                         a new policy; FILE holds the memory file's JSON
 *   open ID [end] :name=value name=value …   one stream; `end`: no body follows
 *   data ID TEXT | fill ID BYTES | end ID | trailer ID name=value … | reset ID CODE
 *   hold ID | release ID                stop and resume giving window back
 *   answer ASK ANSWER TTL-MS            to a question
 *   revoke WHAT NAME HOST PORT          a grant is gone
 *   quit
 * usage: outer-driver PROGRAM POLICY-FILE [PROXY [NO-PROXY]]; with DOOR_ACCOUNT and DOOR_SECRET in the environment it is that account's door */
#include "base/buf.h"
#include "base/chan.h"
#include "base/clock.h"
#include "base/fd.h"
#include "journal/event.h"
#include <errno.h>
#include <nghttp2/nghttp2.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { IDS = 8192, WORDS = 256, WINDOW = 1 << 20 };

struct item {
        bool used, ended, hold, deferred, quiet;
        int32_t stream;
        struct buf up;
        uint64_t fill, total, owed;
        struct buf trailers;
        json_t *fields;
        EVP_MD_CTX *sha;
};

static struct item items[IDS];
static nghttp2_session *session;
static int chan_fd, link_fd, events_fd;
static struct buf out_buf, event_buf;
static long long generation;

static void say(json_t *o)
{
        char *s = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);

        puts(s);
        fflush(stdout);
        free(s);
        json_decref(o);
}

static json_t *text_of(const void *p, size_t n)
{
        json_t *j = json_stringn(p, n);
        char *hex;

        if (j)
                return j;
        hex = malloc(2 * n + 5);
        memcpy(hex, "hex:", 5);
        for (size_t i = 0; i < n; i++)
                snprintf(hex + 4 + 2 * i, 3, "%02x", ((const uint8_t *)p)[i]);
        j = json_string(hex);
        free(hex);
        return j;
}

static long id_of(int32_t stream)
{
        for (long i = 0; i < IDS; i++)
                if (items[i].used && items[i].stream == stream)
                        return i;
        return -1;
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *n, size_t nn, const uint8_t *v, size_t vn, uint8_t flags, void *u)
{
        struct item *it = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);

        (void)flags, (void)u;
        if (it) {
                if (!it->fields)
                        it->fields = json_array();
                json_array_append_new(it->fields, json_pack("[o,o]", text_of(n, nn), text_of(v, vn)));
        }
        return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *f, void *u)
{
        struct item *it = f->hd.stream_id ? nghttp2_session_get_stream_user_data(s, f->hd.stream_id) : NULL;
        bool end = f->hd.flags & NGHTTP2_FLAG_END_STREAM;

        (void)u;
        if (f->hd.type == NGHTTP2_GOAWAY)
                say(json_pack("{s:s,s:i,s:o}", "ev", "goaway", "code", (int)f->goaway.error_code, "text", text_of(f->goaway.opaque_data, f->goaway.opaque_data_len)));
        if (!it)
                return 0;
        if (f->hd.type == NGHTTP2_HEADERS) {
                if (!it->quiet)
                        say(json_pack("{s:s,s:i,s:o,s:b}", "ev", "headers", "id", (int)(it - items), "fields", it->fields ? it->fields : json_array(), "end", end));
                else
                        json_decref(it->fields);
                it->fields = NULL;
        } else if (f->hd.type == NGHTTP2_DATA && end && !it->quiet)
                say(json_pack("{s:s,s:i}", "ev", "end", "id", (int)(it - items)));
        return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *p, size_t n, void *u)
{
        struct item *it = nghttp2_session_get_stream_user_data(s, stream);

        (void)flags, (void)u;
        if (!it)
                return 0;
        it->total += n;
        EVP_DigestUpdate(it->sha, p, n);
        if (it->hold)
                it->owed += n;
        else
                nghttp2_session_consume(s, stream, n);
        if (it->total <= 65536 && !it->quiet)
                say(json_pack("{s:s,s:i,s:i,s:o}", "ev", "data", "id", (int)(it - items), "n", (int)n, "text", text_of(p, n)));
        return 0;
}

static int on_close(nghttp2_session *s, int32_t stream, uint32_t code, void *u)
{
        struct item *it = nghttp2_session_get_stream_user_data(s, stream);
        unsigned char md[32];
        unsigned mdn;
        char hex[65];

        (void)u;
        if (!it)
                return 0;
        EVP_DigestFinal_ex(it->sha, md, &mdn);
        for (int i = 0; i < 32; i++)
                snprintf(hex + 2 * i, 3, "%02x", md[i]);
        say(json_pack("{s:s,s:i,s:i,s:I,s:s}", "ev", "close", "id", (int)(it - items), "code", (int)code, "total", (json_int_t)it->total, "sha256", hex));
        EVP_MD_CTX_free(it->sha);
        buf_fini(&it->up);
        memset(it, 0, sizeof(*it));
        return 0;
}

static ssize_t read_body(nghttp2_session *s, int32_t stream, uint8_t *p, size_t cap, uint32_t *flags, nghttp2_data_source *src, void *u)
{
        struct item *it = src->ptr;
        size_t n = buf_len(&it->up);

        (void)u;
        if (n) {
                n = n < cap ? n : cap;
                memcpy(p, buf_slice(&it->up).p, n);
                buf_consume(&it->up, n);
        } else if (it->fill) {
                n = it->fill < cap ? it->fill : cap;
                memset(p, 'x', n);
                it->fill -= n;
        } else if (!it->ended) {
                it->deferred = true;
                return NGHTTP2_ERR_DEFERRED;
        }
        if (it->ended && !it->fill && !buf_len(&it->up)) {
                *flags |= NGHTTP2_DATA_FLAG_EOF;
                if (buf_len(&it->trailers)) {
                        char *eq, *t = strndup((const char *)buf_slice(&it->trailers).p, buf_len(&it->trailers));
                        if ((eq = strchr(t, '='))) {
                                nghttp2_nv nv = { (uint8_t *)t, (uint8_t *)eq + 1, (size_t)(eq - t), strlen(eq + 1), 0 };
                                *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
                                nghttp2_submit_trailer(s, stream, &nv, 1);
                        }
                        free(t);
                }
        }
        return (ssize_t)n;
}

static void send_policy(const char *path)
{
        struct buf text;
        struct err err;
        int fd;

        buf_init(&text, 0);
        if (fd_read_file(path, &text, 64 << 20, &err) < 0) {
                say(json_pack("{s:s,s:s}", "ev", "error", "text", err.text));
                return;
        }
        fd = fd_memfd("policy", buf_slice(&text).p, buf_len(&text));
        if (chan_send(chan_fd, json_pack("{s:s,s:I,s:[s]}", "op", "policy", "generation", (json_int_t)++generation, "fds", "policy"), &fd, 1) < 0)
                say(json_pack("{s:s,s:s}", "ev", "error", "text", "cannot send the policy"));
        close(fd);
        buf_fini(&text);
}

static void unescape(char *s)
{
        char *to = s;
        unsigned v;

        for (; *s; s++, to++) {
                if (*s == '%' && sscanf(s + 1, "%2x", &v) == 1) {
                        *to = (char)v;
                        s += 2;
                } else
                        *to = *s;
        }
        *to = 0;
}

static void open_stream(struct item *it, char **w, size_t n)
{
        nghttp2_nv nv[WORDS];
        size_t count = 0;
        nghttp2_data_provider body = { .source = { .ptr = it }, .read_callback = read_body };
        bool end = false;

        memset(it, 0, sizeof(*it));
        it->used = true;
        buf_init(&it->up, 0);
        buf_init(&it->trailers, 0);
        it->sha = EVP_MD_CTX_new();
        EVP_DigestInit_ex(it->sha, EVP_sha256(), NULL);
        for (size_t i = 2; i < n; i++) {
                char *eq = strchr(w[i] + 1, '=');

                if (!strcmp(w[i], "end"))
                        end = true;
                else if (!strcmp(w[i], "quiet"))
                        it->quiet = true;
                if (!eq)
                        continue;
                *eq = 0;
                unescape(eq + 1);
                nv[count++] = (nghttp2_nv){ (uint8_t *)w[i], (uint8_t *)eq + 1, strlen(w[i]), strlen(eq + 1), 0 };
        }
        it->stream = nghttp2_submit_request(session, NULL, nv, count, end ? NULL : &body, it);
        if (it->stream < 0)
                say(json_pack("{s:s,s:s}", "ev", "error", "text", nghttp2_strerror(it->stream)));
}

/* What bromed says of consent. */
static bool consent_command(char **w, size_t n)
{
        json_t *m = NULL;

        for (size_t i = 1; i < n; i++)
                unescape(w[i]);
        if (!strcmp(w[0], "answer") && n > 3)
                m = json_pack("{s:s,s:I,s:s,s:I}", "op", "answer", "id", (json_int_t)strtoll(w[1], NULL, 10), "answer", w[2], "ttl_ms", (json_int_t)strtoll(w[3], NULL, 10));
        else if (!strcmp(w[0], "revoke") && n > 4)
                m = json_pack("{s:s,s:s,s:s,s:s,s:i}", "op", "revoke", "what", w[1], "name", w[2], "host", w[3], "port", (int)strtol(w[4], NULL, 10));
        if (!m)
                return false;
        while (chan_send(chan_fd, json_incref(m), NULL, 0) < 0)
                poll(&(struct pollfd){ .fd = chan_fd, .events = POLLOUT }, 1, -1);
        json_decref(m);
        return true;
}

static void wake(struct item *it)
{
        if (it->deferred)
                nghttp2_session_resume_data(session, it->stream);
        it->deferred = false;
}

static void command(char *line)
{
        char *w[WORDS], *save = NULL;
        size_t n = 0;
        struct item *it;

        for (char *p = strtok_r(line, " \n", &save); p && n < WORDS; p = strtok_r(NULL, " \n", &save))
                w[n++] = p;
        if (n == 0)
                return;
        if (!strcmp(w[0], "quit"))
                exit(0);
        if (n < 2)
                return;
        if (!strcmp(w[0], "policy")) {
                send_policy(w[1]);
                return;
        }
        if ((!strcmp(w[0], "answer") || !strcmp(w[0], "revoke")) && consent_command(w, n))
                return;
        it = &items[strtol(w[1], NULL, 10) % IDS];
        if (!strcmp(w[0], "open"))
                open_stream(it, w, n);
        else if (!it->used)
                return;
        else if (!strcmp(w[0], "data") && n > 2) {
                size_t escaped = strlen(w[2]), k = 0;
                unsigned v;
                for (size_t i = 0; i < escaped; i++, k++) {
                        uint8_t c = (uint8_t)w[2][i];
                        if (c == '%' && sscanf(w[2] + i + 1, "%2x", &v) == 1) {
                                c = (uint8_t)v;
                                i += 2;
                        }
                        (void)!buf_add(&it->up, &c, 1);
                }
        } else if (!strcmp(w[0], "fill") && n > 2)
                it->fill += strtoull(w[2], NULL, 10);
        else if (!strcmp(w[0], "end"))
                it->ended = true;
        else if (!strcmp(w[0], "trailer") && n > 2) {
                (void)!buf_add_str(&it->trailers, w[2]);
                it->ended = true;
        } else if (!strcmp(w[0], "reset")) {
                /* nghttp2 would send the reset ahead of a HEADERS frame that still waits: a connection error (RFC 9113 §5.1, idle). */
                const uint8_t *p;
                ssize_t k;
                while ((k = nghttp2_session_mem_send(session, &p)) > 0)
                        (void)!buf_add(&out_buf, p, (size_t)k);
                nghttp2_submit_rst_stream(session, 0, it->stream, n > 2 ? (uint32_t)strtoul(w[2], NULL, 10) : 8);
        }
        else if (!strcmp(w[0], "hold"))
                it->hold = true;
        else if (!strcmp(w[0], "release")) {
                it->hold = false;
                nghttp2_session_consume(session, it->stream, it->owed);
                it->owed = 0;
        }
        wake(it);
}

static pid_t spawn(const char *program, const char *proxy, const char *no_proxy)
{
        const char *account = getenv("DOOR_ACCOUNT") ? getenv("DOOR_ACCOUNT") : "", *secret = getenv("DOOR_SECRET") ? getenv("DOOR_SECRET") : "";
        int chan[2], pair[2], ev[2], pipes[2] = { -1, -1 };
        pid_t pid;
        json_t *start;

        if (chan_pair(chan) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ev) < 0)
                exit(2);
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
                if (chan[1] == 3)
                        (void)!fd_cloexec(3, false);
                else
                        dup2(chan[1], 3);
                unsetenv("DOOR_SECRET");
                execl(program, program, (char *)NULL);
                _exit(127);
        }
        close(chan[1]);
        chan_fd = chan[0];
        link_fd = pair[0];
        events_fd = ev[0];
        start = json_pack("{s:s,s:s,s:i,s:s,s:[s,s]}", "op", "start", "workspace", "test", "session", 1, "account", account, "fds", "events", "link");
        if (*account) {
                if (pipe(pipes) < 0 || fd_write_all(pipes[1], secret, strlen(secret)) < 0)
                        exit(2);
                close(pipes[1]);
                json_array_append_new(json_object_get(start, "fds"), json_string("secret"));
        }
        if (proxy && *proxy)
                json_object_set_new(start, "proxy", json_string(proxy));
        if (no_proxy)
                json_object_set_new(start, "no_proxy", json_string(no_proxy));
        if (chan_send(chan_fd, start, (int[]){ ev[1], pair[1], pipes[0] }, *account ? 3 : 2) < 0)
                exit(2);
        close(ev[1]);
        close(pair[1]);
        return pid;
}

static void read_events(void)
{
        struct event_record e;
        size_t used;
        uint8_t *p = buf_reserve(&event_buf, 65536);
        ssize_t n = recv(events_fd, p, 65536, MSG_DONTWAIT);

        if (n <= 0)
                return;
        buf_commit(&event_buf, (size_t)n);
        while (event_read(buf_slice(&event_buf), &e, &used) == 1) {
                json_t *o = json_pack("{s:s,s:s}", "ev", "record", "type", event_type_name(e.type));
                for (int f = 1; f < EVENT_FIELD_COUNT; f++)
                        if (event_has(&e, (enum event_field)f))
                                json_object_set_new(o, event_field_name((enum event_field)f),
                                                    event_field_is_text((enum event_field)f) ? text_of(e.text[f].p, e.text[f].n) : json_integer((json_int_t)e.num[f]));
                say(o);
                buf_consume(&event_buf, used);
        }
}

static void read_chan(void)
{
        struct chan_msg msg;
        struct err err;
        int rc = chan_recv(chan_fd, &msg, &err);

        if (rc < 0) {
                say(json_pack("{s:s}", "ev", "gone"));
                exit(0);
        }
        if (rc == 1) {
                json_object_set_new(msg.body, "ev", json_string(msg.op));
                json_object_del(msg.body, "op");
                say(json_incref(msg.body));
                chan_msg_fini(&msg);
        }
}

/* Until the socket takes no more or nothing is left. */
static void flush_link(void)
{
        const uint8_t *p;
        ssize_t n;

        for (;;) {
                while (buf_len(&out_buf) < 262144 && (n = nghttp2_session_mem_send(session, &p)) > 0)
                        (void)!buf_add(&out_buf, p, (size_t)n);
                if (!buf_len(&out_buf))
                        return;
                n = send(link_fd, buf_slice(&out_buf).p, buf_len(&out_buf), MSG_DONTWAIT | MSG_NOSIGNAL);
                if (n <= 0)
                        return;
                buf_consume(&out_buf, (size_t)n);
        }
}

int main(int argc, char **argv)
{
        static uint8_t in[262144];
        static char line[1 << 20];
        size_t line_n = 0;
        nghttp2_session_callbacks *cb;
        nghttp2_option *opt;
        nghttp2_settings_entry set[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW }, { NGHTTP2_SETTINGS_ENABLE_PUSH, 0 } };
        pid_t pid;

        if (argc < 3)
                return 2;
        pid = spawn(argv[1], argc > 3 ? argv[3] : NULL, argc > 4 ? argv[4] : NULL);
        say(json_pack("{s:s,s:i}", "ev", "pid", "pid", (int)pid));
        nghttp2_session_callbacks_new(&cb);
        nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
        nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
        nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
        nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
        nghttp2_option_new(&opt);
        nghttp2_option_set_no_auto_window_update(opt, 1);
        /* A test must be able to send what a client library would not. */
        nghttp2_option_set_no_http_messaging(opt, 1);
        nghttp2_session_client_new2(&session, cb, NULL, opt);
        nghttp2_submit_settings(session, 0, set, 2);
        nghttp2_session_set_local_window_size(session, 0, 0, 16 << 20);
        buf_init(&out_buf, 0);
        buf_init(&event_buf, 0);
        send_policy(argv[2]);
        (void)id_of;
        for (;;) {
                struct pollfd p[] = { { chan_fd, POLLIN, 0 }, { events_fd, POLLIN, 0 }, { link_fd, POLLIN, 0 }, { 0, POLLIN, 0 } };
                ssize_t n;

                flush_link();
                if (buf_len(&out_buf))
                        p[2].events |= POLLOUT;
                poll(p, 4, -1);
                if (p[1].revents)
                        read_events();
                if (p[0].revents)
                        read_chan();
                if (p[2].revents & ~POLLOUT) {
                        n = recv(link_fd, in, sizeof(in), MSG_DONTWAIT);
                        if (n == 0 || (n > 0 && nghttp2_session_mem_recv(session, in, (size_t)n) < 0)) {
                                say(json_pack("{s:s}", "ev", "link-broken"));
                                waitpid(pid, NULL, 0);
                                return 0;
                        }
                }
                if (p[3].revents) {
                        char *nl;
                        n = read(0, line + line_n, sizeof(line) - 1 - line_n);
                        if (n <= 0)
                                return 0;
                        line_n += (size_t)n;
                        line[line_n] = 0;
                        while ((nl = strchr(line, '\n'))) {
                                size_t used = (size_t)(nl - line) + 1;
                                char one[65536];
                                snprintf(one, sizeof(one), "%.*s", (int)used, line);
                                command(one);
                                memmove(line, line + used, line_n - used + 1);
                                line_n -= used;
                        }
                }
        }
}
