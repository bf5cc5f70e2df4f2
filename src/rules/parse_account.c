/* Accounts: `credential NAME { … }` and what binds it, and the blocks that only a policy text has. One grammar for both texts: a configuration says where the
 * secret is found, a policy text says which placeholder stands for it, and each refuses the other's line. */
#include "base/esc.h"
#include "base/host.h"
#include "rules/rules_priv.h"

enum { PORT_HTTPS = 443, PLACEHOLDER_MAX = 160, USER_BYTES_MAX = 256 };

/* ---- tables ----------------------------------------------------------------------------------------------------------------------------- */

/* A credential block while it is read. */
struct account_block {
        struct credential_entry *e;
        struct binding_host *hosts;
        size_t host_count, host_cap;
        struct account_field *declared; /* the one of kind header first */
        size_t declared_count, declared_cap;
        uint32_t seen;
        uint32_t header_at, field_at, env_at, foreign_at;
};

static bool cred_kind(struct parser *p, void *obj, const struct keyword *k);
static bool cred_secret(struct parser *p, void *obj, const struct keyword *k);
static bool cred_for(struct parser *p, void *obj, const struct keyword *k);
static bool cred_ask(struct parser *p, void *obj, const struct keyword *k);
static bool cred_flag(struct parser *p, void *obj, const struct keyword *k);
static bool cred_as(struct parser *p, void *obj, const struct keyword *k);
static bool cred_field(struct parser *p, void *obj, const struct keyword *k);
static bool cred_header(struct parser *p, void *obj, const struct keyword *k);
static bool cred_user(struct parser *p, void *obj, const struct keyword *k);
static bool cred_placeholder(struct parser *p, void *obj, const struct keyword *k);

enum { CRED_KIND, CRED_SECRET, CRED_FOR, CRED_ASK, CRED_ATTACH, CRED_AS, CRED_HEADER, CRED_FIELD, CRED_USER, CRED_FOREIGN, CRED_PLACEHOLDER };
static const struct keyword rows_credential[] = {
        [CRED_KIND] = { "kind", "KIND", "what the secret is: the placeholder's shape, the fields, the guest's variables and files", NULL, 0, cred_kind },
        [CRED_SECRET] = { "secret", "vault | file \"PATH\" | env NAME | command \"COMMAND\"", "where the secret is found; the vault when absent", NULL, 0, cred_secret },
        [CRED_FOR] = { "for", "HOST[:PORT] | { HOST[:PORT], … }", "the only hosts it is good for, over https; port 443 unless given", NULL, 0, cred_for },
        [CRED_ASK] = { "ask", "before use | wait", "a person agrees to the first use; `wait`: also while nobody is there to ask", NULL, 0, cred_ask },
        [CRED_ATTACH] = { "attach", "", "the gate adds it to every request; what the guest sent is taken out", NULL, 0, cred_flag },
        [CRED_AS] = { "as", "env NAME", "one more variable of the guest that holds the placeholder", NULL, 0, cred_as },
        [CRED_HEADER] = { "header", "\"NAME\"", "the header of kind header", NULL, 0, cred_header },
        [CRED_FIELD] = { "field", "header \"NAME\" | query \"KEY\" | body | websocket", "a further place in which the placeholder may stand", NULL, 0, cred_field },
        [CRED_USER] = { "user", "\"NAME\"", "the user name of Basic authentication", NULL, 0, cred_user },
        [CRED_FOREIGN] = { "foreign", "ok", "other accounts may be used on its hosts", NULL, 0, cred_flag },
        [CRED_PLACEHOLDER] = { "placeholder", "\"TEXT\"", "of a policy text: what the guest holds instead", NULL, 0, cred_placeholder },
};
const struct keyword_table keywords_credential = KEYWORD_TABLE("credential", "a statement of a credential", rows_credential);

static const struct keyword rows_secret[] = {
        { "vault", "", "in brome's vault, by the credential's name (default)", NULL, SECRET_VAULT, NULL },
        { "file", "\"PATH\"", "the content of a file, without its last newline", NULL, SECRET_FILE, NULL },
        { "env", "NAME", "a variable of whoever starts the workspace", NULL, SECRET_ENV, NULL },
        { "command", "\"COMMAND\"", "what a command prints, run by whoever starts the workspace", NULL, SECRET_COMMAND, NULL },
};
const struct keyword_table keywords_secret = KEYWORD_TABLE("secret", "a source of secrets", rows_secret);

