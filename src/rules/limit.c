/* Limits of a rule against one request. Three answers: holds, does not hold, and unsure; under `allow` unsure refuses, under `deny` it denies.
 *
 * `read-only` is about effect (an origin that reads a POST out of a GET is not read only): no body, no upgrade, and nothing that asks to be
 * taken for another method. */
#include "rules/rules_priv.h"

#include "base/override.h"
#include "rules/profile.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- query ----------------------------------------------------------------------------------------------------------------------- */

enum { KEY_BYTES = RULES_STRING_BYTES };

static int hex_digit(uint8_t c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = ascii_lower(c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decodes a key, '+' is a blank. Returns its length, or -1 when malformed or longer than any key of a rule. */
static ptrdiff_t key_decode(uint8_t *out, struct slice in)
{
        size_t n = 0;

        for (size_t i = 0; i < in.n; i++) {
                uint8_t c = in.p[i];
                if (c == '%') {
                        int hi = in.n - i < 3 ? -1 : hex_digit(in.p[i + 1]), lo = in.n - i < 3 ? -1 : hex_digit(in.p[i + 2]);
                        if (hi < 0 || lo < 0)
                                return -1;
                        c = (uint8_t)(hi << 4 | lo);
                        i += 2;
                } else if (c == '+') {
                        c = ' ';
                }
                if (n == KEY_BYTES)
                        return -1;
                out[n++] = c;
        }
        return (ptrdiff_t)n;
}

/* The next `key=value` of *rest, whole and its key; '&' and ';' both separate, since origins differ on ';'. */
static bool query_next(struct slice *rest, struct slice *pair, struct slice *key)
{
        size_t i = 0;
        ptrdiff_t eq;

        if (rest->n == 0)
                return false;
        while (i < rest->n && rest->p[i] != '&' && rest->p[i] != ';')
                i++;
        *pair = slice_first(*rest, i);
        eq = slice_find(*pair, '=');
        *key = eq >= 0 ? slice_first(*pair, (size_t)eq) : *pair;
        *rest = slice_skip(*rest, i + 1);
        return true;
}

static enum hold query_holds(const struct rule *r, const struct policy_request_query *q)
{
        uint8_t decoded[KEY_BYTES];
        struct slice rest = q->query, pair, key;
        enum hold hold = HOLD_YES;

        if (r->query == QUERY_ANY)
                return HOLD_YES;
        if (r->query == QUERY_NONE)
                return q->has_query || q->query.n ? HOLD_NO : HOLD_YES;
        while (query_next(&rest, &pair, &key)) {
                ptrdiff_t n = key_decode(decoded, key);
                size_t i;
                if (pair.n == 0) /* "&&"; "=value" has a key, the empty one, and carries data */
                        continue;
                if (n < 0) {
                        hold = HOLD_UNSURE;
                        continue;
                }
                for (i = 0; i < r->query_key_count && !slice_eq(r->query_keys[i], slice_of(decoded, (size_t)n)); i++)
                        ;
                if (i == r->query_key_count)
                        return HOLD_NO;
        }
        return hold;
}

/* ---- the others -------------------------------------------------------------------------------------------------------------------- */

static bool has_body(const struct policy_request_query *q) { return q->has_body && q->body_bytes != 0; }

/* RFC 8441: a WebSocket over HTTP/2 is a CONNECT; it is judged as the GET it stands for. */
static struct slice method_of(const struct policy_request_query *q)
{
        return q->upgrade == UPGRADE_WEBSOCKET && slice_is(q->method, "CONNECT") ? SLICE_LIT("GET") : q->method;
}

static enum hold read_only_holds(const struct rule *r, const struct policy_request_query *q, enum reason *why)
{
        struct slice m = method_of(q);

        *why = REASON_NONE;
        if (!r->read_only)
                return HOLD_YES;
        if (!slice_is(m, "GET") && !slice_is(m, "HEAD") && !slice_is(m, "OPTIONS"))
                *why = REASON_READ_ONLY_METHOD;
        else if (has_body(q))
                *why = REASON_READ_ONLY_BODY;
        else if (q->upgrade != UPGRADE_NONE)
                *why = REASON_READ_ONLY_UPGRADE;
        else if (q->override_header || override_query(q->query))
                *why = REASON_READ_ONLY_OVERRIDE;
        return *why == REASON_NONE ? HOLD_YES : HOLD_NO;
}

/* A rule with methods or a path says what the origin may do; a request that asks the origin to read another method or path than it
 * shows could be anything. */
static bool masked(const struct rule *r, const struct policy_request_query *q)
{
        return (r->method_count || r->path.n) && (q->override_header || override_query(q->query));
}

static enum hold method_holds(const struct rule *r, const struct policy_request_query *q, enum reason *why)
{
        struct slice m = method_of(q);

        *why = REASON_OVERRIDE;
        if (masked(r, q))
                return HOLD_UNSURE;
        *why = REASON_METHOD_NOT_ALLOWED;
        if (r->method_count == 0)
                return HOLD_YES;
        for (size_t i = 0; i < r->method_count; i++) {
                if (!slice_eq(r->methods[i], m))
                        continue;
                *why = REASON_UPGRADE_NOT_ALLOWED;
                return q->upgrade == UPGRADE_OTHER || (q->upgrade == UPGRADE_WEBSOCKET && !slice_is(m, "GET")) ? HOLD_UNSURE : HOLD_YES;
        }
        return HOLD_NO;
}

static enum hold body_holds(const struct rule *r, const struct policy_request_query *q, enum reason *why)
{
        if (r->body == BODY_ANY)
                return HOLD_YES;
        *why = r->body == BODY_NONE ? REASON_BODY_NOT_ALLOWED : REASON_BODY_TOO_LARGE;
        if (has_body(q) && (r->body == BODY_NONE || (q->body_bytes > 0 && (uint64_t)q->body_bytes > r->body_max_bytes)))
                return HOLD_NO;
        /* After an upgrade bytes flow that no body limit counts. */
        *why = REASON_UPGRADE_NOT_ALLOWED;
        return q->upgrade == UPGRADE_NONE ? HOLD_YES : HOLD_UNSURE;
}

/* *body_ok: the profile lets a body pass. */
static enum hold profile_holds(const struct rule *r, const struct policy_request_query *q, enum reason *why, bool *body_ok)
{
        *body_ok = true;
        *why = REASON_PROFILE;
        if (r->profile == PROFILE_NONE)
                return HOLD_YES;
        if (q->path.n < r->profile_skip) /* the scope's path made sure that the prefix is there */
                return HOLD_NO;
        return profile_request(r->profile, slice_skip(q->path, r->profile_skip), q, body_ok) ? HOLD_YES : HOLD_NO;
}

enum hold limits_hold(const struct rule *r, const struct policy_request_query *q, enum policy_limit *which, enum reason *why, int64_t *max_body)
{
        enum reason reasons[] = { REASON_NONE, REASON_NONE, REASON_QUERY_NOT_ALLOWED, REASON_NONE, REASON_NONE };
        static const enum policy_limit limits[] = { LIMIT_READ_ONLY, LIMIT_METHOD, LIMIT_QUERY, LIMIT_BODY, LIMIT_PROFILE };
        bool profile_body;
        enum hold holds[5], worst = HOLD_YES;

        holds[0] = read_only_holds(r, q, &reasons[0]);
        holds[1] = method_holds(r, q, &reasons[1]);
        holds[2] = query_holds(r, q);
        holds[3] = body_holds(r, q, &reasons[3]);
        holds[4] = profile_holds(r, q, &reasons[4], &profile_body);
        *max_body = r->read_only || r->body == BODY_NONE || !profile_body ? 0 : r->body == BODY_MAX ? (int64_t)r->body_max_bytes : -1;
        *which = LIMIT_NONE;
        *why = REASON_NONE;
        for (size_t i = 0; i < COUNT(holds); i++) {
                if (holds[i] >= worst)
                        continue;
                worst = holds[i];
                *which = limits[i];
                *why = reasons[i];
        }
        return worst;
}
