/* Roots of trust: the same key comes back, a wrong passphrase gives another, and a header cannot ask for more than brome accepts. */
#include "vault/root_priv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const char *typed;
static bool confirmed;

static int ask_fn(void *ctx, bool confirm, char *out, size_t *n, struct err *err)
{
        (void)ctx;
        (void)err;
        confirmed = confirm;
        *n = strlen(typed);
        memcpy(out, typed, *n);
        return 0;
}
static const struct root_ask ask = { ask_fn, NULL };

static void passphrase(void **state)
{
        uint8_t made[VAULT_KEY_BYTES], again[VAULT_KEY_BYTES];
        struct err err = ERR_INIT;
        json_t *root;

        (void)state;
        typed = "correct horse";
        assert_int_equal(root_make(ROOT_PASSPHRASE, NULL, &ask, &root, made, &err), 0);
        assert_true(confirmed);
        assert_int_equal(root_key(root, &ask, again, &err), 0);
        assert_false(confirmed);
        assert_memory_equal(made, again, VAULT_KEY_BYTES);
        typed = "correct hors";
        assert_int_equal(root_key(root, &ask, again, &err), 0);
        assert_memory_not_equal(made, again, VAULT_KEY_BYTES);
        assert_int_equal(root_key(root, NULL, again, &err), -1);
        json_object_set_new(root, "memory_kib", json_integer(1LL << 40));
        assert_int_equal(root_key(root, &ask, again, &err), -1);
        json_decref(root);
}

static void key_file(void **state)
{
        char folder[] = "/tmp/brome-root-XXXXXX", path[64];
        uint8_t made[VAULT_KEY_BYTES], again[VAULT_KEY_BYTES];
        struct err err = ERR_INIT;
        struct stat st;
        json_t *root, *second;

        (void)state;
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/key", folder);
        assert_int_equal(root_make(ROOT_KEY_FILE, "relative", NULL, &root, made, &err), -1);
        assert_int_equal(root_make(ROOT_KEY_FILE, path, NULL, &root, made, &err), 0);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        assert_int_equal(root_key(root, NULL, again, &err), 0);
        assert_memory_equal(made, again, VAULT_KEY_BYTES);
        assert_int_equal(root_make(ROOT_KEY_FILE, path, NULL, &second, again, &err), 0); /* used, not replaced */
        assert_memory_equal(made, again, VAULT_KEY_BYTES);
        assert_int_equal(chmod(path, 0644), 0);
        assert_int_equal(root_key(root, NULL, again, &err), -1);
        json_decref(root);
        json_decref(second);
        unlink(path);
        rmdir(folder);
}

static void kinds(void **state)
{
        struct err err = ERR_INIT;
        uint8_t key[VAULT_KEY_BYTES];
        json_t *root = json_pack("{s:s}", "kind", "stone");

        (void)state;
        for (int k = 0; k < ROOT_KIND_COUNT; k++)
                assert_int_equal(root_by_name(slice_str(root_name((enum root_kind)k))), k);
        setenv("BROME_TPM", "swtpm:path=/nonexistent", 1);
        assert_false(root_available(ROOT_TPM, &err));
        assert_null(strchr(err.text, '\n'));
        assert_true(strstr(err.text, "there is no TPM at swtpm:path=/nonexistent") || strstr(err.text, "not installed"));
        assert_int_equal(root_key(root, NULL, key, &err), -1);
        assert_int_equal(root_key(NULL, NULL, key, &err), -1);
        json_decref(root);
        /* No keyring, no TPM: a passphrase where somebody can be asked, otherwise nothing. */
        unsetenv("DBUS_SESSION_BUS_ADDRESS");
        setenv("XDG_RUNTIME_DIR", "/nonexistent", 1);
        assert_false(root_available(ROOT_SECRET_SERVICE, &err));
        assert_string_equal(err.text, "there is no session bus");
        assert_int_equal(root_default(true), ROOT_PASSPHRASE);
        assert_int_equal(root_default(false), ROOT_KIND_COUNT);
}

