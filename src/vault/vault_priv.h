/* The vault's bytes: how a file divides, and what stands in the opened box. Pure, for vault.c, the tests and the fuzzer.
 *
 *   file  = header LF nonce[12] box tag[16]         header: one line of JSON, authenticated with the box
 *   box   = u16 count | count × (u8 name length | name | u32 secret length | secret)      little-endian, names ascending, nothing left over */
#ifndef BROME_VAULT_PRIV_H
#define BROME_VAULT_PRIV_H

#include "vault/vault.h"

enum {
        VAULT_VERSION = 1,
        VAULT_HEADER_BYTES_MAX = 4096, /* root and its parameters take some 200 */
        VAULT_NONCE_BYTES = 12,
        VAULT_TAG_BYTES = 16,
        VAULT_SECRET_BYTES_MAX = 16 * 1024, /* one secret: a key file, a long token */
};

struct vault_entry {
        struct slice name, secret; /* borrow from the box */
};

struct vault_file {
        struct slice header; /* with its LF: what is authenticated */
        struct slice nonce, box, tag;
        json_t *root; /* new reference */
};

/* Divides a file. 0; -1 with the reason: no vault, of a newer version, cut. */
int vault_file_read(struct slice bytes, struct vault_file *out, struct err *err) __attribute__((warn_unused_result));
/* Reads an opened box. The number of entries; -1: malformed. */
int vault_box_read(struct slice box, struct vault_entry entries[VAULT_ENTRIES_MAX]) __attribute__((warn_unused_result));
/* Bytes that vault_box_write needs; and writes them. */
size_t vault_box_bytes(const struct vault_entry *entries, size_t count);
void vault_box_write(const struct vault_entry *entries, size_t count, uint8_t *out);
/* a–z, 0–9 and '-', the first no '-': a credential's name. */
bool vault_name_ok(struct slice name);

#endif
