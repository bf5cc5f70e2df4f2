/* HTTP/1.x heads: see h1.h. Positions, not pointers, are kept between calls: the caller's buffer may move. */
#include "wire/h1.h"

#include "wire/wire_priv.h"

void h1_reader_init(struct h1_reader *r, bool is_request)
{
        /* The field table need not be cleared. */
        r->is_request = is_request;
        r->started = false;
        r->fields = 0;
        r->line = r->scan = 0;
}

/* Bytes the current line may still have, without its CRLF, and the reason when it has more. */
static size_t h1_room(const struct h1_reader *r, enum wire_reason *over)
{
        size_t line = r->started ? FIELD_LINE_BYTES_MAX : H1_START_BYTES_MAX;
        size_t head = r->line < HEAD_BYTES_MAX ? HEAD_BYTES_MAX - r->line : 0;

        if (head < line) {
                *over = WIRE_HEAD_TOO_LARGE;
                return head;
        }
        *over = r->started ? WIRE_LINE_TOO_LONG : WIRE_START_TOO_LONG;
        return line;
}

/* Finds the end of the current line. WIRE_DONE: *n is its length without CRLF. A CR must be followed by LF, a LF preceded by CR. */
static enum wire_step h1_line(struct h1_reader *r, struct slice in, size_t *n, enum wire_reason *why)
{
        enum wire_reason over;
        size_t room = h1_room(r, &over);
        const uint8_t *p = slice_skip(in, r->line).p; /* of no bytes yet: NULL, to which nothing may be added */
        size_t avail = in.n - r->line, search = avail < room + 2 ? avail : room + 2, from = r->scan;
        const uint8_t *lf = search > from ? memchr(p + from, '\n', search - from) : NULL;
        size_t end = lf ? (size_t)(lf - p) : search;
        const uint8_t *cr = end > from ? memchr(p + from, '\r', end - from) : NULL;

        if (cr && cr + 1 < p + end) {
                *why = WIRE_BARE_CR;
                return WIRE_BAD;
        }
        if (lf) {
                if (!cr) {
                        *why = WIRE_BARE_LF;
                        return WIRE_BAD;
                }
                *n = end - 1;
                return WIRE_DONE;
        }
        if (avail >= room + 2) {
                *why = over;
                return WIRE_BAD;
        }
        r->scan = (uint32_t)(cr ? (size_t)(cr - p) : search);
        return WIRE_MORE;
}

static bool h1_version(struct slice s, uint8_t *minor)
{
        if (s.n != 8 || memcmp(s.p, "HTTP/1.", 7) != 0 || (s.p[7] != '0' && s.p[7] != '1'))
                return false;
        *minor = (uint8_t)(s.p[7] - '0');
        return true;
}

static bool starts_i(struct slice s, const char *prefix)
{
        size_t n = strlen(prefix);
        return s.n >= n && slice_iis(slice_first(s, n), prefix);
}

static enum wire_reason h1_form_of(struct slice method, struct slice target, uint8_t *form)
{
        if (slice_is(method, "CONNECT"))
                *form = H1_AUTHORITY;
        else if (target.p[0] == '/')
                *form = H1_ORIGIN;
        else if (slice_is(target, "*") && slice_is(method, "OPTIONS"))
                *form = H1_ASTERISK;
        else if (starts_i(target, "http://") || starts_i(target, "https://"))
                *form = H1_ABSOLUTE;
        else
                return WIRE_TARGET;
        return WIRE_OK;
}

/* method SP target SP version (RFC 9112 §3). */
static enum wire_reason h1_request_line(struct h1_reader *r, struct slice line)
{
        struct slice method, target, rest;
        size_t n = 0;

        while (n < line.n && ch_is(line.p[n], CH_TOKEN))
                n++;
        if (n == 0 || n > METHOD_BYTES_MAX || (n < line.n && line.p[n] != ' '))
                return WIRE_METHOD;
        method = slice_first(line, n);
        rest = slice_skip(line, n + 1);
        for (n = 0; n < rest.n && ch_is(rest.p[n], CH_TARGET);)
                n++;
        if (n == 0)
                return WIRE_START_LINE;
        if (n < rest.n && rest.p[n] != ' ')
                return WIRE_TARGET;
        target = slice_first(rest, n);
        rest = slice_skip(rest, n + 1);
        if (!h1_version(rest, &r->minor))
                return slice_find(rest, ' ') >= 0 ? WIRE_START_LINE : WIRE_VERSION;
        r->method_n = (uint32_t)method.n;
        r->target_at = (uint32_t)(target.p - line.p);
        r->target_n = (uint32_t)target.n;
        return h1_form_of(method, target, &r->form);
}

