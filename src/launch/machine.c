/* The machine: see machine.h. */
#include "launch/machine.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "launch/place.h"
#include "launch/trust.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

void machine_init(struct machine *m)
{
        memset(m, 0, sizeof(*m));
        buf_init(&m->setup, 0);
        m->console = m->monitor = m->their_console = m->their_monitor = m->log = m->accel = -1;
}

int machine_judge(struct machine *m, const struct plan *plan, const struct ids *ids, const struct shares *shares, json_t *warnings, struct err *err)
{
        m->root = (struct vmroot){ .ids = ids, .plan = plan, .shares = shares };
        if (vmroot_judge(&m->root, warnings, err) < 0)
                return -1;
        if (m->root.kvm) {
                char path[PATH_MAX];

                /* An image that is not ours to write is probed at every start. */
                place(path, sizeof(path), "%s/accel", m->root.image);
                m->accel = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
        }
        return 0;
}

/* ---- what the guest in it has to set up ---- */

struct parts {
        struct setup setup;
        struct command command;
        struct command_share shared[SETUP_SHARES];
        char paths[SETUP_SHARES][PATH_MAX]; /* in the guest; in QEMU's root below VMROOT_SHARED */
        char inside[SETUP_SHARES][PATH_MAX + sizeof(VMROOT_SHARED)];
        struct buf ca;
        char ca_hash[SETUP_HASH_BYTES + 1];
        char *accounts;
        uint8_t seed[32];
};

static int add_share(struct parts *p, const char *path, bool read_only, bool still, struct err *err)
{
        size_t i = p->setup.share_count;
        struct setup_share *s = &p->setup.shares[i];

        if (i == SETUP_SHARES)
                return err_set(err, "too many shares for a machine: %d with tools and git configurations", SETUP_SHARES);
        place(p->paths[i], sizeof(p->paths[i]), "%s", path);
        place(p->inside[i], sizeof(p->inside[i]), VMROOT_SHARED "%s", path);
        if (!p->paths[i][0] || !p->inside[i][0])
                return err_set(err, "a share's path is too long");
        *s = (struct setup_share){ .path = slice_str(p->paths[i]), .read_only = read_only, .still = still };
        command_tag(s->tag, i);
        p->shared[i] = (struct command_share){ p->inside[i], read_only };
        p->setup.share_count = i + 1;
        return 0;
}

/* Shares and tools, outer before inner as they are mounted; then the folders to which the links over git's configurations lead, and that of programs. */
static int add_shares(struct parts *p, const struct plan *plan, const struct shares *shares, struct err *err)
{
        for (size_t i = 0; i < shares->count; i++) {
                const struct shares_one *one = &shares->one[i];
                bool read_only = one->plan->mode == SHARE_READ_ONLY, tool = one->plan >= plan->tools && one->plan < plan->tools + PLAN_TOOLS;

                if (add_share(p, one->checked.path, read_only, read_only && tool, err) < 0)
                        return -1;
        }
        for (int i = 0; i < shares->copies; i++) {
                char path[PATH_MAX];

                shares_copy_path(path, i);
                if (add_share(p, path, false, false, err) < 0)
                        return -1;
        }
        if (plan->link_count && add_share(p, SHARES_LINKS, true, true, err) < 0)
                return -1;
        return 0;
}

static int add_identity(struct parts *p, const struct plan *plan, struct err *err)
{
        struct setup *s = &p->setup;

        if (plan->ca_cert >= 0) {
                if (fd_read_all(plan->ca_cert, &p->ca, SETUP_PEM_BYTES, err) < 0 || trust_hash(buf_slice(&p->ca), p->ca_hash, err) < 0)
                        return -1;
                s->ca = buf_slice(&p->ca);
                s->ca_hash = slice_str(p->ca_hash);
        }
        p->accounts = plan->account_count ? json_dumps(plan->accounts_json, JSON_COMPACT) : NULL;
        if (plan->account_count && !p->accounts)
                return err_set(err, "out of memory");
        if (p->accounts)
                s->accounts = slice_str(p->accounts);
        if (getrandom(p->seed, sizeof(p->seed), 0) != sizeof(p->seed))
                return err_sys(err, errno, "no random numbers");
        s->seed = p->seed;
        s->hostname = slice_str(plan->hostname);
        s->clock_us = (uint64_t)clock_real_us();
        return 0;
}

