/* A secret on this side of the control socket: read from where it is kept, checked, handed to bromed over a pipe, forgotten.
 *
 * SECURITY: only in locked memory that is wiped; never in an argument vector, a message, a log or an error. What is shown of one is secret_masked. */
#ifndef BROME_CLI_SECRET_H
#define BROME_CLI_SECRET_H

#include "account/kind.h"
#include "cli/cli.h"
#include "control/control.h"
#include "rules/config.h"

struct secret {
        char *bytes; /* locked */
        size_t n, cap;
};

/* 0, or -1 where no memory can be locked. secret_close is safe on a zeroed one and twice. */
int secret_open(struct secret *s, struct err *err) __attribute__((warn_unused_result));
void secret_close(struct secret *s);
static inline struct slice secret_slice(const struct secret *s) { return slice_of(s->bytes, s->n); }

/* Fill an open one, without the last line break. 0; -1 with the reason, which says where it was looked for. */
int secret_from_terminal(struct secret *s, const char *prompt, struct err *err) __attribute__((warn_unused_result));
int secret_from_input(struct secret *s, struct err *err) __attribute__((warn_unused_result)); /* standard input */
/* file, env, command. dir: base of a relative file. A command is the user's own shell's: /bin/sh -c, with the terminal, its output a pipe. */
int secret_from_source(struct secret *s, enum secret_source source, const char *value, const char *dir, struct err *err) __attribute__((warn_unused_result));
/* May it be this kind's? 0, or -1 with the reason, `name` in it. */
int secret_check(const struct secret *s, enum account_kind kind, const char *name, struct err *err) __attribute__((warn_unused_result));
/* The first four characters and the length; of a short one nothing but the length. */
void secret_masked(struct slice secret, char out[64]);

/* The reading end of a pipe with the bytes in it, -1 with errno. */
int secret_pipe(struct slice bytes);
/* One request with the bytes behind the descriptor called `fd_name`. An exit code; errors are printed. */
int secret_call(struct cli *cli, struct control *c, const char *op, json_t *body, const char *fd_name, struct slice bytes);

/* Under which root a vault is made: `--root` and `--key-file`, at most one of them. */
struct vault_want {
        const char *root, *key_file; /* a name, an absolute path; NULL: not given */
};
/* EXIT_OK, or EXIT_USAGE_ after printing: both, or no root that can be named. */
int vault_want_check(const struct cli *cli, const struct vault_want *want);
/* The vault is open when this returns EXIT_OK: unlocked with its root of trust, and made when there is none and `want` is not NULL. Without it an absent vault
 * is EXIT_OK as well. Otherwise an exit code, printed. */
int vault_ready(struct cli *cli, struct control *c, const struct vault_want *want);
/* What bromed needs of us before a session of the workspace (or of that block) opens: secrets from files, variables, commands; the vault's key. EXIT_OK, or
 * an exit code, printed. */
int needs_bring(struct cli *cli, struct control *c, const char *workspace, struct slice block);

#endif
