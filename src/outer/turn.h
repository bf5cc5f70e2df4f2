/* End of a turn of the event loop: what was queued in it is sent then, once per connection. Also the place where connections that
 * closed themselves in the middle of their own work are freed. */
#ifndef BROME_OUTER_TURN_H
#define BROME_OUTER_TURN_H

#include <event2/event.h>
#include <stdbool.h>

/* Embedded in what wants to be called at the end of the turn. */
struct turn_item {
        void (*run)(void *ctx);
        void *ctx;
        struct turn_item *next;
        bool queued;
};

struct turn;
struct turn *turn_new(struct event_base *base) __attribute__((warn_unused_result));
/* Runs once after the events of this turn; asked again from within run it runs in the next. */
void turn_ask(struct turn *t, struct turn_item *item);
/* Takes back what was asked for: the item is about to be freed. */
void turn_forget(struct turn *t, struct turn_item *item);

#endif
