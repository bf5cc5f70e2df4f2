/* The question on the terminal: see question.h. */
#include "attach/question.h"
#include "base/esc.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { CTRL_C = 3, CTRL_D = 4, BACKSPACE = 8, CTRL_U = 21, DELETE = 0x7f, CODE_FIRST = 10, CODES = 90, TITLE_NAME_BYTES = 256 };

static const struct {
        const char *term, *choice, *word;
} answers[] = {
        [QUESTION_ONCE] = { "once", "once: what is shown here", "allowed once" },
        [QUESTION_5M] = { "5m", "for 5 minutes", "allowed for 5 minutes" },
        [QUESTION_1H] = { "1h", "for 1 hour", "allowed for 1 hour" },
        [QUESTION_SESSION] = { "session", "for this session", "allowed for this session" },
        [QUESTION_DENY] = { "deny", NULL, "denied" },
        [QUESTION_LATER] = { NULL, NULL, "not answered" },
        [QUESTION_NO_ANSWER] = { NULL, NULL, "" },
};

long long question_id(const json_t *approval) { return json_integer_value(json_object_get(approval, "id")); }

void question_init(struct question *q) { *q = (struct question){ 0 }; }

void question_fini(struct question *q)
{
        while (q->count)
                question_drop(q, false);
}

static void drop_at(struct question *q, size_t i)
{
        json_decref(q->queue[i]);
        memmove(&q->queue[i], &q->queue[i + 1], (q->count - i - 1) * sizeof(q->queue[0]));
        q->count--;
        if (i == 0)
                q->shown = false;
}

void question_drop(struct question *q, bool aside)
{
        if (!q->count)
                return;
        if (aside)
                q->aside[q->aside_at++ % QUESTION_QUEUE] = question_id(q->queue[0]);
        drop_at(q, 0);
}

static bool is_aside(const struct question *q, long long id)
{
        for (size_t i = 0; i < QUESTION_QUEUE; i++)
                if (q->aside[i] == id)
                        return true;
        return false;
}

const json_t *question_first(const struct question *q) { return q->count ? q->queue[0] : NULL; }
const char *question_word(enum question_answer a) { return answers[a].word; }

static size_t find(const struct question *q, long long id)
{
        size_t i = 0;

        while (i < q->count && question_id(q->queue[i]) != id)
                i++;
        return i;
}