static void add_network(struct setup *s)
{
        s->has_link = s->has_v4 = s->has_v6 = true;
        memcpy(s->mac, gateway_guest_mac, sizeof(s->mac));
        memcpy(s->gate_mac, gateway_mac, sizeof(s->gate_mac));
        s->mtu = GATEWAY_MTU;
        MUST(inet_pton(AF_INET, GATEWAY_GUEST_V4, s->v4) == 1 && inet_pton(AF_INET, GATEWAY_V4, s->gate_v4) == 1);
        MUST(inet_pton(AF_INET6, GATEWAY_GUEST_V6, s->v6) == 1 && inet_pton(AF_INET6, GATEWAY_V6, s->gate_v6) == 1);
}

static int write_setup(struct machine *m, struct parts *p, struct err *err)
{
        struct setup *s = &p->setup;

        s->system = slice_str(COMMAND_SYSTEM);
        s->home = slice_str(COMMAND_HOME);
        add_network(s);
        if (add_identity(p, m->root.plan, err) < 0 || add_shares(p, m->root.plan, m->root.shares, err) < 0)
                return -1;
        return setup_write(&m->setup, s) < 0 ? err_set(err, "what the machine has to set up is too long: fewer shares or credentials, shorter paths") : 0;
}

/* ---- QEMU ---- */

static int write_command(struct machine *m, struct parts *p, const struct gateway *gateway, struct child_job *job, struct err *err)
{
        enum { CONSOLE, MONITOR, NETWORK };
        const struct plan *plan = m->root.plan;
        struct command *c = &p->command;

        *c = (struct command){ .program = m->root.qemu, .kvm = m->root.kvm, .memory_mib = (unsigned)(plan->memory_bytes >> 20), .cpus = (unsigned)plan->cpus,
                .kernel = VMROOT_IMAGE "/vmlinuz", .initrd = VMROOT_IMAGE "/initrd", .system_base = VMROOT_IMAGE "/base.ext4", .system = VMROOT_DISK "/system.qcow2",
                .home_base = VMROOT_IMAGE "/home.ext4", .home = VMROOT_DISK "/home.qcow2", .guest = CHILD_CHANNEL_FD, .console = CHILD_FIRST_FD + CONSOLE,
                .monitor = CHILD_FIRST_FD + MONITOR, .network = CHILD_FIRST_FD + NETWORK, .network_is_tap = true, .mtu = GATEWAY_MTU, .shares = p->shared,
                .share_count = p->setup.share_count };
        memcpy(c->mac, gateway_guest_mac, sizeof(c->mac));
        m->argv = command_arguments(c);
        if (!m->argv)
                return err_set(err, "no command line for this machine: too large, or too long a path");
        job->machine = true;
        job->enter = vmroot_enter;
        job->root = &m->root;
        job->program = m->root.qemu;
        job->argv = m->argv;
        job->fds[CONSOLE] = m->their_console;
        job->fds[MONITOR] = m->their_monitor;
        job->fds[NETWORK] = gateway->tap;
        job->fd_count = NETWORK + 1;
        return 0;
}

static int open_console(struct machine *m, struct err *err)
{
        char path[PATH_MAX];
        int console[2], monitor[2];

        place(path, sizeof(path), "%s/console.log", m->root.plan->state);
        m->log = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (m->log < 0)
                return err_sys(err, errno, "%s", path);
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, console) < 0)
                return err_sys(err, errno, "socketpair");
        m->console = console[0];
        m->their_console = console[1];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, monitor) < 0)
                return err_sys(err, errno, "socketpair");
        m->monitor = monitor[0];
        m->their_monitor = monitor[1];
        return fd_nonblock(m->console) < 0 ? err_sys(err, errno, "socketpair") : 0;
}

int machine_prepare(struct machine *m, const struct gateway *gateway, struct child_job *job, struct err *err)
{
        static struct parts parts; /* large */
        int rc;

        buf_init(&parts.ca, 0);
        rc = vmroot_prepare(&m->root, err) < 0 || open_console(m, err) < 0 || write_setup(m, &parts, err) < 0 || write_command(m, &parts, gateway, job, err) < 0 ? -1 : 0;
        buf_fini(&parts.ca);
        free(parts.accounts);
        parts.accounts = NULL;
        return rc;
}

