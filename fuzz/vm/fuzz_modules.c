/* modules.dep: a list that is taken has no path that leaves the tree, and every order has what is needed before what needs it, each once. */
#include "hold.h"
#include "vm/modules.h"

static bool naive_path(struct slice p)
{
        if (p.n == 0 || p.n > MODULES_PATH_BYTES || p.p[0] == '/' || memmem(p.p, p.n, ".ko", 3) == NULL)
                return false;
        for (size_t i = 0; i < p.n; i++)
                if (p.p[i] <= ' ' || p.p[i] >= 0x7f || (p.p[i] == '.' && (i == 0 || p.p[i - 1] == '/')))
                        return false;
        return true;
}

/* Where the path stands in the order, or -1. */
static ptrdiff_t place_of(const struct modules *m, struct slice path)
{
        for (size_t i = 0; i < m->order_count; i++)
                if (slice_eq(m->all[m->order[i]].path, path))
                        return (ptrdiff_t)i;
        return -1;
}

static void check_order(const struct modules *m)
{
        HOLDS(m->order_count <= m->count);
        for (size_t i = 0; i < m->order_count; i++) {
                const struct module *one = &m->all[m->order[i]];
                struct slice rest = one->needs;
                HOLDS(place_of(m, one->path) == (ptrdiff_t)i);
                while (rest.n > 0) {
                        ptrdiff_t end = slice_find(rest, ' ');
                        struct slice need = end < 0 ? rest : slice_first(rest, (size_t)end);
                        ptrdiff_t at = place_of(m, need);
                        rest = end < 0 ? SLICE_EMPTY : slice_skip(rest, (size_t)end + 1);
                        HOLDS(at >= 0 && at < (ptrdiff_t)i);
                }
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct modules m;
        struct err err = ERR_INIT;
        bool all = true;

        if (modules_parse(&m, slice_of(data, n), &err) < 0) {
                HOLDS(err.text[0] && m.all == NULL);
                return 0;
        }
        HOLDS(m.count <= 1 + n / 4);
        for (size_t i = 0; i < m.count; i++) {
                HOLDS(naive_path(m.all[i].path) && modules_name(m.all[i].path).n > 0);
                if (all && modules_need(&m, i, &err) < 0) {
                        HOLDS(err.text[0]);
                        all = false; /* its order is given up */
                }
        }
        if (all && m.count <= 256)
                check_order(&m);
        modules_free(&m);
        return 0;
}
