/* Outbox: bytes to bromed on the events socket, gathered for EVENTS_DELAY_MS, then one write.
 * When bromed does not drain it the door stops admitting (outbox_stalled); what was admitted before is still recorded. */
#ifndef BROME_INNER_OUTBOX_H
#define BROME_INNER_OUTBOX_H

#include "base/buf.h"
#include "inner/door.h"

struct outbox;
struct outbox *outbox_open(struct door *d, int fd) __attribute__((warn_unused_result)); /* takes fd; NULL: no memory */
/* Writes what it can without waiting, then forgets the rest. */
void outbox_close(struct outbox *o);
/* Writes what it can now: before an answer to bromed, so that records stand before what the answer stands for. */
void outbox_flush(struct outbox *o);
bool outbox_stalled(const struct outbox *o);
/* Append whole records here, then say whether that worked; if not the door ends. */
struct buf *outbox_buf(struct outbox *o);
void outbox_added(struct outbox *o, bool ok);

#endif
