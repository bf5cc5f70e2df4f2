/* The configuration as bromed holds it: an immutable, counted generation of parsed text, and what is made of it for a session: the policy
 * file for the doors, absolute paths. The files are the user's own; still none of them may lie where a guest can write. */
#ifndef BROME_DAEMON_SETTINGS_H
#define BROME_DAEMON_SETTINGS_H

#include "base/err.h"
#include "rules/config.h"
#include <jansson.h>
#include <limits.h>

struct daemon;

struct settings {
        struct config *config;
        unsigned refs;
};

/* A file whose text is not yet on disk: the loader gives `text` for `file`. */
struct settings_override {
        const char *file;
        struct slice text;
};

/* Loads d's brome.conf (a missing one is empty) and `extra` behind it. One reference, or NULL with diagnostics. What was read leaves a stamp. */
struct settings *settings_load(const struct daemon *d, struct slice extra, const char *extra_name, const struct settings_override *override,
                               struct diags *errors) __attribute__((warn_unused_result));
/* The same with the texts that d->settings was made of: a block is judged by the configuration in force, whatever stands on disk meanwhile. */
struct settings *settings_load_block(const struct daemon *d, struct slice block, const char *name, struct diags *errors) __attribute__((warn_unused_result));
struct settings *settings_keep(struct settings *s);
void settings_drop(struct settings *s); /* NULL is fine */

/* "~/x" and relative paths (to dir) made absolute. 0, or -1 when too long or without HOME. */
int settings_path(const struct daemon *d, char out[PATH_MAX], const char *dir, const char *path, struct err *err);

#define SETTINGS_MACHINE_BYTES (2LL << 30) /* memory that the launcher gives a machine of which nothing is said */
/* The kind of isolation as CONTROL has it: "namespace" or "vm". */
const char *settings_kind(const struct config_workspace *w);

/* Does any host block of its policy name a CA file? */
bool settings_names_ca(const struct settings *s, const struct config_workspace *w);
/* The policy memory file of docs/CONTROL.md; `live` may be NULL: to be looked at. *policy (when policy is not NULL) gets the compiled text.
 * The descriptor, or -1 with the reason. */
int settings_policy(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const struct config_live *live,
                    struct policy **policy, struct err *err) __attribute__((warn_unused_result));

/* SECURITY: no file that brome obeys (configuration, CA) may lie in a share that this workspace can write, no file with a secret in one that it can read.
 * 0, or -1 with the line. */
int settings_guard(const struct daemon *d, const struct settings *s, const struct config_workspace *w, struct err *err)
        __attribute__((warn_unused_result));

/* Members `shares`, `protect`, `tools`, `env` of launch's plan; path: PATH of whoever opens the session, or NULL. New references in *plan. 0 or -1. */
int settings_plan(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const char *path, json_t *plan, struct err *err)
        __attribute__((warn_unused_result));

/* The first of the diagnostics as one line; and the whole list as JSON texts as diags_print makes them: place, message, line, caret. */
void settings_first(const struct diags *errors, struct err *err);
json_t *settings_errors(const struct diags *errors);

#endif
