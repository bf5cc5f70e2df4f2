/* Packed bytes in what goes up that no Content-Encoding speaks of: an archive that is uploaded. They are looked at decoded as well as they are.
 *
 * The one idea: it is a guess, by the first bytes (gzip, zstd) of a body, of a WebSocket message, or behind an empty line of a multipart body; where it proves wrong, or there is no
 * room, the bytes are what they are, and nobody is refused for it. What was decoded until then was looked at. */
#ifndef BROME_INNER_GUESS_H
#define BROME_INNER_GUESS_H

#include "inner/decode.h"
#include "inner/door.h"

struct guess {
        struct door *door;
        bool parts;     /* also behind each empty line */
        bool over;      /* nothing more is looked for */
        unsigned seen;  /* bytes in which one was looked for, where only the first count */
        unsigned begun; /* decoders so far */
        size_t cost;    /* of the door's room for decoders */
        uint64_t newest; /* the last eight bytes */
        struct decode *decode; /* at work; NULL: none */
};

void guess_begin(struct guess *g, struct door *d, bool parts);
/* The next bytes. look: takes what is clear out of dec->text; -1 stops. 0, or -1: look said so. */
typedef int guess_look(void *ctx, struct decode *dec, bool last);
int guess_feed(struct guess *g, struct slice in, bool last, guess_look *look, void *ctx) __attribute__((warn_unused_result));
/* The newest bytes of the stream that are not decided. */
static inline size_t guess_pending(const struct guess *g)
{
        size_t n = g->decode ? g->decode->pending : 0;

        return n < GUESS_PENDING_BYTES ? n : GUESS_PENDING_BYTES;
}
void guess_stop(struct guess *g); /* it may be at work up the stack: gives its room back */
void guess_end(struct guess *g);

#endif
