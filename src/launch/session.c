/* Supervision: see session.h. Messages of docs/CONTROL.md, "bromed ↔ brome-launch", one row each. */
#include "launch/session.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "launch/execenv.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

static void say(const struct session *s, json_t *body, const int *fds, size_t fd_count)
{
        if (chan_send(s->control, body, fds, fd_count) < 0 && errno != EPIPE)
                log_error("cannot tell bromed: %s", strerror(errno));
}

void session_progress(const struct session *s, const char *step) { say(s, json_pack("{s:s,s:s}", "op", "progress", "step", step), NULL, 0); }

/* From here on the guest is to be gone soon. The first reason stays. */
static void end_with(struct session *s, const char *why, int64_t within_ms)
{
        if (!s->ends)
                snprintf(s->why, sizeof(s->why), "%s", why);
        s->ends = true;
        s->deadline_ms = clock_mono_ms() + within_ms;
}

static void kill_now(struct session *s, const char *why)
{
        end_with(s, why, SESSION_KILL_MS);
        s->killed = true;
        if (keeper_do(&s->keeper, KEEPER_KILL) < 0)
                log_error("the guest cannot be killed; ending, and it with us");
}

/* SECURITY: the guest's own words: printable, no more than so many, each marked as the machine's. */
static void add_notes(struct session *s, struct slice notes)
{
        char line[SESSION_NOTE_BYTES];

        for (int lines = 0; notes.n && lines < SESSION_NOTES; lines++) {
                ptrdiff_t end = slice_find(notes, '\n');
                struct slice one = end < 0 ? notes : slice_first(notes, (size_t)end);

                notes = slice_skip(notes, one.n + (end >= 0));
                if (one.n)
                        json_array_append_new(s->warnings, json_sprintf("the machine says: %s", esc_text(line, sizeof(line), one)));
        }
}

static void on_ready(void *arg, struct slice notes)
{
        struct session *s = arg;

        add_notes(s, notes);
        s->ready = true;
        s->deadline_ms = 0;
        say(s, json_pack("{s:s,s:{s:o,s:O}}", "op", "ready", "isolation", "limits", cgroup_describe(&s->groups, &s->plan, s->warnings), "warnings",
                s->warnings), NULL, 0);
}

static void on_ended(void *arg, long long id, uint32_t status)
{
        struct session *s = arg;
        int w = (int)status, code = WIFEXITED(w) ? WEXITSTATUS(w) : WIFSIGNALED(w) ? 128 + WTERMSIG(w) : 255;

        say(s, json_pack("{s:s,s:I,s:i}", "op", "exec-end", "id", (json_int_t)id, "status", code), NULL, 0);
}

static int hello_ms(const struct session *s) { return s->plan.machine ? MACHINE_HELLO_MS : SESSION_HELLO_MS; }
static int kill_ms(const struct session *s) { return s->plan.machine ? MACHINE_KILL_MS : SESSION_KILL_MS; }

static int start_guest(struct session *s, struct err *err)
{
        struct mux_events events = { s, on_ready, on_ended };

        session_progress(s, !s->plan.machine ? "starting the workspace" : s->machine.root.kvm ? "starting the machine" : "starting the machine (emulated, without KVM)");
        if (child_built(&s->child, s->warnings, err) < 0 || child_go(&s->child, err) < 0)
                return -1;
        s->mux = mux_new(s->child.channel, events);
        if (!s->mux || mux_setup(s->mux, buf_slice(&s->machine.setup)) < 0)
                return err_set(err, "out of memory");
        s->started = true;
        s->deadline_ms = clock_mono_ms() + (s->machine.root.kvm ? MACHINE_KVM_MS : hello_ms(s));
        return 0;
}

static int on_open(struct session *s, const struct chan_msg *msg, struct err *err)
{
        (void)msg;
        if (keeper_do(&s->keeper, KEEPER_OPEN) < 0)
                return err_set(err, "cannot open the gateway");
        return s->started ? 0 : start_guest(s, err);
}

static int on_shut(struct session *s, const struct chan_msg *msg, struct err *err)
{
        (void)msg;
        return keeper_do(&s->keeper, KEEPER_SHUT) < 0 ? err_set(err, "cannot shut the gateway") : 0;
}

