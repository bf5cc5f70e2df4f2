/* Roots of trust: where the vault's 32-byte key comes from. For the command line only: bromed gets the key over a descriptor and talks to no keyring.
 *
 *   secret-service  the desktop's keyring holds 32 random bytes under the vault's id
 *   passphrase      Argon2id (RFC 9106) of what a person types; the parameters stand in the vault's header
 *   tpm             32 random bytes sealed to this machine's TPM; the sealed blob stands in the vault's header
 *   key-file        a file of 32 bytes, 0600; only when it is named
 * The kernel's session keyring caches a key for a time; it is no root.
 * SECURITY: a header is a file's bytes: its parameters are bounded before they are obeyed. Keys live in secret_alloc memory of the caller. */
#ifndef BROME_VAULT_ROOT_H
#define BROME_VAULT_ROOT_H

#include "vault/vault.h"

enum root_kind { ROOT_SECRET_SERVICE, ROOT_PASSPHRASE, ROOT_TPM, ROOT_KEY_FILE, ROOT_KIND_COUNT };

enum {
        ROOT_PASSPHRASE_BYTES = 1024,
        ROOT_CACHE_S = 15 * 60, /* what `brome unlock` keeps in the kernel's keyring unless told otherwise */
};

/* How a person is asked. confirm: a new one, to be typed twice. Fills out (locked memory, ROOT_PASSPHRASE_BYTES), *n its bytes. 0 or -1. */
struct root_ask {
        int (*passphrase)(void *ctx, bool confirm, char *out, size_t *n, struct err *err);
        void *ctx;
};

/* "secret-service", …; ROOT_KIND_COUNT when unknown. */
const char *root_name(enum root_kind kind);
enum root_kind root_by_name(struct slice name);
/* Can it be used here and now? When not, `why` says in one line. */
bool root_available(enum root_kind kind, struct err *why);
/* The first in the order above that is available without being named: a passphrase where a terminal is, a TPM where there is none. ROOT_KIND_COUNT: none. */
enum root_kind root_default(bool terminal);

/* A new root for vault.create: *root (new reference) and its key. key_file: of ROOT_KEY_FILE, an absolute path; made when it is not there. */
int root_make(enum root_kind kind, const char *key_file, const struct root_ask *ask, json_t **root, uint8_t key[VAULT_KEY_BYTES], struct err *err)
        __attribute__((warn_unused_result));
/* The key of an existing root (as `vault` answers). A wrong passphrase shows only when the vault does not open. */
int root_key(json_t *root, const struct root_ask *ask, uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));

/* The kernel's session keyring. A cache that is not there, is not allowed or has timed out is no error: get answers false. */
bool root_cache_get(json_t *root, uint8_t key[VAULT_KEY_BYTES]);
bool root_cache_put(json_t *root, const uint8_t key[VAULT_KEY_BYTES], unsigned timeout_s);
void root_cache_forget(json_t *root);

#endif
