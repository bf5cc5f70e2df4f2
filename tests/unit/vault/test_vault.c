/* The vault: what was put in comes out after a lock, nothing comes out of a changed or cut file, and no plain secret is ever in the file. */
#include "base/buf.h"
#include "base/fd.h"
#include "vault/vault_priv.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[64], path[96];
static const uint8_t key[VAULT_KEY_BYTES] = "0123456789abcdef0123456789abcde";
static const uint8_t other[VAULT_KEY_BYTES] = "another key of the same length!";

static int set_up(void **state)
{
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-vault-XXXXXX");
        assert_non_null(mkdtemp(folder));
        snprintf(path, sizeof(path), "%s/vault", folder);
        return 0;
}

static int tear_down(void **state)
{
        (void)state;
        unlink(path);
        rmdir(folder);
        return 0;
}

static struct vault *load(void)
{
        struct err err = ERR_INIT;
        struct vault *v = vault_load(path, &err);

        if (!v)
                print_error("%s\n", err.text);
        assert_non_null(v);
        return v;
}

static struct vault *made(void)
{
        struct err err = ERR_INIT;
        json_t *root = json_pack("{s:s}", "kind", "key-file");
        struct vault *v = load();

        assert_int_equal(vault_state(v), VAULT_ABSENT);
        assert_null(vault_root(v));
        assert_int_equal(vault_create(v, root, key, &err), 0);
        assert_int_equal(vault_create(v, root, key, &err), -1);
        json_decref(root);
        return v;
}

static void put(struct vault *v, const char *name, const char *secret)
{
        struct err err = ERR_INIT;

        if (vault_put(v, slice_str(name), slice_str(secret), &err) < 0)
                fail_msg("%s", err.text);
}

static void round_trip(void **state)
{
        struct err err = ERR_INIT;
        struct vault *v = made();
        struct buf file;
        struct stat st;

        (void)state;
        put(v, "forge", "ghp_real");
        put(v, "a", "");
        put(v, "zz", "last");
        put(v, "forge", "ghp_other");
        assert_string_equal(vault_name(v, 0), "a");
        assert_string_equal(vault_name(v, 1), "forge");
        assert_null(vault_name(v, 3));
        assert_int_equal(vault_remove(v, SLICE_LIT("none"), &err), 1);
        assert_int_equal(vault_remove(v, SLICE_LIT("zz"), &err), 0);
        vault_lock(v);
        assert_int_equal(vault_state(v), VAULT_LOCKED);
        assert_int_equal(vault_get(v, SLICE_LIT("forge")).n, 0);
        assert_null(vault_name(v, 0));
        assert_int_equal(vault_put(v, SLICE_LIT("x"), SLICE_LIT("y"), &err), -1);
        vault_free(v);

        v = load();
        assert_int_equal(vault_state(v), VAULT_LOCKED);
        assert_string_equal(json_string_value(json_object_get(vault_root(v), "kind")), "key-file");
        assert_int_equal(vault_unlock(v, other, &err), -1);
        assert_int_equal(vault_state(v), VAULT_LOCKED);
        assert_int_equal(vault_unlock(v, key, &err), 0);
        assert_true(slice_is(vault_get(v, SLICE_LIT("forge")), "ghp_other"));
        /* A wrong key for an open vault leaves it open. */
        assert_int_equal(vault_unlock(v, other, &err), -1);
        assert_true(slice_is(vault_get(v, SLICE_LIT("forge")), "ghp_other"));
        assert_int_equal(vault_unlock(v, key, &err), 0);
        vault_free(v);

        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        buf_init(&file, 0);
        assert_int_equal(fd_read_file(path, &file, VAULT_FILE_BYTES_MAX, &err), 0);
        assert_null(memmem(buf_slice(&file).p, buf_len(&file), "ghp_", 4));
        assert_null(memmem(buf_slice(&file).p, buf_len(&file), "forge", 5));
        buf_fini(&file);
}

/* Every byte of the file counts: header, nonce, box, tag; and so does its length. */
static void changed(void **state)
{
        struct err err = ERR_INIT;
        struct vault *v = made();
        struct buf file;
        uint8_t *copy;
        size_t n;

        (void)state;
        put(v, "forge", "ghp_real");
        vault_free(v);
        buf_init(&file, 0);
        assert_int_equal(fd_read_file(path, &file, VAULT_FILE_BYTES_MAX, &err), 0);
        n = buf_len(&file);
        copy = malloc(n);
        for (size_t i = 0; i <= n; i++) {
                memcpy(copy, buf_slice(&file).p, n);
                if (i < n)
                        copy[i] ^= 1;
                assert_int_equal(fd_write_file_unsynced(path, 0600, copy, i < n ? n : n - 1, &err), 0);
                v = vault_load(path, &err);
                if (v)
                        assert_int_equal(vault_unlock(v, key, &err), -1);
                vault_free(v);
        }
        free(copy);
        buf_fini(&file);
}

