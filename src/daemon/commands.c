/* The requests of the control socket: one function each, one table. Every one answers at once or hands its reply to who answers later. */
#include "base/chan.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/alerts.h"
#include "daemon/approvals.h"
#include "daemon/bounds.h"
#include "daemon/commands.h"
#include "daemon/evidence.h"
#include "daemon/record.h"
#include "daemon/rules_set.h"
#include "daemon/server.h"
#include "daemon/session.h"
#include "daemon/stamps.h"
#include "daemon/trip.h"
#include "daemon/workspace.h"
#include "journal/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void command_refuse_config(struct daemon *d, struct reply *reply, const struct diags *errors)
{
        struct err err = ERR_INIT;
        json_t *e;

        if (errors->total > 1)
                err_set(&err, "%zu errors; nothing was changed", errors->total);
        else
                err_set(&err, "%s; nothing was changed", errors->total ? "an error" : "out of memory");
        e = request_error(reply->id, REQUEST_E_CONFIG, err.text);
        if (e)
                json_object_set_new(e, "errors", settings_errors(errors));
        reply_send(d, reply, e, NULL, 0);
}

/* The workspace that the request names; NULL when it was refused. */
struct workspace *command_named(struct daemon *d, const struct request *r, struct reply *reply)
{
        struct workspace *ws = r->workspace ? workspace_find(d, r->workspace) : NULL;
        char text[160];

        if (!ws) {
                snprintf(text, sizeof(text), "there is no workspace %s; 'brome workspace ls' lists them", r->workspace ? r->workspace : "of no name");
                reply_error(d, reply, REQUEST_E_NO_WORKSPACE, text);
        }
        return ws;
}

/* A text that may have been cut within a character. */
static json_t *text_of(const char *s)
{
        json_t *text = json_string(s);

        return text ? text : json_string(esc_str(s));
}

static json_t *describe_short(const struct workspace *ws)
{
        static const char *const origins[] = { [WS_FROM_CONFIG] = "config", [WS_FROM_STATE] = "made", [WS_THROW_AWAY] = "throw-away" };

        return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:i, s:I, s:s}", "name", ws->name, "origin", origins[ws->origin], "state",
                         workspace_state_name(ws->state), "reason", text_of(ws->reason), "session", (json_int_t)(ws->session ? ws->session->number : 0), "pid",
                         (json_int_t)(ws->session ? ws->session->pid : 0), "since", (json_int_t)ws->since_us, "shares", (int)ws->conf->share_count,
                         "generation", (json_int_t)ws->generation, "isolation", settings_kind(ws->conf));
}

static void do_status(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct err why = ERR_INIT;
        bool writable = journal_writable(d->journal, &why);
        json_t *list = json_array();

        (void)msg;
        (void)r;
        for (size_t i = 0; i < d->workspace_count; i++)
                json_array_append_new(list, describe_short(d->workspaces[i]));
        reply_send(d, reply,
                   json_pack("{s:s, s:o, s:{s:b, s:o, s:s}, s:{s:s, s:I, s:o}, s:i, s:I, s:I}", "op", "status", "workspaces", list, "journal", "writable", writable,
                             "why", text_of(writable ? "" : why.text), "damage", journal_damage(d->journal), "config", "path", d->paths.config, "generation",
                             (json_int_t)d->settings_generation, "error", text_of(d->settings_error), "pid", (int)getpid(), "waiting", (json_int_t)approvals_count(d->approvals), "alerts",
                             (json_int_t)alerts_count_open(d->alerts)),
                   NULL, 0);
}

/* A text descriptor of a client. 0, or answered with an error. */
int command_text(struct daemon *d, struct reply *reply, int fd, struct buf *out)
{
        struct err err = ERR_INIT;

        buf_init(out, DAEMON_BLOCK_BYTES + 65536);
        /* Only a regular (memory) file: a pipe could keep bromed waiting. */
        if (rules_text_regular(fd) && fd_read_all(fd, out, DAEMON_BLOCK_BYTES, &err) == 0)
                return 0;
        reply_error(d, reply, REQUEST_E_USAGE, err.text[0] ? err.text : "the text must come as a memory file");
        buf_fini(out);
        return -1;
}