void machine_started(struct machine *m)
{
        fd_close(&m->their_console);
        fd_close(&m->their_monitor);
}

void machine_forget_kvm(struct machine *m)
{
        /* Longer than what a probe writes when KVM works, so that nothing of that stays behind it. */
        static const char text[] = "tcg\n/dev/kvm opens, but a machine that was started with it said nothing in time; `brome image probe` looks anew                                        \n";

        if (m->accel >= 0 && write(m->accel, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1)
                log_error("the image goes on saying that KVM runs it: %s", strerror(errno));
        fd_close(&m->accel);
}

/* ---- the console: the guest's words and QEMU's, kept, never judged ---- */

static void keep(struct machine *m, const char *p, size_t n)
{
        size_t fits = m->logged < MACHINE_CONSOLE_BYTES ? MACHINE_CONSOLE_BYTES - m->logged : 0, written = n < fits ? n : fits;

        if (written && write(m->log, p, written) != (ssize_t)written)
                m->logged = MACHINE_CONSOLE_BYTES; /* a full disk: the tail is kept all the same */
        else
                m->logged += written;
        for (size_t i = 0; i < n; i++)
                m->tail[m->tailed++ % MACHINE_TAIL_BYTES] = p[i];
}

void machine_console(struct machine *m)
{
        char bytes[4096];
        ssize_t n = read(m->console, bytes, sizeof(bytes));

        if (n > 0)
                keep(m, bytes, (size_t)n);
        else if (n == 0 || (errno != EAGAIN && errno != EINTR))
                fd_close(&m->console);
}

/* The last MACHINE_TAIL_BYTES, in order. */
static size_t unroll(const struct machine *m, char out[MACHINE_TAIL_BYTES + 1])
{
        size_t n = m->tailed < MACHINE_TAIL_BYTES ? m->tailed : MACHINE_TAIL_BYTES, from = m->tailed - n;

        for (size_t i = 0; i < n; i++)
                out[i] = m->tail[(from + i) % MACHINE_TAIL_BYTES] ? m->tail[(from + i) % MACHINE_TAIL_BYTES] : ' ';
        out[n] = 0;
        return n;
}

static void log_rest(const struct machine *m, const char *tail, size_t n)
{
        size_t left_out = m->tailed > MACHINE_CONSOLE_BYTES + n ? m->tailed - MACHINE_CONSOLE_BYTES - n : 0;

        if (m->tailed <= MACHINE_CONSOLE_BYTES)
                return;
        dprintf(m->log, "\n[brome: %zu bytes are left out here; the last %zu follow]\n", left_out, n);
        (void)!write(m->log, tail, n);
}

/* SECURITY: a guest may print these words to be quoted; the quotation is made printable and short, and decides nothing. */
static void quote(char *why, size_t size, const char *tail)
{
        static const struct { const char *sign, *said; } signs[] = {
                { "Kernel panic - not syncing", "the machine's kernel stopped" },
                { "qemu-system-", "QEMU ended" },
                { "qemu-kvm: ", "QEMU ended" },
        };

        for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
                const char *at = strstr(tail, signs[i].sign);
                char line[MACHINE_WHY_BYTES];
                size_t n = at ? strcspn(at, "\r\n") : 0;

                if (!at)
                        continue;
                if (size == 0)
                        return;
                esc_text(line, sizeof(line), slice_of(at, n < MACHINE_WHY_BYTES ? n : MACHINE_WHY_BYTES));
                snprintf(why, size, "%s: %s; console.log in the workspace's folder says more", signs[i].said, line);
                return;
        }
}

/* Not the program's own name, which may be qemu-kvm. */
static bool speaks_of_kvm(const char *tail) { return strstr(tail, "KVM") || strstr(tail, " kvm") || strstr(tail, "/dev/kvm"); }

void machine_ended(struct machine *m, char *why, size_t size)
{
        static char tail[MACHINE_TAIL_BYTES + 1];
        size_t n;

        for (int turns = 0; m->console >= 0 && turns < 64; turns++) /* what a socket can hold */
                machine_console(m);
        n = unroll(m, tail);
        log_rest(m, tail, n);
        m->blames_kvm = speaks_of_kvm(tail);
        quote(why, size, tail);
        fd_close(&m->log);
        fd_close(&m->console);
        fd_close(&m->monitor);
}