static void unsafe(void **state)
{
        struct err err = ERR_INIT;

        (void)state;
        vault_free(made());
        assert_int_equal(chmod(path, 0640), 0);
        assert_null(vault_load(path, &err));
        assert_non_null(strstr(err.text, "chmod 600"));
        assert_int_equal(fd_write_file_unsynced(path, 0600, "{\"brome-vault\":2,\"root\":{\"kind\":\"x\"}}\n0123456789abcdef0123456789abcdef", 69, &err), 0);
        assert_null(vault_load(path, &err));
        assert_non_null(strstr(err.text, "version 2"));
        unlink(path);
        assert_int_equal(symlink("/etc/passwd", path), 0);
        assert_null(vault_load(path, &err));
}

static void names(void **state)
{
        struct err err = ERR_INIT;
        struct vault *v = made();
        static char big[VAULT_SECRET_BYTES_MAX + 1];

        (void)state;
        for (const char **bad = (const char *[]){ "", "-a", "A", "a/b", "a.b", "a b", NULL }; *bad; bad++)
                assert_int_equal(vault_put(v, slice_str(*bad), SLICE_LIT("x"), &err), -1);
        assert_int_equal(vault_put(v, SLICE_LIT("big"), slice_of(big, sizeof(big)), &err), -1);
        assert_int_equal(vault_put(v, SLICE_LIT("big"), slice_of(big, sizeof(big) - 1), &err), 0);
        put(v, "ab", "2");
        put(v, "a", "1");
        put(v, "abc", "3");
        assert_true(slice_is(vault_get(v, SLICE_LIT("a")), "1"));
        assert_true(slice_is(vault_get(v, SLICE_LIT("ab")), "2"));
        assert_true(slice_is(vault_get(v, SLICE_LIT("abc")), "3"));
        assert_int_equal(vault_get(v, SLICE_LIT("abcd")).n, 0);
        vault_free(v);
}

/* A file that was put there after the look is not written over, whatever it is. */
static void put_back(void **state)
{
        struct err err = ERR_INIT;
        json_t *root = json_pack("{s:s}", "kind", "key-file");
        struct vault *absent = load(), *v;

        (void)state;
        v = made();
        put(v, "forge", "ghp_real");
        vault_free(v);
        assert_int_equal(vault_create(absent, root, other, &err), -1);
        assert_int_equal(vault_state(absent), VAULT_ABSENT);
        v = load();
        assert_int_equal(vault_unlock(v, key, &err), 0);
        assert_true(slice_is(vault_get(v, SLICE_LIT("forge")), "ghp_real"));
        vault_free(v);
        unlink(path);
        assert_int_equal(symlink("/nonexistent", path), 0);
        assert_int_equal(vault_create(absent, root, other, &err), -1);
        unlink(path);
        assert_int_equal(vault_create(absent, root, other, &err), 0);
        vault_free(absent);
        json_decref(root);
}

/* Locked, apart, wiped when given back. */
static void memory(void **state)
{
        uint8_t *all[300];
        uint8_t *p = secret_alloc(100), *q = secret_alloc(100);

        (void)state;
        assert_non_null(p);
        assert_non_null(q);
        assert_true(q >= p + 100 || p >= q + 100);
        memset(p, 'x', 100);
        secret_free(p, 100);
        assert_ptr_equal(secret_alloc(50), p);
        for (int i = 0; i < 50; i++)
                assert_int_equal(p[i], 0);
        secret_free(p, 50);
        secret_free(q, 100);
        for (size_t i = 0; i < 300; i++) {
                all[i] = secret_alloc(200 + i * 10);
                assert_non_null(all[i]);
                memset(all[i], (int)i, 200 + i * 10);
        }
        for (size_t i = 0; i < 300; i++) {
                assert_int_equal(all[i][0], (uint8_t)i);
                assert_int_equal(all[i][200 + i * 10 - 1], (uint8_t)i);
                secret_free(all[i], 200 + i * 10);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(round_trip, set_up, tear_down), cmocka_unit_test_setup_teardown(changed, set_up, tear_down),
                cmocka_unit_test_setup_teardown(unsafe, set_up, tear_down),     cmocka_unit_test_setup_teardown(names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(put_back, set_up, tear_down), cmocka_unit_test(memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