static const struct keyword rows_field[] = {
        { "header", "\"NAME\"", "the whole value of that header", NULL, SLOT_HEADER, NULL },
        { "query", "\"KEY\"", "the whole value of that query key", NULL, SLOT_QUERY, NULL },
        { "body", "", "anywhere in a request body, once", NULL, SLOT_BODY, NULL },
        { "websocket", "", "anywhere in a text message, once a connection", NULL, SLOT_WEBSOCKET, NULL },
};
const struct keyword_table keywords_field = KEYWORD_TABLE("field", "a place in a request", rows_field);

void kind_keywords(struct keyword rows[ACCOUNT_KIND_COUNT])
{
        for (int i = 0; i < ACCOUNT_KIND_COUNT; i++) {
                const struct kind_row *r = kind_row((enum account_kind)i);
                rows[i] = (struct keyword){ .word = r->name, .syntax = "", .help = r->help, .value = i };
        }
}

bool take_kind(struct parser *p, enum account_kind *out)
{
        struct keyword rows[ACCOUNT_KIND_COUNT];
        const struct keyword_table t = { "kind", "a kind of credential", rows, ACCOUNT_KIND_COUNT };
        int v;

        kind_keywords(rows);
        if (!take_value(p, &t, &v))
                return false;
        *out = (enum account_kind)v;
        return true;
}

/* ---- statements of a credential ------------------------------------------------------------------------------------------------------------- */

static bool cred_kind(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        return once(p, &b->seen, &keywords_credential, k) && take_kind(p, &b->e->c.b.kind);
}

static bool cred_secret(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;
        struct config_credential *c = &b->e->c;
        int source;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        if (p->mode == PARSE_POLICY)
                return parser_fail(p, p->keyword_at, "a policy text says nothing about secrets");
        if (p->tok.kind == TOK_STRING)
                return parser_fail(p, p->tok.at, "a secret never stands in a configuration: `secret vault`, `file \"…\"`, `env NAME` or `command \"…\"`");
        if (!take_value(p, &keywords_secret, &source))
                return false;
        c->source = (enum secret_source)source;
        switch (c->source) {
        case SECRET_VAULT:
                break;
        case SECRET_ENV:
                return take_name(p, &c->value, true, "the name of a variable");
        case SECRET_FILE:
                return take_path(p, &c->value, "the file in quotes");
        case SECRET_COMMAND:
                if (p->tok.kind != TOK_STRING || p->tok.text.n == 0)
                        return parser_expected(p, "the command in quotes");
                return take_path(p, &c->value, "the command in quotes");
        }
        return true;
}

/* `what` of the messages: "a credential is good for". */
static bool parse_host_port(struct parser *p, const char *what, struct binding_host *out)
{
        struct slice word = p->tok.text, ports;
        uint32_t at = p->tok.at;
        struct target t;
        uint64_t port = PORT_HTTPS;

        if (p->tok.kind != TOK_WORD && p->tok.kind != TOK_STRING)
                return parser_expected(p, "the name of a host");
        if (!slice_starts(word, SLICE_LIT("http:")) && !slice_starts(word, SLICE_LIT("https:")))
                word = split_ports(word, &ports);
        else
                ports = SLICE_EMPTY;
        if (slice_is(word, "any"))
                return parser_fail(p, at, "%s exact names, not `any`", what);
        if (!parse_host_word(p, at, word, &t))
                return false;
        if (t.kind == TARGET_CIDR)
                return parser_fail(p, at, "`%s` is an address: %s names, which a certificate can vouch for", esc(word), what);
        if (t.kind != TARGET_NAME)
                return parser_fail(p, at, "`%s` is a pattern: %s exact names, one by one", esc(word), what);
        if (ports.n && (!parse_number(slice_skip(ports, 1), 65535, &port) || port == 0))
                return parser_fail(p, at, "`%s` is not one port", esc(slice_skip(ports, 1)));
        parser_next(p);
        *out = (struct binding_host){ t.name, (uint16_t)port };
        return true;
}

