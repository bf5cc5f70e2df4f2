/* End of a turn: see turn.h. An event that is made active goes behind those that are active already, so it runs last. */
#include "outer/turn.h"

#include <stdlib.h>

struct turn {
        struct event *event;
        struct turn_item *head, **tail;
        struct turn_item *running;
};

static void turn_run(evutil_socket_t fd, short what, void *arg)
{
        struct turn *t = arg;

        (void)fd;
        (void)what;
        t->running = t->head;
        t->head = NULL;
        t->tail = &t->head;
        while (t->running) {
                struct turn_item *item = t->running;

                t->running = item->next;
                item->queued = false;
                item->run(item->ctx);
        }
}

struct turn *turn_new(struct event_base *base)
{
        struct turn *t = calloc(1, sizeof(*t));

        if (!t)
                return NULL;
        t->tail = &t->head;
        t->event = event_new(base, -1, 0, turn_run, t);
        if (!t->event) {
                free(t);
                return NULL;
        }
        return t;
}

void turn_ask(struct turn *t, struct turn_item *item)
{
        if (item->queued)
                return;
        item->queued = true;
        item->next = NULL;
        if (!t->head)
                event_active(t->event, EV_TIMEOUT, 0);
        *t->tail = item;
        t->tail = &item->next;
}

static bool turn_unlink(struct turn_item **at, struct turn_item *item)
{
        for (; *at; at = &(*at)->next)
                if (*at == item) {
                        *at = item->next;
                        return true;
                }
        return false;
}

void turn_forget(struct turn *t, struct turn_item *item)
{
        if (!item->queued)
                return;
        if (!turn_unlink(&t->running, item))
                turn_unlink(&t->head, item);
        t->tail = &t->head;
        while (*t->tail)
                t->tail = &(*t->tail)->next;
        item->queued = false;
}
