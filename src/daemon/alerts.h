/* Alerts: every time the tripwire went off, until a person decided and after. Kept in <state>/alerts.json (0600), on disk before anybody is told.
 * An alert is the JSON object of docs/CONTROL.md; texts in it are printable. */
#ifndef BROME_DAEMON_ALERTS_H
#define BROME_DAEMON_ALERTS_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
        ALERTS_KEPT = 256,                   /* decided ones go first, then the oldest */
        ALERTS_FILE_BYTES = 4 * 1024 * 1024, /* sixteen KB each */
        ALERTS_LISTED_BYTES = 56 * 1024,     /* of one answer: a message */
};

struct alerts;
/* path is borrowed for life. A damaged file is put aside and logged. NULL: memory. */
struct alerts *alerts_new(const char *path) __attribute__((warn_unused_result));
void alerts_free(struct alerts *a);
/* Takes alert; gives it `id`, `time_us` and `decision` `open`. Borrowed, kept even when *err says that it is not on disk. */
json_t *alerts_add(struct alerts *a, json_t *alert, struct err *err);
/* The workspace's open ones are decided: `continued`, `stopped`, `wiped`. How many. */
size_t alerts_decide(struct alerts *a, const char *workspace, const char *decision);
/* The newest open one of the workspace; borrowed; NULL: none. */
json_t *alerts_open(const struct alerts *a, const char *workspace);
/* Open ones of all workspaces. */
size_t alerts_count_open(const struct alerts *a);
/* The newest first, as many as fit; of all workspaces when NULL; only open ones unless all. New reference. */
json_t *alerts_list(const struct alerts *a, const char *workspace, bool all);

#endif
