/* Relay between three local descriptors and one exec stream: see attach.h. One poll loop; standard descriptors stay blocking, because they are
 * shared with the shell and with whoever else has them: they are touched only when poll says so, output in pieces that then cannot block. */
#include "attach/attach.h"
#include "attach/question.h"
#include "attach/term.h"
#include "attach/termfilter.h"
#include "base/buf.h"
#include "base/chan.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "guest/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum {
        PIECE_BYTES = 4096,                /* PIPE_BUF: after POLLOUT a pipe takes it without blocking */
        PIECE_FILE_BYTES = 64 * 1024,
        ACK_BYTES = 32 * 1024,             /* give window back in such pieces */
        STREAM_IN_BYTES = 64 * 1024,
        STREAM_OUT_BYTES = 256 * 1024,
        STREAM_OUT_HIGH_BYTES = 64 * 1024, /* no more input is read while so much waits */
        CTRL_C = 3,
        SAY_BYTES = 16 * 1024,             /* lines of ours that wait; more nobody reads */
        FLUSH_MS = 100,                    /* for a stop or hang-up to leave before we stop or end */
        REDRAW_MS = 150,                   /* between the false and the true size after a question: programs that compare sizes see both */
        ANSWER_MS = 100, ANSWERS_MS = 1000, /* terminals on a slow line answer late; not longer than people wait */
};

static const int caught[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
enum { CAUGHT_COUNT = sizeof(caught) / sizeof(caught[0]) };

struct sink {
        int fd;
        enum proto_type type;
        struct buf raw;       /* as received: bounded by the window */
        struct buf ready;     /* filtered, on its way */
        uint32_t taken;       /* raw bytes that `ready` came from */
        uint32_t unacked;
        size_t piece_bytes;
        bool filtered, broken;
        struct termfilter filter;
};
#define ERASE_BELOW "\r\n\x1b[J" /* from a new line on */

enum asking {
        ASK_NOTHING,
        ASK_SOON, /* no more output is begun; what the terminal has half of goes out */
        ASK_NOW,  /* the question stands; the keyboard is its */
};
struct attach {
        int stream;
        bool raw;             /* pty on a terminal */
        bool pty;
        struct buf in, out;
        struct sink sinks[2];
        uint32_t window;      /* what the program still takes of standard input */
        bool input_ended, exited, failed;
        int status;           /* to return */
        struct err err;
        int signal_pipe[2];
        struct sigaction before[CAUGHT_COUNT], before_pipe;
        const struct attach_watch *watch;
        int watch_fd; /* -1: nobody asks, or bromed is gone */
        bool can_ask; /* a person sits at the terminal */
        bool stopped; /* by the tripwire: nobody inside hears a key */
        enum asking asking;
        struct question question;
        struct buf say;        /* lines of ours for the terminal */
        int64_t true_size_at_ms; /* 0: the program knows the size */
        int unwritten; /* errno of output that was lost, not of a reader that left; 0: none */
};

static volatile sig_atomic_t signal_fd = -1;

static void on_signal(int number)
{
        int saved = errno;
        uint8_t b = (uint8_t)number;
        ssize_t n = write(signal_fd, &b, 1); /* full: the same signals wait there already */
        (void)n;
        errno = saved;
}

bool attach_wants_pty(void) { return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO); }

bool attach_terminal_size(uint16_t *rows, uint16_t *cols)
{
        struct winsize w;
        bool ok = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 0 && w.ws_col > 0;
        *rows = ok ? w.ws_row : 24;
        *cols = ok ? w.ws_col : 80;
        return ok;
}

/* The stream cannot be used any more. */
static int lose(struct attach *a, int status, const char *text)
{
        if (a->err.text[0] == 0)
                err_set(&a->err, "%s", text);
        a->status = status;
        a->failed = true;
        return -1;
}

static int queue_full(struct attach *a) { return lose(a, ATTACH_LOST, "the workspace takes no input any more"); }

