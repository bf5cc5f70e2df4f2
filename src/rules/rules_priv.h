/* What the files of this folder share: the program a text becomes, the parser's state, keyword tables, the compiled index. */
#ifndef BROME_RULES_RULES_PRIV_H
#define BROME_RULES_RULES_PRIV_H

#include "base/arena.h"
#include "base/buf.h"
#include "rules/config.h"
#include "rules/diag.h"
#include "rules/lex.h"
#include "rules/policy.h"
#include "rules/rule.h"

/* ---- what a text becomes -------------------------------------------------------------------------------------------------- */

struct ruleset {
        struct rule *rules;
        size_t count, cap;
        bool default_given, default_allow;
        uint32_t at;
};

struct host_entry {
        struct host_directive d;
        struct slice dir; /* folder of the file that holds it */
};

struct credential_entry {
        struct config_credential c;
        uint32_t at;
};

struct known_entry {
        struct slice credential, host;
};

struct name_ref {
        struct slice name;
        uint32_t at;
};

struct workspace_entry {
        struct config_workspace w;
        struct ruleset rules;
        size_t preset_first;         /* of the rules, how many in front are the agent preset's: those for its model */
        size_t preset_rest;          /* and how many at the end */
        struct name_ref *bound;      /* `credential { … }` as written; w.credentials once everything is read */
        size_t bound_count, bound_cap;
        uint32_t at;
        uint16_t source;
};

struct source {
        char *name; /* in the arena; esc'd when printed */
        struct slice text;
        struct slice dir;
        char *owned; /* malloc'ed text to free, or NULL */
        uint32_t base;
};

struct program {
        struct arena arena;
        struct source sources[RULES_FILES_MAX];
        size_t source_count;
        uint16_t extra_source; /* 0: none; else the throw-away text, whose workspaces replace saved ones */
        struct table *tables;
        size_t table_count, table_cap;
        struct host_entry *hosts;
        size_t host_count, host_cap;
        struct workspace_entry *workspaces;
        size_t workspace_count, workspace_cap;
        struct credential_entry *credentials; /* of a policy text: the bound ones */
        size_t credential_count, credential_cap;
        struct slice *models; /* of a policy text, as `known` */
        size_t model_count, model_cap;
        struct known_entry *known;
        size_t known_count, known_cap;
        struct slice proxy;
        struct ruleset rules; /* of a policy text */
};

/* ---- parser ---------------------------------------------------------------------------------------------------------------- */

struct macro {
        struct slice name;
        const struct token *tokens;
        size_t count;
};

enum parse_mode { PARSE_CONFIG, PARSE_POLICY, PARSE_RULES };

struct parser {
        struct program *prog;
        struct diags *errors;
        const struct config_loader *loader; /* NULL: include is an error */
        enum parse_mode mode;
        struct lexer lexer;
        uint16_t source; /* of the lexer */
        struct token tok;
        struct token ahead;
        bool has_ahead;
        const struct token *pending; /* rest of the macro being expanded */
        size_t pending_count;
        uint32_t pending_at;
        unsigned depth;         /* open braces */
        unsigned include_depth; /* files above this one */
        size_t tokens;
        struct macro *macros;
        size_t macro_count, macro_cap;
        uint32_t keyword_at; /* of the keyword whose handler runs */
        bool gave_up;        /* out of memory or tokens, an open brace at the end: reported, everything ends */
};

/* A row of a keyword table: one table a concept; parser, suggestions, man pages, completion and fuzz dictionaries derive from it. */
struct keyword {
        const char *word;
        const char *syntax;  /* what follows */
        const char *help;    /* a sentence */
        const char *instead; /* not NULL: parsed, then refused with "not available yet" and this advice */
        int value;
        bool (*parse)(struct parser *p, void *obj, const struct keyword *k);
};
struct keyword_table {
        const char *context;
        const char *what; /* for messages: "a protocol" */
        const struct keyword *rows;
        size_t count;
};
#define KEYWORD_TABLE(context_, what_, rows_) { context_, what_, rows_, sizeof(rows_) / sizeof((rows_)[0]) }

extern const struct keyword_table keywords_top, keywords_workspace, keywords_host, keywords_share, keywords_isolation, keywords_dns, keywords_trace,
        keywords_detect, keywords_yesno, keywords_credential, keywords_secret, keywords_field, keywords_agent, keywords_rules, keywords_proto, keywords_limit, keywords_profile;

