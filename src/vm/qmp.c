/* QMP: see qmp.h. Lines end with CR LF; LF alone does too. */
#include "vm/qmp.h"
#include "base/esc.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* `fd:` takes what QMP_TAKE_FD has left under that name. The bandwidth: more than any disk. */
static const char *const commands[QMP_COMMAND_COUNT] = {
        [QMP_CAPABILITIES] = "\"qmp_capabilities\"",
        [QMP_STOP] = "\"stop\"",
        [QMP_CONT] = "\"cont\"",
        [QMP_QUIT] = "\"quit\"",
        [QMP_STATE] = "\"query-status\"",
        [QMP_TAKE_FD] = "\"getfd\",\"arguments\":{\"fdname\":\"memory\"}",
        [QMP_UNTHROTTLED] = "\"migrate-set-parameters\",\"arguments\":{\"max-bandwidth\":1099511627776}",
        [QMP_MIGRATE] = "\"migrate\",\"arguments\":{\"uri\":\"fd:memory\"}",
        [QMP_MIGRATION] = "\"query-migrate\"",
        [QMP_CANCEL] = "\"migrate_cancel\"",
};

int qmp_write(struct buf *out, enum qmp_command command, uint32_t id)
{
        return buf_addf(out, "{\"execute\":%s,\"id\":%u}\r\n", commands[command], id);
}

/* A word that decides something, or nothing: no member, another type, other characters. */
static void take_word(char out[QMP_WORD_BYTES], const json_t *v)
{
        const char *s = json_string_value(v);

        out[0] = 0;
        if (s && strlen(s) < QMP_WORD_BYTES && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == strlen(s))
                snprintf(out, QMP_WORD_BYTES, "%s", s);
}

static void take_text(char out[QMP_TEXT_BYTES], const json_t *v)
{
        const char *s = json_string_value(v);

        out[0] = 0;
        if (s)
                esc_text(out, QMP_TEXT_BYTES, slice_str(s));
}

/* An answer without a number is one to a line that QEMU could not read. */
static int take_id(uint32_t *id, const json_t *v)
{
        if (v && (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > UINT32_MAX))
                return -1;
        *id = v ? (uint32_t)json_integer_value(v) : 0;
        return 0;
}

static int judge(const json_t *o, struct qmp_message *m)
{
        const json_t *answer = json_object_get(o, "return"), *error = json_object_get(o, "error"), *event = json_object_get(o, "event"),
                     *greeting = json_object_get(o, "QMP");

        if (!!answer + !!error + !!event + !!greeting != 1 || take_id(&m->id, json_object_get(o, "id")) < 0)
                return -1;
        if (greeting) {
                m->kind = QMP_GREETING;
                return json_is_object(greeting) && m->id == 0 ? 0 : -1;
        }
        if (event) {
                m->kind = QMP_EVENT;
                take_word(m->word, event);
                return m->word[0] && m->id == 0 ? 0 : -1;
        }
        if (error) {
                m->kind = QMP_ERROR;
                take_text(m->text, json_object_get(error, "desc"));
                return json_is_object(error) ? 0 : -1;
        }
        m->kind = QMP_RETURN;
        take_word(m->word, json_object_get(answer, "status"));
        take_text(m->text, json_object_get(answer, "error-desc"));
        return m->id ? 0 : -1;
}

int qmp_read(struct slice in, struct qmp_message *out, size_t *used)
{
        ptrdiff_t end = slice_find(in, '\n');
        struct qmp_message m = { 0 };
        json_t *o;
        int rc;

        if (end < 0)
                return in.n >= QMP_MESSAGE_BYTES ? -1 : 0;
        if (end >= QMP_MESSAGE_BYTES)
                return -1;
        o = json_loadb((const char *)in.p, (size_t)end, JSON_REJECT_DUPLICATES, NULL);
        rc = json_is_object(o) ? judge(o, &m) : -1;
        json_decref(o);
        if (rc < 0)
                return -1;
        *out = m;
        *used = (size_t)end + 1;
        return 1;
}
