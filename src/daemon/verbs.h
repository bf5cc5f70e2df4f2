/* Verbs: which rules of a workspace leave something to be done on a host, and what. For `accounts`: it says what an account can be used for. */
#ifndef BROME_DAEMON_VERBS_H
#define BROME_DAEMON_VERBS_H

#include "rules/config.h"

#include <jansson.h>

/* [{rule, methods [..] (absent: any), path, query, body, ask, profile, via}], the first match first; a rule that another one before it leaves nothing to is
 * not among them. At most `most`; what is left out is told by a last entry {more}. New reference. */
json_t *verbs_of(const struct config_workspace *w, struct slice host, uint16_t port, size_t most);

#endif
