/* Authorities: canonical spelling, refused spellings, and one story among all claims. */
#include "wire/authority.h"
#include "wire_test.h"

struct row {
        const char *text, *want; /* want: printed as https, NULL when refused */
        enum wire_reason why;
};
static const struct row rows[] = {
        { "example.org", "example.org", 0 },
        { "EXAMPLE.Org.", "example.org", 0 },
        { "example.org:443", "example.org", 0 },
        { "example.org:80", "example.org:80", 0 },
        { "b\xc3\xbc" "cher.example", "xn--bcher-kva.example", 0 },
        { "XN--BCHER-KVA.example:8443", "xn--bcher-kva.example:8443", 0 },
        { "127.0.0.1", "127.0.0.1", 0 },
        { "[::1]:65535", "[::1]:65535", 0 },
        { "[2001:DB8:0::1]", "[2001:db8::1]", 0 },
        { "", NULL, WIRE_HOST_BAD },
        { ":443", NULL, WIRE_HOST_BAD },
        { "user@example.org", NULL, WIRE_HOST_USERINFO },
        { "a@b@c", NULL, WIRE_HOST_USERINFO },
        { "example.org:", NULL, WIRE_HOST_PORT },
        { "example.org:0", NULL, WIRE_HOST_PORT },
        { "example.org:65536", NULL, WIRE_HOST_PORT },
        { "example.org:0443", NULL, WIRE_HOST_PORT },
        { "example.org:+443", NULL, WIRE_HOST_PORT },
        { "example.org:443:443", NULL, WIRE_HOST_PORT },
        { "example.org:99999999999", NULL, WIRE_HOST_PORT },
        { "example..org", NULL, WIRE_HOST_BAD },
        { "example.org..", NULL, WIRE_HOST_BAD },
        { "exa mple.org", NULL, WIRE_HOST_BAD },
        { "example.org/", NULL, WIRE_HOST_BAD },
        { "example.org%2e", NULL, WIRE_HOST_BAD },
        { "a,b", NULL, WIRE_HOST_BAD },
        { "2130706433", NULL, WIRE_HOST_BAD },
        { "0x7f.1", NULL, WIRE_HOST_BAD },
        { "0177.0.0.1", NULL, WIRE_HOST_BAD },
        { "127.1", NULL, WIRE_HOST_BAD },
        { "::1", NULL, WIRE_HOST_BAD },
        { "[::1", NULL, WIRE_HOST_BAD },
        { "[::1]x", NULL, WIRE_HOST_BAD },
        { "[fe80::1%25eth0]", NULL, WIRE_HOST_BAD },
        { "[127.0.0.1]", NULL, WIRE_HOST_BAD },
};

static void authorities_have_one_spelling(void **state)
{
        for (size_t i = 0; i < COUNT(rows); i++) {
                struct authority a = { 0 }, again;
                char text[AUTHORITY_TEXT_BYTES];
                struct slice printed;
                enum wire_reason why = authority_parse(*state, slice_str(rows[i].text), SCHEME_HTTPS, &a);

                if (!rows[i].want) {
                        if (rows[i].why == WIRE_HOST_BAD && why == WIRE_HOST_PORT && strcmp(rows[i].text, "::1") == 0)
                                continue; /* either name is right */
                        assert_reason(why, rows[i].why, rows[i].text);
                        continue;
                }
                assert_reason(why, WIRE_OK, rows[i].text);
                printed = authority_print(text, &a, SCHEME_HTTPS);
                assert_slice(printed, rows[i].want);
                assert_reason(authority_parse(*state, printed, SCHEME_HTTPS, &again), WIRE_OK, "again");
                assert_true(authority_eq(&a, &again));
        }
}

static struct authority parse(struct arena *a, const char *text)
{
        struct authority out;

        assert_reason(authority_parse(a, slice_str(text), SCHEME_HTTPS, &out), WIRE_OK, text);
        return out;
}

