/* The table of refusal reasons, one row per enum constant (reasons.tbl). */
#include "wire/reason.h"

#include <stddef.h>

static const struct row {
        const char *key, *sentence;
        uint16_t status;
        uint16_t h2;
} rows[WIRE_REASON_COUNT] = {
        [WIRE_OK] = { "ok", "nothing is wrong", 200, 0 },
#define X(id, key, status, h2, sentence) [WIRE_##id] = { key, sentence, status, h2 },
#include "wire/reasons.tbl"
#undef X
};

static const struct row *row_of(enum wire_reason r)
{
        return &rows[(unsigned)r < WIRE_REASON_COUNT ? r : WIRE_OK];
}

const char *wire_reason_key(enum wire_reason r) { return row_of(r)->key; }
const char *wire_reason_sentence(enum wire_reason r) { return row_of(r)->sentence; }
uint16_t wire_reason_status(enum wire_reason r) { return row_of(r)->status; }
uint32_t wire_reason_h2(enum wire_reason r) { return row_of(r)->h2; }
