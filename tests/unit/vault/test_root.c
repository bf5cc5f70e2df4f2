/* Roots of trust: the same key comes back, a wrong passphrase gives another, and a header cannot ask for more than brome accepts. */
#include "vault/root.h"

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
        assert_false(root_available(ROOT_TPM, &err));
        assert_non_null(strstr(err.text, "not available"));
        assert_int_equal(root_key(root, NULL, key, &err), -1);
        assert_int_equal(root_key(NULL, NULL, key, &err), -1);
        json_decref(root);
        assert_true(root_default() == ROOT_PASSPHRASE || root_default() == ROOT_SECRET_SERVICE);
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

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(passphrase), cmocka_unit_test(key_file), cmocka_unit_test(kinds), cmocka_unit_test(cache) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
