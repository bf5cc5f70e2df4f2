/* One character of a text as a tool may have spelled it: itself, percent-encoded once or twice (the second time all of it or "%" alone), JSON-escaped (behind any number of backslashes, as in
 * JSON in JSON), or a line break that a tool put into a long run (LF, CRLF, JSON's \n, percent-encoded, the soft break of quoted-printable). Pure.
 *
 * What it reads does not change when more bytes follow: when they could change it, it says UNIT_MORE. */
#ifndef BROME_ACCOUNT_UNIT_H
#define BROME_ACCOUNT_UNIT_H

#include "base/slice.h"

enum unit_status {
        UNIT_OK,
        UNIT_MORE, /* the text ends within it, and more may follow */
        UNIT_END,  /* the text ends before it, and nothing follows */
};
enum { SPELT_RAW = 0, SPELT_PERCENT = 1, SPELT_JSON = 2 }; /* bits: both is JSON percent-encoded */
struct unit {
        uint8_t value; /* the character */
        uint8_t spelt;
        bool line_break; /* CR or LF, however spelt, or a soft one */
        bool soft;       /* a soft one: nothing stands there */
        size_t n;        /* bytes of the text */
};
enum { UNIT_BACKSLASHES_MAX = 8 }; /* of one escape: JSON in JSON in JSON needs seven */

/* `last`: nothing follows the text. */
enum unit_status unit_read(struct slice text, size_t at, bool last, struct unit *u);
int unit_hex(uint8_t c); /* 0 to 15, or -1 */

#endif
