/* Secrets in bromed: the vault, and what the command line brought from a file, the environment or a command. Found by a credential's name.
 *
 * SECURITY: only in secret_alloc memory; they leave it over a pipe to the outer door of their account and nowhere else. What comes over a descriptor is read
 * from the loop, bounded, with a deadline; a client that does not write keeps nobody waiting. */
#ifndef BROME_DAEMON_SECRETS_H
#define BROME_DAEMON_SECRETS_H

#include "base/err.h"
#include "rules/config.h"
#include "vault/vault.h"

#include <event2/event.h>

enum {
        SECRETS_GIVEN_MAX = 256,         /* as credentials with such a source in one configuration */
        SECRET_BYTES_MAX = 16 * 1024,    /* docs/CONTROL.md; less than a pipe holds */
        SECRET_INTAKE_MS = 10 * 1000,    /* a client that opened a pipe writes into it at once */
        SECRET_INTAKES = 8,              /* at once */
};

struct secrets;
/* `changed`: the secret of a credential is another one, or gone (empty name: perhaps any). */
typedef void secrets_changed_fn(void *ctx, struct slice credential);
/* vault_path is borrowed for life. A vault that is not safe to read is logged and left alone. NULL: memory. */
struct secrets *secrets_new(struct event_base *base, const char *vault_path, secrets_changed_fn *changed, void *ctx, struct err *err)
        __attribute__((warn_unused_result));
void secrets_free(struct secrets *s); /* locks the vault, wipes everything */

/* NULL with the reason where its file is not safe; while it is not open its file is looked at again each time, so what was given is gone. */
struct vault *secrets_vault(struct secrets *s, struct err *why);

enum secret_have { SECRET_HERE, SECRET_LOCKED, SECRET_NONE };
/* The secret of a credential that has this source; borrowed until the loop goes on. */
enum secret_have secrets_find(const struct secrets *s, const struct config_credential *c, struct slice *secret);
/* A pipe that holds it, its writing end closed; -1 with errno. */
int secrets_pipe(struct slice secret) __attribute__((warn_unused_result));

/* Keeps a copy; one trailing newline goes. 0; -1 with the reason (empty, control characters, no locked memory). */
int secrets_give(struct secrets *s, struct slice credential, struct slice secret, struct err *err) __attribute__((warn_unused_result));
/* The same for the vault. */
int secrets_put(struct secrets *s, struct slice name, struct slice secret, struct err *err) __attribute__((warn_unused_result));
int secrets_remove(struct secrets *s, struct slice name, struct err *err) __attribute__((warn_unused_result)); /* 1: not there */
/* Its source is another one: what was brought is not its secret any more. */
void secrets_forget(struct secrets *s, struct slice credential);
int secrets_unlock(struct secrets *s, const uint8_t *key, struct err *err) __attribute__((warn_unused_result));
void secrets_lock(struct secrets *s);

/* Reads fd (taken) to its end. `done` is called once: with the bytes (borrowed, in locked memory), or with p NULL and the reason. */
typedef void secrets_intake_fn(void *ctx, struct slice bytes, const char *why);
int secrets_intake(struct secrets *s, int fd, size_t limit_bytes, secrets_intake_fn *done, void *ctx, struct err *err) __attribute__((warn_unused_result));

#endif