/* parse.c: tokens, errors, recovery */
void program_init(struct program *prog);
void program_fini(struct program *prog);
/* Adds a source; takes `owned`. -1 when too many or too large, with a diagnostic. */
int program_add_source(struct program *prog, struct diags *errors, const char *name, struct slice text, char *owned);
/* Parses and checks a whole text. 0, or -1 with diagnostics. */
int program_parse(struct program *prog, enum parse_mode mode, const struct config_loader *loader, size_t first_source, struct diags *errors);
/* Position of `at`. */
void diag_at(const struct program *prog, struct diags *errors, uint32_t at, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

void parser_next(struct parser *p);
const struct token *parser_peek(struct parser *p);
bool parser_fail(struct parser *p, uint32_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4))); /* always false */
bool parser_expected(struct parser *p, const char *what);                                                   /* always false */
bool parser_at_end(const struct parser *p);                                                                  /* of a statement */
bool parser_is(const struct parser *p, const char *word);
bool parser_take(struct parser *p, enum token_kind kind, const char *what);
bool parser_word_or_string(struct parser *p, struct slice *out, const char *what);
/* The row for the current word, which is consumed; NULL after a message with a suggestion. */
const struct keyword *parser_keyword(struct parser *p, const struct keyword_table *t);
bool parser_not_yet(struct parser *p, uint32_t at, const struct keyword *k);
/* `{ statement … }` or, with braces false, statements to the end of the text: each by its keyword of `t`. */
bool parse_statements(struct parser *p, const struct keyword_table *t, void *obj, bool braces);
/* Grows an arena array by one and returns the new element, NULL after "out of memory" or when `max` is reached ("too many …"). */
void *parser_push(struct parser *p, void *array, size_t *count, size_t *cap, size_t size, size_t max, const char *what);
bool parse_size(struct slice word, uint64_t *out);
bool parse_number(struct slice word, uint64_t max, uint64_t *out);
bool name_ok(struct slice name, bool identifier);
const struct table *program_table(const struct program *prog, struct slice name);

/* config.c */
const struct program *config_program(const struct config *c);

/* account.c */
int account_index(struct policy *p); /* -1: out of memory */

/* policy.c */
struct policy *policy_compile(struct program *prog, struct diags *errors); /* takes the program */
int program_add_copy(struct program *prog, struct diags *errors, const char *name, struct slice text);

/* parse_block.c: what blocks are read with */
struct block {
        struct workspace_entry *ws;
        struct host_entry *host;
        uint32_t seen; /* bit n: row n of its table was given */
        size_t share_cap, env_cap, model_cap, tool_cap;
        struct slice agent; /* `agent NAME`: merged when the block is complete */
        uint32_t agent_at, image_at;
};
bool once(struct parser *p, uint32_t *seen, const struct keyword_table *t, const struct keyword *k); /* a single-valued statement */
bool keep_text(struct parser *p, struct slice *out, struct slice text);
bool take_name(struct parser *p, struct slice *out, bool identifier, const char *what);
bool take_path(struct parser *p, struct slice *out, const char *what);
bool take_value(struct parser *p, const struct keyword_table *t, int *out); /* a word of a table whose rows are values */
bool ws_env(struct parser *p, void *obj, const struct keyword *k);
bool ws_rules(struct parser *p, void *obj, const struct keyword *k);
/* Statements of another source, whole; then the place goes back. */
void parse_source(struct parser *p, uint16_t source, const struct keyword_table *t, void *obj);

/* parse_account.c */
bool top_credential(struct parser *p, void *obj, const struct keyword *k);
bool top_model(struct parser *p, void *obj, const struct keyword *k);
bool top_known(struct parser *p, void *obj, const struct keyword *k);
bool ws_credential(struct parser *p, void *obj, const struct keyword *k);
bool parse_model_hosts(struct parser *p, struct slice **list, size_t *count, size_t *cap);
bool take_kind(struct parser *p, enum account_kind *out);
void kind_keywords(struct keyword rows[ACCOUNT_KIND_COUNT]);

/* agent.c */
bool ws_agent(struct parser *p, void *obj, const struct keyword *k);
bool ws_model(struct parser *p, void *obj, const struct keyword *k);
bool ws_tool(struct parser *p, void *obj, const struct keyword *k);
/* Reads the preset b->agent and merges what it says with what the workspace says. */
bool agent_merge(struct parser *p, struct block *b);
/* prog->rules becomes `own` with the first `first` rules of `preset` in front and its rest behind, checked. */
bool ruleset_surround(struct program *prog, const struct ruleset *own, const struct ruleset *preset, size_t first, struct diags *errors);
bool rule_same(const struct rule *a, const struct rule *b); /* canonical text for canonical text */

/* parse_rule.c */
bool parse_rule(struct parser *p, void *ruleset, const struct keyword *action);
bool parse_default(struct parser *p, void *ruleset, const struct keyword *k);
bool parse_rules_block(struct parser *p, struct ruleset *rs);
/* parse_target.c */
bool parse_targets(struct parser *p, struct rule *r);
bool parse_table_entries(struct parser *p, struct table *t);
bool parse_host_word(struct parser *p, uint32_t at, struct slice word, struct target *out);
struct slice split_ports(struct slice word, struct slice *ports); /* `word` in target and ":ports" */
/* With `{` as the current token: `{ entry, entry }`, newlines count as commas; at least one entry. */
bool parse_entries(struct parser *p, bool (*entry)(struct parser *p, void *obj), void *obj);

