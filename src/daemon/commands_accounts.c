/* The requests about accounts: secrets and the vault, what a workspace holds, approvals, alerts, wiping. One function each; the table is in commands.c. */
#include "base/chan.h"
#include "base/clock.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/log.h"
#include "daemon/alerts.h"
#include "daemon/approvals.h"
#include "daemon/commands.h"
#include "daemon/consent.h"
#include "daemon/record.h"
#include "daemon/secrets.h"
#include "daemon/session.h"
#include "daemon/trip.h"
#include "daemon/verbs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
        LISTED_BYTES = 56 * 1024, /* of a listing: a message with room for the rest of it */
        VERBS_SHOWN = 24,         /* rules of one account host */
};

static const char *const source_names[] = { [SECRET_VAULT] = "vault", [SECRET_FILE] = "file", [SECRET_ENV] = "env", [SECRET_COMMAND] = "command" };
static const char *const vault_names[] = { [VAULT_ABSENT] = "absent", [VAULT_LOCKED] = "locked", [VAULT_OPEN] = "open" };

static json_t *text(struct slice s)
{
        json_t *t = json_stringn(s.n ? (const char *)s.p : "", s.n);

        return t ? t : json_string(esc(s));
}

/* Appends while the listing fits into one message; false: it did not. Takes item. */
static bool listed(json_t *list, size_t *bytes, json_t *item)
{
        char *dump = item ? json_dumps(item, JSON_COMPACT) : NULL;
        size_t n = dump ? strlen(dump) + 1 : LISTED_BYTES;

        free(dump);
        if (*bytes + n > LISTED_BYTES) {
                json_decref(item);
                return false;
        }
        *bytes += n;
        return json_array_append_new(list, item) == 0;
}

static const char *vault_word(struct daemon *d)
{
        struct vault *v = secrets_vault(d->secrets, NULL);

        return v ? vault_names[vault_state(v)] : "unreadable";
}

/* --- what has to be brought --- */

static json_t *need(const struct daemon *d, const struct config_credential *c)
{
        struct slice secret;
        bool have = secrets_find(d->secrets, c, &secret) == SECRET_HERE;

        return json_pack("{s:o, s:s, s:o, s:o, s:b}", "credential", text(c->b.name), "source", source_names[c->source], "value", text(c->value), "dir", text(c->dir),
                         "have", have);
}

static void needs_answer(struct daemon *d, struct reply *reply, const struct config_workspace *w)
{
        json_t *list = json_array();
        size_t bytes = 0, left_out = 0;

        for (size_t i = 0; i < w->credential_count; i++)
                left_out += !listed(list, &bytes, need(d, w->credentials[i]));
        reply_send(d, reply, json_pack("{s:s, s:o, s:s, s:I}", "op", "needs", "secrets", list, "vault", vault_word(d), "left_out", (json_int_t)left_out), NULL, 0);
}

void do_session_needs(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        static struct diags errors;
        char name[REQUEST_NAME_BYTES];
        struct settings *settings;
        struct workspace *ws;
        struct buf block;

        (void)msg;
        if (r->fd < 0) {
                ws = command_named(d, r, reply);
                if (ws)
                        needs_answer(d, reply, ws->conf);
                return;
        }
        if (command_text(d, reply, r->fd, &block) < 0)
                return;
        errors = (struct diags){ 0 };
        if (registry_block_name(d, buf_slice(&block), "command-line", name, &settings, &errors) < 0) {
                command_refuse_config(d, reply, &errors);
        } else {
                needs_answer(d, reply, config_workspace(settings->config, slice_str(name)));
                settings_drop(settings);
        }
        buf_fini(&block);
}

/* --- secrets and keys that come over a descriptor --- */

struct brought {
        struct daemon *d;
        struct reply reply;
        enum request_op op;
        char name[REQUEST_NAME_BYTES];
        json_t *root;
};

static int take_brought(const struct brought *b, struct slice bytes, struct err *err)
{
        struct secrets *s = b->d->secrets;
        struct vault *v;

        if (b->op == REQUEST_SECRET_GIVE)
                return secrets_give(s, slice_str(b->name), bytes, err);
        if (b->op == REQUEST_VAULT_PUT)
                return secrets_put(s, slice_str(b->name), bytes, err);
        if (bytes.n != VAULT_KEY_BYTES)
                return err_set(err, "a key has %d bytes", VAULT_KEY_BYTES);
        if (b->op == REQUEST_VAULT_UNLOCK)
                return secrets_unlock(s, bytes.p, err);
        v = secrets_vault(s, err);
        return v ? vault_create(v, b->root, bytes.p, err) : -1;
}

