/* manifest.json: see manifest.h. */
#include "vm/manifest.h"
#include "base/esc.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

const char *const image_file_names[IMAGE_FILE_COUNT] = { "vmlinuz", "initrd", "base.ext4", "home.ext4" };

static void to_hex(const uint8_t *p, size_t n, char *out)
{
        for (size_t i = 0; i < n; i++)
                snprintf(out + 2 * i, 3, "%02x", p[i]);
}

static int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static int from_hex(const char *s, uint8_t *out, size_t n)
{
        if (!s || strlen(s) != 2 * n)
                return -1;
        for (size_t i = 0; i < n; i++) {
                int hi = digit(s[2 * i]), lo = digit(s[2 * i + 1]);
                if (hi < 0 || lo < 0)
                        return -1;
                out[i] = (uint8_t)(hi * 16 + lo);
        }
        return 0;
}

/* Names and versions of packages, kernels, suites: what Debian's policy allows in them. */
static bool word_ok(const char *s, size_t size)
{
        size_t n = s ? strlen(s) : 0;

        return n > 0 && n < size && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-~:_") == n;
}

static bool packages_ok(json_t *packages)
{
        const char *name;
        json_t *version;

        if (!json_is_object(packages))
                return false;
        json_object_foreach(packages, name, version)
                if (!word_ok(name, MANIFEST_TEXT_BYTES) || !word_ok(json_string_value(version), MANIFEST_TEXT_BYTES))
                        return false;
        return true;
}

static bool values_ok(const struct manifest *m)
{
        if (!word_ok(m->suite, sizeof(m->suite)) || !word_ok(m->kernel, sizeof(m->kernel)) || !word_ok(m->architecture, sizeof(m->architecture)) ||
            !word_ok(m->init, sizeof(m->init)) || m->made_us < 0 || !packages_ok(m->packages))
                return false;
        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++)
                if (m->files[i].bytes > INT64_MAX)
                        return false;
        return true;
}

static json_t *files_json(const struct manifest *m)
{
        json_t *o = json_object();

        for (size_t i = 0; o && i < IMAGE_FILE_COUNT; i++) {
                char hex[2 * SHA256_BYTES + 1];
                to_hex(m->files[i].sha256, SHA256_BYTES, hex);
                json_object_set_new(o, image_file_names[i],
                                    json_pack("{s:I, s:s}", "bytes", (json_int_t)m->files[i].bytes, image_file_is_disk(i) ? "sha256_blocks" : "sha256", hex));
        }
        return o;
}

int manifest_write(const struct manifest *m, struct buf *out)
{
        json_t *o;
        char *text;
        int rc = -1;

        if (!values_ok(m))
                return -1;
        o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:O}", "format", MANIFEST_FORMAT, "suite", m->suite, "kernel", m->kernel, "architecture",
                      m->architecture, "init", m->init, "owners", m->all_owners ? "all" : "root", "made_us", (json_int_t)m->made_us, "files", files_json(m), "packages",
                      m->packages);
        text = o ? json_dumps(o, JSON_INDENT(1)) : NULL;
        if (text && buf_add_str(out, text) == 0 && buf_add_str(out, "\n") == 0)
                rc = 0;
        free(text);
        json_decref(o);
        return rc;
}

static int copy_word(char *to, size_t size, const char *from)
{
        if (!word_ok(from, size))
                return -1;
        memcpy(to, from, strlen(from) + 1);
        return 0;
}

static int read_files(json_t *files, struct manifest *out)
{
        if (json_object_size(files) != IMAGE_FILE_COUNT)
                return -1;
        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++) {
                json_int_t bytes;
                const char *hex;
                if (json_unpack(json_object_get(files, image_file_names[i]), "{s:I, s:s!}", "bytes", &bytes, image_file_is_disk(i) ? "sha256_blocks" : "sha256", &hex) < 0 ||
                    bytes < 0 || from_hex(hex, out->files[i].sha256, SHA256_BYTES) < 0)
                        return -1;
                out->files[i].bytes = (uint64_t)bytes;
        }
        return 0;
}

static int read_object(json_t *o, struct manifest *out, struct err *err)
{
        const char *suite, *kernel, *architecture, *init, *owners;
        json_int_t format, made;
        json_t *files, *packages;

        if (json_unpack(o, "{s:I}", "format", &format) < 0)
                return err_set(err, "no manifest of an image: it has no format number");
        if (format != MANIFEST_FORMAT)
                return err_set(err, "the image has format %lld, and this brome reads %d; build it again: brome image build", (long long)format, MANIFEST_FORMAT);
        if (json_unpack(o, "{s:I, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o!}", "format", &format, "suite", &suite, "kernel", &kernel, "architecture", &architecture, "init",
                        &init, "owners", &owners, "made_us", &made, "files", &files, "packages", &packages) < 0)
                return err_set(err, "the manifest lacks a member, or has one too many");
        if (copy_word(out->suite, sizeof(out->suite), suite) < 0 || copy_word(out->kernel, sizeof(out->kernel), kernel) < 0 ||
            copy_word(out->architecture, sizeof(out->architecture), architecture) < 0 || copy_word(out->init, sizeof(out->init), init) < 0 || made < 0)
                return err_set(err, "the manifest has a name, a version or a time that is none");
        if (strcmp(owners, "all") != 0 && strcmp(owners, "root") != 0)
                return err_set(err, "the manifest's `owners` is neither all nor root");
        if (read_files(files, out) < 0)
                return err_set(err, "the manifest's `files` are not the four of an image");
        if (!packages_ok(packages))
                return err_set(err, "the manifest's `packages` are no names and versions");
        out->all_owners = strcmp(owners, "all") == 0;
        out->made_us = made;
        out->packages = json_incref(packages);
        return 0;
}

int manifest_read(struct slice text, struct manifest *out, struct err *err)
{
        struct manifest m = { 0 };
        json_error_t why;
        json_t *o;
        int rc;

        if (text.n > MANIFEST_BYTES)
                return err_set(err, "the manifest is larger than %d bytes", MANIFEST_BYTES);
        o = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES, &why);
        if (!o)
                return err_set(err, "the manifest is no JSON: %s", esc_str(why.text));
        rc = read_object(o, &m, err);
        json_decref(o);
        if (rc == 0)
                *out = m;
        return rc;
}

void manifest_fini(struct manifest *m)
{
        json_decref(m->packages);
        m->packages = NULL;
}

int manifest_id(struct slice text, char id[IMAGE_ID_CHARS + 1])
{
        uint8_t digest[SHA256_BYTES];

        if (EVP_Digest(text.p, text.n, digest, NULL, EVP_sha256(), NULL) != 1)
                return -1;
        to_hex(digest, IMAGE_ID_CHARS / 2, id);
        return 0;
}

bool image_id_ok(const char *id) { return strlen(id) == IMAGE_ID_CHARS && strspn(id, "0123456789abcdef") == IMAGE_ID_CHARS; }
