/* Roots of trust: see root.h. One row a kind. */
#include "vault/root_priv.h"
#include "base/esc.h"
#include "base/fd.h"

#include <argon2.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
        ID_BYTES = 16,
        SALT_BYTES = 16,
        /* RFC 9106 §4, second recommended option: 64 MiB, three passes, four lanes. */
        MEMORY_KIB = 64 * 1024,
        PASSES = 3,
        LANES = 4,
        /* What a header may ask for at most: a changed file must not take the machine down. */
        MEMORY_KIB_MAX = 4 * 1024 * 1024,
        PASSES_MAX = 64,
        LANES_MAX = 64,
};

int root_random(void *p, size_t n, struct err *err)
{
        return getrandom(p, n, 0) == (ssize_t)n ? 0 : err_sys(err, errno, "no random bytes");
}

void root_hex(const uint8_t *p, size_t n, char *out)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < n; i++) {
                *out++ = digits[p[i] >> 4];
                *out++ = digits[p[i] & 15];
        }
        *out = 0;
}

static int nibble(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool root_unhex(const char *s, uint8_t *out, size_t n)
{
        if (!s || strlen(s) != 2 * n)
                return false;
        for (size_t i = 0; i < n; i++) {
                int hi = nibble(s[2 * i]), lo = nibble(s[2 * i + 1]);

                if (hi < 0 || lo < 0)
                        return false;
                out[i] = (uint8_t)(hi << 4 | lo);
        }
        return true;
}

/* --- secret-service --- */

static const char *id_of(json_t *root) { return json_string_value(json_object_get(root, "id")); }

static int service_key(json_t *root, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        struct err why = ERR_INIT;
        int rc = root_service_key(id_of(root), key, &why);

        (void)ask;
        if (rc > 0)
                return err_set(err, "the desktop's keyring is locked or does not hold this vault's key; unlock it, or start the keyring of the user who made the vault");
        return rc == 0 ? 0 : err_set(err, "the desktop's keyring does not answer: %s; start it, or log in to the desktop", esc_str(why.text));
}

static int service_make(json_t *root, const char *file, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        struct err why = ERR_INIT;

        (void)file;
        (void)ask;
        return root_service_make(id_of(root), key, &why) == 0 ? 0 : err_set(err, "the desktop's keyring: %s", esc_str(why.text));
}

/* --- passphrase --- */

static bool bounded(json_t *root, const char *name, uint32_t most, uint32_t *out)
{
        json_int_t v = json_integer_value(json_object_get(root, name));

        *out = v > 0 && v <= (json_int_t)most ? (uint32_t)v : 0;
        return *out != 0;
}

static int derive(json_t *root, const struct root_ask *ask, bool confirm, uint8_t *key, struct err *err)
{
        uint32_t memory, passes, lanes;
        uint8_t salt[SALT_BYTES];
        size_t n = 0;
        char *text;
        int rc;

        if (!root_unhex(json_string_value(json_object_get(root, "salt")), salt, SALT_BYTES) || !bounded(root, "memory_kib", MEMORY_KIB_MAX, &memory) ||
            !bounded(root, "passes", PASSES_MAX, &passes) || !bounded(root, "lanes", LANES_MAX, &lanes))
                return err_set(err, "the vault's header has parameters that brome does not accept");
        if (!ask || !ask->passphrase)
                return err_set(err, "the vault opens with a passphrase, and there is no terminal to ask on");
        text = secret_alloc(ROOT_PASSPHRASE_BYTES);
        if (!text)
                return err_set(err, "no memory can be locked for secrets");
        rc = ask->passphrase(ask->ctx, confirm, text, &n, err);
        if (rc == 0 && (n == 0 || n > ROOT_PASSPHRASE_BYTES))
                rc = err_set(err, "a passphrase has 1 to %d bytes", ROOT_PASSPHRASE_BYTES);
        if (rc == 0) {
                int e = argon2id_hash_raw(passes, memory, lanes, text, n, salt, SALT_BYTES, key, VAULT_KEY_BYTES);

                if (e != ARGON2_OK)
                        rc = err_set(err, "the passphrase cannot be turned into a key: %s", argon2_error_message(e));
        }
        secret_free(text, ROOT_PASSPHRASE_BYTES);
        return rc;
}

static int passphrase_key(json_t *root, const struct root_ask *ask, uint8_t *key, struct err *err) { return derive(root, ask, false, key, err); }

static int passphrase_make(json_t *root, const char *file, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        uint8_t salt[SALT_BYTES];
        char text[2 * SALT_BYTES + 1];

        (void)file;
        if (root_random(salt, sizeof(salt), err) < 0)
                return -1;
        root_hex(salt, sizeof(salt), text);
        if (json_object_set_new(root, "salt", json_string(text)) < 0 || json_object_set_new(root, "memory_kib", json_integer(MEMORY_KIB)) < 0 ||
            json_object_set_new(root, "passes", json_integer(PASSES)) < 0 || json_object_set_new(root, "lanes", json_integer(LANES)) < 0)
                return err_set(err, "out of memory");
        return derive(root, ask, true, key, err);
}

/* --- key-file --- */

static int key_file_key(json_t *root, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        const char *path = json_string_value(json_object_get(root, "path"));
        struct stat st;
        int rc = 0, fd = path && path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;

        (void)ask;
        if (fd < 0)
                return path ? err_sys(err, errno, "key file %.300s", path) : err_set(err, "the vault's header names no key file");
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077)
                rc = err_set(err, "key file %.300s: it must be a file of yours that nobody else may read; 'chmod 600' it", path);
        else if (st.st_size != VAULT_KEY_BYTES || read(fd, key, VAULT_KEY_BYTES) != VAULT_KEY_BYTES)
                rc = err_set(err, "key file %.300s: it does not hold %d bytes", path, VAULT_KEY_BYTES);
        fd_close(&fd);
        return rc;
}

