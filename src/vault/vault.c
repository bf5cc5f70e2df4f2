/* The vault: see vault.h. The opened box is one piece of locked memory; a change makes a new box, writes it, and only then lets go of the old one. */
#include "vault/vault.h"
#include "base/buf.h"
#include "base/fd.h"
#include "vault/vault_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct vault {
        const char *path;
        enum vault_state state;
        json_t *root;    /* unless absent */
        uint8_t *key;    /* while open */
        uint8_t *box;    /* while open */
        size_t box_bytes;
        struct vault_entry entries[VAULT_ENTRIES_MAX + 1]; /* one more while a change is made */
        size_t count;
        char name[VAULT_NAME_BYTES]; /* that vault_name gave last */
};

/* --- the box --- */

/* AEAD_CHACHA20_POLY1305 (RFC 8439 §2.8) of `in` to `out` (same length). Sealing writes the tag, opening checks it. */
static bool aead(bool seal, const uint8_t *key, const struct vault_file *f, struct slice in, uint8_t *out, uint8_t tag[VAULT_TAG_BYTES])
{
        EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
        int n = 0;
        bool ok = c && EVP_CipherInit_ex(c, EVP_chacha20_poly1305(), NULL, key, f->nonce.p, seal) == 1 &&
                  EVP_CipherUpdate(c, NULL, &n, f->header.p, (int)f->header.n) == 1 &&
                  (seal || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, VAULT_TAG_BYTES, tag) == 1) &&
                  (in.n == 0 || EVP_CipherUpdate(c, out, &n, in.p, (int)in.n) == 1) && EVP_CipherFinal_ex(c, out + in.n, &n) == 1 &&
                  (!seal || EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, VAULT_TAG_BYTES, tag) == 1);

        EVP_CIPHER_CTX_free(c);
        return ok;
}

/* The file: header, fresh nonce, box, tag. On disk when it returns 0. */
static int write_file(const char *path, json_t *root, const uint8_t *key, struct slice box, struct err *err)
{
        json_t *header = json_pack("{s:i, s:O}", "brome-vault", VAULT_VERSION, "root", root);
        char *line = header ? json_dumps(header, JSON_COMPACT) : NULL;
        size_t line_bytes = line ? strlen(line) + 1 : 0, bytes = line_bytes + VAULT_NONCE_BYTES + box.n + VAULT_TAG_BYTES;
        uint8_t *file = line && line_bytes <= VAULT_HEADER_BYTES_MAX && bytes <= VAULT_FILE_BYTES_MAX ? malloc(bytes) : NULL;
        struct vault_file f;
        int rc = -1;

        if (!file) {
                err_set(err, "the vault would be larger than %d bytes, or memory is out", VAULT_FILE_BYTES_MAX);
        } else {
                memcpy(file, line, line_bytes);
                file[line_bytes - 1] = '\n';
                f = (struct vault_file){ .header = slice_of(file, line_bytes), .nonce = slice_of(file + line_bytes, VAULT_NONCE_BYTES) };
                if (RAND_bytes(file + line_bytes, VAULT_NONCE_BYTES) != 1 ||
                    !aead(true, key, &f, box, file + line_bytes + VAULT_NONCE_BYTES, file + bytes - VAULT_TAG_BYTES))
                        err_set(err, "the vault cannot be sealed");
                else
                        rc = fd_write_file(path, 0600, file, bytes, err);
        }
        free(file);
        free(line);
        json_decref(header);
        return rc;
}

/* Reads the file with its mode checked. 0; 1: there is none; -1. */
static int read_file(const char *path, struct buf *out, struct err *err)
{
        struct stat st;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), rc;

        if (fd < 0)
                return errno == ENOENT ? 1 : err_sys(err, errno, "%s", path);
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                rc = err_set(err, "%s is no regular file", path);
        else if (st.st_uid != geteuid() || st.st_mode & 077)
                rc = err_set(err, "%s belongs to somebody else, or others may read or write it; 'chmod 600' it", path);
        else
                rc = fd_read_all(fd, out, VAULT_FILE_BYTES_MAX, err);
        fd_close(&fd);
        return rc;
}

/* --- its states --- */

static void adopt_box(struct vault *v, uint8_t *box, size_t bytes)
{
        int count = vault_box_read(slice_of(box, bytes), v->entries);

        secret_free(v->box, v->box_bytes);
        v->box = box;
        v->box_bytes = bytes;
        v->count = count > 0 ? (size_t)count : 0;
}

