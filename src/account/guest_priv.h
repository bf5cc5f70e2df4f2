/* Shared by the files that write what a guest's tools read: guest.c (the table and the lines between marks), guest_lines.c, guest_json.c,
 * guest_agent.c. */
#ifndef BROME_ACCOUNT_GUEST_PRIV_H
#define BROME_ACCOUNT_GUEST_PRIV_H

#include "account/guest.h"

#include <jansson.h>

enum { HOST_TEXT_MAX = 272 }; /* name, ":65535", NUL */

/* "name", or "name:port" when it is not https's own. Returns out. */
const char *host_text(char out[HOST_TEXT_MAX], const struct binding_host *h);
/* The user name that its clients give: its own, the kind's, `otherwise`. */
struct slice guest_user(const struct binding *b, const char *otherwise);

/* ---- lines ------------------------------------------------------------------------------------------------------------------------------ */

/* Appends the lines of one binding. rest: what else stands in the file; where it has an entry of the same name, none is added. */
typedef void guest_lines(const struct binding *b, struct slice rest, struct buf *out);
guest_lines lines_git_credentials, lines_git_config, lines_gh_hosts, lines_npmrc, lines_netrc, lines_cargo, lines_codex, mcp_codex;

/* A line outside the marks that can only be ours: tools that write such a file anew move lines and lose the marks. */
typedef bool guest_stray(struct slice line);
guest_stray stray_git_credentials, stray_npmrc, stray_netrc;

/* ---- JSON ------------------------------------------------------------------------------------------------------------------------------- */

/* Changes members of root that the row of the file names: sets what the bindings want, removes what was ours. 0, or -1 with *why. */
typedef int guest_members(json_t *root, const struct binding *bindings, size_t count, const char **why);
guest_members members_docker, members_claude, members_gemini, members_opencode, members_codex_auth, mcp_claude, mcp_gemini;

/* text, a JSON object that jansson has read, with `value` under that name; all else as it is, byte for byte. 0; -1: memory, or the name stands there in another spelling. */
int json_splice(struct slice text, const char *name, json_t *value, struct buf *out) __attribute__((warn_unused_result));

/* Is a binding to be given to the guest at all, and is it of one of these kinds (bit 1 << kind)? */
bool guest_binding_wants(const struct binding *b, unsigned kinds);
#define KIND_BIT(k) (1u << (k))

#endif