static const char *text_of(const json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

/* How it ended elsewhere. */
static const char *end_word(const char *answer)
{
        for (size_t i = 0; i <= QUESTION_DENY; i++)
                if (strcmp(answers[i].term, answer) == 0)
                        return answers[i].word;
        return strcmp(answer, "expired") == 0 ? "expired" : "over";
}

const char *question_notice(struct question *q, json_t *notice)
{
        const char *kind = text_of(notice, "kind");
        json_t *approval = json_object_get(notice, "approval");
        size_t at;

        if (strcmp(kind, "approval-end") == 0) {
                bool was_shown = q->shown;
                at = find(q, json_integer_value(approval));
                if (at == q->count)
                        return NULL;
                drop_at(q, at);
                return at == 0 && was_shown ? end_word(text_of(notice, "answer")) : NULL;
        }
        if (strcmp(kind, "approval") != 0 || !json_is_object(approval) || question_id(approval) <= 0 || is_aside(q, question_id(approval)))
                return NULL;
        at = find(q, question_id(approval));
        /* A question that stands stays as it is: an answer is for what was shown. */
        if (at == 0 && q->shown)
                return NULL;
        if (at < q->count) {
                json_decref(q->queue[at]);
                q->queue[at] = json_incref(approval);
        } else if (q->count < QUESTION_QUEUE) {
                q->queue[q->count++] = json_incref(approval);
        }
        return NULL;
}

void question_title(const json_t *a, char *out, size_t size)
{
        char name[TITLE_NAME_BYTES], host[TITLE_NAME_BYTES];
        bool rule = strcmp(text_of(a, "what"), "rule") == 0;

        esc_text(name, sizeof(name), slice_str(text_of(a, "name")));
        esc_text(host, sizeof(host), slice_str(text_of(a, "host")));
        snprintf(out, size, rule ? "%s asks for %s:%lld (rule: %s)" : "%s asks for %s:%lld with the credential %s", esc_str(text_of(a, "workspace")), host,
                 (long long)json_integer_value(json_object_get(a, "port")), name);
}

/* ---- showing ---- */

static int draw_codes(struct question *q)
{
        for (int i = 0; i < QUESTION_DENY; i++) {
                bool again = true;

                while (again) {
                        uint8_t byte;
                        if (getrandom(&byte, 1, 0) != 1)
                                return -1;
                        again = byte >= CODES * (256 / CODES); /* no code likelier than another */
                        q->code[i] = CODE_FIRST + byte % CODES;
                        for (int k = 0; k < i; k++)
                                again = again || q->code[k] == q->code[i];
                }
        }
        return 0;
}

/* Did esc_text cut it? An ellipsis of the path's own ends one that is shorter. */
static bool is_cut(const char *path) { return strlen(path) >= QUESTION_PATH_BYTES - 16; }

/* `more`: those that bromed did not even tell. */
static void add_requests(struct question *q, const json_t *requests, json_int_t more, struct buf *out)
{
        size_t begin = buf_len(out), total = json_array_size(requests);

        for (q->seen = 0; q->seen < total && q->seen < QUESTION_REQUESTS; q->seen++) {
                const json_t *r = json_array_get(requests, q->seen);
                long long count = json_integer_value(json_object_get(r, "count"));
                char path[QUESTION_PATH_BYTES];

                esc_text(path, sizeof(path), slice_str(text_of(r, "path")));
                if (q->seen && (buf_len(out) - begin + strlen(path) > QUESTION_LIST_BYTES || is_cut(path)))
                        break;
                buf_addf(out, "    %-6s %s", esc(slice_first(slice_str(text_of(r, "method")), 32)), path);
                buf_add_str(out, is_cut(path) ? "  (and more, which does not fit here)" : "");
                buf_add_str(out, json_is_true(json_object_get(r, "body")) ? "  (with a body)" : "");
                buf_add_str(out, json_is_true(json_object_get(r, "gone")) ? "  (gave up)" : "");
                buf_addf(out, count > 1 ? "  (%lld times)\r\n" : "\r\n", count);
        }
        more = (more > 0 ? more : 0) + (json_int_t)(total - q->seen);
        if (more > 0)
                buf_addf(out, "    and %lld more, which \"once\" does not allow\r\n", (long long)more);
}

int question_show(struct question *q, struct buf *out)
{
        const json_t *a = question_first(q);
        char title[1024];

        if (!a || draw_codes(q) < 0)
                return -1;
        question_title(a, title, sizeof(title));
        buf_addf(out, "--- brome ---\r\n%s\r\n", title);
        add_requests(q, json_object_get(a, "requests"), json_integer_value(json_object_get(a, "more")), out);
        buf_add_str(out, "The workspace's output is held. To allow it, type the number:\r\n");
        for (int i = 0; i < QUESTION_DENY; i++)
                buf_addf(out, "   %2u  %s\r\n", q->code[i], answers[i].choice);
        buf_add_str(out, "    N  no          L  later: it goes on waiting\r\n> ");
        if (out->failed)
                return -1;
        q->n = 0;
        q->spoilt = false;
        q->wrong = 0;
        q->shown = true;
        return 0;
}

/* ---- answering ---- */

static enum question_answer line_means(const struct question *q)
{
        const char *s = q->line;

        if (q->spoilt || q->n == 0 || q->n > 2)
                return QUESTION_NO_ANSWER;
        if (q->n == 1)
                return s[0] == 'n' || s[0] == 'N' ? QUESTION_DENY : s[0] == 'l' || s[0] == 'L' ? QUESTION_LATER : QUESTION_NO_ANSWER;
        for (int i = 0; i < QUESTION_DENY; i++)
                if (s[0] == (char)('0' + q->code[i] / 10) && s[1] == (char)('0' + q->code[i] % 10))
                        return (enum question_answer)i;
        return QUESTION_NO_ANSWER;
}

static enum question_answer line_end(struct question *q, struct buf *echo)
{
        enum question_answer a = line_means(q);
        bool empty = q->n == 0 && !q->spoilt;

        buf_add_str(echo, "\r\n");
        q->n = 0;
        q->spoilt = false;
        if (a != QUESTION_NO_ANSWER)
                return a;
        if (!empty && ++q->wrong >= QUESTION_WRONG)
                return QUESTION_LATER;
        buf_add_str(echo, empty ? "> " : "that is none of the answers\r\n> ");
        return QUESTION_NO_ANSWER;
}

enum question_answer question_key(struct question *q, uint8_t byte, struct buf *echo)
{
        if (byte == '\r' || byte == '\n')
                return line_end(q, echo);
        if (byte == CTRL_C || byte == CTRL_D) {
                buf_add_str(echo, "\r\n");
                return QUESTION_LATER;
        }
        if (byte == CTRL_U || ((byte == BACKSPACE || byte == DELETE) && q->n)) {
                size_t drop = byte == CTRL_U ? q->n : 1;
                for (size_t i = 0; i < drop; i++)
                        buf_add_str(echo, "\b \b");
                q->n -= drop;
                q->spoilt = q->spoilt && byte != CTRL_U;
        } else if (byte > ' ' && byte < DELETE && q->n < sizeof(q->line)) {
                q->line[q->n++] = (char)byte;
                buf_add(echo, &byte, 1);
        } else if (byte != BACKSPACE && byte != DELETE) {
                q->spoilt = true;
        }
        return QUESTION_NO_ANSWER;
}

json_t *question_request(const struct question *q, enum question_answer a)
{
        json_int_t id = question_id(question_first(q));

        if (a == QUESTION_DENY)
                return json_pack("{s:s, s:I}", "op", "approvals.deny", "approval", id);
        if (a > QUESTION_DENY)
                return NULL;
        return json_pack("{s:s, s:I, s:s, s:I}", "op", "approvals.allow", "approval", id, "for", answers[a].term, "seen", (json_int_t)q->seen);
}
