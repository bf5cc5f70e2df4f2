/* Plans: what a taken-over bromed must not get past the launcher, and the environment that an exec gets. */
#include "launch/execenv.h"
#include "launch/javastore.h"
#include "launch/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char good[] = "{'op':'plan','workspace':'api','hostname':'api','session':3,'state':'/s/api','home':'/s/api/home','nested':false,'memory_bytes':0,"
                           "'processes':0,'cpu_percent':0,'shares':[{'path':'/src','mode':'rw','sockets':false}],'protect':['/etc/x'],'env':{'A':'b'},"
                           "'tools':['/opt/node'],'accounts':[{'name':'forge','kind':'github','hosts':[{'name':'forge.example','port':443}],"
                           "'placeholder':'glpat-brm-aaaaaaaaaaaaaaaaaaaaaaaaaa','user':'me','env':'CI_TOKEN'}]}";

/* The good plan with one thing replaced. */
static int parse(const char *from, const char *to)
{
        char text[4096];
        const char *at = strstr(good, from);
        struct chan_msg msg = { 0 };
        struct plan plan;
        struct err err;
        int rc;

        assert_non_null(at);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
        for (char *p = text; *p; p++)
                if (*p == '\'')
                        *p = '"';
        msg.body = json_loads(text, 0, NULL);
        assert_non_null(msg.body);
        rc = plan_parse(&plan, &msg, &err);
        plan_fini(&plan);
        chan_msg_fini(&msg);
        return rc;
}

static void test_plan(void **state)
{
        static const char *const bad[][2] = {
                { "'/s/api'", "'s/api'" }, { "'/s/api'", "'/s/../etc'" }, { "'/s/api'", "'/s/.." "'" }, { "'/s/api'", "7" }, { "'workspace':'api'", "'workspace':'a/b'" },
                { "'workspace':'api'", "'workspace':''" }, { "'workspace':'api'", "'workspace':'..'" }, { "'hostname':'api'", "'hostname':'-x'" },
                { "'hostname':'api'", "'hostname':'a b'" }, { "'memory_bytes':0", "'memory_bytes':-1" }, { "'processes':0", "'processes':99999999999" },
                { "'mode':'rw'", "'mode':'rwx'" }, { "'path':'/src'", "'path':'src'" }, { "'path':'/src'", "'path':'/a/../b'" }, { "['/etc/x']", "['x']" },
                { "['/etc/x']", "[1]" }, { "{'A':'b'}", "{'A=':'b'}" }, { "{'A':'b'}", "{'1':'b'}" }, { "{'A':'b'}", "{'A':1}" }, { "{'A':'b'}", "[]" }, { "{'A':'b'}", "{'':'b'}" },
                { "'/opt/node'", "'opt'" }, { "'/opt/node'", "'/opt/../etc'" }, { "'/opt/node'", "3" }, { "'forge','kind'", "'for/ge','kind'" }, { "'forge','kind'", "'','kind'" },
                { "'github'", "'githob'" }, { "'forge.example'", "'forge example'" }, { "'forge.example'", "''" }, { "'forge.example'", "'*.example'" }, { "'port':443", "'port':0" },
                { "'port':443", "'port':'443'" }, { "[{'name':'forge.example','port':443}]", "[]" }, { "'glpat-brm-aa", "'glpat-aaaaaa" }, { "'glpat-brm-aa", "'" },
                { "'user':'me'", "'user':'me\\nhelper = x'" }, { "'user':'me'", "'user':'a\\\"b'" }, { "'CI_TOKEN'", "'CI TOKEN'" }, { "'CI_TOKEN'", "'=X'" },
        };

        (void)state;
        assert_int_equal(parse("'api'", "'api'"), 0);
        assert_int_equal(parse("'/s/api'", "'/s/..api'"), 0);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (parse(bad[i][0], bad[i][1]) != -1)
                        fail_msg("accepted: %s", bad[i][1]);
}

/* The kind decides what holds the guest: a word that is none is no namespace. */
static void test_kind(void **state)
{
        static const char *const bad[] = {
                "'isolation':'vmx',", "'isolation':'',", "'isolation':7,", "'isolation':null,", "'isolation':'vm',", "'isolation':'vm','image':'images/x',",
                "'isolation':'vm','image':'/images/../x',", "'isolation':'vm','image':'/images/x','cpus':-1,", "'isolation':'vm','image':'/images/x','cpus':65,",
                "'isolation':'vm','image':7,",
        };
        static const char *const fine[] = { "'isolation':'namespace',", "'isolation':'vm','image':'/images/x',", "'isolation':'vm','image':'/images/x','cpus':64," };
        char to[256];

        (void)state;
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(to, sizeof(to), "%s'nested':false", bad[i]);
                if (parse("'nested':false", to) != -1)
                        fail_msg("%s passes", bad[i]);
        }
        for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
                snprintf(to, sizeof(to), "%s'nested':false", fine[i]);
                if (parse("'nested':false", to) != 0)
                        fail_msg("%s does not pass", fine[i]);
        }
}

