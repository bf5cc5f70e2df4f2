/* Placeholders: see placeholder.h. */
#include "account/placeholder.h"

#include <assert.h>

enum { MARKER_BYTES = 3, CRC_BYTES = 6, PREVIEW_RANDOM_BYTES = 4 };

static const char base32[] = "abcdefghijklmnopqrstuvwxyz234567"; /* RFC 4648 §6, lower case */
static const char base62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"; /* GitHub's order */

static size_t random_bytes_of(const struct kind_row *row) { return row->shape_bytes - strlen(row->shape_prefix) - (row->crc ? CRC_BYTES : 0); }

/* CRC-32 as in zlib, four bits at a time: of thirty characters, with each request to a host of GitHub's kind. */
static uint32_t crc32_of(struct slice s)
{
        static const uint32_t of_nibble[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                                0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                                0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                                0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
        uint32_t crc = 0xffffffffu;

        for (size_t i = 0; i < s.n; i++) {
                crc ^= s.p[i];
                crc = crc >> 4 ^ of_nibble[crc & 15];
                crc = crc >> 4 ^ of_nibble[crc & 15];
        }
        return ~crc;
}

/* The checksum of a token that is whole but for its last six characters. */
static void checksum(struct slice token, char out[CRC_BYTES])
{
        size_t from = (size_t)(slice_find(token, '_') + 1);
        uint32_t crc = crc32_of(slice_of(token.p + from, token.n - CRC_BYTES - from));

        for (int i = CRC_BYTES - 1; i >= 0; i--, crc /= 62)
                out[i] = base62[crc % 62];
}

size_t placeholder_mint(enum account_kind kind, const uint8_t random[PLACEHOLDER_RANDOM_BYTES], char out[PLACEHOLDER_BYTES_MAX + 1])
{
        const struct kind_row *row = kind_row(kind);
        size_t n = strlen(row->shape_prefix), end = n + random_bytes_of(row), bit = 0;

        static_assert(sizeof(base32) == 33 && sizeof(base62) == 63, "alphabets");
        memcpy(out, row->shape_prefix, n);
        for (; n < end; n++, bit += 5) {
                unsigned pair = (unsigned)random[bit / 8] << 8 | (bit / 8 + 1 < PLACEHOLDER_RANDOM_BYTES ? random[bit / 8 + 1] : 0);
                out[n] = base32[pair >> (11 - bit % 8) & 31];
        }
        if (row->crc) {
                checksum(slice_of(out, row->shape_bytes), out + n);
                n += CRC_BYTES;
        }
        out[n] = '\0';
        return n;
}

static bool shaped(const struct kind_row *row, struct slice s)
{
        struct slice prefix = slice_str(row->shape_prefix);
        char crc[CRC_BYTES];
        size_t end;

        if (s.n != row->shape_bytes || !slice_starts(s, prefix))
                return false;
        end = prefix.n + random_bytes_of(row);
        for (size_t i = prefix.n; i < end; i++)
                if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '2' && s.p[i] <= '7')))
                        return false;
        if (!row->crc)
                return true;
        checksum(s, crc);
        return memcmp(crc, s.p + end, CRC_BYTES) == 0;
}

static const struct kind_row *shape_of(struct slice s)
{
        for (int k = 0; k < ACCOUNT_KIND_COUNT; k++)
                if (shaped(kind_row((enum account_kind)k), s))
                        return kind_row((enum account_kind)k);
        return NULL;
}

bool placeholder_ok(struct slice s) { return shape_of(s) != NULL; }

struct slice placeholder_core(struct slice s)
{
        const struct kind_row *row = shape_of(s);
        size_t from;

        if (!row)
                return SLICE_EMPTY;
        from = (size_t)(strstr(row->shape_prefix, "brm") - row->shape_prefix);
        return slice_of(s.p + from, s.n - from - (row->crc ? CRC_BYTES : 0));
}

void placeholder_preview(struct slice s, char out[PLACEHOLDER_PREVIEW_BYTES])
{
        const struct kind_row *row = shape_of(s);
        size_t n = row ? strlen(row->shape_prefix) + PREVIEW_RANDOM_BYTES : 0;

        if (n)
                memcpy(out, s.p, n);
        memcpy(out + n, "…", sizeof("…"));
}
