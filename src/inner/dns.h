/* DNS, answered from the policy and the names table alone: no query ever leaves the workspace. */
#ifndef BROME_INNER_DNS_H
#define BROME_INNER_DNS_H

#include "inner/door.h"

/* The answer to one message; its length in out, or 0 when it deserves none. out has room for DNS_MESSAGE_BYTES. */
enum { DNS_MESSAGE_BYTES = 4096 };
size_t dns_reply(struct door *d, struct slice msg, bool over_udp, uint8_t out[DNS_MESSAGE_BYTES]);

struct flow;
/* Serves DNS over TCP on an accepted flow. */
void dns_serve(struct flow *f);

#endif
