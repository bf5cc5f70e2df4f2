/* A workspace's certificate authority: made once, kept, replaced when it is damaged or does not belong together. */
#include "base/buf.h"
#include "base/fd.h"
#include "daemon/ca.h"

#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[PATH_MAX], key[PATH_MAX + 16], cert[PATH_MAX + 16];

static int setup(void **state)
{
        (void)state;
        snprintf(folder, sizeof(folder), "/tmp/brome-ca-XXXXXX");
        if (!mkdtemp(folder))
                return -1;
        snprintf(key, sizeof(key), "%s/ca.key", folder);
        snprintf(cert, sizeof(cert), "%s/ca.pem", folder);
        return 0;
}

static int teardown(void **state)
{
        (void)state;
        unlink(key);
        unlink(cert);
        return rmdir(folder);
}

static void slurp(const char *path, struct buf *b)
{
        struct err err = ERR_INIT;

        buf_init(b, 0);
        if (fd_read_file(path, b, 65536, &err) < 0)
                fail_msg("%s", err.text);
}

static bool same(struct buf *a, struct buf *b) { return slice_eq(buf_slice(a), buf_slice(b)); }

static void made_and_kept(void **state)
{
        struct err err = ERR_INIT;
        struct buf a, b;
        struct stat st;

        (void)state;
        assert_int_equal(ca_ensure(folder, "w", false, &err), 0);
        assert_int_equal(stat(key, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
        slurp(cert, &a);
        assert_int_equal(ca_ensure(folder, "w", true, &err), 0);
        slurp(cert, &b);
        assert_true(same(&a, &b));
        buf_fini(&a);
        buf_fini(&b);
}

static void contents(void **state)
{
        struct err err = ERR_INIT;
        FILE *f;
        X509 *x;
        char name[128];
        int days, seconds;

        (void)state;
        assert_int_equal(ca_ensure(folder, "w", true, &err), 0);
        f = fopen(cert, "r");
        x = PEM_read_X509(f, NULL, NULL, NULL);
        fclose(f);
        assert_non_null(x);
        X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof(name));
        assert_string_equal(name, "brome workspace w");
        assert_int_equal(X509_check_ca(x), 1);
        assert_int_equal(X509_get_pathlen(x), 0);
        assert_int_equal(X509_get_key_usage(x), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
        assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), NULL), 1);
        assert_true(days == 0 && seconds >= CA_BACKDATE_S && seconds < CA_BACKDATE_S + 600);
        assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(x)), 1);
        assert_in_range(days, CA_YEARS * 365 - 1, CA_YEARS * 365);
        X509_free(x);
}

static void replaced(void **state)
{
        struct err err = ERR_INIT;
        struct buf a, b;

        (void)state;
        assert_int_equal(ca_ensure(folder, "w", true, &err), 0);
        slurp(cert, &a);
        /* A key that is not its own. */
        assert_int_equal(unlink(key), 0);
        assert_int_equal(ca_ensure(folder, "w", true, &err), 0);
        slurp(cert, &b);
        assert_false(same(&a, &b));
        buf_fini(&a);
        buf_fini(&b);
        assert_int_equal(truncate(cert, 20), 0);
        assert_int_equal(ca_ensure(folder, "w", true, &err), 0);
        assert_int_equal(ca_ensure("/nonexistent", "w", true, &err), -1);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(made_and_kept, setup, teardown),
                                            cmocka_unit_test_setup_teardown(contents, setup, teardown),
                                            cmocka_unit_test_setup_teardown(replaced, setup, teardown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
