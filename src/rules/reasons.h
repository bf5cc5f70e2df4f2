/* Refusal reasons: rows of reasons.tbl. A refusal is always one of these, never a string made where it happens. */
#ifndef BROME_RULES_REASONS_H
#define BROME_RULES_REASONS_H

#include "base/slice.h"

enum reason {
#define REASON(ID, id, status, h2, text) REASON_##ID,
#include "rules/reasons.tbl"
#undef REASON
        REASON_COUNT
};

const char *reason_id(enum reason r);
const char *reason_text(enum reason r);
int reason_http_status(enum reason r);
uint32_t reason_h2_code(enum reason r);
/* By id, for what comes over the link; REASON_COUNT when unknown. */
enum reason reason_by_id(struct slice id);

#endif
