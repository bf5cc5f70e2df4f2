/* Codec of the guest protocol. Bytes in, structs out; little-endian by shifts, so that neither alignment nor the machine matters.
 * Every length is checked by subtraction from what is left. Never does I/O; allocates only in proto_exec_read. */
#include "guest/proto.h"

#include <stdlib.h>

static uint16_t get16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static void put16(uint8_t *p, uint16_t v)
{
        p[0] = (uint8_t)v;
        p[1] = (uint8_t)(v >> 8);
}
static void put32(uint8_t *p, uint32_t v)
{
        put16(p, (uint16_t)v);
        put16(p + 2, (uint16_t)(v >> 16));
}

int proto_read(struct slice in, struct proto_frame *out, size_t *used)
{
        if (in.n < PROTO_HEAD_BYTES)
                return 0;
        uint8_t type = in.p[4], flags = in.p[5];
        size_t length = get16(in.p + 6);
        if (type == 0 || type >= PROTO_TYPE_COUNT || length > PROTO_PAYLOAD_BYTES)
                return -1;
        if (flags & ~(type == PROTO_EXEC || type == PROTO_SETUP ? PROTO_LAST_PIECE : 0))
                return -1;
        if (in.n - PROTO_HEAD_BYTES < length)
                return 0;
        *out = (struct proto_frame){ .stream = get32(in.p), .type = (enum proto_type)type, .flags = flags, .payload = slice_of(in.p + PROTO_HEAD_BYTES, length) };
        *used = PROTO_HEAD_BYTES + length;
        return 1;
}

int proto_write(struct buf *out, uint32_t stream, enum proto_type type, uint8_t flags, struct slice payload)
{
        if (payload.n > PROTO_PAYLOAD_BYTES)
                return -1;
        uint8_t *p = buf_reserve(out, PROTO_HEAD_BYTES + payload.n);
        if (p == NULL)
                return -1;
        put32(p, stream);
        p[4] = (uint8_t)type;
        p[5] = flags;
        put16(p + 6, (uint16_t)payload.n);
        if (payload.n > 0)
                memcpy(p + PROTO_HEAD_BYTES, payload.p, payload.n);
        buf_commit(out, PROTO_HEAD_BYTES + payload.n);
        return 0;
}

int proto_write_u32(struct buf *out, uint32_t stream, enum proto_type type, uint32_t value)
{
        uint8_t p[4];
        put32(p, value);
        return proto_write(out, stream, type, 0, slice_of(p, sizeof(p)));
}

int proto_write_failed(struct buf *out, uint32_t stream, int errno_value, const char *text)
{
        uint8_t p[4 + PROTO_TEXT_BYTES];
        size_t n = strlen(text);
        if (n > PROTO_TEXT_BYTES)
                n = PROTO_TEXT_BYTES;
        put32(p, (uint32_t)errno_value);
        memcpy(p + 4, text, n);
        return proto_write(out, stream, PROTO_FAILED, 0, slice_of(p, 4 + n));
}

int proto_write_window(struct buf *out, uint32_t stream, uint32_t bytes, enum proto_type which)
{
        uint8_t p[5];
        put32(p, bytes);
        p[4] = (uint8_t)which;
        return proto_write(out, stream, PROTO_WINDOW, 0, slice_of(p, sizeof(p)));
}

int proto_write_resize(struct buf *out, uint32_t stream, uint16_t rows, uint16_t cols)
{
        uint8_t p[4];
        put16(p, rows);
        put16(p + 2, cols);
        return proto_write(out, stream, PROTO_RESIZE, 0, slice_of(p, sizeof(p)));
}

int proto_write_connect(struct buf *out, uint32_t stream, uint16_t port)
{
        uint8_t p[2];
        put16(p, port);
        return proto_write(out, stream, PROTO_CONNECT, 0, slice_of(p, sizeof(p)));
}

int proto_get_connect(struct slice payload, uint16_t *port)
{
        if (payload.n != 2 || get16(payload.p) == 0)
                return -1;
        *port = get16(payload.p);
        return 0;
}