static bool for_entry(struct parser *p, void *obj)
{
        struct account_block *b = obj;
        struct binding_host h, *to;
        uint32_t at = p->tok.at;

        if (!parse_host_port(p, "a credential is good for", &h))
                return false;
        for (size_t i = 0; i < b->host_count; i++)
                if (b->hosts[i].port == h.port && slice_eq(b->hosts[i].name, h.name))
                        return parser_fail(p, at, "the host `%s` is there already", esc(h.name));
        to = parser_push(p, &b->hosts, &b->host_count, &b->host_cap, sizeof(h), ACCOUNT_HOSTS_MAX, "hosts of a credential");
        if (to)
                *to = h;
        return to != NULL;
}

static bool cred_for(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        return p->tok.kind == TOK_OPEN ? parse_entries(p, for_entry, b) : for_entry(p, b);
}

static bool cred_ask(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        b->e->c.b.ask = true;
        if (parser_is(p, "wait")) {
                b->e->c.b.ask_wait = true;
                parser_next(p);
                return true;
        }
        if (!parser_is(p, "before"))
                return parser_expected(p, "`before use` or `wait`");
        parser_next(p);
        if (!parser_is(p, "use"))
                return parser_expected(p, "`use`");
        parser_next(p);
        return true;
}

/* attach, foreign ok */
static bool cred_flag(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        if (k == &rows_credential[CRED_ATTACH]) {
                b->e->c.b.attach = true;
                return true;
        }
        b->foreign_at = p->keyword_at;
        if (!parser_is(p, "ok"))
                return parser_expected(p, "`ok`");
        parser_next(p);
        b->e->c.b.foreign_ok = true;
        return true;
}

static bool cred_as(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        b->env_at = p->keyword_at;
        if (p->mode == PARSE_POLICY)
                return parser_fail(p, p->keyword_at, "a policy text says nothing about the guest's variables");
        if (!parser_is(p, "env"))
                return parser_expected(p, "`env`");
        parser_next(p);
        return take_name(p, &b->e->c.as_env, true, "the name of a variable");
}

/* ---- fields ------------------------------------------------------------------------------------------------------------------------------ */

static bool is_token_char(uint8_t c) /* RFC 9110 §5.6.2 */
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* Fields that say where a request goes and how it is framed, or that the doors write themselves: no place for a credential. */
static bool is_framing(struct slice name)
{
        static const char *const framing[] = { "host", "connection", "content-length", "content-type", "content-encoding", "transfer-encoding", "te", "trailer", "upgrade",
                                               "expect", "accept-encoding", "keep-alive", "proxy-connection", "range" };

        for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++)
                if (slice_is(name, framing[i]))
                        return true;
        return slice_starts(name, SLICE_LIT("brome-")) || slice_starts(name, SLICE_LIT("sec-websocket-"));
}

static bool take_header_name(struct parser *p, struct slice *out)
{
        struct slice text = p->tok.text;
        uint8_t *lower;

        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "the header's name in quotes");
        if (text.n == 0 || text.n > RULES_NAME_BYTES)
                return parser_fail(p, p->tok.at, "a header's name has 1 to %d characters", RULES_NAME_BYTES);
        lower = arena_alloc(&p->prog->arena, text.n + 1);
        if (!lower)
                return parser_fail(p, p->tok.at, "out of memory");
        for (size_t i = 0; i < text.n; i++) {
                if (!is_token_char(text.p[i]))
                        return parser_fail(p, p->tok.at, "this character cannot stand in a header's name");
                lower[i] = ascii_lower(text.p[i]);
        }
        *out = slice_of(lower, text.n);
        if (is_framing(*out))
                return parser_fail(p, p->tok.at, "`%s` is the gate's own header, no place for a credential", esc(*out));
        parser_next(p);
        return true;
}

