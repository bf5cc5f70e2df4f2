/* Limits that both ends of the link keep (docs/CONTROL.md). */
#ifndef BROME_LINK_LIMITS_H
#define BROME_LINK_LIMITS_H

enum {
        LINK_STREAMS_MAX = 4096,              /* exchanges of one workspace at a time */
        LINK_STREAM_WINDOW = 1 << 20,         /* what one exchange may hold on its way */
        LINK_WINDOW = 16 << 20,               /* the same, all exchanges */
        LINK_FRAME_BYTES = 128 * 1024,        /* one DATA frame */
        LINK_GATHER_BYTES = 4 * 1024,         /* smaller frames are copied together, so that many leave with one call */
        LINK_HELD_BYTES = 32 << 20,           /* of peers that do not read, before all streams wait */
};

#endif