/* A workspace from a block of text; NULL when refused. */
static struct workspace *from_block(struct daemon *d, const struct request *r, struct reply *reply, const char *file, enum workspace_origin origin)
{
        static struct diags errors;
        char name[REQUEST_NAME_BYTES], text[192];
        struct settings *settings;
        struct workspace *ws = NULL;
        struct err err = ERR_INIT;
        struct buf block;

        if (command_text(d, reply, r->fd, &block) < 0)
                return NULL;
        errors = (struct diags){ 0 };
        if (registry_block_name(d, buf_slice(&block), file, name, &settings, &errors) < 0) {
                command_refuse_config(d, reply, &errors);
        } else if (r->name && strcmp(r->name, name) != 0) {
                settings_drop(settings);
                reply_error(d, reply, REQUEST_E_USAGE, "the block is about a workspace of another name");
        } else if (workspace_find(d, name)) {
                settings_drop(settings);
                snprintf(text, sizeof(text), "there is a workspace %s already", name);
                reply_error(d, reply, REQUEST_E_EXISTS, text);
        } else {
                ws = workspace_add(d, name, origin, settings, strndup((const char *)buf_slice(&block).p, buf_len(&block)), &err);
                if (!ws)
                        reply_error(d, reply, REQUEST_E_INTERNAL, err.text);
        }
        buf_fini(&block);
        return ws;
}

static void do_open(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct session_options o = { .proxy = r->proxy, .no_proxy = r->no_proxy, .path = r->path };
        enum request_error code;
        struct workspace *ws;
        struct err err = ERR_INIT;

        (void)msg;
        if (d->stopping || d->refusing) {
                struct err why = ERR_INIT;

                (void)journal_writable(d->journal, &why);
                err_set(&err, d->stopping ? "bromed is being stopped" : "the journal cannot be written (%s); make room on its disk, then try again", why.text);
                reply_error(d, reply, d->stopping ? REQUEST_E_STATE : REQUEST_E_JOURNAL, err.text);
                return;
        }
        ws = r->fd >= 0 ? from_block(d, r, reply, "command-line", WS_THROW_AWAY) : command_named(d, r, reply);
        if (!ws)
                return;
        if (ws->state == WS_COMPROMISED_REST) {
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is compromised, and nothing of it starts until you decide; 'brome alerts' says how");
                if (ws->origin == WS_THROW_AWAY)
                        workspace_remove(ws);
                return;
        }
        if (workspace_busy(ws)) {
                reply_error(d, reply, ws->state == WS_STOPPING ? REQUEST_E_STATE : REQUEST_E_EXISTS,
                            ws->state == WS_STOPPING ? "its last session is still ending; try again" : "it runs already; 'brome exec' runs a command in it");
                return;
        }
        ws->remove_folder = ws->origin == WS_THROW_AWAY && r->rm;
        o.owner = r->keep ? 0 : reply->client;
        o.reply = *reply;
        if (session_open(ws, &o, &code, &err) < 0) {
                reply_error(d, reply, code, err.text);
                if (ws->origin == WS_THROW_AWAY) {
                        if (ws->remove_folder && registry_discard(d, ws->name, &err) < 0)
                                log_error("%s", err.text);
                        workspace_remove(ws);
                }
        }
}

/* Stopped with the evidence, although it does not run: the decision that was still owed. */
static void decide_at_rest(struct daemon *d, struct workspace *ws, struct reply *reply)
{
        json_t *alert = alerts_open(d->alerts, ws->name);
        uint64_t session = (uint64_t)json_integer_value(json_object_get(alert, "session"));
        struct err err = ERR_INIT;
        char folder[PATH_MAX];

        if (evidence_save(ws, session, NULL, false, folder, &err) < 0 || trip_decide(ws, "stopped", &err) < 0) {
                reply_error(d, reply, REQUEST_E_HOST, err.text);
                return;
        }
        workspace_state(ws, WS_STOPPED, "stopped with the evidence");
        reply_send(d, reply, json_pack("{s:s, s:s, s:s}", "op", "done", "reason", "stopped with the evidence", "evidence", folder), NULL, 0);
}

static void do_close(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);

        (void)msg;
        if (!ws)
                return;
        if (ws->state == WS_COMPROMISED_REST && r->evidence) {
                decide_at_rest(d, ws, reply);
        } else if (!workspace_busy(ws)) {
                reply_error(d, reply, REQUEST_E_STATE, "the workspace does not run");
        } else {
                ws->session->evidence = ws->session->evidence || r->evidence;
                session_close(ws, "closed by request", r->force, *reply);
        }
}