static int send_signal(struct attach *a, int number)
{
        return proto_write_u32(&a->out, 0, PROTO_SIGNAL, (uint32_t)number) < 0 ? queue_full(a) : 0;
}

static int send_size(struct attach *a)
{
        uint16_t rows, cols;
        if (!attach_terminal_size(&rows, &cols))
                return 0;
        return proto_write_resize(&a->out, 0, rows, cols) < 0 ? queue_full(a) : 0;
}

static int stream_write(struct attach *a)
{
        struct slice s = buf_slice(&a->out);
        ssize_t n = s.n > 0 ? write(a->stream, s.p, s.n) : 0;
        if (n > 0)
                buf_consume(&a->out, (size_t)n);
        return n >= 0 || errno == EAGAIN || errno == EINTR ? 0 : -1; /* what has arrived is still read: the reader reports the end */
}

static void stream_flush(struct attach *a)
{
        struct pollfd p = { .fd = a->stream, .events = POLLOUT };
        while (buf_len(&a->out) > 0 && poll(&p, 1, FLUSH_MS) > 0 && stream_write(a) == 0)
                ;
}

/* ---- output ---- */

/* All terminal output passes here; a question holds it back here: nothing is taken from `raw`, and the window does the rest. */
static int sink_take(struct sink *s)
{
        struct slice piece = slice_first(buf_slice(&s->raw), s->piece_bytes);
        int r = s->filtered ? termfilter_push(&s->filter, piece, &s->ready) : buf_add_slice(&s->ready, piece);
        buf_consume(&s->raw, piece.n);
        s->taken += (uint32_t)piece.n;
        return r;
}

static bool held(const struct attach *a) { return a->asking != ASK_NOTHING || buf_len(&a->say) > 0; }
/* Does the descriptor's readiness matter now? */
static bool sink_wants(const struct attach *a, const struct sink *s) { return buf_len(&s->ready) > 0 || (buf_len(&s->raw) > 0 && !held(a)); }

static int sink_acknowledge(struct attach *a, struct sink *s)
{
        s->unacked += s->taken;
        s->taken = 0;
        if (s->unacked < ACK_BYTES)
                return 0;
        uint32_t n = s->unacked;
        s->unacked = 0;
        return proto_write_window(&a->out, 0, n, s->type) < 0 ? queue_full(a) : 0;
}

/* The reader of our output is gone: so is the program's. Its output goes nowhere from now on. */
static int sink_broken(struct attach *a, struct sink *s)
{
        /* A reader that left is its own business; output that a full disk did not take must not look written. */
        if (errno != EPIPE && a->unwritten == 0)
                a->unwritten = errno;
        s->broken = true;
        s->taken += (uint32_t)buf_len(&s->raw);
        buf_clear(&s->raw);
        buf_clear(&s->ready);
        return send_signal(a, SIGPIPE) < 0 ? -1 : sink_acknowledge(a, s);
}