static bool take_query_key(struct parser *p, struct slice *out)
{
        struct slice text = p->tok.text;

        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "the query key in quotes");
        if (text.n == 0 || text.n > RULES_NAME_BYTES)
                return parser_fail(p, p->tok.at, "a query key has 1 to %d characters", RULES_NAME_BYTES);
        for (size_t i = 0; i < text.n; i++)
                if (!is_token_char(text.p[i]) || strchr("#%&+", text.p[i]))
                        return parser_fail(p, p->tok.at, "a credential's query key is made of letters, digits, `-`, `_`, `.` and the like");
        if (!keep_text(p, out, text))
                return false;
        /* The contract of account_field: lower case. Keys are compared without case. */
        for (size_t i = 0; i < out->n; i++)
                ((uint8_t *)(uintptr_t)out->p)[i] = ascii_lower(out->p[i]);
        parser_next(p);
        return true;
}

static bool add_declared(struct parser *p, struct account_block *b, uint32_t at, struct account_field f)
{
        struct account_field *to;

        for (size_t i = 0; i < b->declared_count; i++)
                if (b->declared[i].slot == f.slot && slice_eq(b->declared[i].name, f.name))
                        return parser_fail(p, at, "this field is there already");
        to = parser_push(p, &b->declared, &b->declared_count, &b->declared_cap, sizeof(f), ACCOUNT_FIELDS_MAX, "fields of a credential");
        if (to)
                *to = f;
        return to != NULL;
}

static bool cred_field(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;
        struct account_field f = { .name = SLICE_EMPTY };
        uint32_t at = p->keyword_at;
        int slot;

        (void)k;
        if (!take_value(p, &keywords_field, &slot))
                return false;
        b->field_at = at;
        f.slot = (enum account_slot)slot;
        if (f.slot == SLOT_HEADER && !take_header_name(p, &f.name))
                return false;
        if (f.slot == SLOT_QUERY && !take_query_key(p, &f.name))
                return false;
        return add_declared(p, b, at, f);
}

static bool cred_header(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;
        struct account_field f = { .slot = SLOT_HEADER };

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        b->header_at = p->keyword_at;
        if (!take_header_name(p, &f.name) || !add_declared(p, b, b->header_at, f))
                return false;
        memmove(b->declared + 1, b->declared, (b->declared_count - 1) * sizeof(f));
        b->declared[0] = f;
        return true;
}

static bool cred_user(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        if (p->tok.kind != TOK_STRING || p->tok.text.n == 0 || p->tok.text.n > USER_BYTES_MAX)
                return parser_expected(p, "the user name in quotes");
        if (slice_find(p->tok.text, ':') >= 0)
                return parser_fail(p, p->tok.at, "a user name of Basic authentication has no colon");
        if (!keep_text(p, &b->e->c.b.user, p->tok.text))
                return false;
        parser_next(p);
        return true;
}

static bool cred_placeholder(struct parser *p, void *obj, const struct keyword *k)
{
        struct account_block *b = obj;
        struct slice text = p->tok.text;

        if (!once(p, &b->seen, &keywords_credential, k))
                return false;
        if (p->mode != PARSE_POLICY)
                return parser_fail(p, p->keyword_at, "a placeholder stands in no configuration: brome mints one for each workspace");
        if (p->tok.kind != TOK_STRING)
                return parser_expected(p, "the placeholder in quotes");
        for (size_t i = 0; i < text.n; i++)
                if (!is_token_char(text.p[i]))
                        return parser_fail(p, p->tok.at, "this is no placeholder");
        if (text.n == 0 || text.n > PLACEHOLDER_MAX)
                return parser_fail(p, p->tok.at, "this is no placeholder");
        if (!keep_text(p, &b->e->c.b.placeholder, text))
                return false;
        parser_next(p);
        return true;
}

/* ---- the whole block ----------------------------------------------------------------------------------------------------------------------- */

static bool has_slot(const struct binding *b, enum account_slot slot)
{
        for (size_t i = 0; i < b->field_count; i++)
                if (b->fields[i].slot == slot)
                        return true;
        return false;
}

