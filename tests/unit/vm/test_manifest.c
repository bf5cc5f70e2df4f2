/* manifest.json: round trip, what is refused, every cut, the ID. */
#include "vm/manifest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct manifest sample(void)
{
        struct manifest m = { .suite = "bookworm", .kernel = "6.1.0-40-amd64", .architecture = "amd64", .init = "brome-guest-vm", .all_owners = true, .made_us = 1700000000000000 };

        for (size_t i = 0; i < IMAGE_FILE_COUNT; i++) {
                m.files[i].bytes = 1000 + i;
                memset(m.files[i].sha256, (int)(0xa0 + i), SHA256_BYTES);
        }
        m.packages = json_pack("{s:s, s:s}", "libc6", "2.36-9+deb12u13", "openssh-client", "1:9.2p1-2+deb12u7");
        return m;
}

static const char golden[] = "{\n \"format\": 1,\n \"suite\": \"bookworm\",\n \"kernel\": \"6.1.0-40-amd64\",\n \"architecture\": \"amd64\",\n \"init\": \"brome-guest-vm\",\n"
                             " \"owners\": \"all\",\n \"made_us\": 1700000000000000,\n \"files\": {\n"
                             "  \"vmlinuz\": {\n   \"bytes\": 1000,\n   \"sha256\": \"a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0\"\n  },\n"
                             "  \"initrd\": {\n   \"bytes\": 1001,\n   \"sha256\": \"a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1\"\n  },\n"
                             "  \"base.ext4\": {\n   \"bytes\": 1002,\n   \"sha256_blocks\": \"a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2\"\n  },\n"
                             "  \"home.ext4\": {\n   \"bytes\": 1003,\n   \"sha256_blocks\": \"a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3\"\n  }\n },\n"
                             " \"packages\": {\n  \"libc6\": \"2.36-9+deb12u13\",\n  \"openssh-client\": \"1:9.2p1-2+deb12u7\"\n }\n}\n";

static void round_trip(void **state)
{
        struct manifest m = sample(), again;
        struct err err = ERR_INIT;
        struct buf out, twice;
        char id[IMAGE_ID_CHARS + 1];
        (void)state;

        buf_init(&out, 0);
        buf_init(&twice, 0);
        assert_int_equal(manifest_write(&m, &out), 0);
        assert_true(slice_is(buf_slice(&out), golden));
        assert_int_equal(manifest_read(buf_slice(&out), &again, &err), 0);
        assert_string_equal(again.kernel, m.kernel);
        assert_true(again.all_owners);
        assert_int_equal(again.made_us, m.made_us);
        assert_memory_equal(again.files, m.files, sizeof(m.files));
        assert_int_equal(manifest_write(&again, &twice), 0);
        assert_true(slice_eq(buf_slice(&out), buf_slice(&twice)));
        assert_int_equal(manifest_id(SLICE_LIT("abc"), id), 0);
        assert_string_equal(id, "ba7816bf8f01cfea");
        assert_true(image_id_ok(id));
        assert_false(image_id_ok("BA7816bf8f01cfea") || image_id_ok("..") || image_id_ok("") || image_id_ok("ba7816bf8f01cfea0") || image_id_ok("current"));
        manifest_fini(&m);
        manifest_fini(&again);
        buf_fini(&out);
        buf_fini(&twice);
}

/* The sample's text with `from` replaced. */
static void refuse_with(const char *from, const char *to, const char *why)
{
        const char *at = strstr(golden, from);
        struct manifest m;
        struct err err = ERR_INIT;
        struct buf text;

        assert_non_null(at);
        buf_init(&text, 0);
        assert_int_equal(buf_add(&text, golden, (size_t)(at - golden)), 0);
        assert_int_equal(buf_add_str(&text, to), 0);
        assert_int_equal(buf_add_str(&text, at + strlen(from)), 0);
        assert_int_equal(manifest_read(buf_slice(&text), &m, &err), -1);
        if (!strstr(err.text, why))
                fail_msg("%s: %s", to, err.text);
        buf_fini(&text);
}

static void refused(void **state)
{
        struct manifest m = sample();
        struct buf out;
        (void)state;

        refuse_with("\"format\": 1", "\"format\": 2", "build it again");
        refuse_with("\"format\": 1", "\"form\": 1", "no format number");
        refuse_with("\"suite\": \"bookworm\"", "\"suite\": \"book worm\"", "name");
        refuse_with("\"suite\": \"bookworm\"", "\"suite\": \"\\u001b[31m\"", "name");
        refuse_with("\"suite\": \"bookworm\"", "\"suite\": \"../..\"", "name");
        refuse_with("\"suite\": \"bookworm\"", "\"suite\": \"bookworm\", \"more\": 1", "lacks a member");
        refuse_with("\"suite\": \"bookworm\",", "", "lacks a member");
        refuse_with("\"suite\": \"bookworm\"", "\"suite\": \"bookworm\", \"suite\": \"trixie\"", "no JSON");
        refuse_with("\"owners\": \"all\"", "\"owners\": \"some\"", "owners");
        refuse_with("\"made_us\": 17", "\"made_us\": -17", "time");
        refuse_with("\"bytes\": 1000", "\"bytes\": -1", "files");
        refuse_with("a0a0a0", "A0a0a0", "files");
        refuse_with("a0a0a0", "a0", "files");
        refuse_with("\"sha256_blocks\"", "\"sha256\"", "files");
        refuse_with("\"home.ext4\"", "\"other\"", "files");
        refuse_with("\"2.36-9+deb12u13\"", "7", "packages");
        refuse_with("\"libc6\"", "\"lib c6\"", "packages");
        buf_init(&out, 0);
        m.suite[0] = '/';
        assert_int_equal(manifest_write(&m, &out), -1);
        manifest_fini(&m);
        assert_int_equal(manifest_write(&m, &out), -1);
        buf_fini(&out);
}

static void cuts(void **state)
{
        struct manifest m;
        (void)state;

        for (size_t n = 0; n < sizeof(golden) - 2; n++) { /* without the last newline it is whole */
                char *copy = malloc(n ? n : 1);
                struct err err = ERR_INIT;
                assert_non_null(copy);
                memcpy(copy, golden, n);
                assert_int_equal(manifest_read(slice_of(copy, n), &m, &err), -1);
                assert_true(err.text[0]);
                free(copy);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(round_trip), cmocka_unit_test(refused), cmocka_unit_test(cuts) };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