/* check_account.c */
void check_accounts(struct program *prog, enum parse_mode mode, struct diags *errors);

/* check.c */
void check_ruleset(struct program *prog, struct ruleset *rs, struct diags *errors);
bool targets_overlap(const struct rule *a, const struct rule *b);
bool ports_overlap(const struct rule *a, const struct rule *b);
bool rule_is_conditional(const struct rule *r); /* a web rule that a flow alone cannot decide on */
bool cidr_is_v4(const struct cidr *c);

/* print.c */
void print_string(struct buf *out, struct slice s);
void print_target(struct buf *out, const struct target *t);
void print_rule(struct buf *out, const struct rule *r);
void print_ruleset(struct buf *out, const struct rule *rules, size_t count, bool default_allow, const char *indent);
void print_table(struct buf *out, const struct table *t);
void print_host_block(struct buf *out, const struct host_entry *h, struct slice base_dir);
void print_path(struct buf *out, struct slice base_dir, struct slice dir, struct slice path);
/* print_account.c */
void print_credential(struct buf *out, const struct config_credential *c, struct slice base_dir); /* for a configuration */
void print_binding(struct buf *out, const struct config_credential *c, struct slice placeholder);  /* for a policy text */
void print_names(struct buf *out, const char *indent, const char *word, const struct slice *names, size_t count); /* nothing when there are none */
void print_known(struct buf *out, struct slice credential, struct slice host); /* a line of `known { … }` */
void print_size(struct buf *out, uint64_t bytes);
const struct port_range *proto_default_ports(enum rule_proto proto, size_t *count); /* NULL, 0: none */

/* path.c */
/* NULL when fine; else what is wrong with it. */
const char *path_pattern_problem(struct slice pattern);
/* `sure`: `*` does not match an encoded slash or backslash, which an origin may read as one (allow); otherwise it does (deny). Never more than path × pattern steps. */
bool path_match(struct slice pattern, struct slice path, bool sure);

/* limit.c */
enum hold { HOLD_NO, HOLD_UNSURE, HOLD_YES };
/* Do the rule's limits hold for the request? *which and *why say which did not. *max_body: to be enforced while streaming. */
enum hold limits_hold(const struct rule *r, const struct policy_request_query *q, enum policy_limit *which, enum reason *why, int64_t *max_body);

/* lint.c, lint_account.c */
struct lint {
        const struct program *prog;
        const struct workspace_entry *workspace; /* NULL: of a policy alone */
        struct diags *warnings;
        const struct config_credential *bound[RULES_BOUND_MAX];
        size_t bound_count;
};
void lint_warn(const struct lint *l, uint32_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void lint_accounts(const struct lint *l, const struct ruleset *rs);

/* ---- compiled policy (index.c, match.c) -------------------------------------------------------------------------------------- */

#define INDEX_NONE UINT32_MAX
struct posting {
        uint32_t rule, next;
};
struct index_entry {
        uint32_t hash;
        uint8_t kind; /* enum index_kind + 1; 0: empty slot */
        uint8_t bits;
        uint16_t key_bytes;
        const uint8_t *key;
        uint32_t head, tail; /* postings */
};
enum index_kind { INDEX_NAME = 1, INDEX_SUBTREE, INDEX_BELOW, INDEX_V4, INDEX_V6 };
struct index {
        struct index_entry *slots;
        size_t mask; /* slots - 1 */
        struct posting *postings;
        uint32_t posting_count, any_head, any_tail;
        uint64_t v4_bits[3], v6_bits[3]; /* prefix lengths in use, a bit each */
};

struct account_slot_entry {
        const struct binding_host *host; /* NULL: empty */
        uint32_t credential;
};

struct policy {
        struct program prog;
        struct index index;
        uint32_t *host_slots; /* hash by name; index + 1 into prog.hosts */
        size_t host_mask;
        struct account_slot_entry *account_slots; /* hash by name */
        size_t account_mask;
};

enum { CURSORS_MAX = 1 + 1 + 2 * 128 + 2 * 129 }; /* any, exact, two per label, each prefix length for an address and the one in it */
enum cursor_origin { FROM_ANY, FROM_NAME, FROM_PATTERN, FROM_LITERAL, FROM_RESOLVED };
struct cursor {
        uint32_t posting;
        enum cursor_origin origin;
};
struct candidates {
        const struct index *index;
        size_t count;
        struct cursor cursors[CURSORS_MAX];
};
/* Rules whose target may fit, in order. */
int index_build(struct index *ix, struct arena *arena, const struct ruleset *rs); /* -1: out of memory, or too many postings */
void candidates_init(struct candidates *c, const struct index *ix, struct slice name, const struct addr *literal, const struct addr *resolved);
/* Index of the next rule or -1; *origins has a bit for each cursor_origin it was found by. */
int candidates_next(struct candidates *c, unsigned *origins);
uint32_t index_hash(struct slice s);

#endif
