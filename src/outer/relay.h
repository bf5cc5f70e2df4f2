/* Flows that are not HTTP: TCP spliced byte for byte, UDP and ICMP echo in capsules. */
#ifndef BROME_OUTER_RELAY_H
#define BROME_OUTER_RELAY_H

#include "outer/exchange.h"

/* TCP: kinds tcp, tls, any. Answers 200 when connected; half closes pass in both directions. */
void relay_open(struct outer *o, struct exchange *ex);
/* UDP and ICMP echo: DATAGRAM capsules (docs/CONTROL.md). */
void datagram_open(struct outer *o, struct exchange *ex);

#endif
