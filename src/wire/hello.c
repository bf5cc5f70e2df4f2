/* ClientHello: see hello.h. First the records are walked until the whole message is there, then it is gathered and read once. */
#include "wire/hello.h"

#include "base/host.h"

enum {
        RECORD_HEAD_BYTES = 5,
        RECORD_BYTES_MAX = 16384, /* RFC 8446 §5.1 */
        RECORD_HANDSHAKE = 22,
        HANDSHAKE_HEAD_BYTES = 4,
        HANDSHAKE_CLIENT_HELLO = 1,
        EXT_SERVER_NAME = 0,
        EXT_ALPN = 16,
        EXT_SUPPORTED_VERSIONS = 43,
        EXT_ECH = 0xfe0d,
        TLS12 = 0x0303,
        TLS13 = 0x0304,
};

/* A bounded reader with sticky failure. */
struct cursor {
        struct slice s;
        bool failed;
};

static struct slice take(struct cursor *c, size_t n)
{
        struct slice out = slice_first(c->s, n);

        if (n > c->s.n) {
                c->failed = true;
                c->s = SLICE_EMPTY;
                return SLICE_EMPTY;
        }
        c->s = slice_skip(c->s, n);
        return out;
}

static uint32_t take_uint(struct cursor *c, size_t bytes)
{
        struct slice s = take(c, bytes);
        uint32_t v = 0;

        for (size_t i = 0; i < s.n; i++)
                v = v << 8 | s.p[i];
        return v;
}

/* A vector with a length prefix of that many bytes. */
static struct slice take_vector(struct cursor *c, size_t prefix_bytes) { return take(c, take_uint(c, prefix_bytes)); }

static enum wire_reason hello_sni(struct slice ext, struct arena *a, struct hello *out)
{
        struct cursor c = { ext, false };
        struct cursor list = { take_vector(&c, 2), false };
        struct slice name;
        uint32_t type;
        enum wire_reason why;

        if (c.failed || c.s.n || list.s.n == 0)
                return WIRE_TLS_SNI_BAD;
        type = take_uint(&list, 1);
        name = take_vector(&list, 2);
        if (list.failed || type != 0 || name.n == 0)
                return WIRE_TLS_SNI_BAD;
        if (list.s.n)
                return WIRE_TLS_SNI_MANY;
        for (size_t i = 0; i < name.n; i++)
                if (name.p[i] >= 0x80) /* RFC 6066: A-labels */
                        return WIRE_TLS_SNI_BAD;
        if (slice_find(name, ':') >= 0)
                return WIRE_TLS_SNI_ADDRESS;
        why = authority_host(a, name, 0, &out->sni);
        if (why != WIRE_OK)
                return why == WIRE_HOST_BAD ? WIRE_TLS_SNI_BAD : why;
        out->has_sni = true;
        return out->sni.is_addr ? WIRE_TLS_SNI_ADDRESS : WIRE_OK;
}

static enum wire_reason hello_alpn(struct slice ext, struct hello *out)
{
        struct cursor c = { ext, false };
        struct cursor list = { take_vector(&c, 2), false };

        if (c.failed || c.s.n || list.s.n == 0)
                return WIRE_TLS_HELLO;
        while (list.s.n) {
                struct slice name = take_vector(&list, 1);

                if (list.failed || name.n == 0)
                        return WIRE_TLS_HELLO;
                if (out->alpn_n < HELLO_ALPN_MAX)
                        out->alpn[out->alpn_n] = name;
                out->alpn_n++;
        }
        if (out->alpn_n > HELLO_ALPN_MAX)
                out->alpn_n = HELLO_ALPN_MAX;
        return WIRE_OK;
}

static enum wire_reason hello_versions(struct slice ext, struct hello *out)
{
        struct cursor c = { ext, false };
        struct cursor list = { take_vector(&c, 1), false };

        if (c.failed || c.s.n || list.s.n == 0 || list.s.n % 2)
                return WIRE_TLS_HELLO;
        out->tls12 = false;
        while (list.s.n) {
                uint32_t v = take_uint(&list, 2);

                out->tls12 = out->tls12 || v == TLS12;
                out->tls13 = out->tls13 || v == TLS13;
        }
        return WIRE_OK;
}

static enum wire_reason hello_extension(uint32_t type, struct slice body, struct arena *a, struct hello *out, unsigned *seen)
{
        static const uint32_t known[] = { EXT_SERVER_NAME, EXT_ALPN, EXT_SUPPORTED_VERSIONS, EXT_ECH };

        for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++) {
                if (type != known[i])
                        continue;
                if (*seen >> i & 1)
                        return type == EXT_SERVER_NAME ? WIRE_TLS_SNI_MANY : WIRE_TLS_HELLO;
                *seen |= 1u << i;
        }
        switch (type) {
        case EXT_SERVER_NAME:
                return hello_sni(body, a, out);
        case EXT_ALPN:
                return hello_alpn(body, out);
        case EXT_SUPPORTED_VERSIONS:
                return hello_versions(body, out);
        case EXT_ECH:
                out->has_ech = true;
                return WIRE_OK;
        default:
                return WIRE_OK;
        }
}

/* body: the handshake message without its head. */
static enum wire_reason hello_parse(struct slice body, struct arena *a, struct hello *out)
{
        struct cursor c = { body, false };
        struct slice session, suites, compressions;
        struct cursor extensions;
        unsigned seen = 0;
        uint32_t version = take_uint(&c, 2);

