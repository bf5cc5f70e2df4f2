/* What a program in a workspace may say to the user's terminal.
 *
 * A terminal is an interpreter: sequences set the clipboard, print, move the window, or make the terminal *type* an answer as if the user had.
 * So nothing passes but what termfilter.tbl lists. Bytes are decoded as UTF-8 first, then parsed as one grammar (ECMA-48), and what passes is
 * written anew in its 7-bit form: C1 controls, be they single bytes or encoded as U+0080–U+009F, are the same as ESC forms here, and no
 * terminal can read the output in another way than the filter did. Bytes that are no UTF-8 become U+FFFD.
 *
 *   passes   text; BEL BS HT LF VT FF CR SO SI; cursor, erase, scroll, colours, tabs, margins; the modes of the table; titles (OSC 0, 1, 2); links
 *            (OSC 8, http, https, mailto); title stack; soft and full reset; character sets 0, A, B
 *   passes and is answered by the terminal with numbers only: device attributes 1 and 2, status and cursor position, DECRQM, kitty keyboard flags
 *   dropped  OSC 52 (clipboard), every other OSC (colours, working folder, notices, files); DCS, APC, PM, SOS whole (DECRQSS, XTGETTCAP, sixel);
 *            title and window reports, resizing; other DSR; XTVERSION, DA3, DECREQTPARM; screen checksums; printing; ENQ; 132 columns;
 *            modes outside the table; switching the coding system
 *
 * Streaming and pure: no I/O, bounded state, the same output wherever the input is cut. */
#ifndef BROME_ATTACH_TERMFILTER_H
#define BROME_ATTACH_TERMFILTER_H

#include "base/buf.h"
#include "base/slice.h"

enum {
        TERMFILTER_CSI_BYTES = 128,         /* the longest known sequences are colour lists of half that */
        TERMFILTER_OSC_BYTES = 4096,        /* a link; longer ones are dropped */
        TERMFILTER_DROP_BYTES = 8 * 1024 * 1024, /* an unfinished string swallows no more than this: an image is smaller */
        TERMFILTER_MODES = 32,
};

enum termfilter_state { TF_GROUND, TF_ESC, TF_ESC_INTER, TF_CSI, TF_CSI_IGNORE, TF_OSC, TF_OSC_ESC, TF_STRING, TF_STRING_ESC, TF_LINUX_PALETTE };

struct termfilter {
        enum termfilter_state state;
        uint8_t utf8[4];
        uint8_t utf8_have, utf8_need;
        uint8_t inter;                     /* TF_ESC_INTER: the intermediate byte */
        uint8_t skip;                      /* TF_LINUX_PALETTE: characters to go */
        bool osc_over;                     /* too long */
        size_t n;                          /* bytes of text */
        size_t dropped;                    /* characters of the string being dropped */
        char text[TERMFILTER_OSC_BYTES];
        /* What the guest left switched on, for termfilter_reset. */
        uint32_t modes_changed;            /* bit per row of the mode table */
        bool keypad, charset, kitty, other_keys, cursor_style, margins, attributes;
        char kitty_flags[16], keys_level[16]; /* the last such sequence, for termfilter_resume; empty: none is in force */
        unsigned long queries;             /* sequences passed that the terminal answers */
};

void termfilter_init(struct termfilter *f);
/* Appends what may pass. 0, or -1 when out is full (the filter is then to be given up). At most 3 bytes for each byte in, plus one sequence held back. */
int termfilter_push(struct termfilter *f, struct slice in, struct buf *out) __attribute__((warn_unused_result));
/* Appends what brings the terminal back to what a shell expects, of what has been changed; and starts afresh. */
int termfilter_reset(struct termfilter *f, struct buf *out) __attribute__((warn_unused_result));
/* Between two pieces of output, for a word of our own: what termfilter_reset appends, and what else would bend our text; then what brings back the modes
 * that the guest had on. Colours, margins and character sets do not come back: a program that is told of a new size draws them again. */
int termfilter_pause(const struct termfilter *f, struct buf *out) __attribute__((warn_unused_result));
int termfilter_resume(const struct termfilter *f, struct buf *out) __attribute__((warn_unused_result));

#endif
