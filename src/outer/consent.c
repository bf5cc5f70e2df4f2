/* Consent: see consent.h. */
#include "outer/consent.h"

#include "base/clock.h"
#include "base/log.h"
#include "outer/account.h"
#include "outer/control.h"
#include "outer/events.h"
#include "outer/link.h"
#include "outer/ruleset.h"
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct grant {
        bool rule;
        char *name, *host;
        uint16_t port;
        int64_t until_ms; /* INT64_MAX: the session */
};

struct consent {
        struct outer *outer;
        uint64_t last_id;
        struct grant grants[CONSENT_GRANTS_MAX];
        size_t count;
};

struct key {
        bool rule;
        struct slice name, host;
        uint16_t port;
};

struct consent *consent_new(struct outer *o)
{
        struct consent *c = calloc(1, sizeof(*c));

        if (c)
                c->outer = o;
        return c;
}

/* ---- grants --------------------------------------------------------------------------------------------------------------------------------- */

static bool grant_is(const struct grant *g, const struct key *k)
{
        return g->rule == k->rule && g->port == k->port && slice_is(k->name, g->name) && slice_is(k->host, g->host);
}

static void grant_drop(struct consent *c, size_t i)
{
        free(c->grants[i].name);
        free(c->grants[i].host);
        c->grants[i] = c->grants[--c->count];
}

static bool granted(struct consent *c, const struct key *k)
{
        int64_t now_ms = clock_boot_ms();

        for (size_t i = 0; i < c->count;) {
                if (c->grants[i].until_ms <= now_ms)
                        grant_drop(c, i);
                else if (grant_is(&c->grants[i], k))
                        return true;
                else
                        i++;
        }
        return false;
}

static size_t ends_first(const struct consent *c)
{
        size_t first = 0;

        for (size_t i = 1; i < c->count; i++)
                if (c->grants[i].until_ms < c->grants[first].until_ms)
                        first = i;
        return first;
}

static void grant_add(struct consent *c, const struct key *k, int64_t ttl_ms)
{
        struct grant g = { .rule = k->rule, .port = k->port, .until_ms = ttl_ms < 0 ? INT64_MAX : clock_boot_ms() + ttl_ms };

        if (ttl_ms == 0)
                return;
        for (size_t i = 0; i < c->count; i++)
                if (grant_is(&c->grants[i], k)) {
                        grant_drop(c, i);
                        break;
                }
        if (c->count == CONSENT_GRANTS_MAX)
                grant_drop(c, ends_first(c));
        g.name = strndup((const char *)k->name.p, k->name.n);
        g.host = strndup((const char *)k->host.p, k->host.n);
        c->grants[c->count++] = g;
        if (!g.name || !g.host)
                grant_drop(c, c->count - 1); /* asked for again */
}

/* ---- what an exchange needs ------------------------------------------------------------------------------------------------------------------ */

/* A rule's name is its text. One that is too long for a message (a list of a thousand hosts) keeps its beginning and the digest of all. */
static int rule_name(const struct exchange *ex, const struct decision *d, struct buf *out)
{
        uint8_t digest[32];
        size_t n;

        policy_rule_text(ex->outer->rules->policy, d->rule, out);
        n = buf_len(out);
        if (n <= CONSENT_NAME_BYTES)
                return out->failed || n == 0 ? -1 : 0;
        if (!EVP_Digest(buf_slice(out).p, n, digest, NULL, EVP_sha256(), NULL))
                return -1;
        for (n = CONSENT_NAME_BYTES; (buf_slice(out).p[n] & 0xc0) == 0x80; n--) /* not within a character */
                ;
        out->end = out->start + n;
        if (buf_add_str(out, "... ") < 0)
                return -1;
        for (size_t i = 0; i < sizeof(digest); i++)
                if (buf_addf(out, "%02x", digest[i]) < 0)
                        return -1;
        return 0;
}