static int sink_write(struct attach *a, struct sink *s)
{
        if (buf_len(&s->ready) == 0 && buf_len(&s->raw) > 0 && !held(a) && sink_take(s) < 0)
                return lose(a, ATTACH_LOST, "out of memory");
        struct slice out = slice_first(buf_slice(&s->ready), s->piece_bytes);
        ssize_t n = out.n > 0 ? write(s->fd, out.p, out.n) : 0;
        if (n < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : sink_broken(a, s);
        if (n > 0)
                buf_consume(&s->ready, (size_t)n);
        return buf_len(&s->ready) == 0 ? sink_acknowledge(a, s) : 0;
}

static bool sink_has(const struct sink *s) { return buf_len(&s->raw) > 0 || buf_len(&s->ready) > 0; }

static void sink_init(struct sink *s, int fd, enum proto_type type)
{
        struct stat st;
        *s = (struct sink){ .fd = fd, .type = type, .filtered = isatty(fd) == 1 };
        s->piece_bytes = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? PIECE_FILE_BYTES : PIECE_BYTES;
        buf_init(&s->raw, PROTO_WINDOW_BYTES);
        buf_init(&s->ready, 0); /* at most three times a piece and one sequence */
        termfilter_init(&s->filter);
}

static int sink_receive(struct attach *a, struct sink *s, struct slice payload)
{
        if (payload.n > PROTO_WINDOW_BYTES - s->unacked - s->taken - buf_len(&s->raw))
                return lose(a, ATTACH_LOST, "the workspace sent more than it may");
        if (!s->broken)
                return buf_add_slice(&s->raw, payload) < 0 ? lose(a, ATTACH_LOST, "out of memory") : 0;
        s->taken += (uint32_t)payload.n;
        return sink_acknowledge(a, s);
}

/* ---- frames ---- */

static int on_exit_frame(struct attach *a, const struct proto_frame *f)
{
        uint32_t status;
        if (proto_get_u32(f->payload, &status) < 0)
                return lose(a, ATTACH_LOST, "the workspace sent a malformed frame");
        int w = (int)status;
        a->status = WIFEXITED(w) ? WEXITSTATUS(w) : WIFSIGNALED(w) ? 128 + WTERMSIG(w) : ATTACH_LOST;
        a->exited = true;
        return 0;
}

static int on_failed_frame(struct attach *a, const struct proto_frame *f)
{
        uint32_t code;
        struct slice text;
        if (proto_get_failed(f->payload, &code, &text) < 0)
                return lose(a, ATTACH_LOST, "the workspace sent a malformed frame");
        err_set(&a->err, "%s: %s", esc(text), strerror((int)(code & 0xfff)));
        return lose(a, code == ENOENT ? ATTACH_NOT_FOUND : ATTACH_CANNOT_RUN, "");
}

static int on_frame(struct attach *a, const struct proto_frame *f)
{
        uint32_t bytes;
        enum proto_type which;
        if (f->stream != 0)
                return lose(a, ATTACH_LOST, "the workspace sent a malformed frame");
        switch ((int)f->type) {
        case PROTO_STARTED:
                return 0;
        case PROTO_STDOUT:
        case PROTO_STDERR:
                return sink_receive(a, &a->sinks[f->type == PROTO_STDERR], f->payload);
        case PROTO_WINDOW:
                if (proto_get_window(f->payload, &bytes, &which) < 0 || which != PROTO_STDIN || bytes > PROTO_WINDOW_BYTES - a->window)
                        break;
                a->window += bytes;
                return 0;
        case PROTO_EXIT:
                return on_exit_frame(a, f);
        case PROTO_FAILED:
                return on_failed_frame(a, f);
        default:
                break;
        }
        return lose(a, ATTACH_LOST, "the workspace sent a malformed frame");
}

static int stream_read(struct attach *a)
{
        uint8_t *to = buf_reserve(&a->in, STREAM_IN_BYTES - buf_len(&a->in));
        ssize_t n = to != NULL ? read(a->stream, to, STREAM_IN_BYTES - buf_len(&a->in)) : -1;
        if (n < 0 && to != NULL && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0)
                return lose(a, ATTACH_LOST, "the workspace ended before the program did");
        buf_commit(&a->in, (size_t)n);
        struct proto_frame f;
        size_t used;
        int r = 0;
        while (!a->exited && (r = proto_read(buf_slice(&a->in), &f, &used)) == 1) {
                if (on_frame(a, &f) < 0)
                        return -1;
                buf_consume(&a->in, used);
        }
        return r < 0 ? lose(a, ATTACH_LOST, "the workspace sent a malformed frame") : 0;
}

/* ---- input and signals ---- */

static int answer(struct attach *a, enum question_answer given);
static int on_caught(struct attach *a, int number);

static bool input_wanted(const struct attach *a) { return !a->input_ended && a->window > 0 && buf_len(&a->out) < STREAM_OUT_HIGH_BYTES; }

static int input_read(struct attach *a)
{
        uint8_t b[PROTO_PAYLOAD_BYTES];
        size_t want = a->window < sizeof(b) ? a->window : sizeof(b);
        ssize_t n = read(STDIN_FILENO, b, want);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) { /* EIO: a terminal that is not ours any more */
                a->input_ended = true;
                n = 0;
        }
        if (a->stopped && a->raw)
                return memchr(b, CTRL_C, (size_t)n) ? on_caught(a, SIGINT) : 0;
        a->window -= (uint32_t)n;
        return proto_write(&a->out, 0, PROTO_STDIN, 0, slice_of(b, (size_t)n)) < 0 ? queue_full(a) : 0;
}

