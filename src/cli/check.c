/* brome check, rules check, rules test: what the language says, without a daemon. */
#include "cli/cli.h"
#include "base/esc.h"
#include "base/fd.h"
#include "base/host.h"
#include "cli/local.h"
#include "files/loader.h"
#include "rules/policy.h"
#include "wire/authority.h"
#include "wire/path.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int local_diags(const struct diags *d)
{
        struct buf out;
        bool error = d->count == 0;

        for (size_t i = 0; i < d->count; i++)
                error = error || strncmp(d->list[i].message, "warning: ", 9) != 0;
        buf_init(&out, 0);
        diags_print(d, &out);
        if (error)
                cli_fail_lines(EXIT_CONFIG_, buf_slice(&out), NULL);
        else
                cli_note_lines(buf_slice(&out));
        buf_fini(&out);
        return EXIT_CONFIG_;
}

int local_read(const char *file, struct buf *out, struct err *err)
{
        if (strcmp(file, "-") == 0)
                return fd_read_all(STDIN_FILENO, out, LOADER_FILE_BYTES, err);
        return fd_read_file(file, out, LOADER_FILE_BYTES, err);
}

/* Shares that are not there: a session would be refused, and a word inside the quotes is easily taken for a folder. */
static void check_shares(const struct config_workspace *w)
{
        for (size_t i = 0; i < w->share_count; i++) {
                char path[PATH_MAX];
                struct stat st;
                struct err err = ERR_INIT;
                if (loader_expand(path, sizeof(path), w->shares[i].path, w->dir, &err) < 0)
                        cli_note("warning: workspace %.*s: share: %s", SLICE_FMT(w->name), err.text);
                else if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
                        cli_note("warning: workspace %.*s: share: there is no folder %s, so a session would be refused", SLICE_FMT(w->name), esc_str(path));
        }
}

int cmd_check(struct cli *cli, int argc, char **argv)
{
        bool print = false;
        const struct cli_option options[] = { { .name = "print", .flag = &print } };
        int at = cli_options(cli, argc, argv, options, 1);
        struct diags errors = { 0 };
        struct config *c;
        const char *file;
        struct buf out;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at > 1)
                return cli_usage(cli, "one file at a time");
        file = at < argc ? argv[at] : cli->paths.config;
        c = loader_config(file, at == argc, SLICE_EMPTY, "", &errors);
        if (!c)
                return local_diags(&errors);
        buf_init(&out, 0);
        for (size_t i = 0; i < config_workspace_count(c); i++) {
                struct diags found = { 0 };
                struct policy *p = config_policy(c, config_workspace_at(c, i), SLICE_EMPTY, SLICE_EMPTY, &found);
                if (p)
                        config_lint(c, config_workspace_at(c, i), &found);
                policy_free(p);
                if (found.total)
                        local_diags(&found);
                check_shares(config_workspace_at(c, i));
        }
        if (print)
                config_print(c, &out);
        else
                buf_addf(&out, "%s: good: %zu workspace%s\n", file, config_workspace_count(c), config_workspace_count(c) == 1 ? "" : "s");
        config_free(c);
        cli_flush(&out);
        buf_fini(&out);
        return EXIT_OK;
}

/* Rules as a person writes them (one a line) as a policy's text. */
static int wrap_rules(struct slice rules, struct buf *out)
{
        buf_add_str(out, "rules {\n");
        buf_add_slice(out, rules);
        return buf_add_str(out, "\n}\n");
}

/* A line was put in front of theirs. */
static void unwrap_lines(struct diags *d)
{
        for (size_t i = 0; i < d->count; i++)
                if (d->list[i].line > 1)
                        d->list[i].line--;
}

void local_lint(const struct policy *p, struct diags *warnings)
{
        policy_lint(p, warnings);
        unwrap_lines(warnings);
}

struct policy *local_rules(const char *file, struct diags *errors, struct err *err)
{
        struct buf text, whole;
        struct policy *p = NULL;

        buf_init(&text, 0);
        buf_init(&whole, 0);
        if (local_read(file, &text, err) == 0 && wrap_rules(buf_slice(&text), &whole) == 0) {
                p = policy_parse(buf_slice(&whole), file, errors);
                if (!p)
                        unwrap_lines(errors);
        }
        buf_fini(&text);
        buf_fini(&whole);
        return p;
}

int cmd_rules_check(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);
        struct diags errors = { 0 }, warnings = { 0 };
        struct err err = ERR_INIT;
        struct policy *p;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at != 1)
                return cli_usage(cli, "which file? (- is standard input)");
        p = local_rules(argv[at], &errors, &err);
        if (!p)
                return errors.count ? local_diags(&errors) : cli_fail(EXIT_CONFIG_, "%s", err.text);
        local_lint(p, &warnings);
        if (warnings.total)
                local_diags(&warnings);
        printf("%s: good: %zu rule%s\n", argv[at], policy_rule_count(p), policy_rule_count(p) == 1 ? "" : "s");
        policy_free(p);
        return EXIT_OK;
}

