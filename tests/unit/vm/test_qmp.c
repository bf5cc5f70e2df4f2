/* QMP: what QEMU says, cut at every byte, and what it never says; the commands as they go out. */
#include "vm/qmp.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#define GREETING "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 22, \"minor\": 2, \"major\": 7}, \"package\": \"Debian\"}, \"capabilities\": [\"oob\"]}}\r\n"
#define STOPPED "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, \"event\": \"STOP\"}\r\n"

static int take(const char *text, struct qmp_message *m)
{
        size_t used = 0;
        int rc = qmp_read(slice_str(text), m, &used);

        if (rc == 1)
                assert_int_equal(used, strlen(text));
        return rc;
}

static void what_qemu_says(void **state)
{
        static const struct {
                const char *line;
                enum qmp_kind kind;
                uint32_t id;
                const char *word, *text;
        } rows[] = {
                { GREETING, QMP_GREETING, 0, "", "" },
                { STOPPED, QMP_EVENT, 0, "STOP", "" },
                { "{\"event\":\"SHUTDOWN\",\"data\":{\"guest\":true,\"reason\":\"guest-panic\"}}\n", QMP_EVENT, 0, "SHUTDOWN", "" },
                { "{\"return\": {}, \"id\": 1}\r\n", QMP_RETURN, 1, "", "" },
                { "{\"return\": [], \"id\": 4294967295}\r\n", QMP_RETURN, UINT32_MAX, "", "" },
                { "{\"return\": {\"status\": \"inmigrate\", \"running\": false}, \"id\": 7}\r\n", QMP_RETURN, 7, "inmigrate", "" },
                { "{\"return\": {\"status\": \"failed\", \"error-desc\": \"no\\u001b[31m room\"}, \"id\": 7}\r\n", QMP_RETURN, 7, "failed", "no\\x1b[31m room" },
                { "{\"return\": {\"status\": \"two words\"}, \"id\": 7}\r\n", QMP_RETURN, 7, "", "" },
                { "{\"return\": {\"status\": 5}, \"id\": 7}\r\n", QMP_RETURN, 7, "", "" },
                { "{\"id\": 3, \"error\": {\"class\": \"GenericError\", \"desc\": \"Migration is disabled\"}}\r\n", QMP_ERROR, 3, "", "Migration is disabled" },
                { "{\"error\": {\"class\": \"GenericError\", \"desc\": \"JSON parse error\"}}\r\n", QMP_ERROR, 0, "", "JSON parse error" },
                { "{\"error\": {\"desc\": 5}, \"id\": 2}\r\n", QMP_ERROR, 2, "", "" },
        };
        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct qmp_message m;
                char *line = strdup(rows[i].line);
                size_t n = strlen(line), used = 99;

                assert_int_equal(take(line, &m), 1);
                assert_int_equal(m.kind, rows[i].kind);
                assert_int_equal(m.id, rows[i].id);
                assert_string_equal(m.word, rows[i].word);
                if (i != 6)
                        assert_string_equal(m.text, rows[i].text);
                for (const char *c = m.text; *c; c++)
                        assert_true(*c >= ' ' && *c < 127);
                for (size_t cut = 0; cut < n; cut++) {
                        assert_int_equal(qmp_read(slice_of(line, cut), &m, &used), 0);
                        assert_int_equal(used, 99);
                }
                free(line);
        }
}

static void what_it_never_says(void **state)
{
        static const char *const lines[] = {
                "\n", "\r\n", "x\n", "[]\n", "{}\n", "null\n", "{\"return\": {}}\n", "{\"return\": {}, \"id\": 0}\n", "{\"return\": {}, \"id\": -1}\n",
                "{\"return\": {}, \"id\": 4294967296}\n", "{\"return\": {}, \"id\": \"1\"}\n", "{\"return\": {}, \"id\": 1, \"id\": 1}\n",
                "{\"return\": {}, \"error\": {}, \"id\": 1}\n", "{\"return\": {}, \"id\": 1} {}\n", "{\"error\": \"no\", \"id\": 1}\n", "{\"event\": 5}\n",
                "{\"event\": \"A B\"}\n", "{\"event\": \"STOP\", \"id\": 1}\n", "{\"event\": \"\"}\n", "{\"QMP\": 1}\n", "{\"QMP\": {}, \"id\": 1}\n",
                "{\"QMP\": {}, \"event\": \"STOP\"}\n", "{\"event\": \"ST\\u0000OP\"}\n", "{\"return\": {}, \"id\": 1}\xff\n",
        };
        (void)state;
        for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
                struct qmp_message m = { .id = 77 };
                assert_int_equal(take(lines[i], &m), -1);
                assert_int_equal(m.id, 77);
        }
}

static void bounded(void **state)
{
        static char line[QMP_MESSAGE_BYTES + 8];
        struct qmp_message m;
        size_t used;
        int head = snprintf(line, sizeof(line), "{\"event\":\"STOP\",\"data\":\"");

        (void)state;
        memset(line + head, 'x', sizeof(line) - (size_t)head);
        assert_int_equal(qmp_read(slice_of(line, QMP_MESSAGE_BYTES - 1), &m, &used), 0);
        assert_int_equal(qmp_read(slice_of(line, QMP_MESSAGE_BYTES), &m, &used), -1);
        memcpy(line + QMP_MESSAGE_BYTES - 3, "\"}\n", 3); /* the longest line */
        assert_int_equal(qmp_read(slice_of(line, sizeof(line)), &m, &used), 1);
        assert_int_equal(used, QMP_MESSAGE_BYTES);
        memcpy(line + QMP_MESSAGE_BYTES - 3, "xx\"}\n", 5);
        assert_int_equal(qmp_read(slice_of(line, sizeof(line)), &m, &used), -1);
        memset(line, '[', sizeof(line)); /* deep */
        line[QMP_MESSAGE_BYTES - 1] = '\n';
        assert_int_equal(qmp_read(slice_of(line, sizeof(line)), &m, &used), -1);
}

static void two_at_once(void **state)
{
        struct slice in = SLICE_LIT(GREETING STOPPED);
        struct qmp_message m;
        size_t used;

        (void)state;
        assert_int_equal(qmp_read(in, &m, &used), 1);
        assert_true(m.kind == QMP_GREETING && used == strlen(GREETING));
        in = slice_skip(in, used);
        assert_int_equal(qmp_read(in, &m, &used), 1);
        assert_true(m.kind == QMP_EVENT && used == in.n);
}

static void commands(void **state)
{
        (void)state;
        for (int c = 0; c < QMP_COMMAND_COUNT; c++) {
                struct buf b;
                json_t *o;

                buf_init(&b, 0);
                assert_int_equal(qmp_write(&b, (enum qmp_command)c, UINT32_MAX), 0);
                assert_true(buf_len(&b) < QMP_COMMAND_BYTES && slice_ends(buf_slice(&b), SLICE_LIT("}\r\n")));
                o = json_loadb((const char *)buf_slice(&b).p, buf_len(&b), JSON_REJECT_DUPLICATES, NULL);
                assert_true(json_is_string(json_object_get(o, "execute")) && json_integer_value(json_object_get(o, "id")) == UINT32_MAX);
                json_decref(o);
                buf_fini(&b);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_qemu_says), cmocka_unit_test(what_it_never_says), cmocka_unit_test(bounded), cmocka_unit_test(two_at_once), cmocka_unit_test(commands),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
