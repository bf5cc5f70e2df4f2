/* The vault: one sealed file that holds secrets by name. Read and written by bromed only; the key comes from whoever unlocks it.
 *
 * File: a JSON header line (version, root of trust, its parameters), authenticated; then one AEAD box (ChaCha20-Poly1305, RFC 8439, a fresh random
 * nonce each write) of all entries. Written to a temporary file, synced, renamed. Wrong key and changed bytes look the same: "cannot be opened with this key".
 * Roots of trust: `secret-service` (the desktop's keyring holds 32 random bytes), `passphrase` (Argon2id, RFC 9106), `tpm`, `key-file` (0600, only when named). The
 * command line gets the key from the root (root.h) and passes it over a descriptor; bromed never talks to a keyring.
 * SECURITY: plain secrets and keys live in locked memory that is left out of dumps, wiped on lock and exit. */
#ifndef BROME_VAULT_VAULT_H
#define BROME_VAULT_VAULT_H

#include "base/err.h"
#include "base/secret.h"
#include "base/slice.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        VAULT_KEY_BYTES = 32,
        VAULT_ENTRIES_MAX = 1024,
        VAULT_NAME_BYTES = 64,
        VAULT_FILE_BYTES_MAX = 8 * 1024 * 1024,
};
enum vault_state { VAULT_ABSENT, VAULT_LOCKED, VAULT_OPEN };

struct vault;
/* Opens nothing yet: reads the header if the file is there. path must outlive it. NULL with the reason (unsafe mode or owner, newer version, not a vault). */
struct vault *vault_load(const char *path, struct err *err) __attribute__((warn_unused_result));
void vault_free(struct vault *v); /* locks */
enum vault_state vault_state(const struct vault *v);
/* The header's root of trust: {"kind":"passphrase","salt":…,"memory_kib":…,"passes":…,"lanes":…}; borrowed; NULL when absent. */
json_t *vault_root(const struct vault *v);
/* Makes the file, empty, sealed with key under that root. It must be absent. */
int vault_create(struct vault *v, json_t *root, const uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));
int vault_unlock(struct vault *v, const uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));
void vault_lock(struct vault *v);
/* On disk when it returns 0. */
int vault_put(struct vault *v, struct slice name, struct slice secret, struct err *err) __attribute__((warn_unused_result));
int vault_remove(struct vault *v, struct slice name, struct err *err) __attribute__((warn_unused_result)); /* 1: not there */
/* Borrowed until the next change; empty: not there (or locked). */
struct slice vault_get(const struct vault *v, struct slice name);
/* Names, also while locked? No: they are sealed as well; none while locked. NULL behind the last. */
const char *vault_name(const struct vault *v, size_t i);

#endif
