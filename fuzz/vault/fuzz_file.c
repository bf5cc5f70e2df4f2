/* A vault's bytes, as a file and as an opened box: what is accepted lies within the input, and a box written again is the same box. */
#include "vault/vault_priv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
        if (!ok)
                abort();
}

static void file(struct slice in)
{
        struct vault_file f;

        if (vault_file_read(in, &f, NULL) < 0)
                return;
        must(f.header.p == in.p && f.header.n + f.nonce.n + f.box.n + f.tag.n == in.n);
        must(f.nonce.n == VAULT_NONCE_BYTES && f.tag.n == VAULT_TAG_BYTES && json_is_object(f.root));
        json_decref(f.root);
}

static void box(struct slice in)
{
        static struct vault_entry entries[VAULT_ENTRIES_MAX];
        int count = vault_box_read(in, entries);
        uint8_t *again;

        if (count < 0)
                return;
        must(vault_box_bytes(entries, (size_t)count) == in.n);
        again = malloc(in.n);
        must(again != NULL);
        vault_box_write(entries, (size_t)count, again);
        must(memcmp(again, in.p, in.n) == 0);
        free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
        file(slice_of(p, n));
        box(slice_of(p, n));
        return 0;
}