static void do_exec(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);

        (void)msg;
        if (ws)
                session_exec(ws, r, *reply);
}

static void do_forward(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);

        (void)msg;
        if (ws)
                session_forward(ws, r->port, *reply);
}

/* What a person moved by hand, for the timeline. */
static void do_copied(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);

        (void)msg;
        if (!ws)
                return;
        record_copied(ws, r->out, r->files, r->bytes);
        reply_done(d, reply);
}

static void do_new(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        char file[PATH_MAX], folder[PATH_MAX];
        struct err err = ERR_INIT;
        struct workspace *ws;

        (void)msg;
        snprintf(folder, sizeof(folder), "%.*s/workspaces/%s", PATH_MAX - 128, d->paths.state, r->name);
        snprintf(file, sizeof(file), "%.*s/workspace.conf", PATH_MAX - 32, folder);
        ws = from_block(d, r, reply, file, WS_FROM_STATE);
        if (!ws)
                return;
        if (fd_mkdirs(folder, 0700, &err) < 0 || fd_write_file(file, 0600, ws->text, strlen(ws->text), &err) < 0) {
                workspace_remove(ws);
                reply_error(d, reply, REQUEST_E_HOST, err.text);
                return;
        }
        stamps_wrote(d->stamps, file, slice_str(ws->text));
        record_state(ws);
        reply_done(d, reply);
}

/* What stands in brome.conf is the user's own text: only what the workspace had on disk is gone, and the answer says so. */
static void rm_answer(struct daemon *d, const struct workspace *ws, struct reply *reply)
{
        json_t *answer = request_answer("done", reply->id), *text;
        struct slice file = ws->conf->file;

        text = json_sprintf("its home and layers are removed; the workspace itself stays, as it is defined in %s: remove its block there", esc(file));
        if (answer && text)
                json_object_set_new(answer, "text", text);
        reply_send(d, reply, answer, NULL, 0);
}

static void do_rm(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct request by_name = { .workspace = r->name };
        struct workspace *ws = command_named(d, &by_name, reply);
        struct err err = ERR_INIT;

        (void)msg;
        if (!ws)
                return;
        if (workspace_busy(ws))
                reply_error(d, reply, REQUEST_E_STATE, "the workspace runs; stop it first ('brome workspace stop')");
        else if (ws->state == WS_COMPROMISED_REST)
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is compromised; decide first ('brome alerts'), 'brome workspace wipe' removes what is in it");
        else if (ws->origin == WS_FROM_CONFIG && access(ws->folder, F_OK) < 0)
                reply_error(d, reply, REQUEST_E_STATE, "the workspace stands in the configuration and has nothing else; remove its block there");
        else if (registry_discard(d, ws->name, &err) < 0)
                reply_error(d, reply, REQUEST_E_HOST, err.text);
        else {
                record_removed(ws);
                if (ws->origin == WS_FROM_CONFIG) {
                        rm_answer(d, ws, reply);
                        return;
                }
                workspace_remove(ws);
                reply_done(d, reply);
        }
}

static void do_describe(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);
        struct buf rules;
        json_t *answer;

        (void)msg;
        if (!ws)
                return;
        buf_init(&rules, 0);
        config_print_rules(ws->settings->config, ws->conf, &rules);
        answer = describe_short(ws);
        if (answer) {
                json_object_set_new(answer, "op", json_string("workspace"));
                json_object_set_new(answer, "file", json_string(ws->file));
                json_object_set_new(answer, "folder", json_string(ws->folder));
                describe_settings(d, ws, answer);
                /* Long ones come by rules.show. */
                if (buf_len(&rules) < CHAN_MESSAGE_BYTES / 4)
                        json_object_set_new(answer, "rules", json_stringn((const char *)buf_slice(&rules).p, buf_len(&rules)));
        }
        reply_send(d, reply, answer, NULL, 0);
        buf_fini(&rules);
}

void commands_rules(struct workspace *ws, struct reply *reply, json_t *stats)
{
        struct buf rules;
        json_t *hits;
        int fd;

        if (!reply->client)
                return;
        hits = json_object_get(stats, "hits");
        buf_init(&rules, 0);
        config_print_rules(ws->settings->config, ws->conf, &rules);
        fd = rules.failed ? -1 : fd_memfd("rules", buf_slice(&rules).p, buf_len(&rules));
        if (fd < 0)
                reply_error(ws->daemon, reply, REQUEST_E_INTERNAL, "out of memory");
        else
                reply_send(ws->daemon, reply,
                           json_pack("{s:s, s:I, s:s, s:O*, s:[s]}", "op", "rules", "generation", (json_int_t)ws->generation, "file", ws->file, "hits",
                                     json_is_array(hits) ? hits : NULL, "fds", "text"), &fd, 1);
        fd_close(&fd);
        buf_fini(&rules);
}

