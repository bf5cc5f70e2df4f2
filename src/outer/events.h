/* Records of this door's own refusals, on their way to bromed's journal. Everything else the inner door writes. */
#ifndef BROME_OUTER_EVENTS_H
#define BROME_OUTER_EVENTS_H

#include "outer/exchange.h"

struct events;
/* Takes fd. `broken` is called once when bromed no longer reads (the process is to end). */
struct events *events_new(struct event_base *base, int fd, void (*broken)(void *ctx), void *ctx) __attribute__((warn_unused_result));
/* The refusal that ex->decision holds. */
void events_refusal(struct events *e, const struct exchange *ex, const struct addr *resolved, const char *detail);
/* The account's secret went to a host for the first time. */
void events_used(struct events *e, const struct exchange *ex);
/* False while bromed is behind: nothing new is to be admitted. */
bool events_can_write(const struct events *e);

#endif
