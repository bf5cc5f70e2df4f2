/* Requests of the control socket: what is taken, what is refused, and that nothing of a message is believed unchecked. */
#include "control/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static int parse(const char *text, size_t fds, struct request *r, struct chan_msg *msg, struct err *err)
{
        *msg = (struct chan_msg){ .body = json_loads(text, JSON_REJECT_DUPLICATES, NULL), .fd_count = fds };
        for (size_t i = 0; i < fds; i++)
                msg->fds[i] = 100 + (int)i;
        assert_non_null(msg->body);
        msg->op = json_string_value(json_object_get(msg->body, "op"));
        assert_non_null(msg->op);
        return request_parse(r, msg, err);
}

static void taken(void **state)
{
        static const struct {
                const char *text;
                size_t fds;
                enum request_op op;
        } rows[] = {
                { "{\"op\":\"status\",\"id\":1}", 0, REQUEST_STATUS },
                { "{\"op\":\"status\",\"id\":1,\"unknown\":[1]}", 3, REQUEST_STATUS },
                { "{\"op\":\"session.open\",\"id\":2,\"workspace\":\"a\",\"keep\":true}", 0, REQUEST_SESSION_OPEN },
                { "{\"op\":\"session.open\",\"id\":2,\"rm\":true,\"fds\":[\"text\"]}", 1, REQUEST_SESSION_OPEN },
                { "{\"op\":\"exec\",\"id\":3,\"workspace\":\"a-1\",\"argv\":[\"ls\",\"\"],\"env\":{\"A\":\"=\"},\"cwd\":\"/\",\"pty\":true,\"rows\":1,\"cols\":65535}", 0,
                  REQUEST_EXEC },
                { "{\"op\":\"rules.set\",\"id\":4,\"workspace\":\"a\",\"base_generation\":0,\"fds\":[\"text\"]}", 1, REQUEST_RULES_SET },
                { "{\"op\":\"stop\"}", 0, REQUEST_STOP },
                { "{\"op\":\"secret.give\",\"credential\":\"forge\",\"fds\":[\"secret\"]}", 1, REQUEST_SECRET_GIVE },
                { "{\"op\":\"vault.create\",\"root\":{},\"fds\":[\"key\"]}", 1, REQUEST_VAULT_CREATE },
                { "{\"op\":\"approvals.allow\",\"approval\":7,\"for\":\"once\",\"seen\":2}", 0, REQUEST_APPROVALS_ALLOW },
                { "{\"op\":\"thaw\",\"workspace\":\"a\",\"continue\":true}", 0, REQUEST_THAW },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct request r;
                struct chan_msg msg;
                struct err err = ERR_INIT;

                if (parse(rows[i].text, rows[i].fds, &r, &msg, &err) < 0)
                        fail_msg("%s: %s", rows[i].text, err.text);
                assert_int_equal(r.op, rows[i].op);
                json_decref(msg.body);
        }
}

static void refused(void **state)
{
        static const struct {
                const char *text;
                size_t fds;
        } rows[] = {
                { "{\"op\":\"nope\",\"id\":1}", 0 },
                { "{\"op\":\"\",\"id\":1}", 0 },
                { "{\"op\":\"status\",\"id\":-1}", 0 },
                { "{\"op\":\"status\",\"id\":\"1\"}", 0 },
                { "{\"op\":\"status\",\"id\":9223372036854775807}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\"}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"argv\":[\"a\"]}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[]}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":\"ls\"}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[1]}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"env\":{\"\":\"x\"}}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"env\":{\"A=B\":\"x\"}}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"env\":{\"A\":1}}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"cwd\":\"x\"}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"rows\":65536}", 0 },
                { "{\"op\":\"exec\",\"id\":1,\"workspace\":\"a\",\"argv\":[\"a\"],\"pty\":1}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":\"..\"}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":\"a/b\"}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":\"\"}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":\"-a\"}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":\"A\"}", 0 },
                { "{\"op\":\"session.close\",\"id\":1,\"workspace\":7}", 0 },
                { "{\"op\":\"rules.set\",\"id\":1,\"workspace\":\"a\"}", 0 },
                { "{\"op\":\"rules.set\",\"id\":1,\"workspace\":\"a\"}", 1 },
                { "{\"op\":\"rules.set\",\"id\":1,\"workspace\":\"a\",\"fds\":[\"text\"]}", 0 },
                { "{\"op\":\"rules.set\",\"id\":1,\"workspace\":\"a\",\"fds\":[\"other\"]}", 1 },
                { "{\"op\":\"workspace.new\",\"id\":1,\"fds\":[\"text\"]}", 1 },
                { "{\"op\":\"secret.give\",\"credential\":\"forge\",\"fds\":[\"text\"]}", 1 },
                { "{\"op\":\"secret.give\",\"credential\":\"../x\",\"fds\":[\"secret\"]}", 1 },
                { "{\"op\":\"vault.create\",\"fds\":[\"key\"]}", 1 },
                { "{\"op\":\"vault.create\",\"root\":[],\"fds\":[\"key\"]}", 1 },
                { "{\"op\":\"vault.unlock\"}", 0 },
                { "{\"op\":\"approvals.allow\",\"for\":\"once\"}", 0 },
                { "{\"op\":\"approvals.allow\",\"approval\":-1,\"for\":\"once\"}", 0 },
                { "{\"op\":\"approvals.allow\",\"approval\":1}", 0 },
                { "{\"op\":\"approvals.deny\",\"approval\":\"1\"}", 0 },
                { "{\"op\":\"thaw\",\"workspace\":\"a\",\"continue\":1}", 0 },
        };

        (void)state;
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct request r;
                struct chan_msg msg;
                struct err err = ERR_INIT;

                if (parse(rows[i].text, rows[i].fds, &r, &msg, &err) == 0)
                        fail_msg("taken: %s", rows[i].text);
                assert_true(err.text[0]);
                assert_int_equal(r.fd, -1);
                json_decref(msg.body);
        }
}

static void names(void **state)
{
        char longest[80];

        (void)state;
        memset(longest, 'a', sizeof(longest));
        longest[63] = 0;
        assert_true(request_name_ok(longest));
        longest[63] = 'a';
        longest[64] = 0;
        assert_false(request_name_ok(longest));
        assert_false(request_name_ok(NULL));
        assert_true(request_name_ok("0-9"));
}

static void errors(void **state)
{
        json_t *e = request_error(3, REQUEST_E_NO_WORKSPACE, "a \xff text");

        (void)state;
        assert_non_null(e);
        assert_string_equal(json_string_value(json_object_get(e, "code")), "no-such-workspace");
        json_decref(e);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(taken), cmocka_unit_test(refused), cmocka_unit_test(names), cmocka_unit_test(errors) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
