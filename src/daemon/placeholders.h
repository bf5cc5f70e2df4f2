/* Placeholders of a workspace: minted once for each credential, kept in its folder, the same in every session until the workspace is wiped.
 *
 * File `placeholders`, 0600: a line a credential, "NAME KIND PLACEHOLDER". A credential whose kind was changed gets a new one; one that is no longer bound
 * keeps its line while there is room. Placeholders are no secrets, but whoever knows one can set off the tripwire. */
#ifndef BROME_DAEMON_PLACEHOLDERS_H
#define BROME_DAEMON_PLACEHOLDERS_H

#include "account/placeholder.h"
#include "base/err.h"
#include "control/request.h"

struct placeholder_row {
        char credential[REQUEST_NAME_BYTES];
        enum account_kind kind;
        char text[PLACEHOLDER_BYTES_MAX + 1];
        bool wanted; /* asked for since the file was read */
};
struct placeholders {
        struct placeholder_row rows[PLACEHOLDERS_MAX];
        size_t count;
        bool changed;
};

/* The file's text. 0; -1: malformed. */
int placeholders_parse(struct placeholders *p, struct slice text) __attribute__((warn_unused_result));
/* Reads <folder>/placeholders; a missing one is empty. 0; -1 with the reason. */
int placeholders_read(struct placeholders *p, const char *folder, struct err *err) __attribute__((warn_unused_result));
/* The credential's placeholder of that kind, minted when there is none. NULL: too many, or no random bytes. */
const char *placeholders_want(struct placeholders *p, struct slice credential, enum account_kind kind);
/* Without minting. NULL: none. */
const char *placeholders_get(const struct placeholders *p, struct slice credential);
/* On disk when it returns 0; nothing to do when nothing was minted. */
int placeholders_write(struct placeholders *p, const char *folder, struct err *err) __attribute__((warn_unused_result));

#endif
