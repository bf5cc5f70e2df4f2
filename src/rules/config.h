/* brome.conf: workspaces, hosts, tables, the upstream proxy. Pure: files come through the caller's loader.
 *
 * A configuration is immutable; strings and slices in it live until config_free. Paths are as written (a leading ~ is the caller's to
 * expand; `ca file` and `share` are relative to the file that names them, which `dir` gives). */
#ifndef BROME_RULES_CONFIG_H
#define BROME_RULES_CONFIG_H

#include "base/buf.h"
#include "base/slice.h"
#include "rules/diag.h"
#include "rules/policy.h"
#include "rules/rule.h"

struct config;

/* Gives the text of a file. `path` as written in `include "…"`, `from` the name of the including file (NULL for the first). Fills *name with
 * the name by which the file is known in messages and in further calls (NUL terminated, kept until config_free by being copied) and *text (malloc'ed,
 * taken and freed by the configuration). 0, or -1 with a short reason in `why` (printable). */
struct config_loader {
        int (*load)(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *text_bytes, char *why, size_t why_size);
        void *ctx;
        const char *agents; /* folder of the agent presets, NAME.conf each, read by `load` too; NULL: there are none */
};

enum isolation { ISOLATION_DEFAULT, ISOLATION_NAMESPACE, ISOLATION_VM }; /* the default is the namespace */
enum share_mode { SHARE_READ_WRITE, SHARE_READ_ONLY, SHARE_OVERLAY };
enum dns_mode { DNS_SYNTHETIC, DNS_REAL };

struct config_share {
        struct slice path; /* as written; NUL terminated */
        enum share_mode mode;
        bool sockets_ok;
};
struct config_env {
        struct slice name, value; /* NUL terminated */
};

enum secret_source { SECRET_VAULT, SECRET_FILE, SECRET_ENV, SECRET_COMMAND };

/* `credential NAME { … }`: what a secret is good for, and where it is found. The secret itself is never in a configuration. */
struct config_credential {
        struct binding b;          /* name, kind, hosts, fields, …; no placeholder in a configuration */
        enum secret_source source; /* SECRET_VAULT when not said */
        struct slice value;        /* file as written, variable, command line; empty of SECRET_VAULT. NUL terminated */
        struct slice dir;          /* folder of the file that defines it: base of a relative file */
        struct slice as_env;       /* one more variable of the guest; empty: none. NUL terminated */
        const struct account_field *declared; /* `field` and `header` lines: of b.fields those that are not the kind's */
        size_t declared_count;
};

struct config_workspace {
        struct slice name; /* [a-z0-9][a-z0-9-]*, ≤ RULES_NAME_BYTES; NUL terminated */
        struct slice file; /* file that defines it */
        struct slice dir;  /* its folder, "." when none: base of relative paths */
        enum isolation isolation;
        struct slice image; /* of a machine: an image's ID, or a folder as written; empty: the current one. NUL terminated */
        const struct config_share *shares;
        size_t share_count;
        const struct config_env *env;
        size_t env_count;
        uint64_t memory_bytes;  /* 0: not given */
        uint32_t processes;     /* 0: not given */
        uint32_t cpu_percent;   /* `cpu 1.5` is 150; 0: not given */
        enum dns_mode dns;
        bool nested;
        bool detect_off;     /* `detect off`; absent or `log` otherwise */
        bool trace_activity; /* false: `trace off` */
        const struct rule *rules; /* of the agent preset those for its model, the workspace's own, the preset's rest */
        size_t rule_count;
        bool default_allow;
        const struct config_credential *const *credentials; /* bound to it, in order */
        size_t credential_count;
        const struct slice *models; /* hosts of the agent's model, canonical */
        size_t model_count;
        const struct slice *tools; /* programs of the host whose installation the guest may read; NUL terminated */
        size_t tool_count;
        struct slice agent;            /* name of the preset; empty: none */
        enum account_kind agent_kind;  /* kind of credential that the agent's client uses; ACCOUNT_KIND_COUNT: none is said */
};

/* Reads `path` through the loader. NULL with at least one diagnostic. `extra` (may be empty) is parsed after it in the same name space, as a file of
 * the name `extra_name`: a throw-away workspace's block. A workspace in it replaces one of the same name. */
