/* Refusal pages: see refuse.h. SECURITY: what the guest or an origin wrote appears only through esc(). */
#include "inner/refuse.h"
#include "base/esc.h"
#include "inner/decide.h"

struct refusal refusal_of(enum reason r)
{
        enum { RETRY_S = 30 }; /* time to read a question and to answer it */
        bool later = r == REASON_CONSENT_EXPIRED || r == REASON_CONSENT_NOBODY;

        return (struct refusal){ reason_id(r), reason_text(r), (uint16_t)reason_http_status(r), reason_h2_code(r), later ? RETRY_S : 0 };
}

struct refusal refusal_of_wire(enum wire_reason r)
{
        return (struct refusal){ wire_reason_key(r), wire_reason_sentence(r), wire_reason_status(r), wire_reason_h2(r), 0 };
}

bool refusal_is_policy(enum reason r)
{
        static const bool policy[REASON_COUNT] = {
                [REASON_RULE_DENY] = true,
                [REASON_DEFAULT_DENY] = true,
                [REASON_METHOD_NOT_ALLOWED] = true,
                [REASON_READ_ONLY_METHOD] = true,
                [REASON_READ_ONLY_BODY] = true,
                [REASON_READ_ONLY_UPGRADE] = true,
                [REASON_READ_ONLY_OVERRIDE] = true,
                [REASON_OVERRIDE] = true,
                [REASON_UPGRADE_NOT_ALLOWED] = true,
                [REASON_QUERY_NOT_ALLOWED] = true,
                [REASON_BODY_NOT_ALLOWED] = true,
                [REASON_BODY_TOO_LARGE] = true,
                [REASON_PROFILE] = true,
                [REASON_UNINSPECTED] = true,
                [REASON_NAME_NOT_ALLOWED] = true,
                [REASON_PROTO_NOT_ALLOWED] = true,
                [REASON_POLICY_CHANGED] = true,
        };

        return policy[r];
}

void refuse_body(struct buf *out, const struct exchange *x, const struct refusal *r)
{
        struct buf text;

        /* What the world did is no refusal of ours: 502 and 504. */
        buf_addf(out, "brome: %s: %s (%s)\n", r->status == 502 || r->status == 504 ? "no answer" : "refused", r->text, r->id);
        if (x->req) {
                char place[AUTHORITY_TEXT_BYTES];
                enum scheme scheme = x->https ? SCHEME_HTTPS : SCHEME_HTTP;
                buf_addf(out, "request: %s ", esc(x->req->method));
                buf_addf(out, "%s://%s%s\n", scheme_name(scheme), esc(authority_print(place, &x->to, scheme)), esc(x->req->target.path));
        }
        if (x->detail.n)
                buf_addf(out, "detail: %s\n", esc(x->detail));
        if (!x->req || !refusal_is_policy(x->reason) || !x->door->policy)
                return;
        buf_init(&text, REFUSAL_BYTES);
        policy_rule_text(x->door->policy, x->verdict.rule, &text);
        buf_addf(out, "rule: %s\n", esc(buf_slice(&text)));
        buf_fini(&text);
        decide_suggest_request(x, &text);
        if (buf_len(&text))
                buf_addf(out, "to allow it: brome rules edit %s%s\n        %s\n", x->door->workspace,
                         x->verdict.rule != POLICY_DEFAULT_RULE ? ", above that rule" : "", esc(buf_slice(&text)));
        buf_fini(&text);
}
