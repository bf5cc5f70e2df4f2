/* A coded request body, decoded to be looked at: what goes on is what came. Bounded in memory, and in what a bomb may cost.
 *
 * The one idea: of the coded bytes, those behind `pending` are not decided: they decode, wholly or in part, to text that is kept back or not yet decoded. */
#ifndef BROME_INNER_DECODE_H
#define BROME_INNER_DECODE_H

#include "account/scan.h"
#include "base/buf.h"
#include "wire/coding.h"

struct decode {
        struct codings *codings;
        bool late;         /* a coding that decodes nothing before a whole block is there */
        bool bomb;
        size_t cost;       /* the most memory that its windows take, about */
        struct buf text;   /* kept back by the scan */
        struct scan scan;
        uint64_t coded, decoded; /* bytes so far */
        size_t pending;    /* coded bytes, the newest, that are not decided */
};
enum decode_answer { DECODE_OK, DECODE_STOPPED, DECODE_BAD };

struct decode *decode_new(const enum coding *list, size_t n, const struct token_set *set) __attribute__((warn_unused_result)); /* NULL: memory */
void decode_free(struct decode *dec);                                                                                         /* NULL is fine */
/* The next coded bytes; `text` gets what they decode to and takes what is clear out of dec->text. DECODE_STOPPED: text said -1. */
enum decode_answer decode_feed(struct decode *dec, struct slice in, bool last, int (*text)(void *ctx, struct slice s), void *ctx) __attribute__((warn_unused_result));
const char *decode_problem(const struct decode *dec);

#endif