static void do_rules_show(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);

        (void)msg;
        if (ws)
                session_stats(ws, *reply);
}

static void do_rules_set(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        static struct diags errors;
        struct workspace *ws = command_named(d, r, reply);
        enum request_error code = REQUEST_E_CONFIG;
        struct err err = ERR_INIT;
        struct buf text;

        (void)msg;
        if (!ws)
                return;
        if (r->base_generation >= 0 && (uint64_t)r->base_generation != ws->generation) {
                reply_error(d, reply, REQUEST_E_STATE, "the rules were changed meanwhile; look at them again ('brome rules show')");
                return;
        }
        if (workspace_busy(ws) && (ws->state == WS_STOPPING || ws->session->next_waits.client)) {
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is being changed or ended just now; try again");
                return;
        }
        if (command_text(d, reply, r->fd, &text) < 0)
                return;
        errors = (struct diags){ 0 };
        if (rules_set(ws, buf_slice(&text), &errors, &code, &err) < 0) {
                if (errors.count)
                        command_refuse_config(d, reply, &errors);
                else
                        reply_error(d, reply, code, err.text);
        } else if (!(ws = workspace_find(d, r->workspace))) { /* the file was changed under our hands */
                reply_error(d, reply, REQUEST_E_STATE, "the workspace has left the configuration meanwhile");
        } else if (ws->session) {
                session_policy(ws, *reply, "rules set");
        } else {
                reply_send(d, reply, json_pack("{s:s, s:I, s:i}", "op", "done", "generation", (json_int_t)ws->generation, "cut", 0), NULL, 0);
        }
        buf_fini(&text);
}

static void do_reload(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        static struct diags errors;

        (void)msg;
        (void)r;
        errors = (struct diags){ 0 };
        if (registry_load(d, &errors) < 0) {
                command_refuse_config(d, reply, &errors);
                return;
        }
        /* The rules may be the same and the CA files that they name others: a CA that was taken away must not go on counting. */
        for (size_t i = 0; i < d->workspace_count; i++) {
                struct workspace *ws = d->workspaces[i];

                if (ws->session && ws->session->change == CHANGE_NONE && settings_names_ca(ws->settings, ws->conf))
                        session_policy(ws, (struct reply){ 0 }, "CA files were read again");
        }
        reply_done(d, reply);
}

/* A person edited a file and goes on as if that were enough: it is. What does not parse is tried once, and said with every answer (say_stale). */
static void notice_edits(struct daemon *d)
{
        static struct diags errors;

        if (d->stopping || !stamps_changed(d->stamps))
                return;
        errors = (struct diags){ 0 };
        if (registry_load(d, &errors) < 0)
                log_error("the configuration was changed and could not be read again: %s", d->settings_error);
        else
                log_info("the configuration was changed and read again");
}

/* Out of `compromised`: only by the word continue. */
static void do_continue(struct daemon *d, struct workspace *ws, struct reply *reply)
{
        struct err err = ERR_INIT;

        if (ws->session && (ws->session->freezing || ws->session->thawing || ws->session->thaw_after_change)) {
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is being stopped or continued just now; try again");
        } else if (trip_continue(ws, &err) < 0) {
                reply_error(d, reply, REQUEST_E_HOST, err.text);
        } else if (ws->session) {
                session_continue(ws->session, *reply);
        } else {
                workspace_state(ws, WS_STOPPED, "a person decided to continue");
                reply_done(d, reply);
        }
}

static void do_freeze(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);
        bool compromised = ws && (ws->state == WS_COMPROMISED || ws->state == WS_COMPROMISED_REST);

        (void)msg;
        if (!ws)
                return;
        if (r->op == REQUEST_THAW && compromised && r->go_on)
                do_continue(d, ws, reply);
        else if (r->op == REQUEST_THAW && compromised)
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is compromised: 'brome alerts' says what happened; then decide: thaw --continue, stop --save-evidence, or wipe");
        else
                session_freeze(ws, r->op == REQUEST_FREEZE, *reply);
}

