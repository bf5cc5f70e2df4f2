/* QEMU's machine protocol, as much of it as brome speaks: one JSON object a line. Commands are constants with a number; what QEMU says is read strictly and
 * bounded, and comes down to a kind, that number, and a word or a sentence. A guest may have taken QEMU over: every byte here is hostile.
 * Pure codec: no I/O. */
#ifndef BROME_VM_QMP_H
#define BROME_VM_QMP_H

#include "base/buf.h"
#include "base/slice.h"
#include <stdbool.h>
#include <stdint.h>

enum {
        QMP_MESSAGE_BYTES = 16 * 1024, /* one line: a greeting has 300, the state of a migration 1,000 */
        QMP_WORD_BYTES = 32,           /* a state of a machine or a migration, an event's name */
        QMP_TEXT_BYTES = 256,          /* a sentence of QEMU's, for a person */
        QMP_COMMAND_BYTES = 128,       /* the longest that is written */
};

enum qmp_command {
        QMP_CAPABILITIES, /* the first */
        QMP_STOP,
        QMP_CONT,
        QMP_QUIT,
        QMP_STATE,        /* word: running, paused, inmigrate, postmigrate, … */
        QMP_TAKE_FD,      /* with a descriptor beside it (SCM_RIGHTS): where QMP_MIGRATE writes to */
        QMP_UNTHROTTLED,  /* a migration to a file waits for nobody */
        QMP_MIGRATE,
        QMP_MIGRATION,    /* word: setup, active, completed, failed, …; empty before there was one. text: why it failed */
        QMP_CANCEL,
        QMP_COMMAND_COUNT
};

enum qmp_kind {
        QMP_GREETING,
        QMP_RETURN, /* the command `id` is done */
        QMP_ERROR,  /* it was refused; text */
        QMP_EVENT,  /* word: STOP, RESUME, SHUTDOWN, GUEST_PANICKED, … */
};

struct qmp_message {
        enum qmp_kind kind;
        uint32_t id;               /* of QMP_RETURN and QMP_ERROR; 0: QEMU could not read what it was sent */
        char word[QMP_WORD_BYTES]; /* letters, digits, - and _; may be empty */
        char text[QMP_TEXT_BYTES]; /* printable; may be empty */
};

/* 1: a message, *used bytes to consume; 0: needs more; -1: what QEMU never says. */
int qmp_read(struct slice in, struct qmp_message *out, size_t *used) __attribute__((warn_unused_result));
/* id: from 1. 0; -1: no room (nothing appended). */
int qmp_write(struct buf *out, enum qmp_command command, uint32_t id) __attribute__((warn_unused_result));

#endif
