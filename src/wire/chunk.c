/* Chunked coding: see chunk.h. One state a grammar position; data is passed in spans, the rest byte by byte. */
#include "wire/chunk.h"

#include "wire/wire_priv.h"

enum chunk_state {
        CHUNK_SIZE,     /* digits of the size */
        CHUNK_EXT,      /* extension, up to CR */
        CHUNK_SIZE_LF,  /* the LF behind size and extension */
        CHUNK_DATA,
        CHUNK_DATA_CR,
        CHUNK_DATA_LF,
        CHUNK_TRAILER,  /* lines until the empty one */
        CHUNK_LAST_LF,  /* of the empty line; most messages have no trailer and never need its buffer */
        CHUNK_DONE,
        CHUNK_FAILED    /* left by no one */
};
enum { CHUNK_DIGITS_MAX = 16 };

void chunk_reader_init(struct chunk_reader *r, bool is_request, struct arena *a)
{
        *r = (struct chunk_reader){ .state = CHUNK_SIZE, .is_request = is_request, .arena = a };
}

static enum wire_reason chunk_size_byte(struct chunk_reader *r, uint8_t c)
{
        if (ch_is(c, CH_HEX)) {
                if (r->digits == CHUNK_DIGITS_MAX || r->left >> 59) /* would pass 2^63 */
                        return WIRE_CHUNK_SIZE;
                r->left = r->left << 4 | hex_value(c);
                r->digits++;
                return WIRE_OK;
        }
        if (r->digits == 0)
                return WIRE_CHUNK_SIZE;
        if (c == '\r') {
                r->state = CHUNK_SIZE_LF;
                return WIRE_OK;
        }
        if (c != ';' && c != ' ' && c != '\t')
                return WIRE_CHUNK_SIZE;
        if (r->is_request)
                return WIRE_CHUNK_EXT;
        r->state = CHUNK_EXT;
        r->ext_bytes = 1;
        return WIRE_OK;
}

static enum wire_reason chunk_ext_byte(struct chunk_reader *r, uint8_t c)
{
        if (c == '\r') {
                r->state = CHUNK_SIZE_LF;
                return WIRE_OK;
        }
        if (!ch_is(c, CH_VALUE) || r->ext_bytes == CHUNK_EXT_BYTES_MAX)
                return WIRE_CHUNK_EXT;
        r->ext_bytes++;
        return WIRE_OK;
}

/* The line trailer[line .. n) without CRLF is complete. */
static enum wire_reason chunk_trailer_line(struct chunk_reader *r, size_t n)
{
        struct slice name, value;
        uint8_t *bytes = r->trailer + r->line;
        enum wire_reason why = field_parse(slice_of(bytes, n), &name, &value);

        if (why != WIRE_OK)
                return why;
        for (size_t i = 0; i < name.n; i++)
                bytes[i] = ascii_lower(bytes[i]);
        if (field_is_ours(name))
                return WIRE_OK; /* dropped, as in a head */
        if (field_is_no_trailer(name))
                return WIRE_TRAILER_FIELD;
        if (r->trailers.n == TRAILER_FIELDS_MAX)
                return WIRE_TRAILER_TOO_LARGE;
        if (!r->trailers.at && !(r->trailers.at = arena_alloc_array(r->arena, TRAILER_FIELDS_MAX, sizeof(struct header))))
                return WIRE_MEMORY;
        r->trailers.at[r->trailers.n++] = (struct header){ name, value };
        return WIRE_OK;
}

static enum wire_reason chunk_trailer_lf(struct chunk_reader *r)
{
        size_t n = r->trailer_n - r->line; /* with the CR */
        enum wire_reason why;

        if (n == 0 || r->trailer[r->trailer_n - 1] != '\r')
                return WIRE_BARE_LF;
        why = chunk_trailer_line(r, n - 1);
        r->line = r->trailer_n;
        return why;
}

