/* sources.list(5) in both formats, and subuid(5). */
#include "vm/sources.h"
#include "vm/subids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct sources s;

static void take(const char *text, bool deb822)
{
        sources_init(&s);
        assert_int_equal(sources_add(&s, slice_str(text), deb822, "bookworm"), 0);
}

static void is(const char *expected)
{
        if (!slice_is(buf_slice(&s.text), expected))
                fail_msg("<%.*s>", SLICE_FMT(buf_slice(&s.text)));
        sources_fini(&s);
}

static void lines(void **state)
{
        (void)state;
        take("deb http://mirror.corp.example/debian bookworm main contrib # ours\ndeb-src http://mirror.corp.example/debian bookworm main\n", false);
        is("Types: deb\nURIs: http://mirror.corp.example/debian\nSuites: bookworm\nComponents: main contrib\n");
        take("deb [arch=amd64 signed-by=/etc/apt/keyrings/a.gpg] https://mirror.corp.example/s bookworm-security main", false);
        assert_int_equal(s.key_count, 1);
        assert_string_equal(s.keys[0], "/etc/apt/keyrings/a.gpg");
        is("Types: deb\nURIs: https://mirror.corp.example/s\nSuites: bookworm-security\nComponents: main\nSigned-By: /etc/apt/keyrings/a.gpg\n");
        /* Nothing is taken of these. */
        take("# deb http://mirror.corp.example/ bookworm main\ndeb cdrom:[Disk]/ bookworm main\ndeb file:/srv/debian bookworm main\ndeb http://mirror.corp.example/ bookworm\n"
             "deb http://mirror.corp.example/ trixie main\ndeb http://mirror.corp.example/ bookwormer main\ndeb http://mirror.corp.example/ bookworm/ main\n"
             "deb http://mirror.corp.example/ bookworm contrib\ndeb [ http://mirror.corp.example/ bookworm main\ndebhttp://x bookworm main\ndeb\n",
             false);
        assert_int_equal(s.count, 0);
        is("");
}

static void stanzas(void **state)
{
        (void)state;
        take("# ours\nTypes: deb deb-src\nURIs: http://mirror.corp.example/debian\nSuites: bookworm bookworm-updates trixie\nComponents: main\nSigned-By: /usr/share/keyrings/a.gpg\n"
             "\nTypes: deb\nURIs: http://mirror.corp.example/off\nSuites: bookworm\nComponents: main\nEnabled: no\n"
             "\n\ntypes: deb\nuris:\n http://mirror.corp.example/two\n https://mirror.corp.example/three\nsuites: bookworm-security\ncomponents: main\nTrusted: yes\n"
             "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n",
             true);
        assert_int_equal(s.count, 2);
        assert_int_equal(s.key_count, 1);
        is("Types: deb\nURIs: http://mirror.corp.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By: /usr/share/keyrings/a.gpg\n"
           "\nTypes: deb\nURIs: http://mirror.corp.example/two https://mirror.corp.example/three\nSuites: bookworm-security\nComponents: main\n"
           "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n AAAA\n");
}

/* A login in an address is for apt on this machine alone. */
static void logins(void **state)
{
        (void)state;
        take("deb https://user:RealPassword@mirror.corp.example/d@bian bookworm main\n", false);
        assert_non_null(memmem(buf_slice(&s.with_logins).p, buf_len(&s.with_logins), "user:RealPassword@mirror", strlen("user:RealPassword@mirror")));
        assert_null(memmem(buf_slice(&s.text).p, buf_len(&s.text), "RealPassword", strlen("RealPassword")));
        is("Types: deb\nURIs: https://mirror.corp.example/d@bian\nSuites: bookworm\nComponents: main\n");
        take("Types: deb\nURIs: http://a@b@mirror.corp.example/ http://user:RealPassword@mirror.corp.example\nSuites: bookworm\nComponents: main\n", true);
        is("Types: deb\nURIs: http://mirror.corp.example/ http://mirror.corp.example\nSuites: bookworm\nComponents: main\n");
}

static void odd(void **state)
{
        (void)state;
        sources_init(&s);
        assert_int_equal(sources_add(&s, slice_of("deb\0x", 5), false, "bookworm"), -1);
        assert_int_equal(sources_add(&s, slice_of("", (size_t)SOURCES_FILE_BYTES + 1), true, "bookworm"), -1);
        assert_int_equal(sources_add(&s, SLICE_EMPTY, true, "bookworm"), 0);
        assert_int_equal(s.count, 0);
        sources_fini(&s);
}

static void cuts(void **state)
{
        static const char *const texts[] = { "deb [signed-by=/k] http://u:p@m.example/ bookworm main", "Types: deb\nURIs:\n http://u:p@m.example/\nSuites: bookworm\nComponents: main\nSigned-By:\n x\n y\n" };
        (void)state;

        for (size_t t = 0; t < 2; t++)
                for (size_t n = 0; n <= strlen(texts[t]); n++) {
                        char *copy = malloc(n ? n : 1);
                        assert_non_null(copy);
                        memcpy(copy, texts[t], n);
                        sources_init(&s);
                        assert_int_equal(sources_add(&s, slice_of(copy, n), t == 1, "bookworm"), 0);
                        assert_null(memmem(buf_slice(&s.text).p ? buf_slice(&s.text).p : (const uint8_t *)"", buf_len(&s.text), "u:p@", 4));
                        sources_fini(&s);
                        free(copy);
                }
}

static void ids(void **state)
{
        static const char text[] = "# ranges\nother:100000:65536\nme:1:65536x\nme:0:65536\nme:5:10\nme:4294967295:65536\n1000:300000:65536\nme:200000:131072\n";
        uint32_t first = 7;
        (void)state;

        assert_true(subids_find(slice_str(text), "me", 1000, &first));
        assert_int_equal(first, 300000);
        assert_true(subids_find(slice_str(text), "me", 7, &first));
        assert_int_equal(first, 200000);
        assert_false(subids_find(slice_str(text), "m", 7, &first));
        assert_false(subids_find(slice_str(text), "", 7, &first));
        for (size_t n = 0; n < sizeof(text); n++)
                if (subids_find(slice_of(text, n), "me", 1000, &first))
                        assert_true(first > 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(lines), cmocka_unit_test(stanzas), cmocka_unit_test(logins),
                                            cmocka_unit_test(odd),   cmocka_unit_test(cuts),    cmocka_unit_test(ids) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
