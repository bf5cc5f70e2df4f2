/* Control messages, server side. First byte: how many descriptors come along; the rest: the message.
 * Property: whatever is taken has its required members, in bounds, and refusing always says why. */
#include "control/request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(c) do { if (!(c)) abort(); } while (0)

static void check(const struct request *r, const struct chan_msg *msg)
{
        HOLDS(r->op > REQUEST_NONE && r->op < REQUEST_OP_COUNT && r->id >= 0);
        HOLDS(!r->workspace || request_name_ok(r->workspace));
        HOLDS(!r->name || request_name_ok(r->name));
        HOLDS(r->fd == -1 || (msg->fd_count && r->fd == msg->fds[0]));
        HOLDS(r->rows >= 0 && r->rows <= 65535 && r->cols >= 0 && r->cols <= 65535 && r->base_generation >= -1);
        if (r->op == REQUEST_EXEC)
                HOLDS(r->workspace && json_array_size(r->argv) > 0 && json_is_string(json_array_get(r->argv, 0)));
        if (r->op == REQUEST_RULES_SET || r->op == REQUEST_WORKSPACE_NEW)
                HOLDS(r->fd >= 0 && (r->workspace || r->name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct chan_msg msg = { 0 };
        struct request r;
        struct err err = ERR_INIT;
        json_t *answer;

        if (size < 2 || size > CHAN_MESSAGE_BYTES)
                return 0;
        msg.fd_count = data[0] % 4;
        for (size_t i = 0; i < msg.fd_count; i++)
                msg.fds[i] = 1000 + (int)i; /* numbers only: the parser must not touch them */
        msg.body = json_loadb((const char *)data + 1, size - 1, JSON_REJECT_DUPLICATES, NULL);
        msg.op = json_string_value(json_object_get(msg.body, "op"));
        if (msg.op) {
                if (request_parse(&r, &msg, &err) == 0)
                        check(&r, &msg);
                else
                        HOLDS(err.text[0] && r.fd == -1);
                answer = request_error(r.id, REQUEST_E_USAGE, err.text);
                HOLDS(answer);
                json_decref(answer);
        }
        json_decref(msg.body);
        return 0;
}