        take(&c, 32);
        session = take_vector(&c, 1);
        suites = take_vector(&c, 2);
        compressions = take_vector(&c, 1);
        if (c.failed || session.n > 32 || suites.n < 2 || suites.n % 2 || compressions.n < 1)
                return WIRE_TLS_HELLO;
        out->tls12 = version >= TLS12;
        if (c.s.n == 0)
                return WIRE_OK; /* no extensions at all: TLS 1.2 at most */
        extensions = (struct cursor){ take_vector(&c, 2), false };
        if (c.failed || c.s.n)
                return WIRE_TLS_HELLO;
        while (extensions.s.n) {
                uint32_t type = take_uint(&extensions, 2);
                struct slice ext = take_vector(&extensions, 2);
                enum wire_reason why = extensions.failed ? WIRE_TLS_HELLO : hello_extension(type, ext, a, out, &seen);

                if (why != WIRE_OK)
                        return why;
        }
        return WIRE_OK;
}

void hello_reader_init(struct hello_reader *r) { *r = (struct hello_reader){ 0 }; }

/* The head of a record that has arrived as far as `h` (1–5 bytes) says. */
static enum wire_reason record_check(struct slice h, bool first)
{
        if (h.p[0] != RECORD_HANDSHAKE || (h.n > 1 && h.p[1] != 3) || (h.n > 2 && h.p[2] > 4))
                return first ? WIRE_TLS_NOT : WIRE_TLS_RECORD;
        if (h.n == RECORD_HEAD_BYTES) {
                size_t n = (size_t)h.p[3] << 8 | h.p[4];

                if (n == 0 || n > RECORD_BYTES_MAX)
                        return WIRE_TLS_RECORD;
        }
        return WIRE_OK;
}

/* Copies the first n handshake bytes out of the records, as far as they are there; returns how many. */
static size_t hello_gather(struct slice in, uint8_t *out, size_t n)
{
        size_t at = 0, got = 0;

        while (got < n && in.n - at > RECORD_HEAD_BYTES) {
                size_t length = (size_t)in.p[at + 3] << 8 | in.p[at + 4], part = length;

                at += RECORD_HEAD_BYTES;
                if (part > in.n - at)
                        part = in.n - at;
                if (part > n - got)
                        part = n - got;
                memcpy(out + got, in.p + at, part);
                got += part;
                at += length;
                if (at > in.n)
                        break;
        }
        return got;
}

/* Walks whole records. WIRE_DONE when at least `need` handshake bytes are in whole records or present. */
static enum wire_step hello_walk(struct hello_reader *r, struct slice in, size_t need, enum wire_reason *why)
{
        while (r->got < need) {
                struct slice head = slice_first(slice_skip(in, r->next), RECORD_HEAD_BYTES);
                size_t length;

                if (head.n == 0)
                        return WIRE_MORE;
                *why = record_check(head, r->records == 0);
                if (*why == WIRE_OK && r->records == HELLO_RECORDS_MAX)
                        *why = WIRE_TLS_HELLO_SIZE;
                if (*why != WIRE_OK)
                        return WIRE_BAD;
                if (head.n < RECORD_HEAD_BYTES)
                        return WIRE_MORE;
                length = (size_t)head.p[3] << 8 | head.p[4];
                if (in.n - r->next - RECORD_HEAD_BYTES < length) {
                        /* A record in arrival: its begin may already tell the message's type and size. */
                        return r->got + (in.n - r->next - RECORD_HEAD_BYTES) >= need ? WIRE_DONE : WIRE_MORE;
                }
                r->next += (uint32_t)(RECORD_HEAD_BYTES + length);
                r->got += (uint32_t)length;
                r->records++;
        }
        return WIRE_DONE;
}

enum wire_step hello_read(struct hello_reader *r, struct slice in, struct arena *a, struct hello *out, enum wire_reason *why)
{
        uint8_t head[HANDSHAKE_HEAD_BYTES], *message;
        enum wire_step step = hello_walk(r, in, 1, why);
        size_t n;

        if (step != WIRE_DONE)
                return step;
        hello_gather(in, head, 1);
        if (head[0] != HANDSHAKE_CLIENT_HELLO) {
                *why = WIRE_TLS_NOT;
                return WIRE_BAD;
        }
        step = hello_walk(r, in, sizeof(head), why);
        if (step != WIRE_DONE)
                return step;
        hello_gather(in, head, sizeof(head));
        n = (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
        if (n > HELLO_BYTES_MAX) {
                *why = WIRE_TLS_HELLO_SIZE;
                return WIRE_BAD;
        }
        step = hello_walk(r, in, n + sizeof(head), why);
        if (step != WIRE_DONE)
                return step;
        message = arena_alloc(a, n + sizeof(head));
        if (!message) {
                *why = WIRE_MEMORY;
                return WIRE_BAD;
        }
        hello_gather(in, message, n + sizeof(head));
        *out = (struct hello){ 0 };
        *why = hello_parse(slice_of(message + sizeof(head), n), a, out);
        return *why == WIRE_OK ? WIRE_DONE : WIRE_BAD;
}

bool hello_offers(const struct hello *h, const char *protocol)
{
        for (size_t i = 0; i < h->alpn_n; i++)
                if (slice_is(h->alpn[i], protocol))
                        return true;
        return false;
}