/* Stops ourselves as ^Z would have; returns when continued. */
static void stop_here(void)
{
        struct sigaction by_default = { .sa_handler = SIG_DFL }, ours;
        sigset_t one, before;
        sigemptyset(&one);
        sigaddset(&one, SIGTSTP);
        sigaction(SIGTSTP, &by_default, &ours);
        raise(SIGTSTP);
        sigprocmask(SIG_UNBLOCK, &one, &before);
        sigprocmask(SIG_SETMASK, &before, NULL);
        sigaction(SIGTSTP, &ours, NULL);
}

/* The program's group inside is an orphan to its kernel, where TSTP has no effect: STOP has. */
static int on_stop(struct attach *a)
{
        if (a->raw) {
                term_restore(false);
                stop_here();
                return term_raw() < 0 ? lose(a, ATTACH_LOST, "the terminal is gone") : send_size(a);
        }
        if (send_signal(a, SIGSTOP) < 0)
                return -1;
        stream_flush(a);
        stop_here();
        return send_signal(a, SIGCONT);
}

static int on_caught(struct attach *a, int number)
{
        if (number == SIGWINCH)
                return a->pty ? send_size(a) : 0;
        if (number == SIGTSTP)
                return a->asking == ASK_NOW && !a->raw && answer(a, QUESTION_LATER) < 0 ? -1 : on_stop(a);
        if (number == SIGCONT) /* after a stop that nobody could catch, the shell has set its own modes */
                return !a->raw ? 0 : term_raw() < 0 ? lose(a, ATTACH_LOST, "the terminal is gone") : send_size(a);
        if (a->asking == ASK_NOW && !a->raw && answer(a, QUESTION_LATER) < 0)
                return -1;
        if (!a->raw && !a->stopped) /* what stands still would never hear it */
                return send_signal(a, number);
        if (proto_write(&a->out, 0, PROTO_CLOSE, 0, SLICE_EMPTY) == 0)
                stream_flush(a);
        err_set(&a->err, "ended by signal %d", number);
        return lose(a, 128 + number, "");
}

static int signals_read(struct attach *a)
{
        uint8_t b[64];
        ssize_t n = read(a->signal_pipe[0], b, sizeof(b));
        for (ssize_t i = 0; i < n; i++)
                if (on_caught(a, b[i]) < 0)
                        return -1;
        return 0;
}