/* Where the kernel lets us, it keeps the key; nowhere is it an error. */
static void cache(void **state)
{
        uint8_t key[VAULT_KEY_BYTES] = { 1, 2, 3 }, got[VAULT_KEY_BYTES];
        json_t *root = json_pack("{s:s, s:s}", "kind", "passphrase", "id", "0123456789abcdef0123456789abcdef"), *none = json_object();

        (void)state;
        assert_false(root_cache_get(none, got));
        assert_false(root_cache_put(none, key, 5));
        if (root_cache_put(root, key, 5)) {
                assert_true(root_cache_get(root, got));
                assert_memory_equal(key, got, VAULT_KEY_BYTES);
                root_cache_forget(root);
        }
        assert_false(root_cache_get(root, got));
        json_decref(root);
        json_decref(none);
}

static int answers(const void *in, void *out, struct err *err)
{
        (void)err;
        memcpy(out, in, 4);
        puts("a library's chatter");
        return 0;
}

static int says_no(const void *in, void *out, struct err *err)
{
        (void)in;
        memset(out, 'x', 4);
        return err_set(err, "not today");
}

static int has_none(const void *in, void *out, struct err *err)
{
        (void)in;
        (void)out;
        (void)err;
        return 1;
}

static int falls(const void *in, void *out, struct err *err)
{
        (void)in;
        (void)out;
        (void)err;
        _exit(0);
}

static int hangs(const void *in, void *out, struct err *err)
{
        (void)in;
        (void)out;
        (void)err;
        return pause();
}

/* A library that falls over or never answers is a reason, not an end. */
static void aside(void **state)
{
        struct err err = ERR_INIT;
        char out[5] = "----";

        (void)state;
        assert_int_equal(root_aside(answers, "abcd", out, 4, 30, &err), 0);
        assert_string_equal(out, "abcd");
        assert_int_equal(root_aside(says_no, NULL, out, 4, 30, &err), -1);
        assert_string_equal(err.text, "not today");
        assert_int_equal(root_aside(has_none, NULL, out, 4, 30, &err), 1);
        assert_int_equal(root_aside(falls, NULL, out, 4, 30, &err), -1);
        assert_non_null(strstr(err.text, "without an answer"));
        assert_int_equal(root_aside(hangs, NULL, out, 4, 1, &err), -1);
        assert_non_null(strstr(err.text, "within 1 seconds"));
        assert_string_equal(out, "abcd"); /* untouched by what failed */
        assert_int_equal(root_aside(answers, "abcd", out, ROOT_ASIDE_BYTES_MAX + 1, 30, &err), -1);
}

/* A TPM's header: what is written is read, and nothing else is. */
static void tpm_header(void **state)
{
        struct root_tpm_blob b = { .private_bytes = 150 }, c;
        json_t *root = json_object();

        (void)state;
        memset(b.parent, 1, sizeof(b.parent));
        memset(b.unique, 0xfe, sizeof(b.unique));
        memset(b.private, 0x5a, b.private_bytes);
        assert_int_equal(root_tpm_read(root, &c), -1);
        assert_int_equal(root_tpm_read(NULL, &c), -1);
        assert_int_equal(root_tpm_write(root, &b), 0);
        assert_int_equal(root_tpm_read(root, &c), 0);
        assert_memory_equal(&b, &c, sizeof(b));
        json_object_set_new(root, "private", json_string(""));
        assert_int_equal(root_tpm_read(root, &c), -1);
        json_object_set_new(root, "private", json_string("5A"));
        assert_int_equal(root_tpm_read(root, &c), -1);
        json_object_set_new(root, "private", json_integer(5));
        assert_int_equal(root_tpm_read(root, &c), -1);
        json_decref(root);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(passphrase), cmocka_unit_test(key_file), cmocka_unit_test(kinds),
                                            cmocka_unit_test(cache),      cmocka_unit_test(aside),    cmocka_unit_test(tpm_header) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
