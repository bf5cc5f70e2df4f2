/* Texts of a system disk with a part of ours: put in once, taken out again, the rest byte for byte. */
#include "guest/vm_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define HOSTS(name) "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 " name "\n"
#define ONE "-----BEGIN CERTIFICATE-----\nONE=\n-----END CERTIFICATE-----\n"
#define TWO "-----BEGIN CERTIFICATE-----\nTWO=\n-----END CERTIFICATE-----\n"
#define OWN "-----BEGIN CERTIFICATE-----\nOWN=\n-----END CERTIFICATE-----\n"

/* Gives `want`, and then nothing more to do; NULL: nothing to do at once. */
static void hosts(const char *present, const char *name, const char *want)
{
        struct buf b, again;
        buf_init(&b, 0);
        buf_init(&again, 0);
        assert_int_equal(vm_text_hosts(slice_str(present), slice_str(name), &b), want != NULL);
        if (want != NULL) {
                if (!slice_is(buf_slice(&b), want))
                        fail_msg("%.*s instead of %s", SLICE_FMT(buf_slice(&b)), want);
                assert_int_equal(vm_text_hosts(buf_slice(&b), slice_str(name), &again), 0);
        }
        buf_fini(&b);
        buf_fini(&again);
}

static void hosts_keep_what_the_guest_wrote(void **state)
{
        (void)state;
        hosts("", "box", HOSTS("box"));
        hosts(HOSTS("box"), "box", NULL);
        hosts(HOSTS("box") "10.1.1.1 db\n# mine", "box", NULL);
        hosts(HOSTS("old") "10.1.1.1\tdb # mine", "box", "127.0.1.1 box\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n10.1.1.1\tdb # mine\n");
        hosts("127.0.0.1\tlocalhost\n", "box", "::1 localhost ip6-localhost ip6-loopback\n127.0.1.1 box\n127.0.0.1\tlocalhost\n");
        hosts(HOSTS("box") "127.0.1.1 evil\n", "box", "127.0.1.1 box\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
        hosts(HOSTS("box") "#127.0.1.1 evil\n", "box", NULL);
        hosts(HOSTS("box evil"), "box", "127.0.1.1 box\n127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
}

static void bundle(const char *present, const char *old, const char *fresh, const char *want)
{
        struct buf b, again;
        buf_init(&b, 0);
        buf_init(&again, 0);
        assert_int_equal(vm_text_bundle(slice_str(present), slice_str(old), slice_str(fresh), &b), want != NULL);
        if (want != NULL) {
                assert_true(slice_is(buf_slice(&b), want));
                assert_int_equal(vm_text_bundle(buf_slice(&b), slice_str(fresh), slice_str(fresh), &again), 0);
        }
        buf_fini(&b);
        buf_fini(&again);
}

static void a_bundle_has_our_own_once(void **state)
{
        (void)state;
        bundle("", "", OWN, OWN);
        bundle(ONE, "", OWN, ONE OWN);
        bundle("no newline", "", OWN, "no newline\n" OWN);
        bundle(ONE OWN TWO, OWN, OWN, NULL);
        bundle(ONE OWN TWO, "", OWN, NULL);
        bundle(ONE TWO, OWN, OWN, ONE TWO OWN);         /* update-ca-certificates ran without our source */
        bundle(ONE OWN, TWO, OWN, NULL);                /* the old one is gone already */
        bundle(ONE TWO OWN, TWO, OWN, ONE OWN);         /* another CA before: out */
        bundle(TWO ONE, TWO, OWN, ONE OWN);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(hosts_keep_what_the_guest_wrote), cmocka_unit_test(a_bundle_has_our_own_once) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