static int signals_open(struct attach *a)
{
        struct sigaction act = { .sa_handler = on_signal }, ignore = { .sa_handler = SIG_IGN };
        if (pipe2(a->signal_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
                return err_sys(&a->err, errno, "cannot make a pipe");
        signal_fd = a->signal_pipe[1];
        for (size_t i = 0; i < CAUGHT_COUNT; i++) {
                sigaction(caught[i], NULL, &a->before[i]);
                if (a->before[i].sa_handler != SIG_IGN) /* nohup and the like stay in force */
                        sigaction(caught[i], &act, NULL);
        }
        sigaction(SIGPIPE, &ignore, &a->before_pipe);
        return 0;
}

static void signals_close(struct attach *a)
{
        if (a->signal_pipe[0] < 0)
                return;
        for (size_t i = 0; i < CAUGHT_COUNT; i++)
                sigaction(caught[i], &a->before[i], NULL);
        sigaction(SIGPIPE, &a->before_pipe, NULL);
        signal_fd = -1;
        fd_close(&a->signal_pipe[0]);
        fd_close(&a->signal_pipe[1]);
}

/* ---- the question ---- */

/* Is the keyboard ours, and does a person see what we write? With output into a pipe the keyboard may be its reader's. */
static bool may_ask(void) { return attach_wants_pty() && tcgetpgrp(STDIN_FILENO) == getpgrp(); }

/* A line for the person: on the terminal when what the program has half written is out, otherwise at once. */
static void tell(struct attach *a, const char *text)
{
        if (!attach_wants_pty())
                a->watch->note(text);
        else if (buf_addf(&a->say, "brome: %s\r\n", text) < 0)
                buf_clear(&a->say);
}

static const char *member(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

static void tell_alert(struct attach *a, const json_t *alert)
{
        char text[1024];

        snprintf(text, sizeof(text), "TRIPWIRE: %s was sending the placeholder %s of the credential %s, good for %s, to %s; it is stopped. `brome alerts` says more, and how to go on%s",
                 esc_str(member(alert, "workspace")), esc_str(member(alert, "placeholder")), esc_str(member(alert, "credential")), esc_str(member(alert, "issued_for")),
                 esc_str(member(alert, "going_to")), attach_wants_pty() || isatty(STDERR_FILENO) ? "; ^C leaves" : "");
        tell(a, text);
        a->stopped = true;
}

/* Nobody can be asked here: how to answer elsewhere. */
static void tell_first(struct attach *a)
{
        const json_t *approval = question_first(&a->question), *first = json_array_get(json_object_get(approval, "requests"), 0);
        char title[1024], text[2048], path[256];
        long long id = question_id(approval);

        question_title(approval, title, sizeof(title));
        esc_text(path, sizeof(path), slice_str(member(first, "path")));
        snprintf(text, sizeof(text), "%s (%s %s); `brome approvals allow %lld --for once` lets it go, `brome approvals deny %lld` refuses it", title, esc_str(member(first, "method")),
                 path, id, id);
        tell(a, text);
        question_drop(&a->question, true);
}

/* The keyboard is the program's again, its output goes on, and it draws anew. lead: "\r\n" where the cursor stands behind the prompt. */
static int asking_ends(struct attach *a, const char *lead, const char *word)
{
        bool shown = a->asking == ASK_NOW;
        struct buf out;
        uint16_t rows, cols;
        int r = 0;

        a->asking = ASK_NOTHING;
        if (!shown)
                return 0;
        buf_init(&out, 0);
        buf_addf(&out, "%sbrome: %s\r\n", lead, word);
        for (int i = 0; i < (a->pty ? 1 : 2); i++)
                if (a->sinks[i].filtered)
                        (void)!termfilter_resume(&a->sinks[i].filter, &out);
        if (fd_write_all(STDOUT_FILENO, buf_slice(&out).p, buf_len(&out)) < 0)
                r = lose(a, ATTACH_LOST, "the terminal is gone");
        buf_fini(&out);
        if (!a->raw)
                term_restore(true);
        if (r == 0 && a->pty && attach_terminal_size(&rows, &cols)) {
                a->true_size_at_ms = clock_mono_ms() + REDRAW_MS;
                r = proto_write_resize(&a->out, 0, rows > 1 ? (uint16_t)(rows - 1) : 2, cols) < 0 ? queue_full(a) : 0;
        }
        return r;
}

static int asking_begins(struct attach *a)
{
        struct buf out;
        int r = 0;

        /* SECURITY: what was typed before the codes are on the screen was typed for the program. */
        if (term_raw() < 0)
                return lose(a, ATTACH_LOST, "the terminal is gone");
        tcflush(STDIN_FILENO, TCIFLUSH);
        term_drain(ANSWER_MS, ANSWERS_MS);
        tcflush(STDIN_FILENO, TCIFLUSH);
        buf_init(&out, 0);
        for (int i = 0; i < (a->pty ? 1 : 2); i++) /* with a pty everything comes as standard output */
                if (a->sinks[i].filtered)
                        (void)!termfilter_pause(&a->sinks[i].filter, &out);
        a->asking = ASK_NOW;
        /* SECURITY: what the program left below and beside must not read on from our lines. */
        buf_add_str(&out, ERASE_BELOW);
        if (question_show(&a->question, &out) < 0) {
                tell_first(a);
                r = asking_ends(a, "\r\n", "the question cannot be asked here");
        } else if (fd_write_all(STDOUT_FILENO, buf_slice(&out).p, buf_len(&out)) < 0) {
                r = lose(a, ATTACH_LOST, "the terminal is gone");
        }
        buf_fini(&out);
        return r;
}

/* Lines of ours, with the program's colours off. */
static int say_now(struct attach *a)
{
        static const char sane[] = "\x1b[0m\x0f\x1b(B" ERASE_BELOW;
        int r = fd_write_all(STDOUT_FILENO, sane, sizeof(sane) - 1) < 0 || fd_write_all(STDOUT_FILENO, buf_slice(&a->say).p, buf_len(&a->say)) < 0;

        buf_clear(&a->say);
        return r ? lose(a, ATTACH_LOST, "the terminal is gone") : 0;
}

static int asking_turn(struct attach *a)
{
        bool whole = buf_len(&a->sinks[0].ready) == 0 && buf_len(&a->sinks[1].ready) == 0;

        while (question_first(&a->question) && a->asking == ASK_NOTHING && !(a->can_ask && may_ask()))
                tell_first(a);
        if (question_first(&a->question) && a->asking == ASK_NOTHING && !a->exited)
                a->asking = ASK_SOON;
        if (!whole)
                return 0;
        if (buf_len(&a->say) > 0 && say_now(a) < 0)
                return -1;
        return a->asking == ASK_SOON ? asking_begins(a) : 0;
}

static int answer(struct attach *a, enum question_answer given)
{
        json_t *request = question_request(&a->question, given);
        char word[160];

        snprintf(word, sizeof(word), "%s", question_word(given));
        if (given == QUESTION_LATER)
                snprintf(word, sizeof(word), "it goes on waiting; `brome approvals allow %lld --for once` lets it go", question_id(question_first(&a->question)));
        if (request) {
                json_object_set_new(request, "id", json_integer(++*a->watch->last_id));
                if (chan_send(a->watch_fd, request, NULL, 0) < 0)
                        snprintf(word, sizeof(word), "the answer did not reach the supervisor");
        }
        question_drop(&a->question, true);
        return asking_ends(a, "", word);
}

static int question_read(struct attach *a)
{
        uint8_t b[64];
        ssize_t n = read(STDIN_FILENO, b, sizeof(b));
        struct buf echo;
        enum question_answer given = QUESTION_NO_ANSWER;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return 0;
        if (n <= 0) /* the terminal is gone; so is who could answer */
                return answer(a, QUESTION_LATER);
        buf_init(&echo, 0);
        /* What follows the answer in the same breath is dropped: it was typed to us. */
        for (ssize_t i = 0; i < n && given == QUESTION_NO_ANSWER; i++)
                given = question_key(&a->question, b[i], &echo);
        if (fd_write_all(STDOUT_FILENO, buf_slice(&echo).p, buf_len(&echo)) < 0)
                given = QUESTION_LATER;
        buf_fini(&echo);
        return given == QUESTION_NO_ANSWER ? 0 : answer(a, given);
}

static void heard_notice(struct attach *a, json_t *notice)
{
        const char *word = question_notice(&a->question, notice);
        char text[160];

        if (strcmp(member(notice, "kind"), "alert") == 0)
                tell_alert(a, json_object_get(notice, "alert"));
        if (strcmp(member(notice, "kind"), "state") == 0 && strcmp(member(notice, "state"), "running") == 0)
                a->stopped = false;
        if (!word)
                return;
        snprintf(text, sizeof(text), "the question was answered elsewhere, or is over: %s", word);
        (void)!asking_ends(a, "\r\n", text);
}

/* What waited already when the watch began. */
static void heard_approvals(struct attach *a, json_t *list)
{
        json_t *approval;
        size_t i;

        json_array_foreach(list, i, approval) {
                json_t *notice = json_pack("{s:s, s:O}", "kind", "approval", "approval", approval);
                if (notice)
                        heard_notice(a, notice);
                json_decref(notice);
        }
}

static void watch_read(struct attach *a)
{
        struct chan_msg msg;
        struct err quiet = ERR_INIT;
        int r;

        while ((r = chan_recv(a->watch_fd, &msg, &quiet)) == 1) {
                if (strcmp(msg.op, "notice") == 0)
                        heard_notice(a, msg.body);
                else if (strcmp(msg.op, "approvals") == 0)
                        heard_approvals(a, json_object_get(msg.body, "waiting"));
                else if (strcmp(msg.op, "error") == 0)
                        tell(a, esc_str(chan_str(&msg, "text", "the supervisor refused the answer")));
                chan_msg_fini(&msg);
        }
        if (r == 0)
                return;
        a->watch_fd = -1;
        while (question_first(&a->question))
                question_drop(&a->question, false);
        (void)!asking_ends(a, "\r\n", "the supervisor is gone");
}

static int wait_ms(const struct attach *a)
{
        int64_t left = a->true_size_at_ms - clock_mono_ms();

        return a->true_size_at_ms == 0 ? -1 : left > 0 ? (int)left : 0;
}

/* ---- life ---- */

static int turn(struct attach *a)
{
        struct pollfd p[6] = {
                { .fd = a->stream, .events = (short)(POLLIN | (buf_len(&a->out) > 0 ? POLLOUT : 0)) },
                { .fd = a->signal_pipe[0], .events = POLLIN },
                { .fd = a->asking == ASK_NOW || (a->asking == ASK_NOTHING && input_wanted(a)) ? STDIN_FILENO : -1, .events = POLLIN },
                { .fd = sink_wants(a, &a->sinks[0]) ? STDOUT_FILENO : -1, .events = POLLOUT },
                { .fd = sink_wants(a, &a->sinks[1]) ? STDERR_FILENO : -1, .events = POLLOUT },
                { .fd = a->watch_fd, .events = POLLIN },
        };
        if (poll(p, 6, wait_ms(a)) < 0)
                return errno == EINTR ? 0 : lose(a, ATTACH_LOST, "poll failed");
        if (a->true_size_at_ms && clock_mono_ms() >= a->true_size_at_ms) {
                a->true_size_at_ms = 0;
                if (send_size(a) < 0)
                        return -1;
        }
        if (p[1].revents != 0 && signals_read(a) < 0)
                return -1;
        if ((p[0].revents & POLLOUT) && stream_write(a) < 0)
                buf_clear(&a->out);
        if ((p[0].revents & (POLLIN | POLLHUP | POLLERR)) && stream_read(a) < 0)
                return -1;
        for (int i = 0; i < 2; i++)
                if (p[3 + i].revents != 0 && sink_write(a, &a->sinks[i]) < 0)
                        return -1;
        if (p[5].revents != 0)
                watch_read(a);
        if (a->stopped && a->watch->leaves)
                return lose(a, ATTACH_TRIPPED, "");
        if (asking_turn(a) < 0)
                return -1;
        if (p[2].revents == 0 || a->exited)
                return 0;
        return a->asking == ASK_NOW ? question_read(a) : a->asking == ASK_NOTHING ? input_read(a) : 0;
}

/* The program is over; print what it printed. Still interruptible: a reader that never reads must not hold us. */
static void finish_output(struct attach *a)
{
        while (sink_has(&a->sinks[0]) || sink_has(&a->sinks[1])) {
                struct pollfd p[3] = {
                        { .fd = sink_has(&a->sinks[0]) ? STDOUT_FILENO : -1, .events = POLLOUT },
                        { .fd = sink_has(&a->sinks[1]) ? STDERR_FILENO : -1, .events = POLLOUT },
                        { .fd = a->signal_pipe[0], .events = POLLIN },
                };
                if (poll(p, 3, -1) < 0 && errno == EINTR)
                        continue;
                uint8_t number;
                if (p[2].revents != 0 && read(a->signal_pipe[0], &number, 1) == 1 && number != SIGWINCH && number != SIGCONT && number != SIGTSTP)
                        return;
                buf_clear(&a->out); /* nobody counts windows any more */
                for (int i = 0; i < 2; i++)
                        if (p[i].revents != 0)
                                (void)sink_write(a, &a->sinks[i]);
        }
}

static void finish_terminal(struct attach *a)
{
        unsigned long queries = a->sinks[0].filter.queries + a->sinks[1].filter.queries;
        for (int i = 0; i < 2; i++) {
                struct buf out;
                buf_init(&out, 0);
                struct sink *s = &a->sinks[i];
                if (s->filtered && !s->broken && termfilter_reset(&s->filter, &out) == 0 && buf_len(&out) > 0 &&
                    fd_write_all(s->fd, buf_slice(&out).p, buf_len(&out)) < 0)
                        s->broken = true; /* the terminal is gone: nothing to put back */
                buf_fini(&out);
        }
        if (a->raw && queries > 0)
                term_drain(ANSWER_MS, ANSWERS_MS);
        term_restore(true);
}

static int set_up(struct attach *a)
{
        if (fd_nonblock(a->stream) < 0)
                return err_sys(&a->err, errno, "cannot use the stream");
        if (a->raw && term_raw() < 0)
                return err_sys(&a->err, errno, "cannot set the terminal");
        if (signals_open(a) < 0)
                return -1;
        return a->pty ? send_size(a) : 0; /* it may have changed since the request */
}

int attach_run(int stream_fd, const struct attach_options *options)
{
        struct attach *a = calloc(1, sizeof(*a));
        int status = ATTACH_LOST;
        if (a == NULL) {
                close(stream_fd);
                return status;
        }
        *a = (struct attach){ .stream = stream_fd, .pty = options->pty, .raw = options->pty && attach_wants_pty(), .window = PROTO_WINDOW_BYTES,
                .status = ATTACH_LOST, .signal_pipe = { -1, -1 }, .watch = options->watch, .watch_fd = options->watch ? options->watch->fd : -1 };
        a->can_ask = options->watch && attach_wants_pty();
        question_init(&a->question);
        buf_init(&a->say, SAY_BYTES);
        buf_init(&a->in, STREAM_IN_BYTES);
        buf_init(&a->out, STREAM_OUT_BYTES);
        sink_init(&a->sinks[0], STDOUT_FILENO, PROTO_STDOUT);
        sink_init(&a->sinks[1], STDERR_FILENO, PROTO_STDERR);
        int r = set_up(a);
        while (r == 0 && !a->exited)
                r = turn(a);
        fd_close(&a->stream); /* at once: printing may take as long as our reader likes */
        (void)!asking_ends(a, "\r\n", "the program is over");
        if (buf_len(&a->say) > 0)
                (void)!say_now(a);
        if (a->signal_pipe[0] >= 0)
                finish_output(a);
        finish_terminal(a);
        signals_close(a);
        if (a->unwritten != 0 && a->err.text[0] == 0)
                err_sys(&a->err, a->unwritten, "the output could not be written");
        if (a->err.text[0] != 0 && options->err != NULL)
                *options->err = a->err;
        else if (a->err.text[0] != 0)
                fprintf(stderr, "brome: %s\n", a->err.text);
        /* The SIGPIPE was ours: whether the program had ended before it came is chance. */
        status = (a->status == 0 || a->status == 128 + SIGPIPE) && a->unwritten != 0 ? ATTACH_LOST : a->status;
        for (int i = 0; i < 2; i++) {
                buf_fini(&a->sinks[i].raw);
                buf_fini(&a->sinks[i].ready);
        }
        question_fini(&a->question);
        buf_fini(&a->say);
        buf_fini(&a->in);
        buf_fini(&a->out);
        free(a);
        return status;
}
