/* Our head reader as a filter, for comparison with another parser: reads records (u32 length, u8 'q' or 'r', bytes), writes one JSON
 * line each: what was read, or why not. Bytes are in hexadecimal. */
#include "wire/request.h"

#include <stdio.h>
#include <stdlib.h>

static void hex(const char *key, struct slice s)
{
        printf("\"%s\":\"", key);
        for (size_t i = 0; i < s.n; i++)
                printf("%02x", s.p[i]);
        printf("\"");
}

static void dump(bool request, struct slice in)
{
        struct h1_reader r;
        struct h1_head h;
        struct framing f;
        struct arena a;
        size_t used;
        enum wire_reason why = WIRE_OK;
        enum wire_step step;

        arena_init(&a, 0);
        h1_reader_init(&r, request);
        step = h1_read(&r, in, &a, &h, &used, &why);
        if (step == WIRE_DONE)
                why = h1_framing(&h, SLICE_LIT("GET"), &f);
        if (step == WIRE_DONE && why == WIRE_OK && request) {
                struct request req;
                struct authority to = { .port = 1 };
                struct request_flow flow = { .to = &to, .to_n = 1, .scheme = h.target.n > 4 && ascii_lower(h.target.p[4]) == 's' ? SCHEME_HTTPS : SCHEME_HTTP };

                if (authority_parse(&a, headers_value(&h.headers, "host"), flow.scheme, &to) != WIRE_OK)
                        to.port = 1; /* refused below */
                why = request_from_h1(&a, &h, &flow, &req);
        }
        if (step == WIRE_MORE) {
                printf("{\"more\":true}\n");
        } else if (why != WIRE_OK) {
                printf("{\"why\":\"%s\"}\n", wire_reason_key(why));
        } else {
                printf("{\"used\":%zu,\"minor\":%u,\"status\":%u,\"body\":%d,\"length\":%llu,", used, h.minor, h.status, (int)f.kind,
                       (unsigned long long)f.length);
                hex("method", h.method);
                printf(",");
                hex("target", h.target);
                printf(",\"fields\":[");
                for (size_t i = 0; i < h.headers.n; i++) {
                        printf("%s{", i ? "," : "");
                        hex("n", h.headers.at[i].name);
                        printf(",");
                        hex("v", h.headers.at[i].value);
                        printf("}");
                }
                printf("]}\n");
        }
        arena_fini(&a);
}

int main(void)
{
        uint8_t head[5];

        while (fread(head, 1, sizeof(head), stdin) == sizeof(head)) {
                size_t n = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
                uint8_t *bytes = malloc(n ? n : 1);

                if (!bytes || fread(bytes, 1, n, stdin) != n)
                        return 1;
                dump(head[4] == 'q', slice_of(bytes, n));
                free(bytes);
        }
        return 0;
}
