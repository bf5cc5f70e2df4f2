/* bromed: the supervisor. Configuration, workspace states, the only writer of the journal.
 *
 * Its life: arguments → folders and lock → log → brome-spawn → journal → configuration → socket → seal → ready → loop. It parses no
 * guest's and no origin's bytes but the doors' records, which it treats as hostile; it runs no program itself. When it ends, however it
 * ends, every door and guest ends with it, because their channels do. */
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/seal.h"
#include "daemon/alerts.h"
#include "daemon/bounds.h"
#include "daemon/consent.h"
#include "daemon/daemon.h"
#include "daemon/leaf.h"
#include "daemon/record.h"
#include "daemon/sealing.h"
#include "daemon/secrets.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/spawn.h"
#include "daemon/stamps.h"
#include "daemon/start.h"
#include "daemon/workspace.h"
#include "journal/journal.h"

#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool all_ended(const struct daemon *d)
{
        for (size_t i = 0; i < d->workspace_count; i++)
                if (workspace_busy(d->workspaces[i]))
                        return false;
        return d->sweeps == 0;
}

void daemon_session_ended(struct daemon *d)
{
        if (d->stopping && all_ended(d))
                event_base_loopbreak(d->base);
}

void daemon_stop(struct daemon *d, const char *why)
{
        bool again = d->stopping;

        d->stopping = true;
        for (size_t i = d->workspace_count; i-- > 0;)
                if (workspace_busy(d->workspaces[i]))
                        session_close(d->workspaces[i], why, again, (struct reply){ 0 });
        if (again || all_ended(d))
                event_base_loopbreak(d->base);
}

/* --- what brome-spawn tells --- */

static void on_started(void *ctx, uint64_t id, pid_t pid)
{
        struct daemon *d = ctx;

        for (size_t i = 0; i < d->workspace_count; i++) {
                struct session *s = d->workspaces[i]->session;

                if (s && s->programs[SESSION_LAUNCH].id == id)
                        s->pid = pid;
        }
}

static void ended(struct daemon *d, uint64_t id, int status, const char *never_ran)
{
        if (registry_swept(d, id)) {
                daemon_session_ended(d);
                return;
        }
        for (size_t i = d->workspace_count; i-- > 0;)
                if (session_exited(d->workspaces[i], id, status, never_ran))
                        return;
}

static void on_failed(void *ctx, uint64_t id, const char *text) { ended(ctx, id, 0, text); }
static void on_exited(void *ctx, uint64_t id, int status) { ended(ctx, id, status, NULL); }
static void on_peer(void *ctx, uint64_t id, const char *refusal) { server_peer(ctx, id, refusal); }

static void on_lost(void *ctx, const char *text)
{
        struct daemon *d = ctx;

        log_error("brome-spawn is gone (%s); nothing can be started or watched any more, so bromed ends", text);
        for (size_t i = d->workspace_count; i-- > 0;)
                session_fail(d->workspaces[i], "brome-spawn ended unexpectedly");
        d->exit_code = 1;
        event_base_loopbreak(d->base);
}

static const struct spawn_calls spawn_calls = { on_started, on_failed, on_exited, on_peer, on_lost };

/* --- signals --- */

static void on_signal(evutil_socket_t number, short what, void *ctx)
{
        static struct diags errors;

        (void)what;
        if (number != SIGHUP) {
                daemon_stop(ctx, "bromed was told to end");
                return;
        }
        errors = (struct diags){ 0 };
        if (registry_load(ctx, &errors) < 0)
                log_error("the configuration was not read again: %s", ((struct daemon *)ctx)->settings_error);
}

static struct event *signal_events[3];

static int open_signals(struct daemon *d)
{
        static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };

        sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
        for (size_t i = 0; i < 3; i++) {
                signal_events[i] = evsignal_new(d->base, numbers[i], on_signal, d);
                if (!signal_events[i] || event_add(signal_events[i], NULL) < 0)
                        return -1;
        }
        return 0;
}

/* --- start --- */

static int open_base(struct daemon *d, struct err *err)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < DAEMON_FILES) {
                files.rlim_cur = files.rlim_max < DAEMON_FILES ? files.rlim_max : DAEMON_FILES;
                if (setrlimit(RLIMIT_NOFILE, &files) < 0)
                        log_info("only few descriptors are to be had; few sessions at once will fit");
        }
        d->base = event_base_new();
        /* Priorities: 0 brome-spawn, 1 channels, 2 records and the rest: who ended is known before what its silence means. */
        if (!d->base || event_base_priority_init(d->base, 3) < 0 || open_signals(d) < 0)
                return err_set(err, "no event loop: out of memory or descriptors");
        return 0;
}

