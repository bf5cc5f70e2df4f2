/* A compiled policy: bytes in, verdict out. Both doors, the daemon and the CLI compile the same text with this code.
 *
 * A policy is immutable after it was made; it may be read from anywhere. It does no I/O and never logs. Everything that is not clearly
 * allowed is refused. The caller gives names in canonical form (base/host.h) and paths in canonical form (wire): the policy compares bytes.
 *
 * Two questions are asked of it: at the flow's opening, what kind of flow it may be (policy_flow); and for each request of an
 * inspected flow, whether it may pass (policy_request). Inner and outer door ask both; the outer adds the resolved address. */
#ifndef BROME_RULES_POLICY_H
#define BROME_RULES_POLICY_H

#include "account/binding.h"
#include "base/addr.h"
#include "base/buf.h"
#include "base/slice.h"
#include "rules/diag.h"
#include "rules/reasons.h"

struct policy;

/* The policy in `text` (tables, host blocks, one `rules { … }`; what policy_print prints; macros and comments are fine, include is not).
 * NULL with at least one diagnostic. `file` names the text in messages. */
struct policy *policy_parse(struct slice text, const char *file, struct diags *errors) __attribute__((warn_unused_result));
void policy_free(struct policy *p); /* NULL is fine */
/* Canonical text; policy_parse(policy_print(p)) prints the same again. */
void policy_print(const struct policy *p, struct buf *out);

#define POLICY_DEFAULT_RULE (-1) /* rule index in verdicts when the default decided */

enum flow_proto { FLOW_TCP, FLOW_UDP, FLOW_ICMP };

struct policy_flow_query {
        struct slice name;            /* canonical; empty when the guest used a literal address */
        const struct addr *literal;   /* the address the guest used, when name is empty */
        const struct addr *resolved;  /* what the outer door is about to dial for a name; NULL when unknown */
        uint16_t port;                /* 0 for icmp */
        enum flow_proto proto;
};

enum flow_action {
        FLOW_DENY,
        FLOW_INSPECT,           /* TLS or HTTP only; then policy_request for each request */
        FLOW_INSPECT_OR_SPLICE, /* `any`, default allow: inspected when TLS or HTTP, else policy_opaque */
        FLOW_TLS_PASS,          /* `tls`: the server name must equal the flow's name, no ECH; then spliced */
        FLOW_SPLICE,            /* `tcp` */
        FLOW_ALLOW,             /* udp, icmp */
};

enum policy_limit { LIMIT_NONE, LIMIT_READ_ONLY, LIMIT_METHOD, LIMIT_QUERY, LIMIT_BODY, LIMIT_PROFILE };

/* `as PROFILE`: what exactly a reader of that protocol asks for. Method, path and query are judged by policy_request; the rest is the doors':
 * fields are rebuilt from profile_fields (profile.h), a git body is read by the inner door. */
enum policy_profile { PROFILE_NONE, PROFILE_NPM, PROFILE_GIT, PROFILE_COUNT };

/* `via "https://host[:port]/base/"`: where the request really goes: base, then the request's path without its leading slash, then its query. Slices borrow from the policy. */
struct policy_via {
        bool found;
        struct slice name; /* canonical host */
        uint16_t port;
        struct slice base; /* begins and ends with "/" */
};

struct policy_verdict {
        bool allow;              /* flow: action is not FLOW_DENY */
        enum flow_action action; /* policy_flow and policy_opaque only */
        int rule;                /* index from 0, or POLICY_DEFAULT_RULE. Of a flow that several path rules could decide: the first that could allow */
        enum reason reason;      /* REASON_NONE when allowed */
        enum policy_limit failed; /* which limit did not hold */
        bool log;                /* the rule says log */
        bool admits_private;     /* the address guard may let a private address pass; of a request with `via`: of the host it is re-routed to */
        int64_t max_body;        /* bytes of body that may pass, to be enforced while streaming; -1: no limit */
        bool ask;                /* a person has to agree first: the outer door holds it. A door that cannot hold refuses. Of a flow that is inspected
                                  * never set: its requests are asked for (policy_request), or what turns out to be neither TLS nor HTTP (policy_opaque) */
        /* Of an allowed request: */
        bool anonymous;          /* refused when it has an account field (account/check.h) */
        bool stream_ok;          /* a body of unknown length is passed on as it is scanned */
        enum policy_profile profile;
        uint32_t misses;         /* what may be asked for an hour under the profile and not be there; 0: the rule does not say */
        struct policy_via via;
};

