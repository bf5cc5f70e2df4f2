/* Host names: see host.h. Plain ASCII names, nearly all of them, take no allocation; the rest go through libidn2 once and are then
 * checked by the same ASCII rules, so that a full-width digit or an ideographic dot gains nothing. */
#include "base/host.h"

#include <idn2.h>
#include <stdio.h>

static bool host_byte_ok(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }

static bool host_is_hex(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

/* WHATWG URL "ends in a number": such a host is an address or nothing. `name` is lower case. */
static bool host_ends_in_number(struct slice name)
{
        size_t at = name.n, i;
        struct slice last;

        while (at && name.p[at - 1] != '.')
                at--;
        last = slice_skip(name, at);
        if (last.n >= 2 && last.p[0] == '0' && last.p[1] == 'x') {
                for (i = 2; i < last.n && host_is_hex(last.p[i]); i++)
                        ;
                return i == last.n;
        }
        for (i = 0; i < last.n && last.p[i] >= '0' && last.p[i] <= '9'; i++)
                ;
        return last.n && i == last.n;
}

/* Length and alphabet of every label; *ace is set when a label claims to be punycode. */
static bool host_labels_ok(struct slice name, bool *ace)
{
        size_t start = 0;

        *ace = false;
        if (name.n == 0 || name.n > HOST_TEXT_BYTES)
                return false;
        for (size_t i = 0; i <= name.n; i++) {
                if (i < name.n && name.p[i] != '.') {
                        if (!host_byte_ok(name.p[i]))
                                return false;
                        continue;
                }
                if (i == start || i - start > HOST_LABEL_BYTES || name.p[start] == '-')
                        return false;
                /* "??--" is reserved (RFC 5891 §4.2.3.1); only xn-- has a meaning, and that libidn2 checks. */
                if (i - start >= 4 && memcmp(name.p + start, "xn--", 4) == 0)
                        *ace = true;
                start = i + 1;
        }
        return true;
}

int host_addr(struct addr *out, struct slice text)
{
        if (text.n > 2 && text.p[0] == '[' && text.p[text.n - 1] == ']') {
                struct slice inner = slice_of(text.p + 1, text.n - 2);
                return slice_find(inner, ':') < 0 ? -1 : addr_parse(out, inner);
        }
        return slice_find(text, ':') >= 0 ? -1 : addr_parse(out, text);
}

static int host_put(char *out, size_t cap, struct slice text, int kind)
{
        if (text.n >= cap)
                return -1;
        memcpy(out, text.p, text.n);
        out[text.n] = 0;
        return kind;
}

static int host_put_addr(char *out, size_t cap, struct slice in)
{
        char text[ADDR_TEXT_BYTES], both[ADDR_TEXT_BYTES + 2];
        struct addr a;

        if (host_addr(&a, in) < 0)
                return -1;
        addr_print(text, &a);
        snprintf(both, sizeof(both), addr_is_v4(&a) ? "%s" : "[%s]", text);
        return host_put(out, cap, slice_str(both), HOST_ADDR);
}

/* `name` is ASCII, lower case, without trailing dot. */
static int host_finish(char *out, size_t cap, struct slice name, bool *ace)
{
        if (!host_labels_ok(name, ace))
                return -1;
        if (host_ends_in_number(name))
                return host_put_addr(out, cap, name);
        return host_put(out, cap, name, HOST_NAME);
}

/* IDN and claimed A-labels: libidn2 maps, checks and encodes; then the ASCII rules once more. */
static int host_by_idn(char *out, size_t cap, const char *in)
{
        bool ace;
        char *mapped = NULL;
        int kind = -1;
        struct slice m;

        if (idn2_to_ascii_8z(in, &mapped, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
                return -1;
        m = slice_str(mapped);
        if (m.n && m.p[m.n - 1] == '.')
                m.n--;
        kind = host_finish(out, cap, m, &ace);
        idn2_free(mapped);
        return kind;
}

int host_canonical(char *out, size_t cap, struct slice in)
{
        enum { HOST_INPUT_BYTES = 1024 }; /* UTF-8 of a 253 byte name; longer is no name */
        char low[HOST_INPUT_BYTES + 1], name[HOST_NAME_BYTES];
        bool ascii = true, ace = false;
        int kind;

        if (in.n == 0 || in.n > HOST_INPUT_BYTES)
                return -1;
        if (in.p[0] == '[')
                return host_put_addr(out, cap, in);
        for (size_t i = 0; i < in.n; i++) {
                if (in.p[i] <= ' ' || in.p[i] == 0x7f)
                        return -1;
                if (in.p[i] >= 0x80)
                        ascii = false;
                low[i] = (char)ascii_lower(in.p[i]);
        }
        low[in.n] = 0;
        if (low[in.n - 1] == '.')
                low[--in.n] = 0;
        if (!ascii)
                return host_by_idn(out, cap, low);
        kind = host_finish(name, sizeof(name), slice_of(low, in.n), &ace);
        if (kind < 0)
                return -1;
        return ace ? host_by_idn(out, cap, low) : host_put(out, cap, slice_str(name), kind);
}

bool host_is_canonical(struct slice name)
{
        bool ace;

        return host_labels_ok(name, &ace) && !host_ends_in_number(name);
}

bool host_is_under(struct slice name, struct slice base)
{
        return slice_ends(name, base) && (name.n == base.n || name.p[name.n - base.n - 1] == '.');
}
