/* The codec of tar archives: see tar.h. */
#include "share/tar.h"

#include <stdio.h>

/* Offsets of the ustar header. */
enum { NAME = 0, NAME_N = 100, MODE = 100, SIZE = 124, SUM = 148, TYPE = 156, TARGET = 157, TARGET_N = 100, MAGIC = 257, PREFIX = 345, PREFIX_N = 155 };
#define OCTAL_MAX 077777777777ULL /* eleven digits */

bool tar_path_ok(struct slice path)
{
        size_t depth = 0;

        if (path.n == 0 || path.n > TAR_PATH_BYTES || memchr(path.p, 0, path.n))
                return false;
        for (;;) {
                ptrdiff_t at = slice_find(path, '/');
                struct slice one = at < 0 ? path : slice_first(path, (size_t)at);

                if (one.n == 0 || one.n > TAR_NAME_BYTES || slice_is(one, ".") || slice_is(one, "..") || ++depth > TAR_DEPTH)
                        return false;
                if (at < 0)
                        return true;
                path = slice_skip(path, one.n + 1);
        }
}

void tar_reader_init(struct tar_reader *r) { *r = (struct tar_reader){ 0 }; }

static enum tar_event bad(struct tar_reader *r, const char *why)
{
        r->why = why;
        return TAR_BAD;
}

/* Digits, then NUL or space to the field's end. */
static bool octal(const uint8_t *p, size_t n, uint64_t *out)
{
        size_t i = 0;
        uint64_t v = 0;

        for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
                v = v * 8 + (uint64_t)(p[i] - '0');
        *out = v;
        for (size_t k = i; k < n; k++)
                if (p[k] != 0 && p[k] != ' ')
                        return false;
        return i > 0 && i < n;
}

static uint64_t sum_of(const uint8_t block[TAR_BLOCK_BYTES])
{
        uint64_t sum = 0;

        for (size_t i = 0; i < TAR_BLOCK_BYTES; i++)
                sum += i >= SUM && i < SUM + 8 ? ' ' : block[i];
        return sum;
}

static struct slice field(const uint8_t *p, size_t n) { return slice_of(p, strnlen((const char *)p, n)); }

static void keep(char to[TAR_PATH_BYTES + 1], struct slice s)
{
        if (s.n)
                memcpy(to, s.p, s.n);
        to[s.n] = 0;
}

/* ---- pax records: "LENGTH KEY=VALUE\n" ---- */

static bool pax_number(struct slice v, uint64_t *out)
{
        uint64_t n = 0;

        if (v.n == 0 || v.n > 18)
                return false;
        for (size_t i = 0; i < v.n; i++) {
                if (v.p[i] < '0' || v.p[i] > '9')
                        return false;
                n = n * 10 + (uint64_t)(v.p[i] - '0');
        }
        *out = n;
        return true;
}

static bool pax_value(struct tar_reader *r, struct slice key, struct slice value)
{
        if (slice_is(key, "path") || slice_is(key, "linkpath")) {
                bool path = key.n == 4;

                if (value.n == 0 || value.n > TAR_PATH_BYTES || memchr(value.p, 0, value.n) || (path ? r->pax_path : r->pax_target))
                        return false;
                keep(path ? r->entry.path : r->entry.target, value);
                *(path ? &r->pax_path : &r->pax_target) = true;
                return true;
        }
        if (slice_is(key, "size")) {
                if (r->pax_size || !pax_number(value, &r->size))
                        return false;
                r->pax_size = true;
                return true;
        }
        /* A file with holes has another name and size than its header says. Times, owners and attributes are not taken over. */
        return !(key.n >= 10 && memcmp(key.p, "GNU.sparse", 10) == 0);
}

static bool pax_records(struct tar_reader *r)
{
        struct slice rest = slice_of(r->pax, r->pax_have);

        while (rest.n) {
                ptrdiff_t space = slice_find(rest, ' '), eq;
                struct slice record;
                uint64_t n;

                if (space <= 0 || !pax_number(slice_first(rest, (size_t)space), &n) || n > rest.n || n < (uint64_t)space + 4 || rest.p[n - 1] != '\n')
                        return false;
                record = slice_skip(slice_first(rest, n - 1), (size_t)space + 1);
                eq = slice_find(record, '=');
                if (eq <= 0 || !pax_value(r, slice_first(record, (size_t)eq), slice_skip(record, (size_t)eq + 1)))
                        return false;
                rest = slice_skip(rest, n);
        }
        return true;
}