struct target_url {
        enum scheme scheme;
        enum flow_proto proto;
        bool opaque; /* tcp, udp, icmp: no request */
        struct authority authority;
        struct path path;
};

/* Where host[:port] ends. */
static struct slice url_host(struct slice rest)
{
        for (size_t i = 0; i < rest.n; i++)
                if (rest.p[i] == '/' || rest.p[i] == '?' || rest.p[i] == '#')
                        return slice_first(rest, i);
        return rest;
}

static bool has_port(struct slice host)
{
        struct slice tail = host;
        ptrdiff_t bracket = slice_find(host, ']');

        if (bracket >= 0)
                tail = slice_skip(host, (size_t)bracket);
        return slice_find(tail, ':') >= 0;
}

/* https://host/path, http://…, tcp://host:port, udp://host:port, icmp://host. */
static int parse_url(const char *text, struct arena *arena, struct target_url *out, struct err *err)
{
        static const struct { const char *prefix; enum scheme scheme; enum flow_proto proto; bool opaque, port; } forms[] = {
                { "https://", SCHEME_HTTPS, FLOW_TCP, false, false }, { "http://", SCHEME_HTTP, FLOW_TCP, false, false },
                { "tcp://", SCHEME_HTTPS, FLOW_TCP, true, true },     { "udp://", SCHEME_HTTPS, FLOW_UDP, true, true },
                { "icmp://", SCHEME_HTTPS, FLOW_ICMP, true, false },
        };
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                struct slice rest = slice_str(text), host;
                enum wire_reason why;
                if (!slice_starts(rest, slice_str(forms[i].prefix)))
                        continue;
                rest = slice_skip(rest, strlen(forms[i].prefix));
                host = url_host(rest);
                *out = (struct target_url){ .scheme = forms[i].scheme, .proto = forms[i].proto, .opaque = forms[i].opaque };
                if (forms[i].port && !has_port(host))
                        return err_set(err, "`%s` needs a port", esc_str(text));
                why = authority_parse(arena, host, forms[i].scheme, &out->authority);
                if (why != WIRE_OK)
                        return err_set(err, "`%s`: %s", esc(host), wire_reason_sentence(why));
                rest = slice_skip(rest, host.n);
                why = out->opaque ? WIRE_OK : path_canonical(arena, rest.n && rest.p[0] == '/' ? rest : SLICE_LIT("/"), &out->path);
                return why == WIRE_OK ? 0 : err_set(err, "the path is refused: %s", wire_reason_sentence(why));
        }
        return err_set(err, "`%s` is no URL: https://host/path, http://…, tcp://host:port, udp://host:port or icmp://host", esc_str(text));
}

/* The policy of a workspace of the configuration, or of a file of rules. */
static struct policy *policy_of(struct cli *cli, const char *what, struct diags *errors, struct err *err)
{
        struct config *c;
        const struct config_workspace *w;
        struct policy *p = NULL;

        if (!cli_name_ok(what))
                return local_rules(what, errors, err);
        c = loader_config(cli->paths.config, true, SLICE_EMPTY, "", errors);
        if (!c)
                return NULL;
        w = config_workspace(c, slice_str(what));
        if (w)
                p = config_policy(c, w, SLICE_EMPTY, SLICE_EMPTY, errors);
        config_free(c);
        if (w)
                return p;
        p = local_saved_policy(cli, what, errors, err);
        if (!p && !errors->count)
                err_set(err, "there is no workspace `%s` (and a file of rules is named with a slash or a dot)", what);
        return p;
}

/* What else an allowed request meets: a person, another place, an account. */
struct meets {
        char to[512];               /* URL of the place it is re-routed to; empty: none */
        const struct binding *account; /* NULL: none */
};

static struct meets meets_of(const struct policy *p, const struct policy_verdict *v, const struct target_url *url)
{
        struct meets m = { .to = "" };
        int account;

        if (!v->allow || url->opaque)
                return m;
        if (v->via.found)
                snprintf(m.to, sizeof(m.to), "https://%.*s:%u%.*s%.*s", SLICE_FMT(v->via.name), v->via.port, SLICE_FMT(v->via.base), SLICE_FMT(slice_skip(url->path.path, 1)));
        account = v->via.found ? policy_account_of(p, v->via.name, v->via.port) : policy_account_of(p, url->authority.name, url->authority.port);
        m.account = account < 0 ? NULL : policy_account_at(p, (size_t)account);
        return m;
}

