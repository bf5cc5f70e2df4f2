/* The codec of a machine's set-up message: see setup.h. The reader is one table of tags and one check for each kind of text; the writer writes and then reads
 * what it wrote, so that there is one opinion of what is allowed. */
#include "vm/setup.h"

#include <stdarg.h>

enum {
        HEAD_BYTES = 5,           /* tag and length */
        NAME_BYTES = 64,          /* a host name: HOST_NAME_MAX */
        SERIAL_BYTES = 20,        /* virtio-blk: VIRTIO_BLK_ID_BYTES */
        MTU_MIN = 1280,           /* IPv6 asks for it */
        MTU_MAX = 65535,
        SEED_BYTES = 32,
};

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)get16(p) | (uint32_t)get16(p + 2) << 16; }
static uint64_t get64(const uint8_t *p) { return (uint64_t)get32(p) | (uint64_t)get32(p + 4) << 32; }
static void put32(uint8_t *p, uint32_t v)
{
        for (int i = 0; i < 4; i++)
                p[i] = (uint8_t)(v >> 8 * i);
}

/* ---- reading ---- */

enum reason {
        GOOD, TOO_LONG, CUT, UNKNOWN, TWICE, LENGTH, NOT_A_NAME, NO_TIME, MTU, NO_PEM, NUL_INSIDE, FLAGS, NO_PATH, SHARE_COUNT, SHARE_TWICE, SHARE_ORDER, NO_CARD,
        NO_CA, REASON_COUNT
};
static const char *const sentence[REASON_COUNT] = {
        [TOO_LONG] = "the set-up message is too long",
        [CUT] = "the set-up message ends in the middle of an entry",
        [UNKNOWN] = "the set-up message has an entry of an unknown kind",
        [TWICE] = "the set-up message says something twice",
        [LENGTH] = "an entry of the set-up message has the wrong length",
        [NOT_A_NAME] = "a name in the set-up message has characters that names do not have",
        [NO_TIME] = "the set-up message has a time that is none",
        [MTU] = "the set-up message has an MTU outside of 1280 to 65535",
        [NO_PEM] = "the certificate in the set-up message is none",
        [NUL_INSIDE] = "a text in the set-up message has a NUL inside",
        [FLAGS] = "a share in the set-up message has an unknown flag",
        [NO_PATH] = "the path of a share in the set-up message is not absolute and plain",
        [SHARE_COUNT] = "the set-up message has too many shares",
        [SHARE_TWICE] = "two shares of the set-up message have the same name or path",
        [SHARE_ORDER] = "a share of the set-up message would cover one before it",
        [NO_CARD] = "the set-up message has an address and no network card",
        [NO_CA] = "the set-up message has the name of a certificate and no certificate",
};

static bool made_of_name(struct slice s, size_t most)
{
        for (size_t i = 0; i < s.n; i++) {
                uint8_t c = ascii_lower(s.p[i]);
                if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && i > 0)))
                        return false;
        }
        return s.n >= 1 && s.n <= most && s.p[0] != '-';
}

static enum reason take_name(struct slice v, size_t most, struct slice *out)
{
        if (v.n == 0 || v.n > most)
                return LENGTH;
        *out = v;
        return made_of_name(v, most) ? GOOD : NOT_A_NAME;
}

static enum reason take_text(struct slice v, size_t most, struct slice *out)
{
        if (v.n == 0 || v.n > most)
                return LENGTH;
        *out = v;
        return slice_find(v, 0) >= 0 ? NUL_INSIDE : GOOD;
}

/* Absolute, each part a name that is neither empty nor "." nor "..". */
static bool path_is_plain(struct slice path)
{
        if (path.n < 2 || path.n > SETUP_TEXT_BYTES - 1 || path.p[0] != '/' || slice_find(path, 0) >= 0)
                return false;
        for (struct slice rest = slice_skip(path, 1);;) {
                ptrdiff_t slash = slice_find(rest, '/');
                struct slice part = slash < 0 ? rest : slice_first(rest, (size_t)slash);
                if (part.n == 0 || slice_is(part, ".") || slice_is(part, ".."))
                        return false;
                if (slash < 0)
                        return true;
                rest = slice_skip(rest, (size_t)slash + 1);
        }
}

static bool path_is_above(struct slice above, struct slice path) { return path.n > above.n && slice_starts(path, above) && path.p[above.n] == '/'; }