/* ---- headers ---- */

static bool take_path(struct tar_reader *r, const uint8_t *b)
{
        struct tar_entry *e = &r->entry;
        struct slice prefix = field(b + PREFIX, PREFIX_N), name = field(b + NAME, NAME_N), path;
        size_t n = 0;

        if (!r->pax_path) {
                if (prefix.n) {
                        keep(e->path, prefix);
                        n = prefix.n;
                        e->path[n++] = '/';
                }
                keep(e->path + n, name);
        }
        path = slice_str(e->path);
        if (e->kind == TAR_FOLDER && path.n > 1 && path.p[path.n - 1] == '/')
                e->path[--path.n] = 0;
        return tar_path_ok(path);
}

static enum tar_event header(struct tar_reader *r)
{
        const uint8_t *b = r->block;
        struct tar_entry *e = &r->entry;
        uint64_t sum, mode, size;
        bool zero = true;

        for (size_t i = 0; zero && i < TAR_BLOCK_BYTES; i++)
                zero = b[i] == 0;
        if (zero) {
                r->ended = true;
                return r->has_pax ? bad(r, "it ends within an entry") : TAR_END;
        }
        if (memcmp(b + MAGIC, "ustar\0" "00", 8) != 0 || !octal(b + SUM, 8, &sum) || sum != sum_of(b))
                return bad(r, "it is no tar archive");
        if (!octal(b + MODE, 8, &mode) || !octal(b + SIZE, 12, &size))
                return bad(r, "a number in it is none");
        if (b[TYPE] == 'x') {
                if (r->has_pax || size == 0 || size > TAR_PAX_BYTES)
                        return bad(r, "an extended header is too long, or one too many");
                r->in_pax = true;
                r->pax_have = 0;
                r->left = size;
                r->padding = (unsigned)(-size & (TAR_BLOCK_BYTES - 1));
                return TAR_MORE;
        }
        if (!r->has_pax)
                r->pax_path = r->pax_target = r->pax_size = false;
        r->has_pax = false;
        if (r->pax_size)
                size = r->size;
        switch (b[TYPE]) {
        case '0': case 0: e->kind = TAR_FILE; break;
        case '5': e->kind = TAR_FOLDER; break;
        case '2': e->kind = TAR_LINK; break;
        case '1': case '3': case '4': case '6': e->kind = TAR_OTHER; break;
        default: return bad(r, "it has an entry of an unknown kind");
        }
        if (e->kind != TAR_FILE && size != 0)
                return bad(r, "what is no file has a size");
        if (!take_path(r, b))
                return bad(r, "it has a name that leads out of its folder, or is too long");
        if (!r->pax_target)
                keep(e->target, field(b + TARGET, TARGET_N));
        if (e->kind == TAR_LINK ? e->target[0] == 0 : false)
                return bad(r, "it has a link to nothing");
        e->mode = (unsigned)mode & 0777;
        e->size = r->left = size;
        r->padding = (unsigned)(-size & (TAR_BLOCK_BYTES - 1));
        return TAR_ENTRY;
}

/* The pax header is whole. False: not what one may be. */
static bool pax_end(struct tar_reader *r)
{
        r->in_pax = false;
        r->has_pax = true;
        r->pax_path = r->pax_target = r->pax_size = false;
        return pax_records(r);
}

enum tar_event tar_read(struct tar_reader *r, struct slice *in, struct slice *data)
{
        while (!r->why) {
                struct slice piece = slice_first(*in, r->left < in->n ? (size_t)r->left : in->n);
                enum tar_event e;
                size_t n;

                if (r->ended)
                        return TAR_END;
                if (r->left > 0) {
                        if (piece.n == 0)
                                return TAR_MORE;
                        *in = slice_skip(*in, piece.n);
                        r->left -= piece.n;
                        if (!r->in_pax) {
                                *data = piece;
                                return TAR_DATA;
                        }
                        memcpy(r->pax + r->pax_have, piece.p, piece.n);
                        r->pax_have += piece.n;
                        continue;
                }
                if (r->padding > 0) {
                        n = r->padding < in->n ? r->padding : in->n;
                        if (n == 0)
                                return TAR_MORE;
                        *in = slice_skip(*in, n);
                        r->padding -= (unsigned)n;
                        continue;
                }
                if (r->in_pax) {
                        if (!pax_end(r))
                                return bad(r, "an extended header is malformed");
                        continue;
                }
                n = TAR_BLOCK_BYTES - r->have < in->n ? TAR_BLOCK_BYTES - r->have : in->n;
                if (n == 0)
                        return TAR_MORE;
                memcpy(r->block + r->have, in->p, n);
                r->have += n;
                *in = slice_skip(*in, n);
                if (r->have < TAR_BLOCK_BYTES)
                        return TAR_MORE;
                r->have = 0;
                e = header(r);
                if (e != TAR_MORE)
                        return e;
        }
        return TAR_BAD;
}

