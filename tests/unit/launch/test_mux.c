/* The mux between a guest and its clients: both may be hostile. A socket pair plays the guest. */
#include "launch/mux.h"
#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

struct world {
        struct mux *m;
        int guest; /* the guest's end */
        struct buf sent; /* what the guest has received */
        int readies, ends;
        char said[PROTO_NOTES_BYTES]; /* with READY */
        size_t notes;
        struct err err; /* the last turn's */
        long long ended_id;
        uint32_t ended_status;
};

static void on_ready(void *arg, struct slice notes)
{
        struct world *w = arg;

        w->readies++;
        w->notes = notes.n;
        assert_true(notes.n <= sizeof(w->said));
        memcpy(w->said, notes.n ? (const char *)notes.p : "", notes.n);
}

static void on_ended(void *arg, long long id, uint32_t status)
{
        struct world *w = arg;

        w->ends++;
        w->ended_id = id;
        w->ended_status = status;
}

/* Turns until nothing happens any more. */
static int spin(struct world *w)
{
        struct pollfd fds[MUX_FDS];

        for (int i = 0; i < 200; i++) {
                size_t n = mux_wants(w->m, fds);
                uint8_t bytes[65536];
                ssize_t got;
                while ((got = recv(w->guest, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
                        assert_int_equal(buf_add(&w->sent, bytes, (size_t)got), 0);
                if (poll(fds, n, 1) == 0)
                        return 0;
                if (mux_turn(w->m, fds, n, &w->err) < 0)
                        return -1;
        }
        return 0;
}

static void say(struct world *w, uint32_t stream, enum proto_type type, const void *p, size_t n)
{
        struct buf b;

        buf_init(&b, 0);
        assert_int_equal(proto_write(&b, stream, type, 0, slice_of(p, n)), 0);
        assert_int_equal(fd_write_all(w->guest, buf_slice(&b).p, buf_len(&b)), 0);
        buf_fini(&b);
}

static void say_u32(struct world *w, uint32_t stream, enum proto_type type, uint32_t v)
{
        uint8_t p[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

        say(w, stream, type, p, 4);
}

static struct world *start(void)
{
        struct world *w = calloc(1, sizeof(*w));
        struct mux_events events = { w, on_ready, on_ended };
        static int pair[2];

        assert_non_null(w);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        assert_int_equal(fd_nonblock(pair[0]), 0);
        w->guest = pair[1];
        buf_init(&w->sent, 0);
        w->m = mux_new(pair[0], events);
        assert_non_null(w->m);
        return w;
}

static struct world *start_ready(void)
{
        struct world *w = start();

        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
        assert_int_equal(spin(w), 0);
        say(w, 0, PROTO_READY, NULL, 0);
        assert_int_equal(spin(w), 0);
        assert_int_equal(w->readies, 1);
        buf_clear(&w->sent);
        return w;
}

static void end(struct world *w)
{
        mux_free(w->m);
        buf_fini(&w->sent);
        close(w->guest);
        free(w);
}

static int run(struct world *w, long long id)
{
        static const char *const argv[] = { "/bin/true", NULL };
        struct proto_exec e = { .argv = argv };
        struct err err;
        int fd = -1;

        assert_int_equal(mux_exec(w->m, id, &e, &fd, &err), 0);
        assert_int_equal(spin(w), 0);
        return fd;
}

/* The next frame that the guest, or a client, was sent. */
static struct proto_frame next(struct buf *b)
{
        static uint8_t kept[PROTO_PAYLOAD_BYTES + PROTO_HEAD_BYTES];
        struct proto_frame f;
        size_t used;

        assert_int_equal(proto_read(buf_slice(b), &f, &used), 1);
        memcpy(kept, f.payload.p, f.payload.n);
        f.payload.p = kept;
        buf_consume(b, used);
        return f;
}

static int reach(struct world *w, long long id)
{
        struct err err;
        int fd = -1;

        assert_int_equal(mux_connect(w->m, id, 3000, &fd, &err), 0);
        assert_int_equal(spin(w), 0);
        return fd;
}

static void client_says(int fd, enum proto_type type, const void *p, size_t n)
{
        struct buf b;

        buf_init(&b, 0);
        assert_int_equal(proto_write(&b, 0, type, 0, slice_of(p, n)), 0);
        assert_int_equal(fd_write_all(fd, buf_slice(&b).p, buf_len(&b)), 0);
        buf_fini(&b);
}

/* A connection carries two directions and nothing else, from either side; there are not so many that no program could start. */
static void test_connections(void **state)
{
        static const uint8_t four[4] = { 15 };
        struct world *w = start_ready();
        int fd = reach(w, 5), more[MUX_CONNECTIONS];
        struct proto_frame f = next(&w->sent);
        uint16_t port;
        struct err err = ERR_INIT;

        (void)state;
        assert_int_equal(f.type, PROTO_CONNECT);
        assert_int_equal(proto_get_connect(f.payload, &port), 0);
        assert_int_equal(port, 3000);
        say_u32(w, 1, PROTO_STARTED, 0);
        client_says(fd, PROTO_STDIN, "hello", 5);
        assert_int_equal(spin(w), 0);
        f = next(&w->sent);
        assert_int_equal(f.type, PROTO_STDIN);
        assert_int_equal(f.stream, 1);
        client_says(fd, PROTO_SIGNAL, four, 4); /* loses its connection */
        assert_int_equal(spin(w), 0);
        assert_int_equal(next(&w->sent).type, PROTO_CLOSE);
        assert_int_equal(buf_len(&w->sent), 0);
        say_u32(w, 1, PROTO_EXIT, 0);
        assert_int_equal(spin(w), 0);
        assert_int_equal(w->ended_id, 5);
        close(fd);
        for (int i = 0; i < MUX_CONNECTIONS; i++)
                more[i] = reach(w, 6 + i);
        assert_int_equal(mux_connect(w->m, 999, 3000, &fd, &err), -1);
        assert_non_null(strstr(err.text, "connections"));
        close(run(w, 1000));
        for (int i = 0; i < MUX_CONNECTIONS; i++)
                close(more[i]);
        assert_int_equal(spin(w), 0);
        end(w);
        w = start_ready();
        fd = reach(w, 1);
        say(w, 1, PROTO_STDERR, "x", 1); /* of a program only */
        assert_int_equal(spin(w), -1);
        close(fd);
        end(w);
}

static void test_another_version_says_the_way_out(void **state)
{
        struct world *w = start();

        (void)state;
        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION - 1);
        assert_int_equal(spin(w), -1);
        assert_non_null(strstr(w->err.text, "brome image build"));
        end(w);
}

static void test_one_exec(void **state)
{
        struct world *w = start_ready();
        int fd = run(w, 77);
        struct buf got;
        struct proto_frame f;
        uint8_t bytes[4096];
        ssize_t n;

        (void)state;
        buf_init(&got, 0);
        f = next(&w->sent);
        assert_int_equal(f.type, PROTO_EXEC);
        assert_int_equal(f.stream, 1);
        say_u32(w, 1, PROTO_STARTED, 5);
        say(w, 1, PROTO_STDOUT, "hello", 5);
        say_u32(w, 1, PROTO_EXIT, 3 << 8);
        assert_int_equal(spin(w), 0);
        assert_int_equal(w->ends, 1);
        assert_int_equal(w->ended_id, 77);
        assert_int_equal(WEXITSTATUS((int)w->ended_status), 3);
        while ((n = read(fd, bytes, sizeof(bytes))) > 0)
                assert_int_equal(buf_add(&got, bytes, (size_t)n), 0);
        assert_int_equal(n, 0);
        f = next(&got);
        assert_int_equal(f.type, PROTO_STARTED);
        assert_int_equal(f.stream, 0);
        f = next(&got);
        assert_true(f.type == PROTO_STDOUT && slice_is(f.payload, "hello"));
        assert_int_equal(next(&got).type, PROTO_EXIT);
        close(fd);
        buf_fini(&got);
        /* Late frames of an ended stream were under way: ignored. */
        say(w, 1, PROTO_STDOUT, "x", 1);
        assert_int_equal(spin(w), 0);
        end(w);
}

static void test_client_leaves(void **state)
{
        struct world *w = start_ready();
        int fd = run(w, 1);

        (void)state;
        buf_clear(&w->sent);
        close(fd);
        assert_int_equal(spin(w), 0);
        assert_int_equal(next(&w->sent).type, PROTO_CLOSE);
        say_u32(w, 1, PROTO_EXIT, 1);
        assert_int_equal(spin(w), 0);
        assert_int_equal(w->ends, 1);
        end(w);
}

/* What only the host may say, what nobody asked for, more than the window: the guest is broken. */
/* What a machine has to set up goes in pieces; the last says so, and a namespace gets one empty piece. */
static void test_setup(void **state)
{
        static uint8_t payload[3 * PROTO_PAYLOAD_BYTES + 5];
        const size_t lengths[] = { 0, 1, PROTO_PAYLOAD_BYTES, PROTO_PAYLOAD_BYTES + 1, sizeof(payload) };

        (void)state;
        for (size_t i = 0; i < sizeof(payload); i++)
                payload[i] = (uint8_t)(i * 7);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                struct world *w = start();
                struct proto_frame f;
                struct buf joined;
                size_t used;
                bool last = false;

                buf_init(&joined, 0);
                assert_int_equal(mux_setup(w->m, slice_of(payload, lengths[i])), 0);
                say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
                assert_int_equal(spin(w), 0);
                assert_int_equal(proto_read(buf_slice(&w->sent), &f, &used), 1);
                assert_int_equal(f.type, PROTO_HELLO);
                buf_consume(&w->sent, used);
                while (!last) {
                        assert_int_equal(proto_read(buf_slice(&w->sent), &f, &used), 1);
                        assert_int_equal(f.type, PROTO_SETUP);
                        assert_int_equal(f.stream, 0);
                        last = f.flags == PROTO_LAST_PIECE;
                        assert_int_equal(buf_add_slice(&joined, f.payload), 0);
                        buf_consume(&w->sent, used);
                }
                assert_int_equal(buf_len(&w->sent), 0);
                assert_int_equal(buf_len(&joined), lengths[i]);
                if (lengths[i])
                        assert_memory_equal(buf_slice(&joined).p, payload, lengths[i]);
                assert_int_equal(w->readies, 0);
                buf_fini(&joined);
                end(w);
        }
}

/* READY's sentences arrive as they were sent, and no more than there may be. */
static void test_notes(void **state)
{
        static const char said[] = "~/.netrc in the workspace is left alone: it is a link\n";
        char much[PROTO_NOTES_BYTES + 1];
        struct world *w = start();

        (void)state;
        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
        say(w, 0, PROTO_READY, said, sizeof(said) - 1);
        assert_int_equal(spin(w), 0);
        assert_int_equal(w->readies, 1);
        assert_int_equal(w->notes, sizeof(said) - 1);
        assert_memory_equal(w->said, said, w->notes);
        end(w);
        memset(much, 'a', sizeof(much));
        w = start();
        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
        say(w, 0, PROTO_READY, much, sizeof(much));
        assert_int_equal(spin(w), -1);
        assert_int_equal(w->readies, 0);
        end(w);
}

static void test_hostile_guest(void **state)
{
        static const enum proto_type foreign[] = { PROTO_HELLO, PROTO_SETUP, PROTO_READY, PROTO_EXEC, PROTO_STDIN, PROTO_RESIZE, PROTO_SIGNAL, PROTO_CLOSE, PROTO_SHUTDOWN, PROTO_CLOCK, PROTO_CONNECT };
        static const uint8_t block[PROTO_PAYLOAD_BYTES];
        struct world *w;
        int fd, rc = 0;

        (void)state;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                w = start_ready();
                fd = run(w, 1);
                say_u32(w, 1, foreign[i], 1);
                assert_int_equal(spin(w), -1);
                close(fd);
                end(w);
        }
        w = start_ready();
        say_u32(w, 9, PROTO_EXIT, 0); /* a stream that never was */
        assert_int_equal(spin(w), -1);
        end(w);
        w = start();
        say(w, 0, PROTO_READY, NULL, 0); /* before HELLO */
        assert_int_equal(spin(w), -1);
        end(w);
        /* What no window counts is said once, or means something. */
        for (int i = 0; i < 2; i++) {
                static const uint8_t nothing[5] = { 0, 0, 0, 0, PROTO_STDIN };

                w = start_ready();
                fd = run(w, 1);
                say_u32(w, 1, PROTO_STARTED, 5);
                assert_int_equal(spin(w), 0);
                if (i == 0)
                        say_u32(w, 1, PROTO_STARTED, 5);
                else
                        say(w, 1, PROTO_WINDOW, nothing, sizeof(nothing));
                assert_int_equal(spin(w), -1);
                close(fd);
                end(w);
        }
        w = start_ready();
        fd = run(w, 1);
        for (int i = 0; rc == 0 && i <= PROTO_WINDOW_BYTES / PROTO_PAYLOAD_BYTES; i++) {
                say(w, 1, PROTO_STDOUT, block, sizeof(block));
                rc = spin(w);
        }
        assert_int_equal(rc, -1);
        close(fd);
        end(w);
}

/* A machine that cannot be set up says why: once it said hello, before it is ready; what it says is foreign text. */
static void test_guest_gives_up(void **state)
{
        struct world *w = start();

        (void)state;
        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
        say(w, 0, PROTO_FAILED, "\5\0\0\0no disk \x1b[2J", 16);
        assert_int_equal(spin(w), -1);
        assert_non_null(strstr(w->err.text, "could not be set up inside: no disk \\x1b[2J"));
        assert_int_equal(w->readies, 0);
        end(w);
        for (int i = 0; i < 3; i++) { /* before hello, after ready, too short */
                w = i == 1 ? start_ready() : start();
                if (i == 2)
                        say_u32(w, 0, PROTO_HELLO, PROTO_VERSION);
                say(w, 0, PROTO_FAILED, "\5\0\0\0no disk", i == 2 ? 3 : 11);
                assert_int_equal(spin(w), -1);
                assert_non_null(strstr(w->err.text, "broke its protocol"));
                end(w);
        }
}

/* A client that forges frames loses its exec; the session goes on. */
static void test_hostile_client(void **state)
{
        static const uint8_t forged[][PROTO_HEAD_BYTES] = {
                { 1, 0, 0, 0, PROTO_STDIN, 0, 0, 0 },    /* another stream */
                { 0, 0, 0, 0, PROTO_SHUTDOWN, 0, 0, 0 },
                { 0, 0, 0, 0, PROTO_EXEC, 1, 0, 0 },
                { 0, 0, 0, 0, 99, 0, 0, 0 },
                { 0, 0, 0, 0, PROTO_STDIN, 0, 0xff, 0xff },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
                struct world *w = start_ready();
                int fd = run(w, 1), other = run(w, 2);

                buf_clear(&w->sent);
                assert_int_equal(fd_write_all(fd, forged[i], sizeof(forged[i])), 0);
                assert_int_equal(spin(w), 0);
                assert_int_equal(next(&w->sent).type, PROTO_CLOSE);
                assert_int_equal(buf_len(&w->sent), 0);
                say(w, 2, PROTO_STDOUT, "x", 1);
                assert_int_equal(spin(w), 0);
                close(fd);
                close(other);
                end(w);
        }
}

/* Input beyond the window is a client's fault; what the guest gives back may be used again. */
static void test_input_window(void **state)
{
        struct world *w = start_ready();
        int fd = run(w, 1);
        struct buf b;
        static const uint8_t block[PROTO_PAYLOAD_BYTES];
        uint8_t back[5] = { 0, 0x80, 0, 0, PROTO_STDIN };

        (void)state;
        buf_init(&b, 0);
        for (int round = 0; round < 12; round++) {
                buf_clear(&b);
                assert_int_equal(proto_write(&b, 0, PROTO_STDIN, 0, slice_of(block, sizeof(block))), 0);
                assert_int_equal(fd_write_all(fd, buf_slice(&b).p, buf_len(&b)), 0);
                assert_int_equal(spin(w), 0);
                if (round < 4) {
                        say(w, 1, PROTO_WINDOW, back, sizeof(back));
                        assert_int_equal(spin(w), 0);
                }
        }
        buf_clear(&w->sent);
        assert_int_equal(fd_write_all(fd, buf_slice(&b).p, buf_len(&b)), 0);
        assert_int_equal(spin(w), 0);
        assert_int_equal(next(&w->sent).type, PROTO_CLOSE);
        buf_fini(&b);
        close(fd);
        end(w);
}

static void test_full(void **state)
{
        static const char *const argv[] = { "/bin/true", NULL };
        struct world *w = start_ready();
        struct proto_exec e = { .argv = argv };
        struct err err;
        int fds[PROTO_STREAMS], fd;

        (void)state;
        for (int i = 0; i < PROTO_STREAMS; i++)
                fds[i] = run(w, i);
        assert_int_equal(mux_exec(w->m, 999, &e, &fd, &err), -1);
        for (int i = 0; i < PROTO_STREAMS; i++)
                close(fds[i]);
        end(w);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_exec), cmocka_unit_test(test_connections), cmocka_unit_test(test_another_version_says_the_way_out), cmocka_unit_test(test_client_leaves), cmocka_unit_test(test_setup), cmocka_unit_test(test_notes), cmocka_unit_test(test_hostile_guest), cmocka_unit_test(test_hostile_client), cmocka_unit_test(test_guest_gives_up),
                cmocka_unit_test(test_input_window), cmocka_unit_test(test_full),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
