/* Cost of one request head through the codecs: read, made canonical, written for the link, read again at the other end. CPU time. */
#include "wire/request.h"

#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200000 };

static const char text[] = "GET /scope/name/-/name-1.2.3.tgz?write=false HTTP/1.1\r\nHost: registry.example\r\n"
                           "User-Agent: npm/10.8.2 node/v20.20.2 linux x64 workspaces/false\r\n"
                           "Accept: application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*\r\nnpm-command: install\r\n"
                           "Accept-Encoding: gzip,deflate\r\nCookie: session=0123456789abcdef0123456789abcdef\r\nConnection: keep-alive\r\n"
                           "Authorization: Bearer npm_0123456789abcdef0123456789abcdef\r\n\r\n";

/* Runs the first `steps` steps once. */
static int once(int steps, const struct request_flow *flow, struct buf *out)
{
        static struct h1_reader reader;
        const struct request_flow link = { .link = true };
        struct arena a;
        struct h1_head h;
        struct request r;
        struct headers block;
        enum wire_reason why;
        size_t used;
        int rc = -1;

        arena_init(&a, 0);
        h1_reader_init(&reader, true);
        if (h1_read(&reader, slice_of(text, sizeof(text) - 1), &a, &h, &used, &why) != WIRE_DONE)
                goto end;
        if (steps > 1 && request_from_h1(&a, &h, flow, &r) != WIRE_OK)
                goto end;
        if (steps > 2 && request_to_h2(&a, &r, true, &block) != WIRE_OK)
                goto end;
        if (steps > 3 && request_from_h2(&a, &block, true, &link, &r) != WIRE_OK)
                goto end;
        if (steps > 4 && request_to_h1(out, &r, true) < 0)
                goto end;
        buf_clear(out);
        rc = 0;
end:
        arena_fini(&a);
        return rc;
}

int main(void)
{
        static const char *const names[] = { "read", "+ canonical", "+ to the link", "+ from the link", "+ written to the origin" };
        const struct authority to = { .name = SLICE_LIT("registry.example"), .port = 443 };
        const struct request_flow flow = { .scheme = SCHEME_HTTPS, .to = &to, .to_n = 1, .sni = &to };
        struct buf out;

        buf_init(&out, 0);
        printf("head of %zu bytes\n", sizeof(text) - 1);
        for (int steps = 1; steps <= 5; steps++) {
                struct timespec a, b;

                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
                for (int i = 0; i < ROUNDS; i++)
                        if (once(steps, &flow, &out) < 0)
                                return 1;
                clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
                printf("%-26s %6.0f ns\n", names[steps - 1], ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / ROUNDS);
        }
        buf_fini(&out);
        return 0;
}
