/* Shared by the files that make and write canonical requests and answers. */
#ifndef BROME_WIRE_HTTP_PRIV_H
#define BROME_WIRE_HTTP_PRIV_H

#include "wire/request.h"
#include "wire/response.h"
#include "wire/wire_priv.h"

/* Fields that are members of the request or answer, picked out while the rest is copied to `out`. */
struct picked {
        struct headers out; /* FIELDS that go on */
        struct slice host, upgrade, expect, ws_key, ws_version, ws_accept, te;
        size_t hosts, upgrades, expects, ws_keys, ws_versions, ws_accepts, cookies, lengths;
        uint64_t length;
        size_t cookie_bytes;
        bool override;
};

/* Sorts h into p. c: fields that Connection nominated (NULL in HTTP/2). keep_brome: on the link. */
enum wire_reason fields_pick(struct arena *a, const struct headers *h, const struct connection *c, bool keep_brome, struct picked *p)
        __attribute__((warn_unused_result));
/* Joins several Cookie fields into the first (RFC 9113 §8.2.3). */
enum wire_reason cookies_join(struct arena *a, struct picked *p) __attribute__((warn_unused_result));

/* The rules of RFC 9113 §8.2 for a field that is no pseudo-header. */
enum wire_reason field_check_h2(const struct header *f) __attribute__((warn_unused_result));
/* Number and size of a whole block. */
enum wire_reason block_check(const struct headers *block) __attribute__((warn_unused_result));

/* After the claims were compared: version, key and the like of a WebSocket opening. */
bool ws_key_ok(struct slice key);

#endif