static enum reason take_share(struct setup *s, struct slice v)
{
        struct setup_share *share = &s->shares[s->share_count];
        if (s->share_count == SETUP_SHARES)
                return SHARE_COUNT;
        if (v.n < 2 || v.p[1] > v.n - 2)
                return LENGTH;
        if (v.p[0] & ~(SETUP_SHARE_READ_ONLY | SETUP_SHARE_STILL) || v.p[0] == SETUP_SHARE_STILL)
                return FLAGS;
        struct slice tag = slice_of(v.p + 2, v.p[1]), path = slice_skip(v, 2 + tag.n);
        if (!made_of_name(tag, SETUP_TAG_BYTES))
                return NOT_A_NAME;
        if (!path_is_plain(path))
                return NO_PATH;
        *share = (struct setup_share){ .path = path, .read_only = v.p[0] & SETUP_SHARE_READ_ONLY, .still = v.p[0] & SETUP_SHARE_STILL };
        memcpy(share->tag, tag.p, tag.n);
        for (size_t i = 0; i < s->share_count; i++) {
                if (slice_is(tag, s->shares[i].tag) || slice_eq(path, s->shares[i].path))
                        return SHARE_TWICE;
                if (path_is_above(path, s->shares[i].path))
                        return SHARE_ORDER;
        }
        s->share_count++;
        return GOOD;
}

static enum reason take_link(struct setup *s, struct slice v)
{
        if (v.n != 16)
                return LENGTH;
        memcpy(s->mac, v.p, 6);
        memcpy(s->gate_mac, v.p + 6, 6);
        s->mtu = get32(v.p + 12);
        s->has_link = true;
        return s->mtu < MTU_MIN || s->mtu > MTU_MAX ? MTU : GOOD;
}

static enum reason take_addresses(struct slice v, uint8_t *own, uint8_t *gate, size_t each, bool *has)
{
        if (v.n != 2 * each)
                return LENGTH;
        memcpy(own, v.p, each);
        memcpy(gate, v.p + each, each);
        *has = true;
        return GOOD;
}

static enum reason take_ca(struct setup *s, struct slice v)
{
        enum reason r = take_text(v, SETUP_PEM_BYTES, &s->ca);
        return r == GOOD && !slice_starts(v, SLICE_LIT("-----BEGIN CERTIFICATE-----\n")) ? NO_PEM : r;
}

/* As OpenSSL names it: eight hexadecimal digits. */
static enum reason take_hash(struct setup *s, struct slice v)
{
        if (v.n != SETUP_HASH_BYTES)
                return LENGTH;
        for (size_t i = 0; i < v.n; i++)
                if (!((v.p[i] >= '0' && v.p[i] <= '9') || (v.p[i] >= 'a' && v.p[i] <= 'f')))
                        return NOT_A_NAME;
        s->ca_hash = v;
        return GOOD;
}

static enum reason take(struct setup *s, enum setup_tag tag, struct slice v)
{
        switch (tag) {
        case SETUP_HOSTNAME:
                return take_name(v, NAME_BYTES, &s->hostname);
        case SETUP_CLOCK:
                s->clock_us = v.n == 8 ? get64(v.p) : 0;
                return v.n != 8 ? LENGTH : s->clock_us == 0 || s->clock_us > INT64_MAX ? NO_TIME : GOOD;
        case SETUP_SEED:
                s->seed = v.p;
                return v.n != SEED_BYTES ? LENGTH : GOOD;
        case SETUP_LINK:
                return take_link(s, v);
        case SETUP_V4:
                return take_addresses(v, s->v4, s->gate_v4, 4, &s->has_v4);
        case SETUP_V6:
                return take_addresses(v, s->v6, s->gate_v6, 16, &s->has_v6);
        case SETUP_SYSTEM:
                return take_name(v, SERIAL_BYTES, &s->system);
        case SETUP_HOME:
                return take_name(v, SERIAL_BYTES, &s->home);
        case SETUP_CA:
                return take_ca(s, v);
        case SETUP_CA_HASH:
                return take_hash(s, v);
        case SETUP_SHARE:
                return take_share(s, v);
        case SETUP_ACCOUNTS:
                return take_text(v, SETUP_ACCOUNTS_BYTES, &s->accounts);
        case SETUP_TAG_COUNT:
        default:
                return UNKNOWN;
        }
}