static void on_brought(void *ctx, struct slice bytes, const char *why)
{
        struct brought *b = ctx;
        struct err err = ERR_INIT;

        if (why)
                reply_error(b->d, &b->reply, REQUEST_E_USAGE, why);
        else if (take_brought(b, bytes, &err) < 0)
                reply_error(b->d, &b->reply, REQUEST_E_STATE, err.text);
        else
                reply_done(b->d, &b->reply);
        json_decref(b->root);
        free(b);
}

static void bring(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply, const char *name, size_t limit_bytes)
{
        struct brought *b = calloc(1, sizeof(*b));
        struct err err = ERR_INIT;

        if (!b) {
                reply_error(d, reply, REQUEST_E_INTERNAL, "out of memory");
                return;
        }
        *b = (struct brought){ .d = d, .reply = *reply, .op = r->op, .root = json_incref(r->root) };
        snprintf(b->name, sizeof(b->name), "%s", name);
        if (secrets_intake(d->secrets, chan_take_fd(msg, 0), limit_bytes, on_brought, b, &err) == 0)
                return;
        json_decref(b->root);
        free(b);
        reply_error(d, reply, REQUEST_E_USAGE, err.text);
}

void do_secret_give(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        bring(d, r, msg, reply, r->credential, SECRET_BYTES_MAX + 2);
}

void do_vault_put(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        bring(d, r, msg, reply, r->name, SECRET_BYTES_MAX + 2);
}

void do_vault_create(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply) { bring(d, r, msg, reply, "", VAULT_KEY_BYTES); }
void do_vault_unlock(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply) { bring(d, r, msg, reply, "", VAULT_KEY_BYTES); }

void do_vault(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct err err = ERR_INIT;
        struct vault *v = secrets_vault(d->secrets, &err);
        json_t *names = json_array();
        const char *name;
        size_t bytes = 0;

        (void)r;
        (void)msg;
        if (!v) {
                json_decref(names);
                reply_error(d, reply, REQUEST_E_HOST, err.text);
                return;
        }
        for (size_t i = 0; (name = vault_name(v, i)); i++)
                if (!listed(names, &bytes, json_string(name)))
                        break;
        reply_send(d, reply, json_pack("{s:s, s:s, s:O*, s:o}", "op", "vault", "state", vault_names[vault_state(v)], "root", vault_root(v), "names", names), NULL, 0);
}

void do_vault_lock(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        (void)r;
        (void)msg;
        secrets_lock(d->secrets);
        reply_done(d, reply);
}

void do_vault_rm(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct err err = ERR_INIT;
        int rc = secrets_remove(d->secrets, slice_str(r->name), &err);

        (void)msg;
        if (rc == 0)
                reply_done(d, reply);
        else
                reply_error(d, reply, REQUEST_E_STATE, rc == 1 ? "the vault holds no secret of this name" : err.text);
}

/* --- listings --- */

static json_t *host_text(const struct binding_host *h)
{
        char out[300];

        snprintf(out, sizeof(out), h->port == 443 ? "%.*s" : "%.*s:%u", SLICE_FMT(h->name), (unsigned)h->port);
        return text(slice_str(out));
}

static const char *ask_word(const struct binding *b) { return b->ask_wait ? "wait" : b->ask ? "before use" : "no"; }

static bool binds(const struct config_workspace *w, struct slice credential)
{
        for (size_t i = 0; i < w->credential_count; i++)
                if (slice_eq(w->credentials[i]->b.name, credential))
                        return true;
        return false;
}

/* Uses of a credential in a workspace, towards one host or (empty) all. */
static void uses_of(const struct workspace *ws, struct slice credential, struct slice host, uint64_t *count, int64_t *last_us)
{
        for (size_t i = 0; i < ws->use_count; i++) {
                const struct account_use *u = &ws->uses[i];

                if (!slice_is(credential, u->credential) || (host.n && !slice_is(host, u->host)))
                        continue;
                *count += u->count;
                if (u->last_us > *last_us)
                        *last_us = u->last_us;
        }
}

static json_t *credential_json(const struct daemon *d, const struct config_credential *c)
{
        json_t *hosts = json_array(), *workspaces = json_array();
        uint64_t used = 0;
        int64_t last_us = 0;
        struct slice secret;

        for (size_t i = 0; i < c->b.host_count; i++)
                json_array_append_new(hosts, host_text(&c->b.hosts[i]));
        for (size_t i = 0; i < d->workspace_count; i++) {
                uses_of(d->workspaces[i], c->b.name, SLICE_EMPTY, &used, &last_us);
                if (binds(d->workspaces[i]->conf, c->b.name))
                        json_array_append_new(workspaces, json_string(d->workspaces[i]->name));
        }
        return json_pack("{s:o, s:s, s:s, s:o, s:s, s:b, s:b, s:o, s:I, s:I}", "name", text(c->b.name), "kind", kind_row(c->b.kind)->name, "source",
                         source_names[c->source], "hosts", hosts, "ask", ask_word(&c->b), "attach", c->b.attach, "have",
                         secrets_find(d->secrets, c, &secret) == SECRET_HERE, "workspaces", workspaces, "used", (json_int_t)used, "last_us", (json_int_t)last_us);
}

