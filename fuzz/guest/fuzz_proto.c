/* Both ends of the codec: a frame that is read writes back to the same bytes; a request that is read survives a round trip. */
#include "guest/proto.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void frames(struct slice in)
{
        struct proto_frame f;
        size_t used;
        while (proto_read(in, &f, &used) == 1) {
                struct buf out;
                uint32_t u;
                uint64_t u64;
                uint16_t a, b;
                enum proto_type which;
                struct slice text;
                buf_init(&out, 0);
                if (used > in.n || proto_write(&out, f.stream, f.type, f.flags, f.payload) < 0 || !slice_eq(buf_slice(&out), slice_first(in, used)))
                        abort();
                buf_fini(&out);
                (void)!proto_get_u32(f.payload, &u);
                (void)!proto_get_u64(f.payload, &u64);
                (void)!proto_get_failed(f.payload, &u, &text);
                (void)!proto_get_window(f.payload, &u, &which);
                (void)!proto_get_resize(f.payload, &a, &b);
                if (proto_get_connect(f.payload, &a) == 0 && a == 0)
                        abort();
                in = slice_skip(in, used);
        }
}

static void same_list(const char *const *a, const char *const *b)
{
        size_t i = 0;
        for (; a[i] != NULL && b[i] != NULL; i++)
                if (strcmp(a[i], b[i]) != 0)
                        abort();
        if (a[i] != b[i])
                abort();
}

static void request(struct slice in)
{
        struct proto_exec one, two;
        struct buf wire, body;
        struct proto_frame f;
        size_t used;
        void *block, *again;
        if (proto_exec_read(in, &one, &block) < 0)
                return;
        buf_init(&wire, 0);
        buf_init(&body, 0);
        if (proto_exec_write(&wire, 1, &one) < 0)
                abort();
        while (proto_read(buf_slice(&wire), &f, &used) == 1) {
                if (buf_add_slice(&body, f.payload) < 0)
                        abort();
                buf_consume(&wire, used);
        }
        if (buf_len(&wire) != 0 || proto_exec_read(buf_slice(&body), &two, &again) < 0)
                abort();
        same_list(one.argv, two.argv);
        same_list(one.env, two.env);
        if (one.pty != two.pty || one.has_user != two.has_user || (one.cwd == NULL) != (two.cwd == NULL))
                abort();
        free(block);
        free(again);
        buf_fini(&wire);
        buf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        frames(slice_of(data, n));
        request(slice_of(data, n));
        return 0;
}
