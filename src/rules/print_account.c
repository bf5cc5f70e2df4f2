/* Accounts in canonical form: the same block for a configuration (with the source of the secret) and for a policy text (with the placeholder). */
#include "rules/rules_priv.h"

static void print_word_string(struct buf *out, const char *words, struct slice text)
{
        buf_addf(out, "        %s ", words);
        print_string(out, text);
        buf_add_str(out, "\n");
}

static void print_hosts(struct buf *out, const struct binding *b)
{
        buf_add_str(out, b->host_count > 1 ? "        for { " : "        for ");
        for (size_t i = 0; i < b->host_count; i++) {
                buf_addf(out, "%s%.*s", i ? ", " : "", SLICE_FMT(b->hosts[i].name));
                if (b->hosts[i].port != 443)
                        buf_addf(out, ":%u", b->hosts[i].port);
        }
        buf_add_str(out, b->host_count > 1 ? " }\n" : "\n");
}

/* `own`: the header that makes kind header what it is. */
static void print_field(struct buf *out, bool own, const struct account_field *f)
{
        switch (f->slot) {
        case SLOT_HEADER:
                print_word_string(out, own ? "header" : "field header", f->name);
                break;
        case SLOT_QUERY:
                print_word_string(out, "field query", f->name);
                break;
        case SLOT_BODY:
                buf_add_str(out, "        field body\n");
                break;
        case SLOT_WEBSOCKET:
                buf_add_str(out, "        field websocket\n");
                break;
        case SLOT_AUTHORIZATION:
        case SLOT_BASIC:
        case SLOT_COUNT:
                break; /* never declared */
        }
}

static void print_secret(struct buf *out, const struct config_credential *c, struct slice base_dir)
{
        switch (c->source) {
        case SECRET_VAULT:
                buf_add_str(out, "        secret vault\n");
                break;
        case SECRET_FILE:
                buf_add_str(out, "        secret file ");
                print_path(out, base_dir, c->dir, c->value);
                buf_add_str(out, "\n");
                break;
        case SECRET_ENV:
                buf_addf(out, "        secret env %.*s\n", SLICE_FMT(c->value));
                break;
        case SECRET_COMMAND:
                print_word_string(out, "secret command", c->value);
                break;
        }
}

static void print_body(struct buf *out, const struct config_credential *c, const struct slice *base_dir, struct slice placeholder)
{
        const struct binding *b = &c->b;

        buf_addf(out, "credential %.*s {\n        kind %s\n", SLICE_FMT(b->name), kind_row(b->kind)->name);
        if (base_dir)
                print_secret(out, c, *base_dir);
        print_hosts(out, b);
        for (size_t i = 0; i < c->declared_count; i++)
                print_field(out, b->kind == ACCOUNT_HEADER && i == 0, &c->declared[i]);
        if (b->user.n)
                print_word_string(out, "user", b->user);
        if (base_dir && c->as_env.n)
                buf_addf(out, "        as env %.*s\n", SLICE_FMT(c->as_env));
        if (b->attach)
                buf_add_str(out, "        attach\n");
        if (b->ask)
                buf_add_str(out, b->ask_wait ? "        ask wait\n" : "        ask before use\n");
        if (b->foreign_ok)
                buf_add_str(out, "        foreign ok\n");
        if (placeholder.n)
                print_word_string(out, "placeholder", placeholder);
        buf_add_str(out, "}\n");
}

void print_credential(struct buf *out, const struct config_credential *c, struct slice base_dir) { print_body(out, c, &base_dir, SLICE_EMPTY); }

void print_binding(struct buf *out, const struct config_credential *c, struct slice placeholder) { print_body(out, c, NULL, placeholder); }

void print_names(struct buf *out, const char *indent, const char *word, const struct slice *names, size_t count)
{
        if (count == 0)
                return;
        buf_addf(out, "%s%s { ", indent, word);
        for (size_t i = 0; i < count; i++)
                buf_addf(out, "%s%.*s", i ? ", " : "", SLICE_FMT(names[i]));
        buf_add_str(out, " }\n");
}

void print_known(struct buf *out, struct slice credential, struct slice host)
{
        buf_addf(out, "        %.*s %.*s\n", SLICE_FMT(credential), SLICE_FMT(host));
}
