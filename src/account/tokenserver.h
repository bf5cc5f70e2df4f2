/* Which requests ask a registry's token server for a token (kind registry, registry.h)? Known by three things, any of which is enough: the challenge that
 * named it (WWW-Authenticate: Bearer realm="…"), what it is asked with (`service`, `scope`, a form), and the paths that such servers have. Pure.
 *
 * SECURITY: what such a server answers is a new secret. So it is understood (and a placeholder takes its place) or refused; it is never passed on as it is. */
#ifndef BROME_ACCOUNT_TOKENSERVER_H
#define BROME_ACCOUNT_TOKENSERVER_H

#include "wire/request.h"

enum {
        REALMS_MAX = 16,         /* of one account: a registry has one token server; the oldest goes */
        REALM_PATH_BYTES_MAX = 128, /* of a longer one the beginning: more requests are taken for it, not fewer */
};
struct realms {
        struct realm {
                char authority[AUTHORITY_TEXT_BYTES];
                char path[REALM_PATH_BYTES_MAX + 1];
        } at[REALMS_MAX];
        size_t n; /* that were ever learnt */
};

/* The realms of a WWW-Authenticate field, where they are URLs; of more than REALMS_MAX the first. */
void realms_learn(struct realms *r, struct slice www_authenticate);
bool tokenserver_asked(const struct realms *r, const struct request *req);
/* Of its answers: may this field hold a token? Then it does not go on. */
bool tokenserver_drops(struct slice field);
/* Is there a key in the query or the fragment of this URL? */
bool tokenserver_url_has_key(struct slice url);
/* Is that the name of a member that holds a token, for a reader that does not look at case and "_"? */
bool tokenserver_member(struct slice name);
/* For text that is no JSON: does it look as if there were such a member? */
bool tokenserver_suspects(struct slice text);

#endif