void do_credentials(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        json_t *list = json_array();
        size_t bytes = 0, left_out = 0;

        (void)r;
        (void)msg;
        for (size_t i = 0; i < config_credential_count(d->settings->config); i++)
                left_out += !listed(list, &bytes, credential_json(d, config_credential_at(d->settings->config, i)));
        reply_send(d, reply, json_pack("{s:s, s:o, s:s, s:I}", "op", "credentials", "credentials", list, "vault", vault_word(d), "left_out", (json_int_t)left_out), NULL,
                   0);
}

static json_t *fields_json(const struct binding *b)
{
        static const char *const words[SLOT_COUNT] = { [SLOT_AUTHORIZATION] = "Authorization", [SLOT_BASIC] = "Authorization: Basic", [SLOT_HEADER] = "header ",
                                                       [SLOT_QUERY] = "query ", [SLOT_BODY] = "body", [SLOT_WEBSOCKET] = "websocket" };
        json_t *list = json_array();

        for (size_t i = 0; i < b->field_count; i++) {
                char out[160];

                snprintf(out, sizeof(out), "%s%.*s", words[b->fields[i].slot], SLICE_FMT(b->fields[i].name));
                json_array_append_new(list, text(slice_str(out)));
        }
        return list;
}

static json_t *account_json(const struct workspace *ws, const struct config_credential *c, const struct binding_host *h, const char *preview)
{
        const struct binding *b = &c->b;
        uint64_t used = 0;
        int64_t last_us = 0;
        struct slice secret;

        uses_of(ws, b->name, h->name, &used, &last_us);
        return json_pack("{s:o, s:s, s:o, s:i, s:o, s:s, s:b, s:b, s:s, s:b, s:I, s:I, s:o}", "credential", text(b->name), "kind", kind_row(b->kind)->name, "host",
                         text(h->name), "port", (int)h->port, "fields", fields_json(b), "ask", ask_word(b), "attach", b->attach, "foreign_ok", b->foreign_ok,
                         "placeholder", preview, "have", secrets_find(ws->daemon->secrets, c, &secret) == SECRET_HERE, "used", (json_int_t)used, "last_us",
                         (json_int_t)last_us, "rules", verbs_of(ws->conf, h->name, h->port, VERBS_SHOWN));
}

void do_accounts(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct workspace *ws = command_named(d, r, reply);
        struct err err = ERR_INIT;
        struct live *own, *live;
        json_t *list;
        size_t bytes = 0, left_out = 0;

        (void)msg;
        if (!ws)
                return;
        own = ws->session ? NULL : live_read(ws->folder, &err); /* what the last session had */
        live = ws->session ? ws->session->live : own;
        list = json_array();
        for (size_t i = 0; i < ws->conf->credential_count; i++) {
                const struct config_credential *c = ws->conf->credentials[i];
                const char *placeholder = live && !c->b.attach ? placeholders_get(&live->placeholders, c->b.name) : NULL;
                char preview[PLACEHOLDER_PREVIEW_BYTES] = "";

                if (placeholder)
                        placeholder_preview(slice_str(placeholder), preview);
                for (size_t k = 0; k < c->b.host_count; k++)
                        left_out += !listed(list, &bytes, account_json(ws, c, &c->b.hosts[k], preview));
        }
        live_free(own);
        reply_send(d, reply, json_pack("{s:s, s:o, s:I}", "op", "accounts", "accounts", list, "left_out", (json_int_t)left_out), NULL, 0);
}

/* --- approvals --- */

void do_approvals(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        json_t *all;

        (void)msg;
        if (r->workspace && !command_named(d, r, reply))
                return;
        all = approvals_json(d->approvals, r->workspace, clock_boot_ms());
        json_object_set_new(all, "op", json_string("approvals"));
        reply_send(d, reply, all, NULL, 0);
}

