/* Records on their way from a door to bromed's journal: a compact tag-length-value form, written by inner and outer doors on their
 * event socket (SOCK_STREAM), read by bromed as hostile input. Pure: no I/O.
 *
 *   record = u32 length of what follows | u8 version (1) | u8 type | u8 reserved (0) | u8 field count | fields
 *   field  = u8 tag | u32 length | bytes          NUM fields are 8 bytes; everything little-endian
 *
 * A reader refuses an unknown version, type or tag, a tag twice, a NUM of another length, a TEXT that is empty or over EVENT_TEXT_BYTES,
 * and bytes left over. */
#ifndef BROME_JOURNAL_EVENT_H
#define BROME_JOURNAL_EVENT_H

#include "base/buf.h"
#include "base/slice.h"

enum { EVENT_FLAG_LOG = 1 /* FLAGS bit 0: the rule says log: keeps longer */ };

enum event_type {
        EVENT_VERDICT = 1, /* a decision on a flow, a name, a request: EVENT_DECISION says which */
        EVENT_END = 2,     /* what came of an allowed one: status, bytes, times */
        EVENT_NOTE = 3,    /* a timeline line that is no flow: workspace state, policy change, alert */
        EVENT_TYPE_COUNT
};

enum event_field {
        EVENT_NONE = 0,
#define FIELD(NAME, tag, KIND, json, help) EVENT_##NAME = tag,
#include "journal/events.tbl"
#undef FIELD
        EVENT_FIELD_COUNT
};

enum {
        EVENT_TEXT_BYTES = 2048,   /* one TEXT field; writers cut longer ones */
        EVENT_RECORD_BYTES = 8192, /* one record */
};

struct event_record {
        enum event_type type;
        uint32_t present;                     /* bit n: field with tag n is set */
        uint64_t num[EVENT_FIELD_COUNT];      /* by tag */
        struct slice text[EVENT_FIELD_COUNT]; /* by tag; borrowed */
};

void event_init(struct event_record *e, enum event_type type);
void event_num(struct event_record *e, enum event_field field, uint64_t value);
/* Cuts to EVENT_TEXT_BYTES. Empty text is left out. Borrows until event_write. */
void event_text(struct event_record *e, enum event_field field, struct slice text);
/* Appends one record. 0; -1 when the buffer refused. Texts are cut further when together they pass EVENT_RECORD_BYTES. */
int event_write(struct buf *out, const struct event_record *e) __attribute__((warn_unused_result));
/* 1: *e borrows from `in`, *used bytes to consume; 0: needs more bytes; -1: malformed (the sender's channel is to be closed). */
int event_read(struct slice in, struct event_record *e, size_t *used) __attribute__((warn_unused_result));
static inline bool event_has(const struct event_record *e, enum event_field f) { return e->present >> f & 1; }

/* Name in JSON and whether it is TEXT; NULL for an unknown tag. */
const char *event_field_name(enum event_field field);
bool event_field_is_text(enum event_field field);
/* "verdict", "end", "note"; NULL for an unknown type. */
const char *event_type_name(enum event_type type);

#endif
