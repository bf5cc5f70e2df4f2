/* The set-up message: what is read writes back, and reads as the same; what a machine would act on holds its promises. */
#include "vm/setup.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define HOLDS(x)                 \
        do {                     \
                if (!(x))        \
                        abort(); \
        } while (0)

static void plain(struct slice path)
{
        HOLDS(path.n >= 2 && path.p[0] == '/' && path.p[path.n - 1] != '/' && slice_find(path, 0) < 0);
        for (size_t i = 0; i + 2 < path.n; i++)
                HOLDS(!(path.p[i] == '/' && (path.p[i + 1] == '/' || (path.p[i + 1] == '.' && path.p[i + 2] == '/'))));
        for (size_t i = 0; i + 3 <= path.n; i++)
                HOLDS(memcmp(path.p + i, "/..", 3) != 0 || (i + 3 < path.n && path.p[i + 3] != '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static struct setup one, two;
        const char *why = NULL;
        struct buf first, second;
        if (setup_read(slice_of(data, n), &one, &why) < 0) {
                HOLDS(why != NULL);
                return 0;
        }
        HOLDS(slice_find(one.hostname, 0) < 0 && slice_find(one.system, '/') < 0 && slice_find(one.home, '/') < 0 && slice_find(one.ca_hash, '/') < 0);
        HOLDS(!one.has_link || one.mtu >= 1280);
        for (size_t i = 0; i < one.share_count; i++) {
                plain(one.shares[i].path);
                HOLDS(one.shares[i].tag[0] != 0 && strchr(one.shares[i].tag, ',') == NULL && (one.shares[i].read_only || !one.shares[i].still));
        }
        buf_init(&first, 0);
        buf_init(&second, 0);
        HOLDS(setup_write(&first, &one) == 0 && buf_len(&first) == n);
        HOLDS(setup_read(buf_slice(&first), &two, &why) == 0 && setup_write(&second, &two) == 0);
        HOLDS(slice_eq(buf_slice(&first), buf_slice(&second)) && two.share_count == one.share_count && two.clock_us == one.clock_us);
        buf_fini(&first);
        buf_fini(&second);
        return 0;
}
