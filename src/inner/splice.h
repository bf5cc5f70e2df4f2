/* Splice: a TCP flow whose bytes are passed unseen, under a `tcp`, `tls` or `any` rule. */
#ifndef BROME_INNER_SPLICE_H
#define BROME_INNER_SPLICE_H

struct flow;
/* kind: "tcp", "tls" or "any", as brome-kind on the link. Bytes the flow kept go first. */
void splice_serve(struct flow *f, const char *kind);

#endif
