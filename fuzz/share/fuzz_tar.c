/* A hostile archive: the same told for every cut; every path stays beneath its folder; sizes are kept; what is read can be written and read again. */
#include "hold.h"
#include "share/tar.h"

struct told {
        uint64_t hash;
        unsigned entries;
        enum tar_event last;
};

static void mix(struct told *t, const void *p, size_t n)
{
        for (size_t i = 0; i < n; i++)
                t->hash = (t->hash ^ ((const uint8_t *)p)[i]) * 1099511628211u;
}

static void again(const struct tar_entry *e)
{
        static struct tar_reader r;
        struct slice in, data;
        struct buf out;

        if (e->kind == TAR_OTHER)
                return;
        buf_init(&out, 0);
        HOLDS(tar_write_entry(&out, e) == 0);
        in = buf_slice(&out);
        tar_reader_init(&r);
        HOLDS(tar_read(&r, &in, &data) == TAR_ENTRY && in.n == 0);
        HOLDS(r.entry.kind == e->kind && r.entry.size == e->size && r.entry.mode == e->mode && strcmp(r.entry.path, e->path) == 0);
        HOLDS(e->kind != TAR_LINK || strcmp(r.entry.target, e->target) == 0);
        buf_fini(&out);
}

static void run(struct slice all, size_t step, struct told *t)
{
        static struct tar_reader r;
        uint64_t due = 0;

        *t = (struct told){ .hash = 14695981039346656037u };
        tar_reader_init(&r);
        while (all.n) {
                struct slice in = fuzz_take(&all, step), data;

                while ((t->last = tar_read(&r, &in, &data)) == TAR_ENTRY || t->last == TAR_DATA) {
                        if (t->last == TAR_DATA) {
                                HOLDS(data.n > 0 && data.n <= due);
                                due -= data.n;
                                mix(t, data.p, data.n);
                                continue;
                        }
                        HOLDS(due == 0 && tar_path_ok(slice_str(r.entry.path)) && r.entry.mode <= 0777 && r.entry.path[0] != '/');
                        due = r.entry.size;
                        t->entries++;
                        mix(t, r.entry.path, strlen(r.entry.path) + 1);
                        if (r.entry.kind == TAR_LINK)
                                mix(t, r.entry.target, strlen(r.entry.target) + 1);
                        again(&r.entry);
                }
                HOLDS(t->last != TAR_BAD || r.why);
                HOLDS(t->last != TAR_END || due == 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n);
        size_t step = 1u + fuzz_byte(&in);
        struct told one, two;

        run(in, n + 1, &one);
        run(in, step, &two);
        HOLDS(one.hash == two.hash && one.entries == two.entries && one.last == two.last);
        return 0;
}
