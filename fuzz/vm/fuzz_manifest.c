/* manifest.json: what is taken can be written again and read as the same; what is not says why. */
#include "hold.h"
#include "vm/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct manifest m = { 0 }, again = { 0 };
        struct err err = ERR_INIT;
        struct buf one, two;
        char id[IMAGE_ID_CHARS + 1];

        if (manifest_read(slice_of(data, n), &m, &err) < 0) {
                HOLDS(err.text[0] && m.packages == NULL);
                return 0;
        }
        buf_init(&one, 0);
        buf_init(&two, 0);
        HOLDS(!strchr(m.suite, '/') && !strchr(m.kernel, '/') && !strchr(m.kernel, '\033') && m.made_us >= 0);
        HOLDS(manifest_write(&m, &one) == 0 && manifest_read(buf_slice(&one), &again, &err) == 0 && manifest_write(&again, &two) == 0);
        HOLDS(slice_eq(buf_slice(&one), buf_slice(&two)));
        HOLDS(manifest_id(buf_slice(&one), id) == 0 && image_id_ok(id));
        manifest_fini(&m);
        manifest_fini(&again);
        buf_fini(&one);
        buf_fini(&two);
        return 0;
}