int proto_get_u32(struct slice payload, uint32_t *value)
{
        if (payload.n != 4)
                return -1;
        *value = get32(payload.p);
        return 0;
}

int proto_get_u64(struct slice payload, uint64_t *value)
{
        if (payload.n != 8)
                return -1;
        *value = (uint64_t)get32(payload.p) | (uint64_t)get32(payload.p + 4) << 32;
        return 0;
}

int proto_get_clock(struct slice payload, uint64_t *us, const uint8_t **seed)
{
        if (payload.n != 8 && payload.n != 8 + PROTO_SEED_BYTES)
                return -1;
        *seed = payload.n > 8 ? payload.p + 8 : NULL;
        return proto_get_u64(slice_first(payload, 8), us);
}

int proto_get_failed(struct slice payload, uint32_t *errno_value, struct slice *text)
{
        if (payload.n < 4 || payload.n - 4 > PROTO_TEXT_BYTES)
                return -1;
        *errno_value = get32(payload.p);
        *text = slice_skip(payload, 4);
        return 0;
}

int proto_get_window(struct slice payload, uint32_t *bytes, enum proto_type *which)
{
        if (payload.n != 5 || payload.p[4] < PROTO_STDIN || payload.p[4] > PROTO_STDERR)
                return -1;
        *bytes = get32(payload.p);
        *which = (enum proto_type)payload.p[4];
        return 0;
}

int proto_get_resize(struct slice payload, uint16_t *rows, uint16_t *cols)
{
        if (payload.n != 4)
                return -1;
        *rows = get16(payload.p);
        *cols = get16(payload.p + 2);
        return 0;
}

/* ---- EXEC ---- */

enum { TLV_HEAD_BYTES = 5 };

static int tlv_add(struct buf *out, enum proto_exec_tag tag, struct slice value)
{
        if (value.n > PROTO_EXEC_BYTES)
                return -1;
        uint8_t *p = buf_reserve(out, TLV_HEAD_BYTES + value.n);
        if (p == NULL)
                return -1;
        p[0] = (uint8_t)tag;
        put32(p + 1, (uint32_t)value.n);
        if (value.n > 0)
                memcpy(p + TLV_HEAD_BYTES, value.p, value.n);
        buf_commit(out, TLV_HEAD_BYTES + value.n);
        return 0;
}

static int tlv_add_list(struct buf *out, enum proto_exec_tag tag, const char *const *list)
{
        for (size_t i = 0; list != NULL && list[i] != NULL; i++)
                if (i >= PROTO_EXEC_STRINGS || tlv_add(out, tag, slice_str(list[i])) < 0)
                        return -1;
        return 0;
}

static int exec_body(struct buf *body, const struct proto_exec *exec)
{
        uint8_t p[8];
        if (exec->argv == NULL || exec->argv[0] == NULL)
                return -1;
        if (tlv_add_list(body, PROTO_TAG_ARG, exec->argv) < 0 || tlv_add_list(body, PROTO_TAG_ENV, exec->env) < 0)
                return -1;
        if (exec->cwd != NULL && tlv_add(body, PROTO_TAG_CWD, slice_str(exec->cwd)) < 0)
                return -1;
        put16(p, exec->rows);
        put16(p + 2, exec->cols);
        if (exec->pty && tlv_add(body, PROTO_TAG_PTY, slice_of(p, 4)) < 0)
                return -1;
        put32(p, exec->uid);
        put32(p + 4, exec->gid);
        return exec->has_user ? tlv_add(body, PROTO_TAG_USER, slice_of(p, 8)) : 0;
}

int proto_exec_write(struct buf *out, uint32_t stream, const struct proto_exec *exec)
{
        struct buf body;
        buf_init(&body, PROTO_EXEC_BYTES);
        int r = exec_body(&body, exec);
        while (r == 0) {
                struct slice piece = slice_first(buf_slice(&body), PROTO_PAYLOAD_BYTES);
                bool last = piece.n == buf_len(&body);
                r = proto_write(out, stream, PROTO_EXEC, last ? PROTO_LAST_PIECE : 0, piece);
                if (last)
                        break;
                buf_consume(&body, piece.n);
        }
        buf_fini(&body);
        return r;
}