static enum wire_reason chunk_trailer_byte(struct chunk_reader *r, uint8_t c)
{
        if (c == '\n')
                return chunk_trailer_lf(r);
        if (r->trailer_n == r->line && c == '\r') {
                r->state = CHUNK_LAST_LF;
                return WIRE_OK;
        }
        if (r->trailer_n > r->line && r->trailer[r->trailer_n - 1] == '\r')
                return WIRE_BARE_CR;
        if (r->trailer_n == TRAILER_BYTES_MAX)
                return WIRE_TRAILER_TOO_LARGE;
        if (!r->trailer && !(r->trailer = arena_alloc(r->arena, TRAILER_BYTES_MAX)))
                return WIRE_MEMORY;
        r->trailer[r->trailer_n++] = c;
        return WIRE_OK;
}

static enum wire_reason chunk_byte(struct chunk_reader *r, uint8_t c)
{
        switch ((enum chunk_state)r->state) {
        case CHUNK_SIZE:
                return chunk_size_byte(r, c);
        case CHUNK_EXT:
                return chunk_ext_byte(r, c);
        case CHUNK_SIZE_LF:
                if (c != '\n')
                        return WIRE_BARE_CR;
                r->state = r->left ? CHUNK_DATA : CHUNK_TRAILER;
                return WIRE_OK;
        case CHUNK_DATA_CR:
                r->state = CHUNK_DATA_LF;
                return c == '\r' ? WIRE_OK : WIRE_CHUNK_END;
        case CHUNK_DATA_LF:
                r->state = CHUNK_SIZE;
                r->digits = 0;
                return c == '\n' ? WIRE_OK : WIRE_CHUNK_END;
        case CHUNK_TRAILER:
                return chunk_trailer_byte(r, c);
        case CHUNK_LAST_LF:
                r->state = CHUNK_DONE;
                return c == '\n' ? WIRE_OK : WIRE_BARE_CR;
        case CHUNK_DATA:
        case CHUNK_DONE:
        case CHUNK_FAILED:
                break;
        }
        return WIRE_CHUNK_SIZE;
}

enum body_event chunk_read(struct chunk_reader *r, struct slice *in, struct slice *data, enum wire_reason *why)
{
        while (r->state != CHUNK_DONE) {
                if (in->n == 0)
                        return BODY_MORE;
                if (r->state == CHUNK_DATA) {
                        *data = slice_first(*in, r->left < in->n ? (size_t)r->left : in->n);
                        *in = slice_skip(*in, data->n);
                        r->left -= data->n;
                        if (r->left == 0)
                                r->state = CHUNK_DATA_CR;
                        return BODY_DATA;
                }
                *why = chunk_byte(r, in->p[0]);
                if (*why != WIRE_OK) {
                        r->state = CHUNK_FAILED;
                        return BODY_BAD;
                }
                *in = slice_skip(*in, 1);
        }
        return BODY_END;
}

size_t chunk_head(uint8_t out[CHUNK_HEAD_BYTES_MAX], uint64_t size)
{
        static const char digits[] = "0123456789abcdef";
        unsigned n = 1;

        while (n < CHUNK_DIGITS_MAX && size >> (4 * n))
                n++;
        for (unsigned i = 0; i < n; i++)
                out[i] = (uint8_t)digits[size >> (4 * (n - 1 - i)) & 15];
        out[n] = '\r';
        out[n + 1] = '\n';
        return n + 2;
}

int chunk_write(struct buf *b, struct slice data)
{
        uint8_t *p;
        size_t n;

        if (data.n == 0)
                return 0;
        if (data.n > SIZE_MAX - CHUNK_HEAD_BYTES_MAX - 2 || !(p = buf_reserve(b, data.n + CHUNK_HEAD_BYTES_MAX + 2)))
                return -1;
        n = chunk_head(p, data.n);
        memcpy(p + n, data.p, data.n);
        memcpy(p + n + data.n, "\r\n", 2);
        buf_commit(b, n + data.n + 2);
        return 0;
}

int chunk_write_end(struct buf *b, const struct headers *trailers)
{
        buf_add_str(b, "0\r\n");
        for (size_t i = 0; trailers && i < trailers->n; i++) {
                buf_add_slice(b, trailers->at[i].name);
                buf_add_str(b, ": ");
                buf_add_slice(b, trailers->at[i].value);
                buf_add_str(b, "\r\n");
        }
        buf_add_str(b, "\r\n");
        return b->failed ? -1 : 0;
}