/* The kind's fields, then the declared ones. `attach` adds the secret where is declared, or as the kind's clients would. */
static bool collect_fields(struct parser *p, struct account_block *b)
{
        struct binding *o = &b->e->c.b;
        const struct kind_row *row = kind_row(o->kind);
        bool declared_only = o->attach && b->declared_count;
        struct account_field *all = arena_alloc_array(&p->prog->arena, 4 + b->declared_count, sizeof(*all));
        size_t n = 0;

        if (!all)
                return parser_fail(p, b->e->at, "out of memory");
        for (size_t i = 0; i < 4 && !declared_only; i++)
                if (row->fields[i].slot != SLOT_COUNT)
                        all[n++] = row->fields[i];
        for (size_t i = 0; i < b->declared_count; i++) {
                for (size_t j = 0; j < n; j++)
                        if (all[j].slot == b->declared[i].slot && slice_eq(all[j].name, b->declared[i].name))
                                return parser_fail(p, b->field_at, "the kind `%s` has this field already", row->name);
                all[n++] = b->declared[i];
        }
        if (n > ACCOUNT_FIELDS_MAX)
                return parser_fail(p, b->field_at, "too many fields: %d at most, the kind's among them", ACCOUNT_FIELDS_MAX);
        o->fields = all;
        o->field_count = n;
        b->e->c.declared = b->declared;
        b->e->c.declared_count = b->declared_count;
        return true;
}

static bool check_attach(struct parser *p, const struct account_block *b)
{
        const struct binding *o = &b->e->c.b;

        if (b->env_at)
                return parser_fail(p, b->env_at, "`attach` gives the guest nothing to hold, so there is nothing for a variable");
        if (b->foreign_at)
                return parser_fail(p, b->foreign_at, "`attach` takes every account field out of a request, so no foreign one is left");
        if (b->declared_count > 1)
                return parser_fail(p, b->field_at, "`attach` adds the secret in one place: one `field` at most");
        if (o->fields[0].slot == SLOT_BODY || o->fields[0].slot == SLOT_WEBSOCKET)
                return parser_fail(p, b->field_at, "`attach` adds a header or a query key; in a body there is nothing to swap");
        if (o->fields[0].slot == SLOT_BASIC && o->user.n == 0 && !kind_row(o->kind)->user)
                return parser_fail(p, b->e->at, "`attach` with Basic authentication needs `user \"NAME\"`");
        return true;
}

static bool default_host(struct parser *p, struct account_block *b)
{
        const char *name = kind_row(b->e->c.b.kind)->default_host;
        struct binding_host *to;

        if (!name)
                return parser_fail(p, b->e->at, "the credential `%s` does not say `for` which hosts it is good", esc(b->e->c.b.name));
        to = parser_push(p, &b->hosts, &b->host_count, &b->host_cap, sizeof(*to), 1, "hosts of a credential");
        if (to)
                *to = (struct binding_host){ slice_str(name), PORT_HTTPS };
        return to != NULL;
}

static bool finish_credential(struct parser *p, struct account_block *b)
{
        struct binding *o = &b->e->c.b;
        bool is_header = o->kind == ACCOUNT_HEADER;

        if (!(b->seen & 1u << CRED_KIND))
                return parser_fail(p, b->e->at, "the credential `%s` has no `kind`", esc(o->name));
        if (is_header && !b->header_at)
                return parser_fail(p, b->e->at, "kind header needs the header's name, as in `header \"X-Api-Key\"`");
        if (!is_header && b->header_at)
                return parser_fail(p, b->header_at, "`header` is for kind header; a further place is `field header \"…\"`");
        if (b->host_count == 0 && !default_host(p, b))
                return false;
        o->hosts = b->hosts;
        o->host_count = b->host_count;
        if (!collect_fields(p, b) || (o->attach && !check_attach(p, b)))
                return false;
        if (o->user.n && !has_slot(o, SLOT_BASIC))
                return parser_fail(p, b->e->at, "`user` is for Basic authentication, which the kind `%s` does not use", kind_row(o->kind)->name);
        return true;
}

