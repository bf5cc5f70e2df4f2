/* The set-up message of a machine: round trip, cut at every byte, each entry's refusals. */
#include "vm/setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define PEM "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"
static const uint8_t seed[32] = { 7, 9 };

static struct setup whole(void)
{
        struct setup s = { .hostname = SLICE_LIT("box.one"), .system = SLICE_LIT("system"), .home = SLICE_LIT("home"), .ca = SLICE_LIT(PEM), .ca_hash = SLICE_LIT("0a1b2c3d"),
                .accounts = SLICE_LIT("[]"), .clock_us = 0x0102030405060708, .seed = seed, .has_link = true, .has_v4 = true, .has_v6 = true, .mac = { 2, 1 },
                .gate_mac = { 2, 2 }, .mtu = 65520, .v4 = { 10, 0, 0, 2 }, .gate_v4 = { 10, 0, 0, 1 }, .v6 = { 0xfd, 1 }, .gate_v6 = { 0xfd, 2 }, .share_count = 2 };
        s.shares[0] = (struct setup_share){ .tag = "share0", .path = SLICE_LIT("/home/me/project") };
        s.shares[1] = (struct setup_share){ .tag = "share1", .path = SLICE_LIT("/home/me/project/tools"), .read_only = true, .still = true };
        return s;
}

static void same(const struct setup *a, const struct setup *b)
{
        assert_true(slice_eq(a->hostname, b->hostname) && slice_eq(a->system, b->system) && slice_eq(a->home, b->home));
        assert_true(slice_eq(a->ca, b->ca) && slice_eq(a->ca_hash, b->ca_hash) && slice_eq(a->accounts, b->accounts));
        assert_true(a->clock_us == b->clock_us && a->mtu == b->mtu && a->has_link == b->has_link && a->has_v4 == b->has_v4 && a->has_v6 == b->has_v6);
        assert_memory_equal(a->seed, b->seed, 32);
        assert_memory_equal(a->mac, b->mac, 6);
        assert_memory_equal(a->gate_mac, b->gate_mac, 6);
        assert_memory_equal(a->v4, b->v4, 4);
        assert_memory_equal(a->gate_v4, b->gate_v4, 4);
        assert_memory_equal(a->v6, b->v6, 16);
        assert_memory_equal(a->gate_v6, b->gate_v6, 16);
        assert_int_equal(a->share_count, b->share_count);
        for (size_t i = 0; i < a->share_count; i++) {
                assert_string_equal(a->shares[i].tag, b->shares[i].tag);
                assert_true(slice_eq(a->shares[i].path, b->shares[i].path));
                assert_true(a->shares[i].read_only == b->shares[i].read_only && a->shares[i].still == b->shares[i].still);
        }
}

static void all_of_it_comes_back(void **state)
{
        struct setup s = whole(), got;
        struct buf b;
        const char *why = NULL;
        (void)state;
        buf_init(&b, 0);
        assert_int_equal(setup_write(&b, &s), 0);
        assert_int_equal(setup_read(buf_slice(&b), &got, &why), 0);
        same(&s, &got);
        buf_fini(&b);
        assert_int_equal(setup_read(SLICE_EMPTY, &got, &why), 0); /* nothing to do is a message, too */
        assert_true(got.share_count == 0 && got.hostname.n == 0 && got.seed == NULL && !got.has_link);
}

/* A prefix is refused, or ends between two entries; *out stays untouched when it is refused. */
static void cut_at_every_byte(void **state)
{
        struct setup s = whole(), got;
        struct buf b;
        size_t good = 0;
        (void)state;
        buf_init(&b, 0);
        assert_int_equal(setup_write(&b, &s), 0);
        for (size_t n = 0; n < buf_len(&b); n++) {
                const char *why = NULL;
                uint8_t *exact = malloc(n + 1); /* of just that size, so that a byte too far is seen */
                memcpy(exact, buf_slice(&b).p, n);
                memset(&got, 0x5a, sizeof(got));
                if (setup_read(slice_of(exact, n), &got, &why) == 0) {
                        good++;
                } else {
                        assert_non_null(why);
                        assert_int_equal(got.clock_us, 0x5a5a5a5a5a5a5a5aull);
                }
                free(exact);
        }
        assert_int_equal(good, 13); /* as many entries before the last, and nothing */
        buf_fini(&b);
}

static void refused(const void *bytes, size_t n, const char *word)
{
        struct setup got;
        const char *why = NULL;
        assert_int_equal(setup_read(slice_of(bytes, n), &got, &why), -1);
        if (strstr(why, word) == NULL)
                fail_msg("\"%s\" says nothing of \"%s\"", why, word);
}
#define REFUSED(literal, word) refused(literal, sizeof(literal) - 1, word)

