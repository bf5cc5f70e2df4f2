/* The hold: an upload with a placeholder of elsewhere in it, spelt and packed in one of many ways, in any cut and among any bytes. The placeholder never leaves, in no spelling and
 * packed in nothing, and everything stands still; the same upload with another text in its place arrives as it was sent. */
#include "world.h"
#include "wire/coding.h"

#include <zlib.h>
#include <zstd.h>

enum spelling { AS_IT_IS, UPPER, BASE64, HEX, PERCENT, JSON, SPELLINGS };
enum packing { NONE, GZIP, DEFLATE, ZSTD, GZIP_UNSAID, ZSTD_UNSAID, GZIP_PART, ZSTD_PART, PACKINGS };
enum { SURE = 4 + 12 /* the marker, and of what is behind it as much as a hit is sure of */, LARGE = (1 << 20) - 64 };

static const char held[] = "brm_abcdefghijklmnopqrstuvwxyz234567", other[] = "xrm_abcdefghijklmnopqrstuvwxyz234567";

struct plan {
        enum spelling spelling;
        enum packing packing;
        bool chunked, large;
        size_t step;
        struct slice before, after;
};

static void spell(struct buf *out, enum spelling how, const char *text)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        size_t n = strlen(text);

        for (size_t i = 0; how == BASE64 && i < n; i += 3) { /* its length is a multiple of three */
                unsigned v = (unsigned)(uint8_t)text[i] << 16 | (unsigned)(uint8_t)text[i + 1] << 8 | (uint8_t)text[i + 2];
                char four[4] = { digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63] };
                buf_add(out, four, 4);
        }
        for (size_t i = 0; how != BASE64 && i < n; i++) {
                uint8_t c = (uint8_t)text[i];

                if (how == AS_IT_IS || how == UPPER)
                        buf_addf(out, "%c", how == UPPER && c >= 'a' && c <= 'z' ? c - 32 : c);
                else
                        buf_addf(out, how == HEX ? "%02x" : how == PERCENT ? "%%%02x" : "\\u%04x", c);
        }
}

