/* Basic credentials: see basic.h. */
#include "account/basic.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(struct slice in, char *out)
{
        size_t n = 0;

        for (size_t i = 0; i < in.n; i += 3) {
                size_t left = in.n - i;
                unsigned v = (unsigned)in.p[i] << 16 | (left > 1 ? (unsigned)in.p[i + 1] << 8 : 0) | (left > 2 ? in.p[i + 2] : 0u);

                out[n++] = alphabet[v >> 18];
                out[n++] = alphabet[v >> 12 & 63];
                out[n++] = left > 1 ? alphabet[v >> 6 & 63] : '=';
                out[n++] = left > 2 ? alphabet[v & 63] : '=';
        }
        return n;
}

static int value_of(uint8_t c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct slice in, uint8_t *out, size_t *n)
{
        size_t pad = 0, made = 0;

        if (in.n == 0 || in.n % 4)
                return false;
        while (pad < 2 && in.p[in.n - 1 - pad] == '=')
                pad++;
        for (size_t i = 0; i < in.n; i += 4) {
                size_t chars = i + 4 == in.n ? 4 - pad : 4;
                unsigned v = 0;

                for (size_t k = 0; k < 4; k++) {
                        int digit = k < chars ? value_of(in.p[i + k]) : 0;
                        if (digit < 0)
                                return false;
                        v = v << 6 | (unsigned)digit;
                }
                if ((chars < 4 && (v & 0xff)) || (chars < 3 && (v & 0xffff))) /* bits that nothing stands for */
                        return false;
                for (size_t k = 0; k + 1 < chars; k++)
                        out[made++] = (uint8_t)(v >> (16 - 8 * k));
        }
        *n = made;
        return true;
}

bool basic_decode(struct slice encoded, uint8_t store[BASIC_BYTES_MAX], struct slice *user, struct slice *password)
{
        struct slice whole;
        ptrdiff_t colon;
        size_t n;

        if (encoded.n > BASIC_BYTES_MAX || !base64_decode(encoded, store, &n))
                return false;
        whole = slice_of(store, n);
        for (size_t i = 0; i < n; i++)
                if (store[i] < 0x20 || store[i] == 0x7f)
                        return false;
        colon = slice_find(whole, ':');
        if (colon < 0)
                return false;
        *user = slice_first(whole, (size_t)colon);
        *password = slice_skip(whole, (size_t)colon + 1);
        return true;
}
