/* A header's root of trust, as it stands in a file: what is taken for a TPM's blob is written again as it was, and nothing of a wrong shape is taken. */
#include "vault/root_priv.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void must(bool ok)
{
        if (!ok)
                abort();
}

static bool same(json_t *a, json_t *b, const char *name) { return json_equal(json_object_get(a, name), json_object_get(b, name)) == 1; }

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
        json_t *root = json_loadb((const char *)p, n, JSON_REJECT_DUPLICATES, NULL), *again = json_object();
        struct root_tpm_blob blob;

        if (root && root_tpm_read(root, &blob) == 0) {
                must(blob.private_bytes > 0 && blob.private_bytes <= ROOT_TPM_PRIVATE_BYTES_MAX);
                must(root_tpm_write(again, &blob) == 0);
                must(same(root, again, "parent") && same(root, again, "public") && same(root, again, "private"));
        }
        json_decref(root);
        json_decref(again);
        return 0;
}