/* Nothing begins in a workspace that is not there yet, ends or stands still. */
static int takes_streams(const struct session *s, struct err *why)
{
        if (!s->ready || s->ends)
                return err_set(why, "the workspace is not ready");
        return s->frozen ? err_set(why, "the workspace is frozen; `brome workspace thaw %s` lets it go on", s->plan.workspace) : 0;
}

/* The stream that bromed asked for, whose end is closed here, or why there is none. */
static int answer_stream(const struct session *s, const char *op, long long id, int client, const struct err *why)
{
        if (client < 0)
                say(s, json_pack("{s:s,s:I,s:s}", "op", op, "id", (json_int_t)id, "error", why->text), NULL, 0);
        else
                say(s, json_pack("{s:s,s:I,s:[s]}", "op", op, "id", (json_int_t)id, "fds", "stream"), &client, 1);
        fd_close(&client);
        return 0;
}

static int on_exec(struct session *s, const struct chan_msg *msg, struct err *err)
{
        long long id = chan_int(msg, "id", -1);
        struct err why = ERR_INIT;
        int client = -1;

        (void)err;
        if (takes_streams(s, &why) < 0 || execenv_exec(s->mux, id, msg, &s->plan, s->shares.tool_path, &client, &why) < 0)
                fd_close(&client);
        return answer_stream(s, msg->op, id, client, &why);
}

static int on_connect(struct session *s, const struct chan_msg *msg, struct err *err)
{
        long long id = chan_int(msg, "id", -1), port = chan_int(msg, "port", 0);
        struct err why = ERR_INIT;
        int client = -1;

        (void)err;
        if (port < 1 || port > UINT16_MAX)
                err_set(&why, "no port has this number");
        else if (takes_streams(s, &why) < 0 || mux_connect(s->mux, id, (uint16_t)port, &client, &why) < 0)
                fd_close(&client);
        return answer_stream(s, msg->op, id, client, &why);
}