struct story {
        const char *flow, *flow2, *sni, *host, *pseudo, *target;
        enum wire_reason why;
};
static const struct story stories[] = {
        { "a.example", NULL, "a.example", "a.example", NULL, NULL, WIRE_OK },
        { "a.example", NULL, NULL, "A.example:443", NULL, NULL, WIRE_OK },
        { "a.example", NULL, "a.example", NULL, "a.example", NULL, WIRE_OK },
        { "a.example", NULL, "a.example", "a.example", NULL, "a.example", WIRE_OK },
        { "a.example", "b.example", "b.example", "b.example", NULL, NULL, WIRE_OK },
        { "192.0.2.1", NULL, NULL, "192.0.2.1", NULL, NULL, WIRE_OK },
        { NULL, NULL, NULL, NULL, "a.example", NULL, WIRE_OK },
        { "a.example", NULL, "a.example", NULL, NULL, NULL, WIRE_HOST_MISSING },
        { "a.example", NULL, "b.example", "a.example", NULL, NULL, WIRE_SNI_DISAGREES },
        { "a.example", NULL, "a.example", "b.example", NULL, NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, "b.example", "b.example", NULL, NULL, WIRE_SNI_DISAGREES },
        { "a.example", NULL, NULL, "b.example", NULL, NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "a.example:444", NULL, NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "a.example", "b.example", NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "b.example", "a.example", NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "a.example", NULL, "b.example", WIRE_TARGET_DISAGREES },
        { "a.example", NULL, NULL, "b.example", NULL, "a.example", WIRE_HOST_DISAGREES },
        { "a.example", "b.example", "a.example", "b.example", NULL, NULL, WIRE_SNI_DISAGREES },
        { "192.0.2.1", NULL, NULL, "a.example", NULL, NULL, WIRE_HOST_DISAGREES },
        { "192.0.2.1", NULL, "a.example", "a.example", NULL, NULL, WIRE_SNI_DISAGREES },
        { "a.example", NULL, NULL, "192.0.2.1", NULL, NULL, WIRE_HOST_DISAGREES },
        { NULL, NULL, NULL, "a.example", NULL, NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "xa.example", NULL, NULL, WIRE_HOST_DISAGREES },
        { "a.example", NULL, NULL, "a.example.evil", NULL, NULL, WIRE_HOST_DISAGREES },
};

enum { ANY_FLOW = 6 };

static void one_story_or_none(void **state)
{
        for (size_t i = 0; i < COUNT(stories); i++) {
                const struct story *s = &stories[i];
                struct authority flow[2], sni, host, pseudo, target, out;
                struct claims c = { .flow = flow, .any_flow = i == ANY_FLOW };
                char what[16];

                if (s->flow)
                        flow[c.flow_n++] = parse(*state, s->flow);
                if (s->flow2)
                        flow[c.flow_n++] = parse(*state, s->flow2);
                if (s->sni)
                        sni = parse(*state, s->sni), c.sni = &sni;
                if (s->host)
                        host = parse(*state, s->host), c.host = &host;
                if (s->pseudo)
                        pseudo = parse(*state, s->pseudo), c.pseudo = &pseudo;
                if (s->target)
                        target = parse(*state, s->target), c.target = &target;
                snprintf(what, sizeof(what), "story %zu", i);
                assert_reason(authority_agree(&c, &out), s->why, what);
        }
}

static void every_reason_has_its_words(void **state)
{
        (void)state;
        for (int r = 0; r < WIRE_REASON_COUNT; r++) {
                const char *key = wire_reason_key((enum wire_reason)r);

                assert_true(strlen(key) > 1 && strlen(wire_reason_sentence((enum wire_reason)r)) > 5);
                assert_true(wire_reason_status((enum wire_reason)r) >= 200 && wire_reason_status((enum wire_reason)r) < 600);
                for (int k = 0; k < r; k++)
                        assert_string_not_equal(key, wire_reason_key((enum wire_reason)k));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                ARENA_TEST(authorities_have_one_spelling), ARENA_TEST(one_story_or_none), ARENA_TEST(every_reason_has_its_words),
        };
        return cmocka_run_group_tests_name("wire/authority", tests, NULL, NULL);
}