static int open_journal(struct daemon *d, struct err *err)
{
        struct journal_options o = { .state = d->paths.state, .create = true, .forget = { .exists = registry_exists, .ctx = d } };

        struct err why = ERR_INIT;

        d->journal = journal_open(&o, &why);
        if (!d->journal)
                return err_set(err, "%s; 'brome trace verify' shows what is wrong; to go on, move journal.db* and journal.head in %s to another place: a new journal begins",
                               why.text, d->paths.state);
        if (*journal_damage(d->journal))
                log_error("the journal: %s", journal_damage(d->journal));
        return record_start(d) < 0 ? err_set(err, "out of memory") : 0;
}

static int open_settings(struct daemon *d, struct err *err)
{
        static struct diags errors;

        if (registry_load(d, &errors) == 0)
                return 0;
        return err_set(err, "the configuration does not parse: %s", d->settings_error);
}

/* The secret of a credential is another one: its doors hold the old one. */
static void on_secret_changed(void *ctx, struct slice credential)
{
        struct daemon *d = ctx;
        char name[REQUEST_NAME_BYTES];

        snprintf(name, sizeof(name), "%.*s", SLICE_FMT(credential));
        for (size_t i = d->workspace_count; i-- > 0;)
                if (d->workspaces[i]->session && d->workspaces[i]->state != WS_STOPPING)
                        doors_end(d->workspaces[i]->session, credential.n ? name : NULL);
}

/* Secrets, approvals, alerts. More memory may be locked where the hard limit allows it. */
static int open_accounts(struct daemon *d, struct err *err)
{
        struct rlimit locked;

        if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur < locked.rlim_max) {
                locked.rlim_cur = locked.rlim_max;
                if (setrlimit(RLIMIT_MEMLOCK, &locked) < 0)
                        log_info("little memory can be locked for secrets");
        }
        snprintf(d->vault_path, sizeof(d->vault_path), "%.*s/vault", PATH_MAX - 32, d->paths.state);
        snprintf(d->alerts_path, sizeof(d->alerts_path), "%.*s/alerts.json", PATH_MAX - 32, d->paths.state);
        d->secrets = secrets_new(d->base, d->vault_path, on_secret_changed, d, err);
        d->alerts = alerts_new(d->alerts_path);
        return d->secrets && d->alerts && consent_open(d) == 0 ? 0 : err_set(err, "out of memory");
}

/* Everything up to the loop, in this order. */
static int open_all(struct daemon *d, const struct start_options *o, struct err *err)
{
        int spawn = -1;

        if (paths_find(&d->paths, o->config, err) < 0 || start_folders(&d->paths, err) < 0 || start_lock(&d->paths, err) < 0 ||
            (!o->foreground && start_log(&d->paths, err) < 0))
                return -1;
        leaf_enter();
        /* brome-spawn first: it must inherit no journal, socket or configuration, and no seal. */
        if (spawn_launch(&spawn, err) < 0)
                return -1;
        if (seal_early(err) < 0 || open_base(d, err) < 0) {
                fd_close(&spawn);
                return -1;
        }
        d->spawn = spawn_new(d->base, spawn, &spawn_calls, d);
        if (!d->spawn)
                return err_set(err, "out of memory");
        if (open_journal(d, err) < 0 || open_accounts(d, err) < 0 || open_settings(d, err) < 0)
                return -1;
        d->server = server_open(d, err);
        if (!d->server || sealing_apply(d, err) < 0)
                return -1;
        registry_sweep_left_over(d);
        return 0;
}

static void close_all(struct daemon *d)
{
        char path[PATH_MAX];

        /* The journal first: who hears that bromed stopped may read and start at once. */
        if (d->journal)
                record_stop(d);
        if (d->server) {
                reply_done(d, &d->stop_waits);
                snprintf(path, sizeof(path), "%.*s/bromed.sock", PATH_MAX - 16, d->paths.runtime);
                unlink(path);
        }
        server_close(d->server);
        d->server = NULL;
        for (size_t i = 0; i < 3; i++)
                if (signal_events[i])
                        event_free(signal_events[i]);
        consent_close(d);
        alerts_free(d->alerts);
        secrets_free(d->secrets);
        spawn_free(d->spawn);
        if (d->base)
                event_base_free(d->base);
        settings_drop(d->settings);
        stamps_free(d->stamps);
}

int main(int argc, char **argv)
{
        static struct daemon d;
        struct start_options o;
        struct err err = ERR_INIT;
        int rc;

        umask(077);
        tzset(); /* its file is out of reach once bromed is sealed */
        log_init("bromed", NULL);
        rc = start_arguments(&o, argc, argv, &err);
        if (rc == 1)
                return 0;
        d.home = getenv("HOME");
        if (rc < 0 || chdir("/") < 0 || open_all(&d, &o, &err) < 0) {
                log_error("%s", err.text);
                start_tell(&o, err.text);
                close_all(&d);
                return 1;
        }
        start_tell(&o, "ok");
        log_info("ready, process %d", (int)getpid());
        event_base_dispatch(d.base);
        log_info("ends");
        close_all(&d);
        return d.exit_code;
}
