/* Byte classes and small readers shared by the codecs of this folder. */
#ifndef BROME_WIRE_PRIV_H
#define BROME_WIRE_PRIV_H

#include "base/slice.h"
#include "wire/field.h"

enum {
        CH_TOKEN = 1,       /* RFC 9110 §5.6.2 tchar */
        CH_VALUE = 2,       /* HTAB, SP, VCHAR, obs-text */
        CH_TARGET = 4,      /* VCHAR and bytes from 0x80: what a request target may hold on the wire */
        CH_UNRESERVED = 8,  /* RFC 3986 §2.3 */
        CH_PATH = 16,       /* stands decoded in a canonical path: unreserved, sub-delims but ";", ":", "@"; and "/" */
        CH_QUERY = 32,      /* stays as it is in a query */
        CH_HEX = 64,
        CH_CONTROL = 128,   /* 0–31, 127 */
};
extern const uint8_t wire_ch[256];

static inline bool ch_is(uint8_t c, unsigned classes) { return (wire_ch[c] & classes) != 0; }
static inline unsigned hex_value(uint8_t c) { return c <= '9' ? (unsigned)c - '0' : (c | 0x20u) - 'a' + 10u; }

/* What a field means to the canonical request and answer. PLAIN is carried as it is. */
enum field_role {
        ROLE_PLAIN,
        ROLE_DROP, /* hop-by-hop without further meaning */
        ROLE_HOST,
        ROLE_LENGTH,
        ROLE_CODING, /* transfer-encoding */
        ROLE_CONNECTION,
        ROLE_UPGRADE,
        ROLE_EXPECT,
        ROLE_TE,
        ROLE_COOKIE,
        ROLE_WS_KEY,
        ROLE_WS_VERSION,
        ROLE_WS_ACCEPT,
        ROLE_OVERRIDE, /* by base/override.h */
        ROLE_BROME, /* brome-*: ours, between the doors only */
        ROLE_COUNT
};
enum {
        FIELD_HOP = 1,         /* never forwarded */
        FIELD_NO_TRAILER = 2,
        FIELD_NO_NOMINATE = 4, /* Connection must not name it */
        FIELD_FRAMING = 8,     /* a look-alike with "_" is an attack */
        FIELD_NO_H2 = 16,      /* connection-specific: malformed in HTTP/2 (RFC 9113 §8.2.2) */
};
struct field_info {
        enum field_role role;
        unsigned flags;
};
/* name in lower case. "_" is read as "-" only for overrides and aliases (see alias). */
struct field_info field_info(struct slice name, bool *alias);

#endif