static enum reason read_all(struct slice in, struct setup *s)
{
        uint32_t seen = 0;
        if (in.n > SETUP_BYTES)
                return TOO_LONG;
        while (in.n > 0) {
                if (in.n < HEAD_BYTES || get32(in.p + 1) > in.n - HEAD_BYTES)
                        return CUT;
                uint8_t tag = in.p[0];
                struct slice v = slice_of(in.p + HEAD_BYTES, get32(in.p + 1));
                if (tag == 0 || tag >= SETUP_TAG_COUNT)
                        return UNKNOWN;
                if (tag != SETUP_SHARE && seen & 1u << tag)
                        return TWICE;
                seen |= 1u << tag;
                enum reason r = take(s, (enum setup_tag)tag, v);
                if (r != GOOD)
                        return r;
                in = slice_skip(in, HEAD_BYTES + v.n);
        }
        if ((s->has_v4 || s->has_v6) && !s->has_link)
                return NO_CARD;
        return s->ca_hash.n > 0 && s->ca.n == 0 ? NO_CA : GOOD;
}

int setup_read(struct slice payload, struct setup *out, const char **why)
{
        struct setup s = { 0 };
        enum reason r = read_all(payload, &s);
        if (r != GOOD) {
                *why = sentence[r];
                return -1;
        }
        *out = s;
        return 0;
}

/* ---- writing ---- */

/* One entry of `count` parts that follow as slices. A full buffer is sticky and found at the end. */
static void add(struct buf *out, enum setup_tag tag, size_t count, ...)
{
        va_list parts;
        uint8_t head[HEAD_BYTES] = { (uint8_t)tag };
        size_t n = 0;
        va_start(parts, count);
        for (size_t i = 0; i < count; i++)
                n += va_arg(parts, struct slice).n;
        va_end(parts);
        put32(head + 1, n > SETUP_BYTES ? SETUP_BYTES : (uint32_t)n);
        (void)!buf_add(out, head, sizeof(head));
        va_start(parts, count);
        for (size_t i = 0; i < count; i++)
                (void)!buf_add_slice(out, va_arg(parts, struct slice));
        va_end(parts);
}

static void add_text(struct buf *out, enum setup_tag tag, struct slice text)
{
        if (text.n > 0)
                add(out, tag, 1, text);
}

static void add_share(struct buf *out, const struct setup_share *share)
{
        struct slice tag = slice_of(share->tag, strnlen(share->tag, sizeof(share->tag)));
        uint8_t head[2] = { (uint8_t)((share->read_only ? SETUP_SHARE_READ_ONLY : 0) | (share->still ? SETUP_SHARE_STILL : 0)), (uint8_t)tag.n };
        add(out, SETUP_SHARE, 3, slice_of(head, sizeof(head)), tag, share->path);
}

static void add_network(struct buf *out, const struct setup *s)
{
        uint8_t mtu[4];
        put32(mtu, s->mtu);
        if (s->has_link)
                add(out, SETUP_LINK, 3, slice_of(s->mac, 6), slice_of(s->gate_mac, 6), slice_of(mtu, 4));
        if (s->has_v4)
                add(out, SETUP_V4, 2, slice_of(s->v4, 4), slice_of(s->gate_v4, 4));
        if (s->has_v6)
                add(out, SETUP_V6, 2, slice_of(s->v6, 16), slice_of(s->gate_v6, 16));
}

int setup_write(struct buf *out, const struct setup *s)
{
        uint8_t clock[8];
        struct setup again;
        const char *why;
        size_t before = buf_len(out);
        put32(clock, (uint32_t)s->clock_us);
        put32(clock + 4, (uint32_t)(s->clock_us >> 32));
        add_text(out, SETUP_HOSTNAME, s->hostname);
        if (s->clock_us != 0)
                add(out, SETUP_CLOCK, 1, slice_of(clock, sizeof(clock)));
        if (s->seed != NULL)
                add(out, SETUP_SEED, 1, slice_of(s->seed, SEED_BYTES));
        add_network(out, s);
        add_text(out, SETUP_SYSTEM, s->system);
        add_text(out, SETUP_HOME, s->home);
        add_text(out, SETUP_CA, s->ca);
        add_text(out, SETUP_CA_HASH, s->ca_hash);
        for (size_t i = 0; i < s->share_count && i < SETUP_SHARES; i++)
                add_share(out, &s->shares[i]);
        add_text(out, SETUP_ACCOUNTS, s->accounts);
        return s->share_count > SETUP_SHARES || out->failed || setup_read(slice_skip(buf_slice(out), before), &again, &why) < 0 ? -1 : 0;
}
