/* The kernel's session keyring as a cache of the vault's key: for a time, in this login only, in kernel memory that is never swapped.
 * By raw calls: four of them are no reason for a library. A guest has a session keyring of its own and may not use keyctl at all. */
#include "vault/root.h"

#include <linux/keyctl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "brome:ID"; false when the root has no id. */
static bool description(json_t *root, char *out, size_t size)
{
        const char *id = json_string_value(json_object_get(root, "id"));

        return id && strlen(id) == 32 && snprintf(out, size, "brome:%s", id) < (int)size;
}

static long find(json_t *root)
{
        char text[64];

        if (!description(root, text, sizeof(text)))
                return -1;
        return syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", text, 0);
}

bool root_cache_get(json_t *root, uint8_t key[VAULT_KEY_BYTES])
{
        uint8_t *bytes = secret_alloc(VAULT_KEY_BYTES + 1);
        long id = bytes ? find(root) : -1;
        bool ok = id >= 0 && syscall(SYS_keyctl, KEYCTL_READ, id, bytes, (size_t)VAULT_KEY_BYTES + 1) == VAULT_KEY_BYTES;

        if (ok)
                memcpy(key, bytes, VAULT_KEY_BYTES);
        secret_free(bytes, VAULT_KEY_BYTES + 1);
        return ok;
}

bool root_cache_put(json_t *root, const uint8_t key[VAULT_KEY_BYTES], unsigned timeout_s)
{
        char text[64];
        long id;

        if (timeout_s == 0 || !description(root, text, sizeof(text)))
                return false;
        id = syscall(SYS_add_key, "user", text, key, (size_t)VAULT_KEY_BYTES, KEY_SPEC_SESSION_KEYRING);
        if (id < 0)
                return false;
        if (syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, id, timeout_s) == 0)
                return true;
        /* SECURITY: never without an end. */
        (void)syscall(SYS_keyctl, KEYCTL_INVALIDATE, id);
        return false;
}

void root_cache_forget(json_t *root)
{
        long id = find(root);

        if (id >= 0)
                (void)syscall(SYS_keyctl, KEYCTL_INVALIDATE, id);
}
