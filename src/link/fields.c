/* Header blocks: see fields.h. */
#include "link/fields.h"

/* The list grows by doubling: most heads fit in the first sixteen. */
static int grow(struct field_list *l, struct arena *a)
{
        struct header *more;

        if (l->n != 0 && (l->n < 16 || (l->n & (l->n - 1)) != 0))
                return 0;
        more = arena_alloc_array(a, l->n ? 2 * l->n : 16, sizeof(*more));
        if (!more)
                return -1;
        if (l->n)
                memcpy(more, l->at, l->n * sizeof(*more));
        l->at = more;
        return 0;
}

void fields_add(struct field_list *l, struct arena *a, struct slice name, struct slice value)
{
        bool ok = true;

        if (l->bad != WIRE_OK)
                return;
        l->bytes += name.n + value.n;
        if (l->n == BLOCK_FIELDS_MAX) {
                l->bad = WIRE_TOO_MANY_FIELDS;
        } else if (l->bytes > BLOCK_BYTES_MAX) {
                l->bad = WIRE_HEAD_TOO_LARGE;
        } else if (grow(l, a) < 0) {
                l->bad = WIRE_MEMORY;
        } else {
                l->at[l->n].name = arena_copy(a, name, &ok);
                l->at[l->n].value = arena_copy(a, value, &ok);
                l->n++;
                l->bad = ok ? WIRE_OK : WIRE_MEMORY;
        }
}

size_t fields_nv(nghttp2_nv *nv, size_t cap, const struct headers *h, uint8_t flags)
{
        size_t n = h->n < cap ? h->n : cap;

        for (size_t i = 0; i < n; i++)
                nv[i] = field_nv(h->at[i].name, h->at[i].value, flags);
        return n;
}

int fields_end(nghttp2_session *s, int32_t stream, const struct headers *trailers, uint32_t *flags)
{
        nghttp2_nv nv[FIELDS_MAX]; /* as many as trailers_check lets pass */

        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!trailers || !trailers->n)
                return 0;
        *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        return nghttp2_submit_trailer(s, stream, nv, fields_nv(nv, FIELDS_MAX, trailers, NGHTTP2_NV_FLAG_NONE)) == 0 ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}