static int key_file_make(json_t *root, const char *file, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        int fd, rc;

        if (!file || file[0] != '/')
                return err_set(err, "a key file is named by its absolute path");
        if (json_object_set_new(root, "path", json_string(file)) < 0)
                return err_set(err, "key file: the path is no UTF-8");
        fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0 && errno == EEXIST)
                return key_file_key(root, ask, key, err);
        if (fd < 0)
                return err_sys(err, errno, "key file %.300s", file);
        rc = root_random(key, VAULT_KEY_BYTES, err);
        if (rc == 0 && (fd_write_all(fd, key, VAULT_KEY_BYTES) < 0 || fsync(fd) < 0))
                rc = err_sys(err, errno, "key file %.300s", file);
        fd_close(&fd);
        if (rc < 0)
                unlink(file);
        return rc;
}

/* --- tpm --- */

static int tpm_key(json_t *root, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        struct root_tpm_blob blob;

        (void)ask;
        if (root_tpm_read(root, &blob) < 0)
                return err_set(err, "the vault's header has parameters that brome does not accept");
        return root_tpm_key(&blob, key, err);
}

static int tpm_make(json_t *root, const char *file, const struct root_ask *ask, uint8_t *key, struct err *err)
{
        struct root_tpm_blob blob;

        (void)file;
        (void)ask;
        if (root_tpm_make(&blob, key, err) < 0)
                return -1;
        return root_tpm_write(root, &blob) < 0 ? err_set(err, "out of memory") : 0;
}

/* --- kinds --- */

static const struct {
        const char *name;
        int (*make)(json_t *root, const char *file, const struct root_ask *ask, uint8_t *key, struct err *err);
        int (*key)(json_t *root, const struct root_ask *ask, uint8_t *key, struct err *err);
} kinds[ROOT_KIND_COUNT] = {
        [ROOT_SECRET_SERVICE] = { "secret-service", service_make, service_key },
        [ROOT_PASSPHRASE] = { "passphrase", passphrase_make, passphrase_key },
        [ROOT_TPM] = { "tpm", tpm_make, tpm_key },
        [ROOT_KEY_FILE] = { "key-file", key_file_make, key_file_key },
};

const char *root_name(enum root_kind kind) { return kinds[kind].name; }

enum root_kind root_by_name(struct slice name)
{
        for (int i = 0; i < ROOT_KIND_COUNT; i++)
                if (slice_is(name, kinds[i].name))
                        return (enum root_kind)i;
        return ROOT_KIND_COUNT;
}

bool root_available(enum root_kind kind, struct err *why)
{
        if (kind == ROOT_SECRET_SERVICE)
                return root_service_there(why);
        if (kind == ROOT_TPM)
                return root_tpm_there(why);
        return kind < ROOT_KIND_COUNT;
}

enum root_kind root_default(bool terminal)
{
        if (root_available(ROOT_SECRET_SERVICE, NULL))
                return ROOT_SECRET_SERVICE;
        if (terminal)
                return ROOT_PASSPHRASE;
        return root_available(ROOT_TPM, NULL) ? ROOT_TPM : ROOT_KIND_COUNT;
}

int root_make(enum root_kind kind, const char *key_file, const struct root_ask *ask, json_t **root, uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        uint8_t id[ID_BYTES];
        char text[2 * ID_BYTES + 1];
        json_t *r;

        if (kind >= ROOT_KIND_COUNT)
                return err_set(err, "there is no such root of trust");
        if (root_random(id, sizeof(id), err) < 0)
                return -1;
        root_hex(id, sizeof(id), text);
        r = json_pack("{s:s, s:s}", "kind", kinds[kind].name, "id", text);
        if (!r)
                return err_set(err, "out of memory");
        if (kinds[kind].make(r, key_file, ask, key, err) < 0) {
                json_decref(r);
                return -1;
        }
        *root = r;
        return 0;
}

int root_key(json_t *root, const struct root_ask *ask, uint8_t key[VAULT_KEY_BYTES], struct err *err)
{
        const char *name = json_string_value(json_object_get(root, "kind"));
        enum root_kind kind = root_by_name(slice_str(name));

        if (kind == ROOT_KIND_COUNT)
                return err_set(err, "the vault has a root of trust that this brome does not know");
        return kinds[kind].key(root, ask, key, err);
}
