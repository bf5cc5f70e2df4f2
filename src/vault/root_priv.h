/* What the roots of trust share: hexadecimal fields of a header, a process of its own for a library, and the roots that need one. */
#ifndef BROME_VAULT_ROOT_PRIV_H
#define BROME_VAULT_ROOT_PRIV_H

#include "vault/root.h"

enum {
        ROOT_ID_TEXT = 32,           /* hexadecimal digits of a vault's id */
        ROOT_ASIDE_BYTES_MAX = 1024, /* what comes back: a key and, of the TPM, a sealed blob of some 200 bytes */
        ROOT_LIBRARY_S = 30,         /* a bus without an answer, a TPM that hangs; a slow TPM makes a key in two */
        ROOT_PERSON_S = 5 * 60,      /* a keyring may ask its user for a password in a window of its own */
};

int root_random(void *p, size_t n, struct err *err) __attribute__((warn_unused_result));
/* 2n digits and a NUL. */
void root_hex(const uint8_t *p, size_t n, char *out);
/* Exactly n bytes, lower case; false otherwise. */
bool root_unhex(const char *s, uint8_t *out, size_t n);

/* aside.c: fn(in, out) in a forked process that ends with it; out (n bytes, locked memory of the caller where it holds a key) is filled on 0. fn's memory is the
 * caller's as it was, but for secret_alloc's, which is zero there. What fn gave back;
 * -1 with the reason also when nothing came in time. */
typedef int root_aside_fn(const void *in, void *out, struct err *err);
int root_aside(root_aside_fn *fn, const void *in, void *out, size_t n, unsigned seconds, struct err *err) __attribute__((warn_unused_result));

/* service.c. id: ROOT_ID_TEXT digits. make: a new random key, stored under the id. key: 1 when the keyring has none. */
bool root_service_there(struct err *why);
int root_service_make(const char *id, uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));
int root_service_key(const char *id, uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));

/* tpm.c. A key that a TPM sealed: what stands in the header. All of it is public or encrypted by the TPM. */
enum {
        ROOT_TPM_NAME_BYTES = 34,         /* a TPM's name of a key: its algorithm and a SHA-256 */
        ROOT_TPM_UNIQUE_BYTES = 32,       /* SHA-256 of what was sealed and its seed */
        ROOT_TPM_PRIVATE_BYTES_MAX = 512, /* some 160 today: two digests, a seed, the key */
};
struct root_tpm_blob {
        uint8_t parent[ROOT_TPM_NAME_BYTES];
        uint8_t unique[ROOT_TPM_UNIQUE_BYTES];
        uint8_t private[ROOT_TPM_PRIVATE_BYTES_MAX];
        uint16_t private_bytes;
};
/* From and to a header. Pure. -1: not what brome writes. */
int root_tpm_read(json_t *root, struct root_tpm_blob *out) __attribute__((warn_unused_result));
int root_tpm_write(json_t *root, const struct root_tpm_blob *blob) __attribute__((warn_unused_result));

bool root_tpm_there(struct err *why);
int root_tpm_make(struct root_tpm_blob *blob, uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));
int root_tpm_key(const struct root_tpm_blob *blob, uint8_t key[VAULT_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));

#endif