static void pack(struct buf *out, enum packing how, struct slice text)
{
        bool part = how == GZIP_PART || how == ZSTD_PART, zstd = how == ZSTD || how == ZSTD_UNSAID || how == ZSTD_PART;
        size_t cap = text.n + text.n / 16 + 4096, n = 0;
        uint8_t *room = malloc(cap);
        z_stream z = { 0 };

        HOLDS(room);
        if (part)
                buf_add_str(out, "--zz\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n");
        if (zstd) {
                n = ZSTD_compress(room, cap, text.p, text.n, 1);
                HOLDS(!ZSTD_isError(n));
        } else if (how != NONE) {
                HOLDS(deflateInit2(&z, 1, Z_DEFLATED, how == DEFLATE ? 15 : 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
                z.next_in = (uint8_t *)(uintptr_t)text.p;
                z.avail_in = (uInt)text.n;
                z.next_out = room;
                z.avail_out = (uInt)cap;
                HOLDS(deflate(&z, Z_FINISH) == Z_STREAM_END);
                n = cap - z.avail_out;
                deflateEnd(&z);
        }
        buf_add_slice(out, how == NONE ? text : slice_of(room, n));
        if (part)
                buf_add_str(out, "\r\n--zz--\r\n");
        free(room);
        HOLDS(!out->failed);
}

static void make_body(struct buf *out, const struct plan *p, const char *what)
{
        struct buf text;

        buf_init(&text, 0);
        for (size_t i = 0; p->large && i < LARGE; i += 32)
                buf_addf(&text, "line %08zx of what is in front.\n", i * 2654435761u);
        buf_add_slice(&text, p->before);
        buf_add_str(&text, " ");
        spell(&text, p->spelling, what);
        buf_add_str(&text, " ");
        buf_add_slice(&text, p->after);
        pack(out, p->packing, buf_slice(&text));
        buf_fini(&text);
}

static void make_request(struct buf *out, const struct plan *p, struct slice body)
{
        static const char *const fields[PACKINGS] = {
                [NONE] = "", [GZIP] = "Content-Encoding: gzip\r\n", [DEFLATE] = "Content-Encoding: deflate\r\n", [ZSTD] = "Content-Encoding: zstd\r\n", [GZIP_UNSAID] = "", [ZSTD_UNSAID] = "",
                [GZIP_PART] = "Content-Type: multipart/form-data; boundary=zz\r\n", [ZSTD_PART] = "Content-Type: multipart/form-data; boundary=zz\r\n",
        };

        buf_addf(out, "POST /up/x HTTP/1.1\r\nHost: a.example\r\n%s", fields[p->packing]);
        if (!p->chunked) {
                buf_addf(out, "Content-Length: %zu\r\n\r\n", body.n);
                buf_add_slice(out, body);
        } else {
                buf_add_str(out, "Transfer-Encoding: chunked\r\n\r\n");
                for (struct slice rest = body; rest.n; rest = slice_skip(rest, p->step * 3 + 1)) {
                        struct slice s = slice_first(rest, p->step * 3 + 1);
                        buf_addf(out, "%zx\r\n", s.n);
                        buf_add_slice(out, s);
                        buf_add_str(out, "\r\n");
                }
                buf_add_str(out, "0\r\n\r\n");
        }
        HOLDS(!out->failed);
}

/* What the receiver makes of what it got. */
static void unpack(struct buf *out, enum packing how, struct slice body)
{
        static const enum coding coding[PACKINGS] = { [GZIP] = CODING_GZIP,       [DEFLATE] = CODING_DEFLATE,   [ZSTD] = CODING_ZSTD,     [GZIP_UNSAID] = CODING_GZIP,
                                                      [ZSTD_UNSAID] = CODING_ZSTD, [GZIP_PART] = CODING_GZIP, [ZSTD_PART] = CODING_ZSTD };
        static uint8_t room[65536];
        struct codings *c;
        enum coding_status status;
        size_t n;

        if (how == NONE) {
                HOLDS(buf_add_slice(out, body) == 0);
                return;
        }
        if (how == GZIP_PART || how == ZSTD_PART) {
                const uint8_t *at = body.n ? memmem(body.p, body.n, "\r\n\r\n", 4) : NULL;
                body = at ? slice_skip(body, (size_t)(at - body.p) + 4) : SLICE_EMPTY;
        }
        c = codings_new(&coding[how], 1);
        HOLDS(c);
        do {
                status = codings_step(c, &body, false, room, sizeof(room), &n);
                HOLDS(buf_add(out, room, n) == 0);
        } while (status == CODING_OUT);
        codings_free(c);
}

static void run(const struct plan *p, const char *what, bool trips)
{
        struct world *w = world_open(false, true);
        struct buf body, request, text, never;
        struct slice up;

        buf_init(&body, 0);
        buf_init(&request, 0);
        buf_init(&text, 0);
        buf_init(&never, 0);
        make_body(&body, p, what);
        make_request(&request, p, buf_slice(&body));
        for (struct slice rest = buf_slice(&request); rest.n; rest = slice_skip(rest, p->step))
                world_guest(w, slice_first(rest, p->step));
        up = slice_skip(buf_slice(&w->up), w->up_head);
        if (trips) {
                size_t sure;
                HOLDS(w->door.refuse == REASON_COMPROMISED);
                spell(&never, p->spelling, held);
                sure = buf_len(&never) * SURE / (sizeof(held) - 1);
                unpack(&text, p->packing, up);
                HOLDS(!buf_len(&text) || !memmem(text.bytes + text.start, buf_len(&text), never.bytes + never.start, sure));
        } else if (w->door.refuse == REASON_NONE) { /* else the bytes around it are the placeholder */
                HOLDS(buf_add_str(&body, "<end>\n") == 0);
                HOLDS(slice_eq(up, buf_slice(&body)));
        }
        world_close(w);
        buf_fini(&body);
        buf_fini(&request);
        buf_fini(&text);
        buf_fini(&never);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        uint8_t control = fuzz_byte(&in), how = fuzz_byte(&in), cut = fuzz_byte(&in), split = fuzz_byte(&in);
        struct plan p = { .spelling = (enum spelling)(how % SPELLINGS), .packing = (enum packing)(how / SPELLINGS % PACKINGS), .chunked = control & 1, .large = control % 64 == 62 || control % 64 == 63 };

        p.step = p.large ? 4096u + cut * 48u : cut % 128 + 1u;
        p.before = fuzz_take(&in, split * in.n / 255);
        p.after = in;
        run(&p, held, true);
        run(&p, other, false);
        return 0;
}
