/* Refusal reasons: the table of reasons.tbl and its look-ups. */
#include "rules/reasons.h"

#include <assert.h>

struct reason_row {
        const char *id;
        int status;
        uint32_t h2;
        const char *text;
};

static const struct reason_row reasons[REASON_COUNT] = {
#define REASON(ID, id, status, h2, text) [REASON_##ID] = { id, status, h2, text },
#include "rules/reasons.tbl"
#undef REASON
};

static const struct reason_row *reason_row(enum reason r)
{
        assert((unsigned)r < REASON_COUNT);
        return &reasons[r];
}

const char *reason_id(enum reason r) { return reason_row(r)->id; }
const char *reason_text(enum reason r) { return reason_row(r)->text; }
int reason_http_status(enum reason r) { return reason_row(r)->status; }
uint32_t reason_h2_code(enum reason r) { return reason_row(r)->h2; }

enum { LINK_CODE_FIRST = 0x62720000 }; /* "br": far from the codes of RFC 9113 */

uint32_t reason_link_code(enum reason r) { return LINK_CODE_FIRST + (uint32_t)r; }

enum reason reason_of_link_code(uint32_t code)
{
        return code > LINK_CODE_FIRST && code < LINK_CODE_FIRST + REASON_COUNT ? (enum reason)(code - LINK_CODE_FIRST) : REASON_NONE;
}

enum reason reason_by_id(struct slice id)
{
        for (unsigned i = 0; i < REASON_COUNT; i++)
                if (slice_is(id, reasons[i].id))
                        return (enum reason)i;
        return REASON_COUNT;
}
