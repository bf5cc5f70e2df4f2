/* Every limit of the rule language, with its reason. Exceeding one is an error with a place, never a silent cut. */
#ifndef BROME_RULES_LIMITS_H
#define BROME_RULES_LIMITS_H

enum {
        RULES_ERRORS_MAX = 20,              /* what a person reads in one go; the rest are mostly consequences */
        RULES_FILE_BYTES = 8 * 1024 * 1024, /* one file: 10,000 rules are below 1 MB */
        RULES_FILES_MAX = 64,               /* included files, all together */
        RULES_INCLUDE_DEPTH = 8,            /* an include that includes … */
        RULES_TOKENS_MAX = 4 * 1024 * 1024, /* of all files, macros expanded: bounds what nested macros can blow up to */
        RULES_MACROS_MAX = 1024,
        RULES_MACRO_TOKENS = 4096, /* one macro, expanded */
        RULES_STRING_BYTES = 4096, /* one string: PATH_MAX */
        RULES_WORD_BYTES = 1024,   /* one word: a name has 253 bytes at most */
        RULES_NAME_BYTES = 64,     /* names of workspaces, tables, macros, credentials, variables */
        RULES_MAX = 65536,         /* rules of one workspace */
        RULES_WORKSPACES_MAX = 4096,
        RULES_HOSTS_MAX = 4096,
        RULES_TABLES_MAX = 1024,
        RULES_TABLE_ENTRIES = 262144,  /* one table: a large block list */
        RULES_LIST_MAX = 65536,        /* entries of one list in a rule */
        RULES_PORTS_MAX = 64,          /* port ranges of one rule */
        RULES_METHODS_MAX = 32,        /* methods of one rule: more than HTTP has */
        RULES_METHOD_BYTES = 32,       /* one method token */
        RULES_QUERY_KEYS_MAX = 64,     /* query keys of one rule */
        RULES_MISSES_MAX = 100000,     /* `misses N/h`: more says that nothing is bounded */
        RULES_PATH_BYTES = 1024,       /* one path pattern; also the number of states of its matcher */
        RULES_PATH_STARS = 32,         /* `*` and `**` in one pattern: bounds the matcher's work per byte of the path */
        RULES_SHARES_MAX = 64,         /* of one workspace */
        RULES_ENV_MAX = 256,           /* of one workspace */
        RULES_CREDENTIALS_MAX = 1024,  /* credentials of a configuration */
        RULES_BOUND_MAX = 64,          /* of one workspace: each is a process while it is used, and PLACEHOLDERS_MAX leaves room for minted tokens */
        RULES_MODELS_MAX = 64,         /* hosts of a workspace's model */
        RULES_TOOLS_MAX = 64,          /* programs of one workspace */
        RULES_KNOWN_MAX = 4096,        /* trips that a person decided on */
        RULES_POSTINGS_MAX = 4 << 20,  /* rule × target pairs of one compiled policy (32 MB) */
        RULES_ARENA_BYTES = 512 << 20, /* everything one parse may take */
        RULES_BLOCK_DEPTH = 16,        /* braces within braces */
};

#endif