/* version SP 3DIGIT [SP reason-phrase] (RFC 9112 §4; the space is often left out, which misleads nobody). */
static enum wire_reason h1_status_line(struct h1_reader *r, struct slice line)
{
        unsigned status = 0;

        if (!h1_version(slice_first(line, 8), &r->minor))
                return WIRE_VERSION;
        if (line.n < 12 || line.p[8] != ' ')
                return WIRE_START_LINE;
        for (size_t i = 9; i < 12; i++) {
                if (line.p[i] < '0' || line.p[i] > '9')
                        return WIRE_STATUS;
                status = status * 10 + (unsigned)(line.p[i] - '0');
        }
        if (status < 100)
                return WIRE_STATUS;
        if (line.n > 12 && (line.p[12] != ' ' || !field_value_ok(slice_skip(line, 13))))
                return WIRE_START_LINE;
        r->status = (uint16_t)status;
        return WIRE_OK;
}

static enum wire_reason h1_field_line(struct h1_reader *r, struct slice in, struct slice line)
{
        struct slice name, value;
        enum wire_reason why = field_parse(line, &name, &value);

        if (why != WIRE_OK)
                return why;
        if (r->fields == FIELDS_MAX)
                return WIRE_TOO_MANY_FIELDS;
        r->field[r->fields].name_at = r->line;
        r->field[r->fields].name_n = (uint16_t)name.n;
        r->field[r->fields].value_at = (uint32_t)(value.n ? value.p - in.p : r->line);
        r->field[r->fields].value_n = (uint16_t)value.n;
        r->fields++;
        return WIRE_OK;
}

/* Copies the head to the arena and turns positions into slices; names become lower case. */
static enum wire_reason h1_finish(struct h1_reader *r, struct slice in, struct arena *a, struct h1_head *out)
{
        struct header *at = arena_alloc_array(a, r->fields ? r->fields : 1, sizeof(*at));
        uint8_t *copy = at ? (uint8_t *)arena_strndup(a, in.p, r->line) : NULL;

        if (!copy)
                return WIRE_MEMORY;
        for (size_t i = 0; i < r->fields; i++) {
                uint8_t *name = copy + r->field[i].name_at;

                for (size_t k = 0; k < r->field[i].name_n; k++)
                        name[k] = ascii_lower(name[k]);
                at[i].name = slice_of(name, r->field[i].name_n);
                at[i].value = slice_of(copy + r->field[i].value_at, r->field[i].value_n);
        }
        *out = (struct h1_head){
                .is_request = r->is_request, .minor = r->minor, .headers = { at, r->fields },
        };
        if (r->is_request) {
                out->method = slice_of(copy, r->method_n);
                out->target = slice_of(copy + r->target_at, r->target_n);
                out->form = (enum h1_form)r->form;
        } else {
                out->status = r->status;
        }
        return WIRE_OK;
}

/* A start line is refused as soon as it cannot become one: who speaks something else may never end a line. */
static enum wire_reason h1_begins(const struct h1_reader *r, struct slice in)
{
        static const char version[] = "HTTP/1.";
        size_t n = 0;

        if (!r->is_request) {
                while (n < in.n && n < sizeof(version) - 1 && in.p[n] == (uint8_t)version[n])
                        n++;
                return n == in.n || n == sizeof(version) - 1 ? WIRE_OK : WIRE_VERSION;
        }
        while (n < in.n && n <= METHOD_BYTES_MAX && ch_is(in.p[n], CH_TOKEN))
                n++;
        if (n > METHOD_BYTES_MAX)
                return WIRE_METHOD;
        if (n == in.n || in.p[n] == '\r' || in.p[n] == '\n')
                return WIRE_OK;
        return n && in.p[n] == ' ' ? WIRE_OK : WIRE_METHOD;
}

enum wire_step h1_read(struct h1_reader *r, struct slice in, struct arena *a, struct h1_head *out, size_t *used, enum wire_reason *why)
{
        for (;;) {
                size_t n = 0;
                struct slice line;
                enum wire_step step;

                if (!r->started && (*why = h1_begins(r, in)) != WIRE_OK)
                        return WIRE_BAD;
                step = h1_line(r, in, &n, why);
                if (step != WIRE_DONE)
                        return step;
                line = slice_of(in.p + r->line, n);
                if (n == 0 && r->started)
                        break;
                if (r->started)
                        *why = h1_field_line(r, in, line);
                else
                        *why = r->is_request ? h1_request_line(r, line) : h1_status_line(r, line);
                if (*why != WIRE_OK)
                        return WIRE_BAD;
                r->started = true;
                r->line += (uint32_t)n + 2;
                r->scan = 0;
        }
        *why = h1_finish(r, in, a, out);
        if (*why != WIRE_OK)
                return WIRE_BAD;
        *used = r->line + 2;
        h1_reader_init(r, r->is_request);
        return WIRE_DONE;
}
