/* Datagrams: UDP and ICMP echo. DNS is answered at once; what a rule names goes over the link, a flow for each pair of ends; all else is
 * refused with an ICMP error at once, so that clients fall back and nothing hangs. */
#ifndef BROME_INNER_GRAM_H
#define BROME_INNER_GRAM_H

#include "inner/door.h"

struct gram;
struct gram *gram_open(struct door *d) __attribute__((warn_unused_result)); /* sockets of the door; NULL: no memory */
void gram_close(struct gram *g);
void gram_tick(struct gram *g, int64_t now_ms);

#endif