static void say_json(const struct policy_verdict *v, struct slice rule, const struct meets *m, const struct buf *suggest, struct buf *out)
{
        json_t *o = json_pack("{s:s, s:s%, s:i, s:s}", "verdict", !v->allow ? "deny" : v->ask ? "ask" : "allow", "rule", rule.p, rule.n, "index", v->rule, "reason", reason_id(v->reason));
        char *text;

        if (!v->allow && buf_len(suggest))
                json_object_set_new(o, "suggest", json_stringn((const char *)buf_slice(suggest).p, buf_len(suggest)));
        if (*m->to)
                json_object_set_new(o, "to", json_string(m->to));
        if (m->account)
                json_object_set_new(o, "account", json_stringn((const char *)m->account->name.p, m->account->name.n));
        text = json_dumps(o, JSON_COMPACT);
        buf_addf(out, "%s\n", text);
        free(text);
        json_decref(o);
}

static void say_verdict(struct cli *cli, const struct policy *p, const struct policy_verdict *v, const struct target_url *url, const struct buf *suggest, struct buf *out)
{
        struct meets m = meets_of(p, v, url);
        struct buf rule;

        buf_init(&rule, 0);
        policy_rule_text(p, v->rule, &rule);
        if (cli->json) {
                say_json(v, buf_slice(&rule), &m, suggest, out);
        } else {
                buf_addf(out, "%s: %.*s\n", !v->allow ? "refused" : v->ask ? "asked" : "allowed", SLICE_FMT(buf_slice(&rule)));
                if (v->allow && v->ask)
                        buf_add_str(out, "  a person has to agree first\n");
                if (*m.to)
                        buf_addf(out, "  goes to %s\n", m.to);
                if (m.account)
                        buf_addf(out, "  account %.*s%s\n", SLICE_FMT(m.account->name), m.account->attach ? ", attached" : m.account->ask ? ", ask before use" : "");
                if (!v->allow)
                        buf_addf(out, "  because %s\n", reason_text(v->reason));
                if (!v->allow && buf_len(suggest))
                        buf_addf(out, "  to allow it: %.*s\n", SLICE_FMT(buf_slice(suggest)));
        }
        buf_fini(&rule);
}

static bool test_verdict(struct cli *cli, const struct policy *p, const struct target_url *url, const char *method, struct buf *out)
{
        struct policy_request_query rq = {
                .flow = { .name = url->authority.name, .literal = url->authority.is_addr ? &url->authority.addr : NULL,
                          .port = url->proto == FLOW_ICMP ? 0 : url->authority.port, .proto = url->proto },
                .https = url->scheme == SCHEME_HTTPS, .method = slice_str(method), .path = url->path.path, .query = url->path.query,
                .has_query = url->path.has_query,
        };
        struct policy_verdict v;
        struct buf suggest;

        buf_init(&suggest, 0);
        policy_flow(p, &rq.flow, &v);
        if (v.allow && !url->opaque) {
                policy_request(p, &rq, &v);
                if (v.allow && url->path.slashed.n) {
                        rq.path = url->path.slashed;
                        policy_request(p, &rq, &v);
                }
        }
        if (!v.allow && url->opaque)
                policy_suggest_flow(&rq.flow, &suggest);
        else if (!v.allow)
                policy_suggest_request(p, &rq, v.rule, &suggest);
        say_verdict(cli, p, &v, url, &suggest, out);
        buf_fini(&suggest);
        return v.allow;
}

int cmd_rules_test(struct cli *cli, int argc, char **argv)
{
        int at = cli_options(cli, argc, argv, NULL, 0);
        struct diags errors = { 0 };
        struct err err = ERR_INIT;
        struct target_url url;
        struct arena arena = { 0 };
        struct policy *p;
        struct buf out;
        bool allowed;

        if (at < 0)
                return at == -2 ? EXIT_OK : EXIT_USAGE_;
        if (argc - at < 2 || argc - at > 3)
                return cli_usage(cli, "a workspace or a file of rules, then a method if it is not GET, then a URL");
        arena_init(&arena, 0);
        if (parse_url(argv[argc - 1], &arena, &url, &err) < 0) {
                arena_fini(&arena);
                return cli_fail(EXIT_USAGE_, "%s", err.text);
        }
        p = policy_of(cli, argv[at], &errors, &err);
        if (!p) {
                arena_fini(&arena);
                return errors.count ? local_diags(&errors) : cli_fail(EXIT_NO, "%s", err.text);
        }
        buf_init(&out, 0);
        allowed = test_verdict(cli, p, &url, argc - at == 3 ? argv[at + 1] : "GET", &out);
        cli_flush(&out);
        buf_fini(&out);
        policy_free(p);
        arena_fini(&arena);
        return allowed ? EXIT_OK : EXIT_NO;
}