/* What an open alert may be about stays until a person decided. */
static void do_trace_clear(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = workspace_find(d, r->name);
        struct err err = ERR_INIT;

        (void)msg;
        if (ws && (ws->state == WS_COMPROMISED || ws->state == WS_COMPROMISED_REST))
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is compromised, and its trace may be needed: 'brome alerts' says what happened; decide first");
        else if (journal_clear(d->journal, slice_str(r->name), &err) < 0)
                reply_error(d, reply, journal_writable(d->journal, NULL) ? REQUEST_E_NO_WORKSPACE : REQUEST_E_JOURNAL, err.text);
        else
                reply_done(d, reply);
}

static void do_stop(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        (void)r;
        (void)msg;
        if (d->stop_waits.client)
                reply_done(d, &d->stop_waits);
        d->stop_waits = *reply;
        daemon_stop(d, "bromed is stopped by request");
}

static command_fn *const commands[REQUEST_OP_COUNT] = {
        [REQUEST_STATUS] = do_status,
        [REQUEST_SESSION_OPEN] = do_open,
        [REQUEST_SESSION_CLOSE] = do_close,
        [REQUEST_EXEC] = do_exec,
        [REQUEST_FORWARD] = do_forward,
        [REQUEST_COPIED] = do_copied,
        [REQUEST_WORKSPACE_NEW] = do_new,
        [REQUEST_WORKSPACE_RM] = do_rm,
        [REQUEST_WORKSPACE_DESCRIBE] = do_describe,
        [REQUEST_RULES_SHOW] = do_rules_show,
        [REQUEST_RULES_SET] = do_rules_set,
        [REQUEST_RELOAD] = do_reload,
        [REQUEST_FREEZE] = do_freeze,
        [REQUEST_THAW] = do_freeze,
        [REQUEST_TRACE_CLEAR] = do_trace_clear,
        [REQUEST_STOP] = do_stop,
        [REQUEST_SESSION_NEEDS] = do_session_needs,
        [REQUEST_WORKSPACE_WIPE] = do_workspace_wipe,
        [REQUEST_SECRET_GIVE] = do_secret_give,
        [REQUEST_VAULT] = do_vault,
        [REQUEST_VAULT_CREATE] = do_vault_create,
        [REQUEST_VAULT_UNLOCK] = do_vault_unlock,
        [REQUEST_VAULT_LOCK] = do_vault_lock,
        [REQUEST_VAULT_PUT] = do_vault_put,
        [REQUEST_VAULT_RM] = do_vault_rm,
        [REQUEST_CREDENTIALS] = do_credentials,
        [REQUEST_ACCOUNTS] = do_accounts,
        [REQUEST_APPROVALS] = do_approvals,
        [REQUEST_APPROVALS_ALLOW] = do_approvals_answer,
        [REQUEST_APPROVALS_DENY] = do_approvals_answer,
        [REQUEST_APPROVALS_REVOKE] = do_approvals_answer,
        [REQUEST_WATCH] = do_watch,
        [REQUEST_ALERTS] = do_alerts,
};

/* Those whose answer depends on the configuration. Not workspace.rm and wipe: a workspace whose block was just taken out of the file can still be removed. */
static const bool configured[REQUEST_OP_COUNT] = {
        [REQUEST_STATUS] = true,        [REQUEST_SESSION_OPEN] = true,       [REQUEST_SESSION_NEEDS] = true, [REQUEST_EXEC] = true,
        [REQUEST_WORKSPACE_NEW] = true, [REQUEST_WORKSPACE_DESCRIBE] = true, [REQUEST_RULES_SHOW] = true,    [REQUEST_RULES_SET] = true,
        [REQUEST_CREDENTIALS] = true,   [REQUEST_ACCOUNTS] = true,
};

void command_run(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply reply)
{
        MUST(commands[r->op]);
        if (configured[r->op])
                notice_edits(d);
        commands[r->op](d, r, msg, &reply);
}

void command_client_gone(struct daemon *d, uint64_t client)
{
        for (size_t i = d->workspace_count; i-- > 0;) {
                struct session *s = d->workspaces[i]->session;

                if (s && s->owner == client && d->workspaces[i]->state != WS_STOPPING)
                        session_close(d->workspaces[i], "the command that opened it has ended", false, (struct reply){ 0 });
        }
}