static void entries_are_checked(void **state)
{
        (void)state;
        REFUSED("\0\0\0\0\0", "unknown");
        REFUSED("\x0d\0\0\0\0", "unknown");
        REFUSED("\x01\x01\0\0\0x\x01\x01\0\0\0y", "twice");
        REFUSED("\x01\x02\0\0\0x", "middle");
        REFUSED("\x01\xff\xff\xff\xffx", "middle");
        REFUSED("\x01\0\0\0\0", "length");
        REFUSED("\x01\x03\0\0\0a\0b", "name");
        REFUSED("\x01\x03\0\0\0a b", "name");
        REFUSED("\x01\x03\0\0\0-ab", "name");
        REFUSED("\x07\x03\0\0\0a/b", "name");
        REFUSED("\x07\x15\0\0\0aaaaaaaaaaaaaaaaaaaaa", "length");
        REFUSED("\x02\x04\0\0\0\1\1\1\1", "length");
        REFUSED("\x02\x08\0\0\0\0\0\0\0\0\0\0\0", "time");
        REFUSED("\x02\x08\0\0\0\0\0\0\0\0\0\0\x80", "time");
        REFUSED("\x03\x01\0\0\0x", "length");
        REFUSED("\x04\x10\0\0\0mmmmmmgggggg\xff\x04\0\0", "MTU");
        REFUSED("\x04\x10\0\0\0mmmmmmgggggg\0\0\1\0", "MTU");
        REFUSED("\x04\x0f\0\0\0mmmmmmgggggg\xff\x05\0", "length");
        REFUSED("\x05\x08\0\0\0ownngate", "network card");
        REFUSED("\x05\x07\0\0\0ownngat", "length");
        REFUSED("\x09\x04\0\0\0none", "certificate");
        REFUSED("\x0b\x03\0\0\0[\0]", "NUL");
        REFUSED("\x0c\x08\0\0\0" "0123abcd", "no certificate");
        REFUSED("\x0c\x08\0\0\0" "0123abcX", "name");
        REFUSED("\x0c\x08\0\0\0../../..", "name");
}

static void shares_are_checked(void **state)
{
        (void)state;
        REFUSED("\x0a\x05\0\0\0\x04\1s/a", "flag");
        REFUSED("\x0a\x05\0\0\0\x02\1s/a", "flag"); /* changes by the guest, and cached */
        REFUSED("\x0a\x01\0\0\0\0", "length");
        REFUSED("\x0a\x04\0\0\0\0\x03s/", "length");
        REFUSED("\x0a\x05\0\0\0\0\1,/a", "name");
        REFUSED("\x0a\x04\0\0\0\0\0/a", "name");
        REFUSED("\x0a\x04\0\0\0\0\1s/", "path");
        REFUSED("\x0a\x04\0\0\0\0\1sa", "path");
        REFUSED("\x0a\x06\0\0\0\0\1s/..", "path");
        REFUSED("\x0a\x06\0\0\0\0\1s/a/", "path");
        REFUSED("\x0a\x07\0\0\0\0\1s//aa", "path");
        REFUSED("\x0a\x07\0\0\0\0\1s/./a", "path");
        REFUSED("\x0a\x06\0\0\0\0\1s/a\0", "path");
        REFUSED("\x0a\x05\0\0\0\0\1s/a\x0a\x05\0\0\0\0\1s/b", "same");
        REFUSED("\x0a\x05\0\0\0\0\1s/a\x0a\x05\0\0\0\0\1t/a", "same");
        REFUSED("\x0a\x07\0\0\0\0\1s/a/b\x0a\x05\0\0\0\0\1t/a", "cover");
        struct setup got;
        const char *why;
        static const char beside[] = "\x0a\x06\0\0\0\0\1s/ab\x0a\x05\0\0\0\0\1t/a";
        assert_int_equal(setup_read(slice_of(beside, sizeof(beside) - 1), &got, &why), 0);
}

static void as_many_as_there_may_be(void **state)
{
        struct setup s = { .share_count = SETUP_SHARES };
        static char paths[SETUP_SHARES + 1][16];
        struct buf b;
        (void)state;
        for (size_t i = 0; i < SETUP_SHARES; i++) {
                snprintf(paths[i], sizeof(paths[i]), "/p%zu", i);
                snprintf(s.shares[i].tag, sizeof(s.shares[i].tag), "share%zu", i);
                s.shares[i].path = slice_str(paths[i]);
        }
        buf_init(&b, 0);
        assert_int_equal(setup_write(&b, &s), 0);
        assert_int_equal(buf_add(&b, "\x0a\x07\0\0\0\0\1s/more", 12), 0);
        refused(buf_slice(&b).p, buf_len(&b), "too many");
        buf_clear(&b);
        uint8_t *long_one = calloc(1, SETUP_BYTES + 1);
        refused(long_one, SETUP_BYTES + 1, "too long");
        free(long_one);
        buf_fini(&b);
}

/* What the reader would refuse is not written. */
static void the_writer_asks_the_reader(void **state)
{
        struct setup s = { .hostname = SLICE_LIT("a b") };
        struct buf b;
        (void)state;
        buf_init(&b, 0);
        assert_int_equal(setup_write(&b, &s), -1);
        buf_clear(&b);
        s = (struct setup){ .has_v4 = true };
        assert_int_equal(setup_write(&b, &s), -1);
        buf_clear(&b);
        s = (struct setup){ .share_count = 1, .shares[0] = { .tag = "s", .path = SLICE_LIT("/a/../b") } };
        assert_int_equal(setup_write(&b, &s), -1);
        buf_clear(&b);
        s = (struct setup){ .share_count = SETUP_SHARES + 1 };
        assert_int_equal(setup_write(&b, &s), -1);
        buf_fini(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_of_it_comes_back), cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(entries_are_checked),
                cmocka_unit_test(shares_are_checked), cmocka_unit_test(as_many_as_there_may_be), cmocka_unit_test(the_writer_asks_the_reader),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
