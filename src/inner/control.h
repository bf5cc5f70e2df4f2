/* What bromed tells the inner door and what it answers (docs/CONTROL.md). A message that is out of order or malformed ends the door. */
#ifndef BROME_INNER_CONTROL_H
#define BROME_INNER_CONTROL_H

#include "base/chan.h"
#include "inner/door.h"

#include <jansson.h>

enum inner_fd { INNER_EVENTS, INNER_TCP, INNER_UDP, INNER_RAW4, INNER_RAW6, INNER_ICMP4, INNER_ICMP6, INNER_NAMES, INNER_CA_KEY, INNER_CA_CERT, INNER_LINK, INNER_FD_COUNT };

/* The descriptors of `start` by name, taken out of the message. 0 or -1 with the reason. */
int control_take_fds(struct chan_msg *msg, int fds[INNER_FD_COUNT], struct err *err) __attribute__((warn_unused_result));
/* Tells bromed something by itself. Takes body. */
void control_tell(struct door *d, json_t *body);
/* Cuts what the present policy or state forbids. Returns how many. */
unsigned control_cut(struct door *d, enum reason reason);
/* Watches the channel. 0 or -1. */
int control_open(struct door *d) __attribute__((warn_unused_result));

#endif
