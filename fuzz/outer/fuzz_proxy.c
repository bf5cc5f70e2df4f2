/* An upstream proxy's answer to CONNECT: said to be open only when a naive reading of the status line says 2xx, only at the end of the head, and not
 * before; the same for every prefix. And the proxy's URL: whatever it is, CONNECT has exactly the lines it should. */
#include "hold.h"
#include "outer/limits.h"
#include "outer/proxy.h"

static void check_answer(struct slice in)
{
        size_t used = 0, used_part;
        unsigned status = 0, status_part;
        int rc = proxy_answer(in, &used, &status);
        size_t step = in.n / 16 + 1;

        HOLDS(rc >= -1 && rc <= 1);
        if (rc == 1) {
                HOLDS(used >= 4 && used <= in.n && memcmp(in.p + used - 4, "\r\n\r\n", 4) == 0 && memmem(in.p, used - 1, "\r\n\r\n", 4) == NULL);
                HOLDS(slice_starts(in, SLICE_LIT("HTTP/1.")) && in.p[8] == ' ' && in.p[9] == '2' && status >= 200 && status < 300);
        }
        for (size_t i = 0; i < in.n; i += step) {
                int part = proxy_answer(slice_first(in, i), &used_part, &status_part);
                if (part == 1)
                        HOLDS(rc == 1 && used_part == used && status_part == status);
                if (rc == 0)
                        HOLDS(part == 0);
                if (part == -1)
                        HOLDS(rc == -1);
        }
}

static size_t lines(struct slice s)
{
        size_t n = 0;

        for (size_t i = 0; i < s.n; i++) {
                HOLDS(s.p[i] != '\n' || (i && s.p[i - 1] == '\r'));
                n += s.p[i] == '\n';
        }
        return n;
}

static void check_url(struct slice url)
{
        struct authority to = { .name = SLICE_LIT("a.example"), .port = 443 };
        char *text = strndup((const char *)url.p, url.n);
        struct err err = ERR_INIT;
        struct proxy *p = text ? proxy_new(text, "b.example, .c.example", &err) : NULL;
        struct buf out;

        if (p) {
                buf_init(&out, 0);
                HOLDS(proxy_connect(p, &to, &out) == 0 && proxy_covers(p, &to));
                HOLDS(slice_starts(buf_slice(&out), SLICE_LIT("CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n")));
                HOLDS(lines(buf_slice(&out)) == (memmem(out.bytes, buf_len(&out), "\r\nProxy-Authorization: Basic ", 29) ? 4 : 3));
                buf_fini(&out);
                proxy_free(p);
        } else {
                HOLDS(!text || !*text || err.text[0]);
        }
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);

        if (fuzz_byte(&in) & 1)
                check_url(in);
        else
                check_answer(in);
        return 0;
}