/* As it is now, in the exchange's memory; empty: none left. */
static struct slice rule_text(struct exchange *ex, const struct decision *d)
{
        struct slice copy = SLICE_EMPTY;
        struct buf text;
        bool ok = true;

        buf_init(&text, 0);
        if (rule_name(ex, d, &text) == 0)
                copy = arena_copy(&ex->arena, buf_slice(&text), &ok);
        buf_fini(&text);
        return ok ? copy : SLICE_EMPTY;
}

/* Is it still the rule that was agreed to? Compared before anything is copied: the rules may change often. */
static bool rule_is(const struct exchange *ex, const struct decision *d, struct slice agreed)
{
        struct buf text;
        bool same;

        buf_init(&text, 0);
        same = rule_name(ex, d, &text) == 0 && slice_eq(buf_slice(&text), agreed);
        buf_fini(&text);
        return same;
}

/* The name of a literal address is its text. */
static struct slice rule_host(struct exchange *ex)
{
        char literal[ADDR_TEXT_BYTES + 2];
        bool ok = true;
        struct slice s = arena_copy(&ex->arena, decide_host(&ex->req, literal), &ok);

        return ok ? s : SLICE_EMPTY;
}

static struct key rule_key(struct exchange *ex, const struct decision *d)
{
        if (!ex->consent.rule.n || !rule_is(ex, d, ex->consent.rule)) {
                ex->consent.rule = rule_text(ex, d);
                ex->consent.rule_agreed = false;
        }
        if (!ex->consent.host.n)
                ex->consent.host = rule_host(ex);
        return (struct key){ true, ex->consent.rule, ex->consent.host, ex->req.authority.port };
}

static struct key account_key(const struct exchange *ex)
{
        return (struct key){ false, account_name(ex->outer->account), ex->to.authority.name, ex->to.authority.port };
}

static bool needs_account(const struct exchange *ex, const struct decision *d) { return d->binding && d->binding->ask && exchange_uses_account(ex, d); }

/* ---- asking ------------------------------------------------------------------------------------------------------------------------------------ */

static void put(EVP_MD_CTX *md, struct slice s, bool *ok)
{
        uint8_t n[4] = { (uint8_t)(s.n >> 24), (uint8_t)(s.n >> 16), (uint8_t)(s.n >> 8), (uint8_t)s.n };

        *ok = *ok && EVP_DigestUpdate(md, n, sizeof(n)) && EVP_DigestUpdate(md, s.p ? s.p : n, s.n);
}

static struct slice method_of(const struct exchange *ex)
{
        return ex->kind == KIND_HTTP || ex->kind == KIND_WEBSOCKET ? ex->req.method : slice_str(kind_name(ex->kind));
}

int consent_digest(const struct exchange *ex, char out[CONSENT_DIGEST_TEXT])
{
        const struct request *req = &ex->req;
        EVP_MD_CTX *md = EVP_MD_CTX_new();
        char literal[ADDR_TEXT_BYTES + 2], port[8];
        uint8_t digest[32];
        bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL);
        int n = snprintf(port, sizeof(port), "%u", (unsigned)req->authority.port);

        put(md, method_of(ex), &ok);
        put(md, slice_str(scheme_name(req->scheme)), &ok);
        put(md, decide_host(req, literal), &ok);
        put(md, slice_of(port, (size_t)n), &ok);
        put(md, req->target.path, &ok);
        put(md, req->target.has_query ? SLICE_LIT("?") : SLICE_EMPTY, &ok);
        put(md, req->target.query, &ok);
        ok = ok && EVP_DigestFinal_ex(md, digest, NULL);
        EVP_MD_CTX_free(md);
        for (size_t i = 0; ok && i < sizeof(digest); i++)
                snprintf(out + 2 * i, 3, "%02x", digest[i]);
        return ok ? 0 : -1;
}

static json_t *text_of(struct slice s) { return json_stringn((const char *)s.p, s.n); }

