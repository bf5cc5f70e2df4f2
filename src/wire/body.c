/* Bodies of every framing: see body.h. */
#include "wire/body.h"

void body_reader_init(struct body_reader *r, const struct framing *f, bool is_request, struct arena *a)
{
        r->kind = f->kind;
        r->left = f->kind == BODY_LENGTH ? f->length : 0;
        r->ended = false;
        chunk_reader_init(&r->chunk, is_request, a);
}

static enum body_event body_span(struct body_reader *r, struct slice *in, struct slice *data)
{
        if (in->n == 0)
                return BODY_MORE;
        *data = r->kind == BODY_LENGTH && r->left < in->n ? slice_first(*in, (size_t)r->left) : *in;
        *in = slice_skip(*in, data->n);
        if (r->kind == BODY_LENGTH)
                r->left -= data->n;
        return BODY_DATA;
}

enum body_event body_read(struct body_reader *r, struct slice *in, struct slice *data, enum wire_reason *why)
{
        enum body_event e;

        switch (r->kind) {
        case BODY_CHUNKED:
                e = chunk_read(&r->chunk, in, data, why);
                break;
        case BODY_LENGTH:
                e = r->left ? body_span(r, in, data) : BODY_END;
                break;
        case BODY_CLOSE:
                e = r->ended ? BODY_END : body_span(r, in, data);
                break;
        case BODY_NONE:
        case BODY_KIND_COUNT:
        default:
                e = BODY_END;
                break;
        }
        r->ended = r->ended || e == BODY_END;
        return e;
}

enum body_event body_eof(struct body_reader *r, enum wire_reason *why)
{
        if (r->kind == BODY_CLOSE || r->kind == BODY_NONE || (r->kind == BODY_LENGTH && r->left == 0))
                r->ended = true;
        if (r->ended)
                return BODY_END;
        *why = WIRE_BODY_SHORT;
        return BODY_BAD;
}