static void test_machine(void **state)
{
        static const char text[] = "{\"op\":\"plan\",\"workspace\":\"a\",\"hostname\":\"a\",\"state\":\"/s\",\"home\":\"/s/h\",\"isolation\":\"vm\","
                                   "\"image\":\"/i/current\",\"processes\":7}";
        struct chan_msg msg = { .body = json_loads(text, 0, NULL) };
        static struct plan plan;
        struct err err;

        (void)state;
        assert_int_equal(plan_parse(&plan, &msg, &err), 0);
        chan_msg_fini(&msg);
        assert_true(plan.machine);
        assert_string_equal(plan.image, "/i/current");
        assert_true(plan.cpus == 1 || plan.cpus == 2);
        assert_int_equal(plan.memory_bytes, 2LL << 30);
        assert_int_equal(plan_group_bytes(&plan), (2LL << 30) + (768LL << 20)); /* QEMU itself needs some */
        assert_int_equal(plan.processes, PLAN_MACHINE_THREADS); /* of QEMU; the guest's are its kernel's to count */
        plan_fini(&plan);
}

static void test_environment(void **state)
{
        struct plan plan = { .ca_cert = 0, .env = json_pack("{s:s,s:s}", "NODE_ENV", "development", "LANG", "de_DE.UTF-8") };
        json_t *wanted = json_pack("{s:s,s:s,s:i}", "TERM", "xterm", "BAD=NAME", "x", "NUMBER", 1), *env = execenv_make(&plan, "/opt/node/bin", wanted);

        (void)state;
        assert_string_equal(json_string_value(json_object_get(env, "HOME")), "/root");
        assert_string_equal(json_string_value(json_object_get(env, "TERM")), "xterm");
        assert_string_equal(json_string_value(json_object_get(env, "LANG")), "de_DE.UTF-8");
        assert_string_equal(json_string_value(json_object_get(env, "NODE_ENV")), "development");
        assert_string_equal(json_string_value(json_object_get(env, "SSL_CERT_FILE")), "/etc/ssl/certs/ca-certificates.crt");
        assert_string_equal(json_string_value(json_object_get(env, "PATH")), "/root/.local/bin:/opt/node/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        assert_null(json_object_get(env, "BAD=NAME"));
        assert_null(json_object_get(env, "NUMBER"));
        assert_null(json_object_get(env, "BROME_STATE"));
        json_decref(env);
        json_decref(wanted);
        json_decref(plan.env);
}

/* Placeholders stand in the variables of their kind and in the one that was asked for; a configured variable wins. */
static void test_placeholders(void **state)
{
        static const char text[] = "{\"op\":\"plan\",\"workspace\":\"a\",\"hostname\":\"a\",\"state\":\"/s\",\"home\":\"/s/h\",\"env\":{\"GH_TOKEN\":\"own\"},\"accounts\":[{\"name\":\"forge\","
                                   "\"kind\":\"github\",\"hosts\":[{\"name\":\"forge.example\",\"port\":443}],\"placeholder\":\"glpat-brm-aaaaaaaaaaaaaaaaaaaaaaaaaa\",\"env\":\"CI_TOKEN\"}]}";
        struct chan_msg msg = { .body = json_loads(text, 0, NULL) };
        static struct plan plan;
        struct err err;
        json_t *env;

        (void)state;
        assert_int_equal(plan_parse(&plan, &msg, &err), 0);
        chan_msg_fini(&msg); /* the plan keeps what it borrows */
        env = execenv_make(&plan, "", NULL);
        assert_string_equal(json_string_value(json_object_get(env, "GITHUB_TOKEN")), "glpat-brm-aaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_string_equal(json_string_value(json_object_get(env, "CI_TOKEN")), "glpat-brm-aaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_string_equal(json_string_value(json_object_get(env, "GH_TOKEN")), "own");
        json_decref(env);
        plan_fini(&plan);
}

static void test_empty_javastore(void **state)
{
        static const uint8_t head[12] = { 0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0 };
        struct buf b;
        struct err err;

        (void)state;
        buf_init(&b, 0);
        assert_int_equal(javastore_make(&b, SLICE_LIT("no certificate here\n"), &err), 0);
        assert_int_equal(buf_len(&b), sizeof(head) + 20);
        assert_memory_equal(buf_slice(&b).p, head, sizeof(head));
        buf_fini(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_plan), cmocka_unit_test(test_kind), cmocka_unit_test(test_machine), cmocka_unit_test(test_environment), cmocka_unit_test(test_placeholders), cmocka_unit_test(test_empty_javastore) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