/* ---- writing ---- */

static void put_octal(uint8_t *p, size_t digits, uint64_t v)
{
        for (size_t i = digits; i-- > 0; v >>= 3)
                p[i] = (uint8_t)('0' + (v & 7));
        p[digits] = 0;
}

static int write_header(struct buf *out, struct slice name, struct slice target, char type, unsigned mode, uint64_t size)
{
        uint8_t b[TAR_BLOCK_BYTES] = { 0 };

        memcpy(b + NAME, name.p, name.n < NAME_N ? name.n : NAME_N);
        if (target.n)
                memcpy(b + TARGET, target.p, target.n < TARGET_N ? target.n : TARGET_N);
        put_octal(b + MODE, 7, mode & 0777);
        put_octal(b + MODE + 8, 7, 0);
        put_octal(b + MODE + 16, 7, 0);
        put_octal(b + SIZE, 11, size > OCTAL_MAX ? 0 : size);
        put_octal(b + SIZE + 12, 11, 0);
        b[TYPE] = (uint8_t)type;
        memcpy(b + MAGIC, "ustar\0" "00", 8);
        put_octal(b + SUM, 6, sum_of(b));
        b[SUM + 7] = ' ';
        return buf_add(out, b, sizeof(b));
}

/* The length counts its own digits. */
static int add_record(struct buf *out, const char *key, struct slice value)
{
        size_t rest = strlen(key) + value.n + 3, n = rest + 1;
        char digits[24];

        for (;;) {
                int d = snprintf(digits, sizeof(digits), "%zu", n);

                if (n == rest + (size_t)d)
                        break;
                n = rest + (size_t)d;
        }
        return buf_addf(out, "%s %s=", digits, key) < 0 || buf_add_slice(out, value) < 0 ? -1 : buf_add_str(out, "\n");
}

int tar_write_padding(struct buf *out, uint64_t size)
{
        static const uint8_t zero[TAR_BLOCK_BYTES];

        return buf_add(out, zero, (size_t)(-size & (TAR_BLOCK_BYTES - 1)));
}

int tar_write_end(struct buf *out)
{
        static const uint8_t zero[2 * TAR_BLOCK_BYTES];

        return buf_add(out, zero, sizeof(zero));
}

int tar_write_entry(struct buf *out, const struct tar_entry *e)
{
        static const char types[] = { [TAR_FILE] = '0', [TAR_FOLDER] = '5', [TAR_LINK] = '2' };
        struct slice path = slice_str(e->path), target = e->kind == TAR_LINK ? slice_str(e->target) : SLICE_EMPTY;
        uint64_t size = e->kind == TAR_FILE ? e->size : 0;
        char number[24];
        struct buf pax;
        int rc = 0;

        if (e->kind == TAR_OTHER || !tar_path_ok(path) || (e->kind == TAR_LINK && target.n == 0))
                return -1;
        buf_init(&pax, 0);
        if (path.n > NAME_N)
                rc = add_record(&pax, "path", path);
        if (rc == 0 && target.n > TARGET_N)
                rc = add_record(&pax, "linkpath", target);
        if (rc == 0 && size > OCTAL_MAX) {
                snprintf(number, sizeof(number), "%llu", (unsigned long long)size);
                rc = add_record(&pax, "size", slice_str(number));
        }
        if (rc == 0 && buf_len(&pax) > 0)
                rc = write_header(out, SLICE_LIT("pax"), SLICE_EMPTY, 'x', 0600, buf_len(&pax)) < 0 || buf_add_slice(out, buf_slice(&pax)) < 0 ? -1
                                                                                                                                       : tar_write_padding(out, buf_len(&pax));
        if (rc == 0)
                rc = write_header(out, path, target, types[e->kind], e->mode, size);
        buf_fini(&pax);
        return rc;
}