/* Takes one entry off the front. 1, 0 at the end, -1 malformed. */
static int tlv_next(struct slice *in, uint8_t *tag, struct slice *value)
{
        if (in->n == 0)
                return 0;
        if (in->n < TLV_HEAD_BYTES)
                return -1;
        size_t n = get32(in->p + 1);
        if (n > in->n - TLV_HEAD_BYTES)
                return -1;
        *tag = in->p[0];
        *value = slice_of(in->p + TLV_HEAD_BYTES, n);
        *in = slice_skip(*in, TLV_HEAD_BYTES + n);
        return 1;
}

struct exec_counts {
        size_t args, vars, cwds, ptys, users, text_bytes;
};

static int check_entry(uint8_t tag, struct slice v, struct exec_counts *c)
{
        bool is_text = tag == PROTO_TAG_ARG || tag == PROTO_TAG_ENV || tag == PROTO_TAG_CWD;
        if (is_text && slice_find(v, 0) >= 0)
                return -1;
        c->text_bytes += is_text ? v.n + 1 : 0;
        switch (tag) {
        case PROTO_TAG_ARG:
                return ++c->args > PROTO_EXEC_STRINGS || (c->args == 1 && v.n == 0) ? -1 : 0;
        case PROTO_TAG_ENV:
                return ++c->vars > PROTO_EXEC_STRINGS || slice_find(v, '=') < 1 ? -1 : 0;
        case PROTO_TAG_CWD:
                return ++c->cwds > 1 || v.n == 0 || v.p[0] != '/' ? -1 : 0;
        case PROTO_TAG_PTY:
                return ++c->ptys > 1 || v.n != 4 ? -1 : 0;
        case PROTO_TAG_USER:
                return ++c->users > 1 || v.n != 8 ? -1 : 0;
        default:
                return -1;
        }
}

static int check_exec(struct slice in, struct exec_counts *c)
{
        uint8_t tag;
        struct slice v;
        int r;
        while ((r = tlv_next(&in, &tag, &v)) == 1)
                if (check_entry(tag, v, c) < 0)
                        return -1;
        return r < 0 || c->args == 0 ? -1 : 0;
}

static char *keep_text(char **at, struct slice v)
{
        char *s = *at;
        if (v.n > 0)
                memcpy(s, v.p, v.n);
        s[v.n] = 0;
        *at += v.n + 1;
        return s;
}

int proto_exec_read(struct slice pieces, struct proto_exec *out, void **block)
{
        struct exec_counts c = { 0 };
        if (pieces.n > PROTO_EXEC_BYTES || check_exec(pieces, &c) < 0)
                return -1;
        size_t pointers = c.args + 1 + c.vars + 1;
        char **list = calloc(1, pointers * sizeof(char *) + c.text_bytes);
        if (list == NULL)
                return -1;
        char **argv = list, **env = list + c.args + 1;
        char *at = (char *)(list + pointers);
        *out = (struct proto_exec){ .argv = (const char *const *)argv, .env = (const char *const *)env };
        size_t args = 0, vars = 0;
        uint8_t tag;
        struct slice v;
        while (tlv_next(&pieces, &tag, &v) == 1) {
                if (tag == PROTO_TAG_ARG) {
                        argv[args++] = keep_text(&at, v);
                } else if (tag == PROTO_TAG_ENV) {
                        env[vars++] = keep_text(&at, v);
                } else if (tag == PROTO_TAG_CWD) {
                        out->cwd = keep_text(&at, v);
                } else if (tag == PROTO_TAG_PTY) {
                        out->pty = true;
                        out->rows = get16(v.p);
                        out->cols = get16(v.p + 2);
                } else {
                        out->has_user = true;
                        out->uid = get32(v.p);
                        out->gid = get32(v.p + 4);
                }
        }
        *block = list;
        return 0;
}
