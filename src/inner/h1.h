/* HTTP/1.x server towards the guest. */
#ifndef BROME_INNER_H1_H
#define BROME_INNER_H1_H
struct flow;
void h1_serve(struct flow *f);
#endif
