/* Consent: joins the outer doors that ask, the approvals (approvals.h), the journal and whoever watches. */
#ifndef BROME_DAEMON_CONSENT_H
#define BROME_DAEMON_CONSENT_H

#include "daemon/approvals.h"
#include "daemon/program.h"

/* 0 or -1. */
int consent_open(struct daemon *d);
void consent_close(struct daemon *d);

/* ← ask, ask-end. */
program_heard consent_heard_ask, consent_heard_end;
void consent_door_gone(struct program *p);
void consent_session_gone(struct workspace *ws);
/* The session has another policy: grants and questions end that it does not ask for any more. */
void consent_rules_changed(struct session *s);
/* The tripwire went off: what was granted before is asked for again, whatever a person decides. */
void consent_tripped(struct session *s);
/* Something changed: the timer is set anew. */
void consent_arm(struct daemon *d);

#endif