/* A machine's clock stood still with it. */
static void tell_time(const struct session *s)
{
        uint8_t seed[PROTO_SEED_BYTES];

        if (s->plan.machine && s->mux && getrandom(seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
                mux_clock(s->mux, clock_real_us(), seed);
}

static int freeze(struct session *s, const char *op, enum keeper_order order)
{
        bool done = s->started && keeper_do(&s->keeper, order) == 0;

        if (done)
                s->frozen = order == KEEPER_FREEZE;
        if (done && !s->frozen)
                tell_time(s);
        say(s, json_pack("{s:s,s:b,s:I}", "op", op, "ok", done, "at_us", (json_int_t)clock_mono_us()), NULL, 0);
        return 0;
}

/* For the evidence; nobody waits for it, and a guest that runs would have changed it. */
static void tell_processes(const struct session *s)
{
        static char text[KEEPER_LIST_BYTES + 1];
        json_t *list = json_array();
        char *line, *save = NULL;

        if (keeper_list(&s->keeper, text) == 0)
                for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                        json_array_append_new(list, json_string(line));
        if (json_array_size(list))
                say(s, json_pack("{s:s,s:o}", "op", "processes", "list", list), NULL, 0);
        else
                json_decref(list);
}

static int on_freeze(struct session *s, const struct chan_msg *msg, struct err *err)
{
        (void)msg, (void)err;
        freeze(s, "freeze", KEEPER_FREEZE);
        if (s->frozen)
                tell_processes(s);
        return 0;
}

static int on_thaw(struct session *s, const struct chan_msg *msg, struct err *err)
{
        (void)msg, (void)err;
        return freeze(s, "thaw", KEEPER_THAW);
}

static int on_stop(struct session *s, const struct chan_msg *msg, struct err *err)
{
        long long grace_ms = chan_int(msg, "grace_ms", 2000);

        (void)err;
        s->asked = s->asked || !s->ends;
        if (grace_ms < 0 || grace_ms > SESSION_GRACE_MAX_MS)
                grace_ms = SESSION_GRACE_MAX_MS;
        if (!s->ready || grace_ms == 0) {
                kill_now(s, "stopped");
                return 0;
        }
        if (s->frozen && keeper_do(&s->keeper, KEEPER_THAW) == 0)
                s->frozen = false;
        mux_shutdown(s->mux, (uint32_t)grace_ms);
        end_with(s, "stopped", grace_ms + kill_ms(s));
        return 0;
}

static const struct {
        const char *op;
        int (*run)(struct session *s, const struct chan_msg *msg, struct err *err);
} orders[] = {
        { "open", on_open }, { "shut", on_shut }, { "exec", on_exec }, { "connect", on_connect }, { "freeze", on_freeze }, { "thaw", on_thaw }, { "stop", on_stop },
};

/* Everything that waits on the channel. 1: bromed is gone. */
static int control_turn(struct session *s, struct err *err)
{
        struct chan_msg msg;
        struct err why = ERR_INIT;
        int n, rc = 0;

        while (rc == 0 && (n = chan_recv(s->control, &msg, &why)) == 1) {
                size_t i = 0, count = sizeof(orders) / sizeof(orders[0]);
                while (i < count && strcmp(orders[i].op, msg.op) != 0)
                        i++;
                rc = i < count ? orders[i].run(s, &msg, err) : err_set(err, "bromed sent %s, which is no order for a launcher", esc_str(msg.op));
                chan_msg_fini(&msg);
        }
        if (rc < 0)
                return -1;
        return n < 0 ? 1 : 0;
}

static int timeout(const struct session *s)
{
        int64_t left = s->deadline_ms - clock_mono_ms();

        return s->deadline_ms == 0 ? -1 : left < 0 ? 0 : (int)left;
}

/* The guest is gone: what it still said, as far as clients take it. */
static void drain(struct session *s)
{
        static struct pollfd fds[MUX_FDS];
        int64_t until_ms = clock_mono_ms() + SESSION_DRAIN_MS;
        bool guest = s->mux && !mux_guest_is_gone(s->mux);
        struct err quiet;

        while (s->mux && clock_mono_ms() < until_ms && (guest || !mux_idle(s->mux))) {
                size_t n = mux_wants(s->mux, fds);
                if (poll(fds, n, SESSION_DRAIN_MS) < 0 && errno != EINTR)
                        return;
                if (mux_turn(s->mux, fds, n, &quiet) < 0) {
                        guest = false;
                        mux_guest_gone(s->mux);
                }
        }
}

/* A machine that ended by itself may have said why on its console. */
static void explain(struct session *s, int status)
{
        if (!s->ends)
                snprintf(s->why, sizeof(s->why), "the machine ended");
        if (!s->asked && !s->killed && WIFSIGNALED(status))
                snprintf(s->why, sizeof(s->why), "the machine ended: QEMU was killed by signal %d", WTERMSIG(status));
        machine_ended(&s->machine, s->why, s->asked ? 0 : sizeof(s->why));
        s->ends = true;
}

/* KVM did not bring the machine up: `how` says in what way. */
static int without_kvm(struct session *s, const char *how, struct err *err)
{
        machine_forget_kvm(&s->machine);
        s->again = true;
        return err_set(err, "KVM did not bring the machine up (%s); it is emulated from now on, `brome image probe` looks anew", how);
}

/* QEMU gave up by itself before the guest's first word: it failed an assertion, or says that it is KVM. SECURITY: whatever else keeps it from starting, a disk
 * that a guest has spoilt or memory that the host lacks, would keep it from starting emulated as well, and must not take KVM from all machines of the image. */
static bool kvm_failed(const struct session *s, int status)
{
        return s->machine.root.kvm && ((WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) || (status && s->machine.blames_kvm));
}

/* What it did to the shares, and the last message. */
static int finish(struct session *s, struct err *err)
{
        struct shares_end end;
        int status = 0;

        while (waitpid(s->child.pid, &status, 0) < 0 && errno == EINTR)
                ;
        s->child.pid = -1;
        drain(s);
        if (s->plan.machine)
                explain(s, status);
        end = shares_finish(&s->shares, &s->plan);
        if (!s->asked && !s->killed && s->mux && !mux_greeted(s->mux) && kvm_failed(s, status)) {
                json_decref(end.changed);
                json_decref(end.kept_out);
                return without_kvm(s, s->why, err);
        }
        say(s, json_pack("{s:s, s:s, s:o, s:I, s:o}", "op", "exit", "reason", s->ends ? s->why : "the workspace's first process ended",
                         "changed", end.changed ? end.changed : json_array(), "changed_more", (json_int_t)end.more,
                         "kept_out", end.kept_out ? end.kept_out : json_array()), NULL, 0);
        return 0;
}

/* A deadline passed: a guest that never said hello, or that does not end. */
static int too_late(struct session *s, struct err *err)
{
        if (!s->started)
                return err_set(err, "the inner door was not ready in time");
        if (!s->ready && !s->ends && s->machine.root.kvm && !s->greeted) {
                s->greeted = mux_greeted(s->mux);
                if (s->greeted) {
                        s->deadline_ms = clock_mono_ms() + hello_ms(s);
                        return 0;
                }
                kill_now(s, "KVM did not bring the machine up");
                return without_kvm(s, "no word of it within half a minute", err);
        }
        if (!s->ready && !s->ends) {
                kill_now(s, "the workspace did not answer");
                return err_set(err, "brome-guest said nothing for %d s", hello_ms(s) / 1000);
        }
        /* However late this is noticed; and again, as long as the guest is there. */
        kill_now(s, "stopped");
        return 0;
}

enum { POLL_CONTROL, POLL_CHILD, POLL_KEEPER, POLL_CONSOLE, POLL_FIXED };

static int turn(struct session *s, struct err *err)
{
        static struct pollfd fds[POLL_FIXED + MUX_FDS];
        size_t n = s->mux ? mux_wants(s->mux, fds + POLL_FIXED) : 0;
        struct err why = ERR_INIT;
        int rc;

        fds[POLL_CONTROL] = (struct pollfd){ .fd = s->control, .events = POLLIN };
        fds[POLL_CHILD] = (struct pollfd){ .fd = s->child.pidfd, .events = POLLIN };
        fds[POLL_KEEPER] = (struct pollfd){ .fd = s->keeper.channel, .events = POLLIN };
        fds[POLL_CONSOLE] = (struct pollfd){ .fd = s->machine.console, .events = POLLIN };
        rc = poll(fds, POLL_FIXED + n, timeout(s));
        if (rc < 0 && errno != EINTR)
                return err_sys(err, errno, "poll");
        if (rc == 0 && too_late(s, err) < 0)
                return -1;
        if (rc <= 0)
                return 0;
        if (fds[POLL_KEEPER].revents) {
                /* What its hands did that ours still can, by descriptor: a frozen guest could not even die. brome-spawn ends what is left. */
                (void)cgroup_kill(&s->groups);
                (void)cgroup_freeze(&s->groups, false);
                return err_set(err, "the launcher's keeper died");
        }
        if (fds[POLL_CONSOLE].revents)
                machine_console(&s->machine);
        if (n && mux_turn(s->mux, fds + POLL_FIXED, n, &why) < 0) {
                if (!s->ends && s->plan.machine && mux_channel_ended(s->mux)) {
                        end_with(s, "the machine ended", kill_ms(s)); /* QEMU closes it before it is gone itself; its status says more */
                } else if (!s->ends && fds[POLL_CHILD].revents == 0) {
                        log_error("%s", why.text);
                        kill_now(s, why.text);
                }
                mux_guest_gone(s->mux);
        }
        if (fds[POLL_CHILD].revents) {
                /* Before `open`: it could not build. Its own words say why. */
                if (!s->started)
                        return child_built(&s->child, s->warnings, err) < 0 ? -1 : err_set(err, "the guest's first process died");
                return 1;
        }
        if (fds[POLL_CONTROL].revents == 0)
                return 0;
        rc = control_turn(s, err);
        return rc == 1 ? err_set(err, "bromed is gone") : rc;
}

int session_run(struct session *s, struct err *err)
{
        int rc;

        s->deadline_ms = clock_mono_ms() + SESSION_OPEN_MS;
        do
                rc = turn(s, err);
        while (rc == 0);
        return rc < 0 ? -1 : finish(s, err);
}
