/* What do the first bytes of a connection speak? Looks at 24 bytes at most and never guesses: a prefix that could still be two
 * things needs more. What is called HTTP here may still be refused by its reader; what is OTHER is never spliced under a web rule. */
#ifndef BROME_WIRE_CLASSIFY_H
#define BROME_WIRE_CLASSIFY_H

#include "base/slice.h"

enum wire_class {
        CLASS_MORE,  /* not enough bytes yet */
        CLASS_TLS,   /* a handshake record with a ClientHello */
        CLASS_HTTP1, /* a method and the begin of a target, or a well-known method and white space */
        CLASS_H2,    /* the whole HTTP/2 preface (RFC 9113 §3.4) */
        CLASS_OTHER,
        CLASS_COUNT
};
#define CLASSIFY_BYTES_MAX 40 /* never CLASS_MORE from here on */

enum wire_class classify(struct slice in);
const char *wire_class_name(enum wire_class c);

#endif
