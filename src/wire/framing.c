/* Where a message's body ends, and what the Connection field says: decided here and nowhere else (RFC 9112 §6, §9). */
#include "wire/h1.h"

#include "wire/wire_priv.h"

struct framing_fields {
        size_t lengths, codings;
        uint64_t length;
        bool chunked;
};

/* Identical repeats of Content-Length are refused too, as llhttp does: RFC 9110 §8.6 leaves it open, and no decent sender repeats it. */
static enum wire_reason framing_collect(const struct h1_head *h, struct framing_fields *f)
{
        for (size_t i = 0; i < h->headers.n; i++) {
                const struct header *x = &h->headers.at[i];
                bool alias;
                struct field_info info = field_info(x->name, &alias);

                if (alias && h->is_request)
                        return WIRE_FIELD_ALIAS;
                if (info.role == ROLE_LENGTH) {
                        uint64_t length;

                        if (!field_number(x->value, &length))
                                return WIRE_LENGTH_BAD;
                        if (f->lengths++)
                                return WIRE_LENGTH_TWICE;
                        f->length = length;
                } else if (info.role == ROLE_CODING) {
                        if (f->codings++ || !slice_iis(x->value, "chunked"))
                                return WIRE_TE_BAD;
                        f->chunked = true;
                }
        }
        return WIRE_OK;
}

static bool answer_without_body(uint16_t status, struct slice method)
{
        return status < 200 || status == 204 || status == 304 || slice_is(method, "HEAD") ||
               (slice_is(method, "CONNECT") && status < 300);
}

enum wire_reason h1_framing(const struct h1_head *h, struct slice method, struct framing *out)
{
        struct framing_fields f = { 0 };
        struct framing result = { .kind = BODY_NONE };
        enum wire_reason why = framing_collect(h, &f);
        bool no_body = !h->is_request && answer_without_body(h->status, method);

        if (why != WIRE_OK)
                return why;
        if (f.chunked && f.lengths)
                return WIRE_TE_AND_LENGTH;
        if (f.chunked && h->minor == 0)
                return WIRE_TE_VERSION;
        if (f.chunked && no_body && (h->status < 200 || h->status == 204))
                return WIRE_TE_NO_BODY;
        result.length = f.length;
        result.has_length = f.lengths > 0;
        if (no_body)
                result.kind = BODY_NONE;
        else if (f.chunked)
                result.kind = BODY_CHUNKED;
        else if (f.lengths)
                result.kind = f.length ? BODY_LENGTH : BODY_NONE;
        else
                result.kind = h->is_request ? BODY_NONE : BODY_CLOSE;
        *out = result;
        return WIRE_OK;
}

static enum wire_reason connection_option(struct connection *c, struct slice option, bool *close, bool *keep)
{
        uint8_t low[CONNECTION_OPTION_BYTES_MAX];
        bool alias;

        if (!field_is_token(option) || option.n > sizeof(low))
                return WIRE_CONNECTION_BAD;
        for (size_t i = 0; i < option.n; i++)
                low[i] = ascii_lower(option.p[i]);
        struct slice name = slice_of(low, option.n);

        if (slice_is(name, "close")) {
                *close = true;
        } else if (slice_is(name, "keep-alive")) {
                *keep = true;
        } else if (slice_is(name, "upgrade")) {
                c->upgrade = true;
        } else if (slice_is(name, "te")) {
                c->te = true;
        } else if (field_info(name, &alias).flags & FIELD_NO_NOMINATE) {
                return WIRE_CONNECTION_BAD;
        } else if (!field_is_hop(name)) {
                if (c->n == CONNECTION_NAMES_MAX)
                        return WIRE_CONNECTION_BAD;
                c->names[c->n++] = option;
        }
        return WIRE_OK;
}

enum wire_reason connection_parse(const struct headers *h, uint8_t minor, struct connection *out)
{
        bool close = false, keep = false;

        out->keep_alive = out->upgrade = out->te = false;
        out->n = 0;
        for (size_t i = 0; i < h->n; i++) {
                struct slice rest = h->at[i].value, option;

                if (!slice_is(h->at[i].name, "connection"))
                        continue;
                while (list_next(&rest, &option)) {
                        enum wire_reason why = connection_option(out, option, &close, &keep);
                        if (why != WIRE_OK)
                                return why;
                }
        }
        out->keep_alive = !close && (minor >= 1 || keep);
        return WIRE_OK;
}

bool connection_names(const struct connection *c, struct slice field)
{
        for (size_t i = 0; i < c->n; i++)
                if (slice_ieq(c->names[i], field))
                        return true;
        return false;
}
