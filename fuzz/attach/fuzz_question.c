/* The question on the terminal: notices of bromed, whose words a guest chose, then key strokes. First line: a notice in JSON; the rest is typed.
 * Properties: what is shown has no control character but line breaks and is bounded; only a code that was shown says yes. */
#include "attach/question.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HOLDS(c) do { if (!(c)) abort(); } while (0)
enum { SHOWN_BYTES_MAX = 8192 };

static void check_text(struct slice s)
{
        HOLDS(s.n < SHOWN_BYTES_MAX);
        for (size_t i = 0; i < s.n; i++)
                HOLDS(s.p[i] >= ' ' || (s.p[i] == '\r' && i + 1 < s.n && s.p[i + 1] == '\n') || (s.p[i] == '\n' && i && s.p[i - 1] == '\r'));
}

static void type(struct question *q, const uint8_t *p, size_t n)
{
        struct buf echo;

        buf_init(&echo, 0);
        for (size_t i = 0; i < n; i++) {
                enum question_answer a = question_key(q, p[i], &echo);

                if (a == QUESTION_NO_ANSWER)
                        continue;
                if (a < QUESTION_DENY) {
                        char code[8];

                        /* Straight before the end of its line, but for what was typed and taken back. */
                        HOLDS(snprintf(code, sizeof(code), "%02u", q->code[a]) == 2 && i >= 2 && (p[i] == '\r' || p[i] == '\n'));
                        HOLDS(memchr(p, code[0], i) && memchr(p, code[1], i));
                }
                json_decref(question_request(q, a));
                break;
        }
        for (size_t i = 0; i < buf_len(&echo); i++)
                HOLDS(buf_slice(&echo).p[i] != 0x1b);
        buf_fini(&echo);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const uint8_t *end = memchr(data, '\n', size);
        size_t n = end ? (size_t)(end - data) : size;
        json_t *notice = json_loadb((const char *)data, n, JSON_REJECT_DUPLICATES, NULL);
        struct question q;
        struct buf text;

        question_init(&q);
        buf_init(&text, 0);
        if (json_is_object(notice)) {
                (void)question_notice(&q, notice);
                if (question_first(&q) && question_show(&q, &text) == 0) {
                        check_text(buf_slice(&text));
                        HOLDS(q.seen <= QUESTION_REQUESTS);
                        type(&q, data + n, size - n);
                        (void)question_notice(&q, notice);
                }
        }
        json_decref(notice);
        question_fini(&q);
        buf_fini(&text);
        return 0;
}
