/* The vault's bytes: see vault_priv.h. */
#include "vault/vault_priv.h"

bool vault_name_ok(struct slice name)
{
        if (name.n == 0 || name.n >= VAULT_NAME_BYTES || name.p[0] == '-')
                return false;
        for (size_t i = 0; i < name.n; i++)
                if (!(name.p[i] >= 'a' && name.p[i] <= 'z') && !(name.p[i] >= '0' && name.p[i] <= '9') && name.p[i] != '-')
                        return false;
        return true;
}

static int header_read(struct slice line, struct vault_file *out, struct err *err)
{
        json_t *header = json_loadb((const char *)line.p, line.n, JSON_REJECT_DUPLICATES, NULL);
        json_t *version = json_object_get(header, "brome-vault"), *root = json_object_get(header, "root");
        int rc = -1;

        if (!json_is_integer(version))
                err_set(err, "this is no vault");
        else if (json_integer_value(version) != VAULT_VERSION)
                err_set(err, "the vault is of version %lld; this brome reads version %d", (long long)json_integer_value(version), VAULT_VERSION);
        else if (!json_is_object(root) || !json_is_string(json_object_get(root, "kind")))
                err_set(err, "the vault's header names no root of trust");
        else
                rc = 0;
        if (rc == 0)
                out->root = json_incref(root);
        json_decref(header);
        return rc;
}

int vault_file_read(struct slice bytes, struct vault_file *out, struct err *err)
{
        struct vault_file f = { 0 };
        struct slice rest;
        ptrdiff_t end = slice_find(slice_first(bytes, VAULT_HEADER_BYTES_MAX), '\n');

        if (end < 0)
                return err_set(err, "this is no vault");
        f.header = slice_first(bytes, (size_t)end + 1);
        rest = slice_skip(bytes, (size_t)end + 1);
        if (rest.n < VAULT_NONCE_BYTES + VAULT_TAG_BYTES)
                return err_set(err, "the vault is cut off");
        f.nonce = slice_first(rest, VAULT_NONCE_BYTES);
        f.box = slice_of(rest.p + VAULT_NONCE_BYTES, rest.n - VAULT_NONCE_BYTES - VAULT_TAG_BYTES);
        f.tag = slice_skip(rest, rest.n - VAULT_TAG_BYTES);
        if (header_read(slice_first(bytes, (size_t)end), &f, err) < 0)
                return -1;
        *out = f;
        return 0;
}

/* A little-endian number from the front of *s; false when it is not there. */
static bool take_number(struct slice *s, size_t bytes, size_t *out)
{
        size_t v = 0;

        if (s->n < bytes)
                return false;
        for (size_t i = 0; i < bytes; i++)
                v |= (size_t)s->p[i] << (8 * i);
        *s = slice_skip(*s, bytes);
        *out = v;
        return true;
}

static bool take_bytes(struct slice *s, size_t n, struct slice *out)
{
        if (s->n < n)
                return false;
        *out = slice_first(*s, n);
        *s = slice_skip(*s, n);
        return true;
}

static int compare(struct slice a, struct slice b)
{
        size_t n = a.n < b.n ? a.n : b.n;
        int c = n ? memcmp(a.p, b.p, n) : 0;

        return c ? c : (a.n > b.n) - (a.n < b.n);
}

int vault_box_read(struct slice box, struct vault_entry entries[VAULT_ENTRIES_MAX])
{
        size_t count, n;

        if (!take_number(&box, 2, &count) || count > VAULT_ENTRIES_MAX)
                return -1;
        for (size_t i = 0; i < count; i++) {
                struct vault_entry *e = &entries[i];

                if (!take_number(&box, 1, &n) || !take_bytes(&box, n, &e->name) || !vault_name_ok(e->name) || !take_number(&box, 4, &n) ||
                    n > VAULT_SECRET_BYTES_MAX || !take_bytes(&box, n, &e->secret) || (i && compare(entries[i - 1].name, e->name) >= 0))
                        return -1;
        }
        return box.n == 0 ? (int)count : -1;
}

size_t vault_box_bytes(const struct vault_entry *entries, size_t count)
{
        size_t n = 2;

        for (size_t i = 0; i < count; i++)
                n += 5 + entries[i].name.n + entries[i].secret.n;
        return n;
}

static uint8_t *put(uint8_t *p, struct slice s)
{
        if (s.n)
                memcpy(p, s.p, s.n);
        return p + s.n;
}

void vault_box_write(const struct vault_entry *entries, size_t count, uint8_t *out)
{
        *out++ = (uint8_t)count;
        *out++ = (uint8_t)(count >> 8);
        for (size_t i = 0; i < count; i++) {
                *out++ = (uint8_t)entries[i].name.n;
                out = put(out, entries[i].name);
                for (unsigned shift = 0; shift < 32; shift += 8)
                        *out++ = (uint8_t)(entries[i].secret.n >> shift);
                out = put(out, entries[i].secret);
        }
}
