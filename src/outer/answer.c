/* Answers that are looked at: see answer.h. */
#include "outer/answer.h"

#include "account/tokenserver.h"
#include "base/esc.h"
#include "outer/account.h"
#include "outer/frames.h"
#include "outer/link.h"
#include "outer/mint.h"
#include "outer/rewrite.h"
#include "wire/coding.h"
#include <stdlib.h>

struct answer {
        struct exchange *ex;
        struct account_mask *mask; /* NULL: the plain door */
        struct mask_stream stream;
        struct codings *decode; /* NULL: it comes as it is */
        bool rewrites, frames_on, ended;
        enum mint minting;
        struct rewrite rewrite;
        struct frames frames;
        struct buf raw, mid; /* not decoded yet; between rewriting and masking */
        struct headers trailers;
        /* While it may be a token's: the head and the body so far. */
        struct response head;
        struct buf body;
};

void answer_free(struct answer *a)
{
        if (!a)
                return;
        if (a->mask)
                mask_end(&a->stream);
        account_mask_release(a->mask);
        codings_free(a->decode);
        if (a->rewrites)
                rewrite_fini(&a->rewrite);
        if (a->frames_on)
                frames_fini(&a->frames);
        buf_fini(&a->raw);
        buf_fini(&a->mid);
        buf_fini(&a->body);
        free(a);
}

/* ---- fields ---------------------------------------------------------------------------------------------------------------------------------- */