/* Canonical path and query: printable ASCII. */
static json_t *path_of(const struct exchange *ex)
{
        char text[CONSENT_PATH_BYTES + 1];
        const struct path *t = &ex->req.target;
        int n = snprintf(text, sizeof(text), "%.*s%s%.*s", SLICE_FMT(t->path), t->has_query ? "?" : "", SLICE_FMT(t->query));

        return json_stringn(text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

/* Do bytes of the guest's follow the head? In a flow or behind an upgrade, always. */
static bool has_body(const struct exchange *ex)
{
        return ex->kind != KIND_HTTP || ex->req.upgrade != WIRE_UPGRADE_NONE || ex->req.body == BODY_CHUNKED || (ex->req.body == BODY_LENGTH && ex->req.length > 0);
}

static void held_up(struct exchange *ex) { (void)ex; }
static void held_abort(struct exchange *ex) { consent_withdraw(ex); }
static const struct upstream_ops held_ops = { held_up, held_up, held_abort };

static void refused(struct exchange *ex, enum reason reason)
{
        ex->decision.reason = reason;
        events_refusal(ex->outer->events, ex, NULL, reason_text(reason));
        exchange_fail(ex, reason, "%s", reason_text(reason));
}

/* SECURITY: the question is the canonical request that was judged, and what is sent later is made from the same. One that asks the origin to read another method
 * or path than is shown is not shown. */
static void ask(struct exchange *ex, const struct key *k)
{
        struct consent *c = ex->outer->consent;
        char digest[CONSENT_DIGEST_TEXT];
        json_t *m;

        if (ex->req.override) {
                refused(ex, REASON_OVERRIDE);
                return;
        }
        if (!k->name.n || !k->host.n || consent_digest(ex, digest) < 0) {
                exchange_fail(ex, REASON_LIMIT, "out of memory");
                return;
        }
        ex->consent.id = ++c->last_id;
        ex->consent.asks_rule = k->rule;
        exchange_attach(ex, &held_ops, c);
        m = json_pack("{s:s, s:I, s:s, s:o, s:o, s:i, s:o, s:o, s:b, s:s}", "op", "ask", "id", (json_int_t)ex->consent.id, "what", k->rule ? "rule" : "credential",
                      "name", text_of(k->name), "host", text_of(k->host), "port", (int)k->port, "method", text_of(method_of(ex)), "path", path_of(ex), "body", has_body(ex),
                      "digest", digest);
        if (m)
                control_say(c->outer->control, m);
        else
                exchange_fail(ex, REASON_INTERNAL, "the question cannot be put into words");
}

bool consent_pass(struct exchange *ex)
{
        struct consent *c = ex->outer->consent;
        const struct decision *d = &ex->decision;
        struct key k;

        if (d->ask) {
                k = rule_key(ex, d);
                ex->consent.rule_agreed = ex->consent.rule_agreed || granted(c, &k);
                if (!ex->consent.rule_agreed) {
                        ask(ex, &k);
                        return false;
                }
        }
        if (needs_account(ex, d)) {
                k = account_key(ex);
                ex->consent.account_agreed = ex->consent.account_agreed || granted(c, &k);
                if (!ex->consent.account_agreed) {
                        ask(ex, &k);
                        return false;
                }
        }
        return true;
}

bool consent_holds(struct exchange *ex, const struct decision *d)
{
        struct consent *c = ex->outer->consent;
        struct key k;

        if (d->ask) {
                k = rule_key(ex, d);
                ex->consent.rule_agreed = ex->consent.rule_agreed || granted(c, &k);
                if (!ex->consent.rule_agreed)
                        return false;
        }
        if (!needs_account(ex, d))
                return true;
        k = account_key(ex);
        ex->consent.account_agreed = ex->consent.account_agreed || granted(c, &k);
        return ex->consent.account_agreed;
}

void consent_withdraw(struct exchange *ex)
{
        if (!ex->consent.id)
                return;
        control_say(ex->outer->control, json_pack("{s:s, s:I}", "op", "ask-end", "id", (json_int_t)ex->consent.id));
        ex->consent.id = 0;
}

void consent_renew(struct exchange *ex)
{
        const struct decision *d = &ex->decision;

        if (!ex->consent.id)
                return; /* it waits for its body */
        if (ex->consent.asks_rule ? d->ask && rule_is(ex, d, ex->consent.rule) : !d->ask || ex->consent.rule_agreed ? needs_account(ex, d) : false)
                return;
        consent_withdraw(ex);
        exchange_detach(ex);
        exchange_go(ex);
}

/* ---- answers ----------------------------------------------------------------------------------------------------------------------------------- */

struct search {
        uint64_t id;
        struct exchange *found;
};

static void look(struct exchange *ex, void *ctx)
{
        struct search *s = ctx;

        if (ex->consent.id == s->id)
                s->found = ex;
}

static void agreed(struct exchange *ex, int64_t ttl_ms)
{
        bool rule = ex->consent.asks_rule;
        struct key k = rule ? (struct key){ true, ex->consent.rule, ex->consent.host, ex->req.authority.port } : account_key(ex);

        *(rule ? &ex->consent.rule_agreed : &ex->consent.account_agreed) = true;
        grant_add(ex->outer->consent, &k, ttl_ms);
        exchange_go(ex);
}

bool consent_answer(struct consent *c, uint64_t id, const char *answer, int64_t ttl_ms)
{
        static const struct {
                const char *answer;
                enum reason reason;
        } answers[] = { { "allow", REASON_NONE }, { "deny", REASON_CONSENT_DENIED }, { "expired", REASON_CONSENT_EXPIRED }, { "nobody", REASON_CONSENT_NOBODY } };
        struct search s = { .id = id };
        size_t i = 0, n = sizeof(answers) / sizeof(answers[0]);

        while (i < n && strcmp(answer, answers[i].answer) != 0)
                i++;
        if (id == 0 || id > c->last_id || i == n || ttl_ms < -1)
                return false;
        link_each(c->outer->link, look, &s);
        if (!s.found)
                return true; /* it went while the answer was on its way */
        s.found->consent.id = 0;
        exchange_detach(s.found);
        if (answers[i].reason == REASON_NONE)
                agreed(s.found, ttl_ms);
        else
                refused(s.found, answers[i].reason);
        return true;
}

/* ---- revoking ------------------------------------------------------------------------------------------------------------------------------------ */

struct revocation {
        struct key key;
        size_t cut;
};

static bool opened_by(const struct exchange *ex, const struct key *k)
{
        struct key own;

        if (k->rule)
                own = (struct key){ true, ex->consent.rule, ex->consent.host, ex->req.authority.port };
        else if (ex->outer->account && ex->to.authority.name.n)
                own = account_key(ex);
        else
                return false;
        return (k->rule ? ex->consent.rule_agreed : ex->consent.account_agreed) && own.port == k->port && slice_eq(own.name, k->name) && slice_eq(own.host, k->host);
}

static void cut(struct exchange *ex, void *ctx)
{
        struct revocation *r = ctx;

        if (!opened_by(ex, &r->key))
                return;
        ex->consent.rule_agreed = ex->consent.account_agreed = false;
        if (exchange_cut(ex, REASON_CONSENT_DENIED, "the consent was revoked"))
                r->cut++;
}

size_t consent_revoke(struct consent *c, bool rule, const char *name, const char *host, uint16_t port)
{
        struct revocation r = { .key = { rule, slice_str(name), slice_str(host), port } };

        for (size_t i = 0; i < c->count;)
                if (grant_is(&c->grants[i], &r.key))
                        grant_drop(c, i);
                else
                        i++;
        link_each(c->outer->link, cut, &r);
        return r.cut;
}
