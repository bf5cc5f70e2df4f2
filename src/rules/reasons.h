/* Refusal reasons: rows of reasons.tbl. A refusal is always one of these, never a string made where it happens. */
#ifndef BROME_RULES_REASONS_H
#define BROME_RULES_REASONS_H

#include "base/slice.h"

#include <stdint.h>

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
/* The code of a RST_STREAM between the doors, which carries the reason where no answer can any more: both are of one build. */
uint32_t reason_link_code(enum reason r);
/* REASON_NONE when the code is another. */
enum reason reason_of_link_code(uint32_t code);

#endif