/* They describe bytes that are no more when a body was changed: RFC 9530, RFC 3230, RFC 1864. */
static bool is_digest(struct slice name)
{
        static const char *const names[] = { "content-digest", "repr-digest", "digest", "content-md5" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (slice_is(name, names[i]))
                        return true;
        return false;
}

static bool holds_url(struct slice name) { return slice_is(name, "location") || slice_is(name, "content-location") || slice_is(name, "link"); }

/* The value with that function's changes, in the exchange's memory. 0 or -1. */
static int take_value(struct exchange *ex, int rc, struct buf *changed, struct slice *value)
{
        bool ok = true;

        if (rc == 1)
                *value = arena_copy(&ex->arena, buf_slice(changed), &ok);
        buf_clear(changed);
        return rc < 0 || !ok ? -1 : 0;
}

static int aim_rewrite(struct exchange *ex, struct rewrite *r)
{
        return rewrite_init(r, &ex->arena, &ex->to.authority, ex->to.base, &ex->req.authority, ex->req.scheme);
}

/* 1; 0: it is to go, since its name is the secret, and a placeholder may be no name; -1 memory. */
static int look_at_field(struct exchange *ex, struct mask *mask, const struct rewrite *rewrite, struct header *f, struct buf *changed)
{
        int rc = 0;

        if (rewrite && holds_url(f->name))
                rc = take_value(ex, rewrite_field(rewrite, f->value, changed), changed, &f->value);
        if (!mask || rc < 0)
                return rc < 0 ? -1 : 1;
        rc = take_value(ex, mask_text(mask, f->value, changed), changed, &f->value);
        if (rc == 0)
                rc = mask_text(mask, f->name, changed);
        buf_clear(changed);
        return rc < 0 ? -1 : rc == 0;
}

static int look_at_fields(struct exchange *ex, struct headers *fields)
{
        struct header *at = arena_alloc_array(&ex->arena, fields->n + 1, sizeof(*at));
        struct account_mask *mask = ex->outer->account ? account_mask_hold(ex->outer->account) : NULL;
        bool via = ex->to.base.n > 0, asked = mint_asked(ex);
        struct rewrite rewrite;
        struct buf changed;
        size_t n = 0;
        int rc = at && (!via || aim_rewrite(ex, &rewrite) == 0) ? 0 : -1;

        buf_init(&changed, 0);
        changed.wipe = true;
        for (size_t i = 0; rc >= 0 && i < fields->n; i++) {
                at[n] = fields->at[i];
                rc = look_at_field(ex, mask ? mask->mask : NULL, via ? &rewrite : NULL, &at[n], &changed);
                n += rc == 1 && !(asked && tokenserver_drops(at[n].name));
        }
        buf_fini(&changed);
        account_mask_release(mask);
        *fields = (struct headers){ at, n };
        return rc < 0 ? -1 : 0;
}

int answer_fields(struct exchange *ex, struct headers *fields)
{
        return ex->decision.binding || ex->to.base.n ? look_at_fields(ex, fields) : 0;
}

static struct slice weak(struct exchange *ex, struct slice etag)
{
        uint8_t *p = slice_starts(etag, SLICE_LIT("W/")) ? NULL : arena_alloc(&ex->arena, etag.n + 2);

        if (!p)
                return etag;
        memcpy(p, "W/", 2);
        memcpy(p + 2, etag.p, etag.n);
        return slice_of(p, etag.n + 2);
}

/* The head of a body whose bytes may change: nothing in it speaks of the old ones. A strong ETag names bytes (RFC 9110 §8.8.1), so what is always changed has a weak one. */
static void adapt_head(const struct answer *a, struct response *r)
{
        struct headers *h = &r->headers;
        size_t n = 0;

        for (size_t i = 0; i < h->n; i++) {
                struct header f = h->at[i];

                if (is_digest(f.name) || slice_is(f.name, "accept-ranges") || (a->decode && slice_is(f.name, "content-encoding")))
                        continue;
                if (slice_is(f.name, "etag") && a->rewrites)
                        f.value = weak(a->ex, f.value);
                h->at[n++] = f;
        }
        h->n = n;
        if (r->body == BODY_LENGTH)
                r->body = BODY_CHUNKED;
        r->has_length = false;
}

/* ---- bodies ------------------------------------------------------------------------------------------------------------------------------------ */

static int fail(struct answer *a, enum reason reason, const char *why)
{
        struct exchange *ex = a->ex;

        if (ex->state == EXCHANGE_DONE)
                link_reset(ex->outer->link, ex, reason_link_code(reason));
        else
                exchange_fail(ex, reason, "%s", why);
        return -1;
}

static bool has_room(const struct exchange *ex)
{
        return buf_len(&ex->down) < EXCHANGE_DOWN_BYTES && (ex->outer->held_bytes < HELD_BYTES || buf_len(&ex->down) == 0);
}

/* Decoded bytes go on: rewritten, masked. */
static int pass(struct answer *a, struct slice in, bool last)
{
        struct exchange *ex = a->ex;
        size_t before = buf_len(&ex->down);
        int rc = 0;

        if (a->rewrites) {
                rc = rewrite_feed(&a->rewrite, in, last, &a->mid);
                in = buf_slice(&a->mid);
        }
        if (rc == 0)
                rc = a->mask ? mask_feed(&a->stream, in, last, &ex->down) : buf_add_slice(&ex->down, in);
        buf_clear(&a->mid);
        ex->outer->held_bytes += buf_len(&ex->down) - before;
        link_wake(ex->outer->link, ex);
        return rc < 0 ? fail(a, REASON_LIMIT, "out of memory") : 0;
}

/* It is no token's answer after all: the head goes, then what stands here. */
static int stop_minting(struct answer *a)
{
        a->minting = MINT_NO;
        if (exchange_send_head(a->ex, &a->head, false) < 0 || pass(a, buf_slice(&a->body), false) < 0)
                return -1;
        buf_clear(&a->body);
        return 0;
}

static int take_decoded(struct answer *a, struct slice in)
{
        if (!a->minting)
                return pass(a, in, false);
        if (buf_add_slice(&a->body, in) < 0)
                return fail(a, REASON_LIMIT, "out of memory");
        if (buf_len(&a->body) <= REGISTRY_ANSWER_BYTES_MAX)
                return 0;
        if (a->minting == MINT_MUST || tokenserver_suspects(buf_slice(&a->body)))
                return fail(a, REASON_ANSWER_UNDECODABLE, "an answer with a token in it is too large to be looked at");
        return stop_minting(a);
}

/* There are new secrets: they are masked in what is here, head and trailers too. */
static int mask_anew(struct answer *a)
{
        mask_end(&a->stream);
        account_mask_release(a->mask);
        a->mask = account_mask_hold(a->ex->outer->account);
        mask_begin(&a->stream, a->mask->mask);
        return look_at_fields(a->ex, &a->head.headers) < 0 || look_at_fields(a->ex, &a->trailers) < 0 ? -1 : 0;
}

/* The whole body is here. A token's answer goes on with placeholders. */
static int mint(struct answer *a)
{
        struct exchange *ex = a->ex;
        struct buf out;
        int rc;

        buf_init(&out, 0);
        rc = mint_answer(ex, buf_slice(&a->body), &out);
        if (rc < 0 || (rc == 0 && a->minting == MINT_MUST && buf_len(&a->body))) {
                buf_fini(&out);
                return fail(a, REASON_ANSWER_UNDECODABLE, rc < 0 ? "an answer with a token in it cannot be read" : "an answer of a token server cannot be read");
        }
        if (rc == 1) {
                buf_clear(&a->body);
                rc = buf_add_slice(&a->body, buf_slice(&out)) < 0 || mask_anew(a) < 0 ? fail(a, REASON_LIMIT, "out of memory") : 0;
        }
        buf_fini(&out);
        return rc < 0 ? -1 : stop_minting(a);
}

static int finish(struct answer *a)
{
        struct exchange *ex = a->ex;

        if (a->minting && mint(a) < 0)
                return -1;
        if (pass(a, SLICE_EMPTY, true) < 0)
                return -1;
        ex->down_trailers = a->trailers;
        ex->down_ended = true;
        link_wake(ex->outer->link, ex);
        return 0;
}

/* Decodes what is here while the link takes it. */
static int pump(struct answer *a)
{
        static uint8_t step[ANSWER_STEP_BYTES];
        struct exchange *ex = a->ex;
        enum coding_status status = CODING_OUT;
        size_t n;
        int rc = 0;

        while (rc == 0 && status == CODING_OUT && (a->minting || has_room(ex))) {
                struct slice in = buf_slice(&a->raw);

                status = codings_step(a->decode, &in, a->ended, step, sizeof(step), &n);
                buf_consume(&a->raw, buf_len(&a->raw) - in.n);
                ex->down_raw_bytes = buf_len(&a->raw);
                if (status == CODING_BAD)
                        rc = fail(a, REASON_ANSWER_UNDECODABLE, coding_problem_sentence(codings_problem(a->decode)));
                else if (n)
                        rc = take_decoded(a, slice_of(step, n));
        }
        explicit_bzero(step, sizeof(step));
        if (rc == 0 && status == CODING_END && !ex->down_ended)
                rc = finish(a);
        return rc;
}

int answer_feed(struct exchange *ex, struct slice in)
{
        struct answer *a = ex->answer;
        size_t before = buf_len(&ex->down);
        int rc;

        if (a->frames_on) {
                rc = frames_feed(&a->frames, in, &ex->down);
                ex->outer->held_bytes += buf_len(&ex->down) - before;
                link_wake(ex->outer->link, ex);
                return rc == 0 ? 0 : fail(a, rc == -2 ? REASON_UPSTREAM_PROTOCOL : REASON_LIMIT, rc == -2 ? "the server broke the rules of WebSocket" : "out of memory");
        }
        if (!a->decode)
                return take_decoded(a, in);
        if (buf_add_slice(&a->raw, in) < 0)
                return fail(a, REASON_LIMIT, "out of memory");
        ex->down_raw_bytes = buf_len(&a->raw);
        return pump(a);
}

void answer_end(struct exchange *ex, const struct headers *trailers)
{
        struct answer *a = ex->answer;
        size_t n = 0;

        if (a->frames_on) {
                ex->down_ended = true;
                return;
        }
        if (trailers && trailers->n) {
                a->trailers = *trailers;
                if (look_at_fields(ex, &a->trailers) < 0) {
                        fail(a, REASON_LIMIT, "out of memory");
                        return;
                }
                for (size_t i = 0; i < a->trailers.n; i++)
                        if (!is_digest(a->trailers.at[i].name))
                                a->trailers.at[n++] = a->trailers.at[i];
                a->trailers.n = n;
        }
        a->ended = true;
        (void)!(a->decode ? pump(a) : finish(a));
}

void answer_room(struct exchange *ex)
{
        struct answer *a = ex->answer;

        if (a->decode && !ex->down_ended && (buf_len(&a->raw) || a->ended))
                (void)!pump(a);
}

bool answer_waits(const struct exchange *ex) { return ex->answer->ended && !ex->down_ended; }

/* ---- heads ---------------------------------------------------------------------------------------------------------------------------------------- */

static int mask_message(void *ctx, struct slice in, bool text, bool first, bool last, struct buf *out)
{
        struct answer *a = ctx;

        (void)text; /* binary ones too: an echo may stand in either */
        if (first) {
                mask_end(&a->stream);
                mask_begin(&a->stream, a->mask->mask);
        }
        return mask_feed(&a->stream, in, last, out);
}

static int mask_control(void *ctx, struct slice in, struct buf *out)
{
        struct answer *a = ctx;
        int rc = mask_text(a->mask->mask, in, out);

        return rc < 0 ? -1 : rc == 0 ? buf_add_slice(out, in) : 0;
}

/* "application/json", "application/vnd.npm.install-v1+json; …". */
static bool is_json(struct slice type)
{
        ptrdiff_t semi = slice_find(type, ';');
        struct slice t = field_trim(semi < 0 ? type : slice_first(type, (size_t)semi));

        return t.n >= 5 && slice_iis(slice_skip(t, t.n - 4), "json") && (t.p[t.n - 5] == '/' || t.p[t.n - 5] == '+');
}

/* All Content-Encoding fields as one list. -1: unknown, or too many. */
static int parse_codings(const struct headers *h, enum coding list[CODINGS_MAX])
{
        int n = 0;

        for (size_t i = 0; i < h->n; i++) {
                enum coding some[CODINGS_MAX];
                int more = slice_is(h->at[i].name, "content-encoding") ? codings_parse(h->at[i].value, some) : 0;

                if (more < 0 || n + more > CODINGS_MAX)
                        return -1;
                for (int k = 0; k < more; k++)
                        list[n++] = some[k];
        }
        return n;
}

static struct answer *answer_new(struct exchange *ex)
{
        struct answer *a = calloc(1, sizeof(*a));

        if (!a)
                return NULL;
        a->ex = ex;
        buf_init(&a->raw, 0);
        buf_init(&a->mid, 0);
        buf_init(&a->body, 0);
        a->raw.wipe = a->mid.wipe = a->body.wipe = ex->outer->account != NULL;
        if (ex->outer->account) {
                a->mask = account_mask_hold(ex->outer->account);
                mask_begin(&a->stream, a->mask->mask);
        }
        answer_free(ex->answer); /* of an answer that was given back to be had again */
        ex->answer = a;
        ex->down_raw_bytes = 0;
        return a;
}

static int begin_frames(struct exchange *ex, const struct response *r, enum reason *reason, const char **why)
{
        struct answer *a;

        if (!ex->decision.binding)
                return 0;
        if (headers_find(&r->headers, "sec-websocket-extensions")) {
                *reason = REASON_UPSTREAM_PROTOCOL;
                *why = "the server uses a WebSocket extension that was not offered";
                return -1;
        }
        a = answer_new(ex);
        if (!a)
                return -1;
        a->frames_on = true;
        frames_init(&a->frames, false, &(struct frames_filter){ mask_message, mask_control, a });
        return 0;
}

/* Decoder and rewriter, as this body needs them. */
static int prepare(struct answer *a, const enum coding *list, int codings, bool json)
{
        if (codings && !(a->decode = codings_new(list, (size_t)codings)))
                return -1;
        if (!a->ex->to.base.n || !json)
                return 0;
        a->rewrites = true;
        return aim_rewrite(a->ex, &a->rewrite);
}

static void learn_realms(struct exchange *ex, const struct headers *h)
{
        for (size_t i = 0; ex->decision.binding && ex->decision.binding->kind == ACCOUNT_REGISTRY && i < h->n; i++)
                if (slice_is(h->at[i].name, "www-authenticate"))
                        account_challenged(ex->outer->account, h->at[i].value);
}

int answer_begin(struct exchange *ex, struct response *r, bool end, enum reason *reason, const char **why)
{
        bool bound = ex->decision.binding != NULL, json;
        enum coding list[CODINGS_MAX];
        struct answer *a;
        int codings;

        if (!bound && !ex->to.base.n)
                return 0;
        *reason = REASON_LIMIT;
        *why = "out of memory";
        json = is_json(headers_value(&r->headers, "content-type"));
        learn_realms(ex, &r->headers);
        if (mint_asked(ex) && tokenserver_url_has_key(headers_value(&r->headers, "location"))) {
                *reason = REASON_ANSWER_UNDECODABLE;
                *why = "a token server sends on to a place with a key in it";
                return -1;
        }
        if (look_at_fields(ex, &r->headers) < 0)
                return -1;
        if (r->upgraded)
                return begin_frames(ex, r, reason, why);
        if (end || r->body == BODY_NONE || (!bound && !json))
                return 0;
        codings = parse_codings(&r->headers, list);
        if (codings < 0 || r->status == 206) {
                *reason = REASON_ANSWER_UNDECODABLE;
                *why = codings < 0 ? "the answer is coded in a way that nobody here can read" : "a part of an answer came where the whole was asked for";
                return -1;
        }
        a = answer_new(ex);
        if (!a || prepare(a, list, codings, json) < 0)
                return -1;
        adapt_head(a, r);
        a->minting = mint_of(ex, r, json);
        a->head = *r;
        return a->minting != MINT_NO;
}