struct config *config_load(const struct config_loader *loader, const char *path, struct slice extra, const char *extra_name, struct diags *errors)
        __attribute__((warn_unused_result));
/* The same from memory; include is an error. */
struct config *config_parse(struct slice text, const char *name, struct diags *errors) __attribute__((warn_unused_result));
void config_free(struct config *c);

/* Canonical text of everything: tables, hosts, upstream, workspaces; macros expanded, includes inlined. */
void config_print(const struct config *c, struct buf *out);
/* One workspace's block. */
void config_print_workspace(const struct config *c, const struct config_workspace *w, struct buf *out);
/* Its rules only, one a line, the preset's with a comment that says so, with the default line. */
void config_print_rules(const struct config *c, const struct config_workspace *w, struct buf *out);

size_t config_workspace_count(const struct config *c);
const struct config_workspace *config_workspace_at(const struct config *c, size_t i);
const struct config_workspace *config_workspace(const struct config *c, struct slice name); /* NULL: none */
size_t config_credential_count(const struct config *c);
const struct config_credential *config_credential_at(const struct config *c, size_t i);
const struct config_credential *config_credential(const struct config *c, struct slice name); /* NULL: none */
/* `upstream proxy "…"`, empty when absent. */
struct slice config_proxy(const struct config *c);
/* Every file that was read, in order (for "no file that brome reads lies in a share"). */
size_t config_file_count(const struct config *c);
const char *config_file_at(const struct config *c, size_t i);
struct slice config_file_text(const struct config *c, size_t i);
/* What host block i says of a CA: *path as written and the folder of the file that holds it; both empty without one. false behind the last block. */
bool config_ca_at(const struct config *c, size_t i, struct slice *path, struct slice *dir);

/* What only the running workspace knows of its policy. */
struct config_known {
        struct slice credential, host; /* `continue` was said after this trip */
};
struct config_live {
        const char *(*placeholder)(void *ctx, struct slice credential); /* NULL, or NULL returned: none */
        void *ctx;
        const struct config_known *known;
        size_t known_count;
};

/* Canonical policy text of a workspace: its credentials and model hosts, its rules, the tables they use and every host block. `live` may be NULL. `rules`, when not empty, replaces the workspace's rules (a live
 * edit; "default …" may stand in it), and the agent preset's stand around them all the same; `extra` rules, one a line, come before the workspace's own. `ca file` paths that are relative get the folder of
 * the file that names them in front. 0; -1 with diagnostics. */
int config_policy_text(const struct config *c, const struct config_workspace *w, struct slice rules, struct slice extra, const struct config_live *live, struct buf *out,
                       struct diags *errors) __attribute__((warn_unused_result));
/* The same, compiled, without placeholders: to be looked at. */
struct policy *config_policy(const struct config *c, const struct config_workspace *w, struct slice rules, struct slice extra, struct diags *errors)
        __attribute__((warn_unused_result));

/* Of rules as they were shown, with the agent preset's around them: without the preset's lines for its model, and without its other ones at the end, so that a
 * text that is written back does not pin what the preset says today. Lines that are not the preset's word for word stay byte for byte. */
void config_own_rules(const struct config *c, const struct config_workspace *w, struct slice rules, struct buf *out);

/* `text` with the inside of `workspace NAME { rules { … } }` replaced by `rules` (one a line, indented here), everything else byte for byte as it was;
 * a rules block is added when there is none. -1 with a diagnostic when the workspace is not in this text or the text does not parse. */
int config_replace_rules(struct slice text, const char *file, struct slice workspace, struct slice rules, struct buf *out, struct diags *errors)
        __attribute__((warn_unused_result));

/* policy_lint for a workspace's rules as they stand in the configuration: each warning with its place there and the workspace's name. */
void config_lint(const struct config *c, const struct config_workspace *w, struct diags *warnings);

/* Keywords for man pages, completion and fuzz dictionaries: row i of all tables, false at the end. */
struct config_keyword {
        const char *context; /* "top", "workspace", "host", "rule", "limit", "proto", … */
        const char *word;
        const char *syntax; /* what follows it */
        const char *help;
        bool available; /* false: parsed, then "not available yet" */
};
bool config_keyword_at(size_t i, struct config_keyword *out);

#endif
