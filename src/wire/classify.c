/* First bytes: see classify.h. */
#include "wire/classify.h"

#include "wire/field.h"
#include "wire/wire_priv.h"

static const char h2_preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/* Methods after which any white space already means HTTP, so that a sloppy request line is refused as HTTP and not spliced as
 * something else. Upper case only: memcached says "get key". */
static const char *const methods[] = { "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE" };

static bool method_known(struct slice s)
{
        for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
                if (slice_is(s, methods[i]))
                        return true;
        return false;
}

/* Handshake record, major version 3, a plausible length, a ClientHello. */
static enum wire_class classify_tls(struct slice in)
{
        if (in.n > 1 && in.p[1] != 3)
                return CLASS_OTHER;
        if (in.n > 2 && in.p[2] > 4)
                return CLASS_OTHER;
        if (in.n < 6)
                return CLASS_MORE;
        size_t length = (size_t)in.p[3] << 8 | in.p[4];
        return length > 0 && length <= 16384 && in.p[5] == 1 ? CLASS_TLS : CLASS_OTHER;
}

/* `s` is what follows the space behind a method. */
static enum wire_class classify_target(struct slice s)
{
        static const char scheme[] = "http";
        size_t i = 0;

        if (s.n == 0)
                return CLASS_MORE;
        if (s.p[0] == '/' || s.p[0] == '*')
                return CLASS_HTTP1;
        while (i < 4 && i < s.n && ascii_lower(s.p[i]) == (uint8_t)scheme[i])
                i++;
        if (i < 4)
                return i == s.n ? CLASS_MORE : CLASS_OTHER;
        s = slice_skip(s, 4);
        if (s.n && ascii_lower(s.p[0]) == 's')
                s = slice_skip(s, 1);
        if (s.n == 0)
                return CLASS_MORE;
        return s.p[0] == ':' ? CLASS_HTTP1 : CLASS_OTHER;
}

static enum wire_class classify_http(struct slice in)
{
        size_t n = 0, lead = 0;

        while (lead < 4 && lead < in.n && (in.p[lead] == '\r' || in.p[lead] == '\n'))
                lead++;
        in = slice_skip(in, lead);
        while (n < in.n && n <= METHOD_BYTES_MAX && ch_is(in.p[n], CH_TOKEN))
                n++;
        if (n == in.n && n <= METHOD_BYTES_MAX)
                return CLASS_MORE;
        if (n == 0 || n > METHOD_BYTES_MAX)
                return CLASS_OTHER;
        if ((in.p[n] == ' ' || in.p[n] == '\t') && method_known(slice_first(in, n)))
                return CLASS_HTTP1;
        if (in.p[n] != ' ' || lead)
                return CLASS_OTHER;
        return classify_target(slice_skip(in, n + 1));
}

enum wire_class classify(struct slice in)
{
        struct slice preface = slice_of(h2_preface, sizeof(h2_preface) - 1);
        enum wire_class c;

        if (in.n == 0)
                return CLASS_MORE;
        if (in.p[0] == 0x16)
                return classify_tls(in);
        if (slice_starts(in, preface))
                return CLASS_H2;
        if (slice_starts(preface, in))
                return CLASS_MORE;
        c = classify_http(in);
        /* "PRI *" that is no preface is nothing we know. */
        if (c == CLASS_HTTP1 && slice_starts(in, SLICE_LIT("PRI ")))
                return CLASS_OTHER;
        return c;
}

const char *wire_class_name(enum wire_class c)
{
        static const char *const names[CLASS_COUNT] = {
                [CLASS_MORE] = "undecided", [CLASS_TLS] = "tls", [CLASS_HTTP1] = "http/1", [CLASS_H2] = "http/2", [CLASS_OTHER] = "other",
        };
        return names[c < CLASS_COUNT ? c : CLASS_OTHER];
}