static void revoke(struct daemon *d, const struct request *r, struct reply *reply)
{
        /* Whose doors are told shows in what they owe. */
        struct session *told = NULL;
        unsigned before[2] = { 0 };
        int rc;

        for (size_t i = 0; i < d->workspace_count; i++)
                before[0] += d->workspaces[i]->session ? d->workspaces[i]->session->revokes_owed : 0;
        rc = approvals_revoke(d->approvals, (uint64_t)r->approval);
        for (size_t i = 0; i < d->workspace_count; i++) {
                before[1] += d->workspaces[i]->session ? d->workspaces[i]->session->revokes_owed : 0;
                if (before[1] > before[0] && !told)
                        told = d->workspaces[i]->session;
        }
        if (rc == 1)
                reply_error(d, reply, REQUEST_E_STATE, "there is no grant or denial of this number; 'brome approvals' lists them");
        else if (rc < 0)
                reply_error(d, reply, REQUEST_E_JOURNAL, "revoked, but the journal could not take it");
        else if (told)
                session_revoke_reply(told, *reply);
        else
                reply_send(d, reply, json_pack("{s:s, s:i}", "op", "done", "cut", 0), NULL, 0);
}

void do_approvals_answer(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        enum approval_term term = approval_term_by_name(r->term);
        size_t released = 0;
        int rc;

        (void)msg;
        if (r->op == REQUEST_APPROVALS_REVOKE) {
                revoke(d, r, reply);
                consent_arm(d);
                return;
        }
        if (r->op == REQUEST_APPROVALS_ALLOW && term == APPROVAL_TERM_COUNT) {
                reply_error(d, reply, REQUEST_E_USAGE, "for is one of once, 5m, 1h, session");
                return;
        }
        if (r->op == REQUEST_APPROVALS_ALLOW)
                rc = approvals_allow(d->approvals, (uint64_t)r->approval, term, r->seen, clock_boot_ms(), &released);
        else
                rc = approvals_deny(d->approvals, (uint64_t)r->approval, clock_boot_ms());
        consent_arm(d);
        if (rc == 1)
                reply_error(d, reply, REQUEST_E_STATE, "no approval of this number waits (any more); 'brome approvals' lists them");
        else if (rc < 0)
                reply_error(d, reply, REQUEST_E_JOURNAL, r->op == REQUEST_APPROVALS_ALLOW ? "not allowed: the journal cannot be written" : "denied, but the journal could not take it");
        else
                reply_send(d, reply, json_pack("{s:s, s:I}", "op", "done", "released", (json_int_t)released), NULL, 0);
}

/* What waits already is told at once: who comes back finds it again. */
void do_watch(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        json_t *all, *approval;
        size_t i;

        (void)msg;
        if (!server_watch(d, reply, r->workspace, r->hears)) {
                reply_error(d, reply, REQUEST_E_STATE, "this connection watches already");
                return;
        }
        all = approvals_json(d->approvals, r->workspace, clock_boot_ms());
        json_array_foreach(json_object_get(all, "waiting"), i, approval)
                server_notice_one(d, reply, json_pack("{s:s, s:O}", "kind", "approval", "approval", approval));
        json_decref(all);
}

void do_alerts(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        (void)msg;
        reply_send(d, reply, json_pack("{s:s, s:o}", "op", "alerts", "alerts", alerts_list(d->alerts, r->workspace, r->all)), NULL, 0);
}

/* --- wiping --- */

/* At rest: the folder, then the decision (where one is owed): what could not be wiped is still compromised. A home that is half gone would be worse than
 * one that is still there: one step. */
void commands_wiped(struct workspace *ws)
{
        struct daemon *d = ws->daemon;
        struct err err = ERR_INIT;
        int rc = registry_wipe(ws, &err);

        ws->wipe = false;
        if (rc == 0)
                record_wiped(ws);
        if (rc == 0 && ws->undecided) {
                rc = trip_decide(ws, "wiped", &err);
                if (rc == 0)
                        workspace_state(ws, WS_STOPPED, "wiped");
        }
        if (rc == 0)
                reply_done(d, &ws->wipe_waits);
        else
                reply_error(d, &ws->wipe_waits, REQUEST_E_HOST, err.text);
        ws->wipe_waits = (struct reply){ 0 };
}

void do_workspace_wipe(struct daemon *d, const struct request *r, struct chan_msg *msg, struct reply *reply)
{
        struct request by_name = { .workspace = r->name };
        struct workspace *ws = command_named(d, &by_name, reply);

        (void)msg;
        if (!ws)
                return;
        if (ws->wipe) {
                reply_error(d, reply, REQUEST_E_STATE, "the workspace is being wiped already");
                return;
        }
        ws->wipe = true;
        ws->wipe_waits = *reply;
        if (!workspace_busy(ws))
                commands_wiped(ws);
        else
                session_close(ws, "the workspace is wiped", true, (struct reply){ 0 });
}
