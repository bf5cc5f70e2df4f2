/* Changes to the text of brome.conf that a command makes: a block at the end, or one block taken out. Everything else stays byte for byte.
 *
 * The new text is written beside the file, parsed as the file would be (includes and all), and only then renamed over it. A link is followed once: what it
 * names is replaced, the link stays. One command at a time, by a lock in the state folder. */
#ifndef BROME_CLI_CONFEDIT_H
#define BROME_CLI_CONFEDIT_H

#include "cli/cli.h"
#include "rules/config.h"

struct confedit {
        char file[PATH_MAX];  /* what is replaced */
        char fresh[PATH_MAX]; /* beside it; there while there is something to commit */
        struct buf text;      /* as it is now */
        bool there;           /* the file exists */
        int lock;
};

/* Takes the lock and reads the text; a missing file is empty. EXIT_OK or an exit code, printed. confedit_close in both cases. */
int confedit_open(struct cli *cli, struct confedit *e);
/* Writes the file's next text and parses it. *config (may be NULL) gets the parsed configuration, saved workspaces included. EXIT_OK, or an exit code after the
 * diagnostics. */
int confedit_prepare(struct cli *cli, struct confedit *e, struct slice text, struct config **config);
/* Renames. */
int confedit_commit(struct confedit *e);
/* Without a commit nothing has changed. */
void confedit_close(struct confedit *e);

#endif
