/* Credentials on the command line: what add, import and test share. */
#ifndef BROME_CLI_CREDENTIAL_H
#define BROME_CLI_CREDENTIAL_H

#include "account/kind.h"
#include "cli/confedit.h"
#include "cli/secret.h"

/* One credential as a block of brome.conf. Strings are borrowed. */
struct credential_draft {
        const char *name, *as_env, *user, *header, *value; /* value: of file, env, command */
        enum account_kind kind;
        enum secret_source source;
        const char *hosts; /* "a.example, b.example:8443", in the order given */
        bool ask, attach;
};

/* As the configuration has it: [a-z0-9][a-z0-9-]*, at most 63. */
bool credential_name_ok(const char *name);
/* Appends the block. EXIT_OK, or a usage error (a host that could not stand there). */
int credential_block(const struct cli *cli, const struct credential_draft *d, struct buf *out);
/* One configuration with them added, parsed but not yet in force. EXIT_OK or an exit code, printed. */
int credential_prepare(struct cli *cli, struct confedit *e, const struct credential_draft *drafts, size_t count);
/* The configuration is in force: for a bromed that runs, too. */
int credential_reload(struct cli *cli, struct control *c);

#endif