bool top_credential(struct parser *p, void *obj, const struct keyword *k)
{
        struct program *prog = p->prog;
        struct account_block b = { 0 };
        struct slice name;
        size_t errors;
        uint32_t at = p->tok.at;

        (void)obj;
        (void)k;
        if (!take_name(p, &name, false, "the name of the credential"))
                return false;
        for (size_t i = 0; i < prog->credential_count; i++)
                if (slice_eq(prog->credentials[i].c.b.name, name))
                        return parser_fail(p, at, "the credential `%s` is there already", esc(name));
        b.e = parser_push(p, &prog->credentials, &prog->credential_count, &prog->credential_cap, sizeof(*b.e), p->mode == PARSE_POLICY ? RULES_BOUND_MAX : RULES_CREDENTIALS_MAX,
                          "credentials");
        if (!b.e)
                return false;
        *b.e = (struct credential_entry){ .c = { .b = { .name = name }, .dir = prog->sources[p->source].dir }, .at = at };
        errors = p->errors->total;
        if (!parse_statements(p, &keywords_credential, &b, true))
                return false;
        return p->errors->total != errors || finish_credential(p, &b);
}

/* ---- binding, model, known ------------------------------------------------------------------------------------------------------------------ */

static bool bound_entry(struct parser *p, void *obj)
{
        struct block *b = obj;
        struct name_ref r = { .at = p->tok.at }, *to;

        if (!take_name(p, &r.name, false, "the name of a credential"))
                return false;
        for (size_t i = 0; i < b->ws->bound_count; i++)
                if (slice_eq(b->ws->bound[i].name, r.name))
                        return parser_fail(p, r.at, "the credential `%s` is bound already", esc(r.name));
        to = parser_push(p, &b->ws->bound, &b->ws->bound_count, &b->ws->bound_cap, sizeof(r), RULES_BOUND_MAX, "credentials of a workspace");
        if (to)
                *to = r;
        return to != NULL;
}

bool ws_credential(struct parser *p, void *obj, const struct keyword *k)
{
        (void)k;
        return p->tok.kind == TOK_OPEN ? parse_entries(p, bound_entry, obj) : bound_entry(p, obj);
}

struct model_list {
        struct slice **list;
        size_t *count, *cap;
};

static bool model_entry(struct parser *p, void *obj)
{
        struct model_list *l = obj;
        struct binding_host h;
        struct slice *to;
        uint32_t at = p->tok.at;

        if (!parse_host_port(p, "the hosts of a model are", &h))
                return false;
        if (h.port != PORT_HTTPS)
                return parser_fail(p, at, "a model's host has no port: it counts on each");
        for (size_t i = 0; i < *l->count; i++)
                if (slice_eq((*l->list)[i], h.name))
                        return true;
        to = parser_push(p, l->list, l->count, l->cap, sizeof(*to), RULES_MODELS_MAX, "hosts of a model");
        if (to)
                *to = h.name;
        return to != NULL;
}

bool parse_model_hosts(struct parser *p, struct slice **list, size_t *count, size_t *cap)
{
        struct model_list l = { list, count, cap };

        return p->tok.kind == TOK_OPEN ? parse_entries(p, model_entry, &l) : model_entry(p, &l);
}

bool top_model(struct parser *p, void *obj, const struct keyword *k)
{
        (void)obj;
        (void)k;
        if (p->mode != PARSE_POLICY)
                return parser_fail(p, p->keyword_at, "`model` stands in a workspace");
        return parse_model_hosts(p, &p->prog->models, &p->prog->model_count, &p->prog->model_cap);
}

static bool known_entry(struct parser *p, void *obj)
{
        struct program *prog = p->prog;
        struct known_entry e, *to;
        char host[HOST_NAME_BYTES];

        (void)obj;
        if (!take_name(p, &e.credential, false, "the name of a credential"))
                return false;
        if ((p->tok.kind != TOK_WORD && p->tok.kind != TOK_STRING) || host_canonical(host, sizeof(host), p->tok.text) < 0)
                return parser_expected(p, "a host");
        if (!keep_text(p, &e.host, slice_str(host)))
                return false;
        parser_next(p);
        to = parser_push(p, &prog->known, &prog->known_count, &prog->known_cap, sizeof(e), RULES_KNOWN_MAX, "decisions");
        if (to)
                *to = e;
        return to != NULL;
}

bool top_known(struct parser *p, void *obj, const struct keyword *k)
{
        (void)obj;
        (void)k;
        if (p->mode != PARSE_POLICY)
                return parser_fail(p, p->keyword_at, "`known` is no part of a configuration: `brome alerts` decides it");
        return p->tok.kind == TOK_OPEN ? parse_entries(p, known_entry, NULL) : known_entry(p, NULL);
}