/* Always fills *v; fails closed on a query that is not canonical. */
void policy_flow(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v);
/* For a flow with FLOW_INSPECT_OR_SPLICE that turned out to be neither TLS nor HTTP: FLOW_SPLICE or FLOW_DENY. */
void policy_opaque(const struct policy *p, const struct policy_flow_query *q, struct policy_verdict *v);

enum policy_upgrade { UPGRADE_NONE, UPGRADE_WEBSOCKET, UPGRADE_OTHER };

struct policy_request_query {
        struct policy_flow_query flow; /* proto FLOW_TCP; name from the authority, already proven equal to the flow's */
        bool https;
        struct slice method;           /* as sent. An extended CONNECT for websocket may come as CONNECT or GET with UPGRADE_WEBSOCKET */
        struct slice path;             /* canonical, begins with '/'; "*" for OPTIONS * */
        struct slice query;            /* raw, without '?'; percent-encoding as sent */
        bool has_query;                /* a '?' was there, even with nothing after it */
        bool has_body;                 /* content-length other than 0, chunked, or an HTTP/2 stream not ended with its head */
        int64_t body_bytes;            /* -1: unknown */
        enum policy_upgrade upgrade;
        bool override_header;          /* override_field() was true for one of the fields (base/override.h) */
};

void policy_request(const struct policy *p, const struct policy_request_query *q, struct policy_verdict *v);

/* Could any rule allow any flow to this canonical name? If not, its DNS answer is NXDOMAIN. */
bool policy_name_possible(const struct policy *p, struct slice name);

struct policy_host {
        bool found; /* a `host` block names it */
        bool private_ok;
        bool pinned;
        struct addr address;
        uint16_t port;        /* 0: the flow's own */
        struct slice ca_path; /* borrows from the policy; empty: none */
};
/* By exact canonical name; not found: all false. */
struct policy_host policy_host(const struct policy *p, struct slice name);
/* All host blocks in order, for who must load their CAs. */
size_t policy_host_count(const struct policy *p);
struct policy_host policy_host_at(const struct policy *p, size_t i, struct slice *name);

/* Credentials bound to the workspace, in order; and the one of a host, by its name and the guest's port: at most one. An account belongs to `name:port` whatever the
 * scheme: over http it is refused. -1: none. */
size_t policy_account_count(const struct policy *p);
const struct binding *policy_account_at(const struct policy *p, size_t i);
int policy_account_of(const struct policy *p, struct slice name, uint16_t port);
/* A host of the agent preset's model: a foreign placeholder inside a JSON string towards it is overwritten and recorded, not tripped. */
bool policy_is_model_host(const struct policy *p, struct slice name);
/* `continue` was said after a trip: this placeholder's credential towards this host is refused without freezing again. */
bool policy_trip_known(const struct policy *p, struct slice credential, struct slice host);

size_t policy_rule_count(const struct policy *p);
/* Canonical text of a rule, without newline; "default deny" or "default allow" for POLICY_DEFAULT_RULE. */
void policy_rule_text(const struct policy *p, int rule, struct buf *out);
bool policy_default_allow(const struct policy *p);

/* The narrowest rule that would allow it, one line without newline: "allow web example.org read-only", "allow tcp db.corp.example:5432".
 * For a private address that the guard refused, the host line is the outer door's to print. */
void policy_suggest_flow(const struct policy_flow_query *q, struct buf *out);
/* `rule`: the verdict's, which refused it. Of a rule (not the default) the first match wins, so the line then has the request's path and keeps reading it
 * allowed: it belongs above that rule, and it keeps what that rule says besides (ask, anonymous, via, a query or body limit that held). Wider where only a wider
 * rule really allows it (a method override in the query: no rule with methods or a path does), but never for a whole host that has a profile; nothing
 * when none does. */
void policy_suggest_request(const struct policy *p, const struct policy_request_query *q, int rule, struct buf *out);

/* One rule as given on a command line; the word allow may be missing. 0 and canonical text appended to *out; -1 with diagnostics. */
int policy_rule_parse_one(struct slice text, struct buf *out, struct diags *errors) __attribute__((warn_unused_result));

/* Warnings: shadowed and unreachable rules, `allow any any`, a deny by address after the names it should stop, … */
void policy_lint(const struct policy *p, struct diags *warnings);

#endif