struct vault *vault_load(const char *path, struct err *err)
{
        struct vault *v = calloc(1, sizeof(*v));
        struct err why = ERR_INIT;
        struct vault_file f;
        struct buf bytes;
        int rc;

        if (!v) {
                err_set(err, "out of memory");
                return NULL;
        }
        v->path = path;
        buf_init(&bytes, VAULT_FILE_BYTES_MAX + 65536);
        rc = read_file(path, &bytes, err);
        if (rc == 0 && (rc = vault_file_read(buf_slice(&bytes), &f, &why)) == 0) {
                v->root = f.root;
                v->state = VAULT_LOCKED;
        } else if (rc < 0 && why.text[0]) {
                err_set(err, "%.300s: %s; put it back from a copy, or move it away and add the credentials again", path, why.text);
        }
        buf_fini(&bytes);
        if (rc >= 0)
                return v;
        free(v);
        return NULL;
}

void vault_lock(struct vault *v)
{
        if (v->state != VAULT_OPEN)
                return;
        secret_free(v->box, v->box_bytes);
        secret_free(v->key, VAULT_KEY_BYTES);
        OPENSSL_cleanse(v->entries, sizeof(v->entries));
        v->box = v->key = NULL;
        v->box_bytes = v->count = 0;
        v->state = VAULT_LOCKED;
}

void vault_free(struct vault *v)
{
        if (!v)
                return;
        vault_lock(v);
        json_decref(v->root);
        free(v);
}

enum vault_state vault_state(const struct vault *v) { return v->state; }
json_t *vault_root(const struct vault *v) { return v->state == VAULT_ABSENT ? NULL : v->root; }

static uint8_t *keep_key(const uint8_t key[VAULT_KEY_BYTES])
{
        uint8_t *kept = secret_alloc(VAULT_KEY_BYTES);

        if (kept)
                memcpy(kept, key, VAULT_KEY_BYTES);
        return kept;
}

static int no_locked_memory(struct err *err)
{
        return err_set(err, "no memory can be locked for secrets; raise the limit ('ulimit -l')");
}

