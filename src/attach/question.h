/* The question on the terminal: may this account be used, may this request go? Decides what is asked next, how it reads, and what a key stroke means.
 *
 * The one idea: a yes is a code of two digits, drawn when the question is shown, another one for each answer. The guest may paint the same picture before: it
 * does not know the codes, and what is typed while a question stands never reaches it. Pure but for the random numbers; nothing here touches a terminal.
 * SECURITY: hosts, methods, paths and names are the guest's words or the configuration's; they are shown escaped and bounded. */
#ifndef BROME_ATTACH_QUESTION_H
#define BROME_ATTACH_QUESTION_H

#include "base/buf.h"
#include <jansson.h>
#include <stdbool.h>

enum {
        QUESTION_QUEUE = 64,         /* as many as wait for a workspace at most */
        QUESTION_REQUESTS = 12,      /* shown of one question: half of a screen */
        QUESTION_PATH_BYTES = 1100,  /* shown of one path: bromed tells 1,024 bytes of it, so only one with much to escape is cut */
        QUESTION_LIST_BYTES = 1600,  /* of all of them; what does not fit is not allowed by "once" */
        QUESTION_LINE_BYTES = 16,    /* typed */
        QUESTION_WRONG = 5,          /* wrong lines before it is put aside: somebody types for another program */
};

enum question_answer { QUESTION_ONCE, QUESTION_5M, QUESTION_1H, QUESTION_SESSION, QUESTION_DENY, QUESTION_LATER, QUESTION_NO_ANSWER };

struct question {
        json_t *queue[QUESTION_QUEUE]; /* approvals, the oldest first; [0] is the one that is asked */
        size_t count;
        long long aside[QUESTION_QUEUE]; /* ids put aside: not asked again when they grow */
        size_t aside_at;
        bool shown;
        unsigned code[QUESTION_DENY]; /* of each allowing answer */
        size_t seen;                  /* of its requests, in the text that is shown */
        char line[QUESTION_LINE_BYTES];
        size_t n;
        bool spoilt; /* the line has something in it that no answer has */
        unsigned wrong;
};

void question_init(struct question *q);
void question_fini(struct question *q);

/* A `notice` (docs/CONTROL.md) of kind approval or approval-end, or another one: nothing happens. `gone`: the shown question was answered elsewhere or ended;
 * then the word for it ("allowed for 5m"), borrowed from the notice or static. Otherwise NULL. */
const char *question_notice(struct question *q, json_t *notice);
/* The approval that is asked, or the first in the queue. NULL: none. */
const json_t *question_first(const struct question *q);
long long question_id(const json_t *approval);
/* "api asks to use the credential forge at api.github.com:443", one line, escaped. */
void question_title(const json_t *approval, char *out, size_t size);

/* Draws codes and appends the text for the first in the queue, from the start of an empty line; lines end with CR LF. 0, or -1 (no random numbers, memory): then nothing must be asked. */
int question_show(struct question *q, struct buf *out) __attribute__((warn_unused_result));
/* One typed byte. Appends the echo. Anything but QUESTION_NO_ANSWER ends the line. */
enum question_answer question_key(struct question *q, uint8_t byte, struct buf *echo);
/* The body of the request that gives the answer to bromed (its id is the caller's to add); NULL for QUESTION_LATER. */
json_t *question_request(const struct question *q, enum question_answer a);
/* "allowed once", … */
const char *question_word(enum question_answer a);
/* The first is off the queue; `aside`: for good, however it grows. */
void question_drop(struct question *q, bool aside);

#endif
