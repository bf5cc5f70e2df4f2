/* One rule as data: what the parser makes, the checker judges, the compiler indexes and the printer prints.
 * Plain structs in the arena of their policy or configuration; slices borrow from the same arena. */
#ifndef BROME_RULES_RULE_H
#define BROME_RULES_RULE_H

#include "base/addr.h"
#include "base/slice.h"
#include "rules/policy.h"

enum rule_action { RULE_ALLOW, RULE_DENY };
enum rule_proto { PROTO_WEB, PROTO_TLS, PROTO_TCP, PROTO_UDP, PROTO_ICMP, PROTO_ANY, PROTO_COUNT };
enum target_kind {
        TARGET_ANY,
        TARGET_NAME,    /* exactly this name */
        TARGET_SUBTREE, /* .name: the name and everything below */
        TARGET_BELOW,   /* *.name: only below */
        TARGET_CIDR,    /* an address is a cidr of 128 bits (of the 16-byte form) */
        TARGET_TABLE,
};

struct target {
        enum target_kind kind;
        struct slice name; /* canonical; the base of a pattern; the table's name */
        struct cidr cidr;
        const struct table *table; /* resolved by the checker */
        uint32_t at;               /* token, for messages */
};

struct table {
        struct slice name;
        struct target *entries; /* TARGET_NAME, SUBTREE, BELOW, CIDR */
        size_t count;
        uint32_t at;
};

struct port_range {
        uint16_t lo, hi; /* both inclusive, 1–65535 */
};

enum query_limit { QUERY_ANY, QUERY_NONE, QUERY_KEYS };
enum body_limit { BODY_ANY, BODY_NONE, BODY_MAX };

struct rule {
        enum rule_action action;
        bool log;
        enum rule_proto proto;
        struct target *targets;
        size_t target_count;
        struct port_range *ports; /* sorted, merged; the proto's own when none were given; none for icmp */
        size_t port_count;
        struct slice path; /* pattern; empty: any */
        bool read_only;
        struct slice *methods;
        size_t method_count; /* 0: any */
        enum query_limit query;
        struct slice *query_keys;
        size_t query_key_count;
        enum body_limit body;
        uint64_t body_max_bytes;
        /* Of an allow alone: */
        bool ask; /* written `ask` instead of `allow`: a person agrees first */
        bool anonymous;
        bool stream_ok;
        enum policy_profile profile;
        uint32_t misses;       /* an hour; 0: not said */
        size_t profile_skip;   /* bytes of the path that stand before what the profile knows: a mirror's prefix */
        struct policy_via via; /* found: re-routed */
        uint32_t at; /* token, for messages */
};

struct host_directive {
        struct slice name; /* canonical, exact */
        bool private_ok;
        bool pinned;
        struct addr address;
        uint16_t port;        /* 0: the flow's own */
        struct slice ca_path; /* as written; empty: none */
        uint32_t at;
};

#endif