int vault_create(struct vault *v, json_t *root, const uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        uint8_t *box, *kept;

        if (v->state != VAULT_ABSENT)
                return err_set(err, "there is a vault already");
        if (!json_is_object(root) || !json_is_string(json_object_get(root, "kind")))
                return err_set(err, "a vault needs a root of trust");
        /* SECURITY: never over another one, which may have been put back since this was loaded. */
        if (faccessat(AT_FDCWD, v->path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
                return err_set(err, "%s: there is something already", v->path);
        box = secret_alloc(vault_box_bytes(NULL, 0));
        kept = keep_key(key);
        if (!box || !kept) {
                no_locked_memory(err);
                goto bad;
        }
        vault_box_write(NULL, 0, box);
        if (write_file(v->path, root, key, slice_of(box, vault_box_bytes(NULL, 0)), err) < 0)
                goto bad;
        adopt_box(v, box, vault_box_bytes(NULL, 0));
        v->key = kept;
        v->root = json_incref(root);
        v->state = VAULT_OPEN;
        return 0;
bad:
        secret_free(box, vault_box_bytes(NULL, 0));
        secret_free(kept, VAULT_KEY_BYTES);
        return -1;
}

/* Opens the box of a file into locked memory. */
static uint8_t *open_box(const struct vault_file *f, const uint8_t *key, struct vault_entry *entries, struct err *err)
{
        uint8_t *box = secret_alloc(f->box.n), tag[VAULT_TAG_BYTES];

        if (!box) {
                no_locked_memory(err);
                return NULL;
        }
        memcpy(tag, f->tag.p, sizeof(tag));
        if (aead(false, key, f, f->box, box, tag) && vault_box_read(slice_of(box, f->box.n), entries) >= 0)
                return box;
        secret_free(box, f->box.n);
        err_set(err, "the vault cannot be opened with this key: it is another one's key or a wrong passphrase, or the file was changed");
        return NULL;
}

int vault_unlock(struct vault *v, const uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        struct vault_file f = { 0 };
        struct buf bytes;
        uint8_t *box = NULL, *kept = NULL;
        int rc;

        /* From disk again: the file may have been put back from a copy. */
        buf_init(&bytes, VAULT_FILE_BYTES_MAX + 65536);
        rc = read_file(v->path, &bytes, err);
        if (rc == 1)
                rc = err_set(err, "there is no vault yet");
        if (rc == 0)
                rc = vault_file_read(buf_slice(&bytes), &f, err);
        if (rc == 0 && !(kept = keep_key(key)))
                rc = no_locked_memory(err);
        if (rc == 0) {
                /* Into the entries of an open vault, too: they are read again from the box that stays. */
                box = open_box(&f, key, v->entries, err);
                if (!box && v->state == VAULT_OPEN)
                        (void)!vault_box_read(slice_of(v->box, v->box_bytes), v->entries);
                rc = box ? 0 : -1;
        }
        if (rc == 0) {
                secret_free(v->key, VAULT_KEY_BYTES);
                adopt_box(v, box, f.box.n);
                v->key = kept;
                json_decref(v->root);
                v->root = json_incref(f.root);
                v->state = VAULT_OPEN;
        } else {
                secret_free(kept, VAULT_KEY_BYTES);
        }
        json_decref(f.root);
        buf_fini(&bytes);
        return rc;
}

/* --- entries --- */

/* Where the name stands, or would. */
static size_t place_of(const struct vault *v, struct slice name, bool *there)
{
        size_t i = 0;

        for (*there = false; i < v->count; i++) {
                struct slice at = v->entries[i].name;
                int c = memcmp(at.p, name.p, at.n < name.n ? at.n : name.n);

                if (c == 0 && at.n == name.n)
                        *there = true;
                if (c > 0 || (c == 0 && at.n >= name.n))
                        break;
        }
        return i;
}

/* Seals the entries as they stand in the array, and takes the new box. On failure the array is read from the old box again. */
static int rewrite(struct vault *v, size_t count, struct err *err)
{
        size_t bytes = vault_box_bytes(v->entries, count);
        uint8_t *box = secret_alloc(bytes);
        int rc = box ? 0 : no_locked_memory(err);

        if (rc == 0) {
                vault_box_write(v->entries, count, box);
                rc = write_file(v->path, v->root, v->key, slice_of(box, bytes), err);
        }
        if (rc == 0) {
                adopt_box(v, box, bytes);
                return 0;
        }
        secret_free(box, bytes);
        (void)!vault_box_read(slice_of(v->box, v->box_bytes), v->entries);
        return -1;
}

int vault_put(struct vault *v, struct slice name, struct slice secret, struct err *err)
{
        size_t at, count = v->count;
        bool there;

        if (v->state != VAULT_OPEN)
                return err_set(err, "the vault is %s", v->state == VAULT_LOCKED ? "locked; 'brome unlock' opens it" : "not made yet");
        if (!vault_name_ok(name))
                return err_set(err, "a name has letters a-z, digits and '-', at most %d", VAULT_NAME_BYTES - 1);
        if (secret.n > VAULT_SECRET_BYTES_MAX)
                return err_set(err, "a secret has at most %d bytes", VAULT_SECRET_BYTES_MAX);
        at = place_of(v, name, &there);
        if (!there) {
                if (count >= VAULT_ENTRIES_MAX)
                        return err_set(err, "the vault holds %d secrets and no more", VAULT_ENTRIES_MAX);
                memmove(&v->entries[at + 1], &v->entries[at], (count - at) * sizeof(v->entries[0]));
                count++;
        }
        v->entries[at] = (struct vault_entry){ name, secret };
        return rewrite(v, count, err);
}

int vault_remove(struct vault *v, struct slice name, struct err *err)
{
        size_t at;
        bool there;

        if (v->state != VAULT_OPEN)
                return err_set(err, "the vault is not open; 'brome unlock' opens it");
        if (!vault_name_ok(name))
                return 1;
        at = place_of(v, name, &there);
        if (!there)
                return 1;
        memmove(&v->entries[at], &v->entries[at + 1], (v->count - at - 1) * sizeof(v->entries[0]));
        return rewrite(v, v->count - 1, err);
}

struct slice vault_get(const struct vault *v, struct slice name)
{
        bool there = false;
        size_t at = v->state == VAULT_OPEN && vault_name_ok(name) ? place_of(v, name, &there) : 0;

        return there ? v->entries[at].secret : SLICE_EMPTY;
}

const char *vault_name(const struct vault *v, size_t i)
{
        struct vault *mine = (struct vault *)(uintptr_t)v; /* its own scratch */

        if (v->state != VAULT_OPEN || i >= v->count)
                return NULL;
        snprintf(mine->name, sizeof(mine->name), "%.*s", SLICE_FMT(v->entries[i].name));
        return mine->name;
}
