/* HTTP/2 server towards the guest. */
#ifndef BROME_INNER_H2_H
#define BROME_INNER_H2_H
struct flow;
void h2_serve(struct flow *f);
#endif
