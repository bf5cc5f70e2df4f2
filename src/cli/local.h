/* What several commands do on this side of the control socket: read rules, print diagnostics, find a saved workspace. */
#ifndef BROME_CLI_LOCAL_H
#define BROME_CLI_LOCAL_H

#include "cli/cli.h"
#include "rules/config.h"

/* Prints them to standard error; returns EXIT_CONFIG_. */
int local_diags(const struct diags *d);
/* A file, or standard input for "-". */
int local_read(const char *file, struct buf *out, struct err *err) __attribute__((warn_unused_result));
/* Compiles a file of rules (one a line). NULL with diagnostics or err. */
struct policy *local_rules(const char *file, struct diags *errors, struct err *err) __attribute__((warn_unused_result));
/* What the linter says about rules that local_rules read, with the lines of their file. */
void local_lint(const struct policy *p, struct diags *warnings);
/* The policy of a workspace that `workspace new` saved. NULL: none (nothing set) or broken (diagnostics). */
struct policy *local_saved_policy(struct cli *cli, const char *name, struct diags *errors, struct err *err) __attribute__((warn_unused_result));
/* brome.conf together with the saved workspace `name` when there is one. NULL with diagnostics. */
struct config *local_config(struct cli *cli, const char *name, struct diags *errors) __attribute__((warn_unused_result));

#endif
