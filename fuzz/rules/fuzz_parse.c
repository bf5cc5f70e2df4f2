/* The parser on any bytes: never crashes, never hangs, says why when it refuses; what it accepts prints to a text that parses and prints the same.
 * The first byte chooses the entrance. */
#include <stdlib.h>

#include "rules/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
        if (!ok)
                abort();
}

static int load(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *n, char *why, size_t why_size)
{
        struct slice *whole = ctx;

        (void)from;
        if (strlen(path) >= name_size || why_size == 0)
                return -1;
        why[0] = 0;
        memcpy(name, path, strlen(path) + 1);
        /* An include reads the same text again, from the middle on. */
        *n = whole->n / 2;
        *text = malloc(*n + 1);
        if (*text && *n)
                memcpy(*text, whole->p + whole->n - *n, *n);
        return *text ? 0 : -1;
}

static const char *placeholder(void *ctx, struct slice credential)
{
        (void)ctx;
        (void)credential;
        return "ghp_brmabc";
}

/* What goes to the doors parses and prints the same; rules shown and written back are the workspace's own. */
static void fuzz_live(const struct config *c, const struct config_workspace *w)
{
        static const struct config_known known = { SLICE_LIT("a"), SLICE_LIT("a.example") };
        struct config_live live = { .placeholder = placeholder, .known = &known, .known_count = 1 };
        struct diags errors = { 0 };
        struct buf shown, own, first, second;

        buf_init(&shown, 0);
        buf_init(&own, 0);
        buf_init(&first, 0);
        buf_init(&second, 0);
        config_print_rules(c, w, &shown);
        config_own_rules(c, w, buf_slice(&shown), &own);
        if (config_policy_text(c, w, SLICE_EMPTY, SLICE_EMPTY, &live, &first, &errors) == 0) {
                must(config_policy_text(c, w, buf_slice(&own), SLICE_EMPTY, &live, &second, &errors) == 0);
                must(slice_eq(buf_slice(&first), buf_slice(&second)));
        }
        buf_fini(&shown);
        buf_fini(&own);
        buf_fini(&first);
        buf_fini(&second);
}

static void fuzz_policies(const struct config *c)
{
        for (size_t i = 0; i < config_workspace_count(c); i++) {
                struct diags errors = { 0 }, warnings = { 0 };
                const struct config_workspace *w = config_workspace_at(c, i);
                struct policy *p = config_policy(c, w, SLICE_EMPTY, SLICE_EMPTY, &errors);
                must(p || errors.total);
                if (p)
                        policy_lint(p, &warnings);
                config_lint(c, w, &warnings);
                for (size_t j = 0; p && j < policy_account_count(p); j++) {
                        const struct binding *b = policy_account_at(p, j);
                        for (size_t h = 0; h < b->host_count; h++)
                                must(policy_account_of(p, b->hosts[h].name, b->hosts[h].port) == (int)j);
                }
                policy_free(p);
                fuzz_live(c, w);
        }
}

static void fuzz_config(struct slice in)
{
        struct config_loader loader = { .load = load, .ctx = &in, .agents = "agents" }; /* a preset is the text's second half, too */
        struct diags errors = { 0 }, again = { 0 };
        struct config *c = config_load(&loader, "main", in, "extra", &errors), *d;
        struct buf first, second;

        must(c || errors.total);
        if (!c)
                c = config_parse(in, "main", &errors);
        if (!c) {
                buf_init(&first, 0);
                diags_print(&errors, &first);
                buf_fini(&first);
                return;
        }
        buf_init(&first, 0);
        buf_init(&second, 0);
        config_print(c, &first);
        d = config_parse(buf_slice(&first), "main", &again);
        must(d != NULL);
        config_print(d, &second);
        must(slice_eq(buf_slice(&first), buf_slice(&second)));
        fuzz_policies(c);
        config_free(c);
        config_free(d);
        buf_fini(&first);
        buf_fini(&second);
}

static void fuzz_policy(struct slice in)
{
        struct diags errors = { 0 }, again = { 0 };
        struct policy *p = policy_parse(in, "policy", &errors), *q;
        struct buf first, second;

        must(p || errors.total);
        if (!p)
                return;
        buf_init(&first, 0);
        buf_init(&second, 0);
        policy_print(p, &first);
        q = policy_parse(buf_slice(&first), "printed", &again);
        must(q != NULL);
        policy_print(q, &second);
        must(slice_eq(buf_slice(&first), buf_slice(&second)));
        policy_free(p);
        policy_free(q);
        buf_fini(&first);
        buf_fini(&second);
}

static void fuzz_rule(struct slice in)
{
        struct diags errors = { 0 };
        struct buf first, second;

        buf_init(&first, 0);
        buf_init(&second, 0);
        if (policy_rule_parse_one(in, &first, &errors) == 0) {
                must(policy_rule_parse_one(buf_slice(&first), &second, &errors) == 0);
                must(slice_eq(buf_slice(&first), buf_slice(&second)));
                must(slice_find(buf_slice(&first), '\n') < 0);
        }
        buf_fini(&first);
        buf_fini(&second);
}

/* Whatever the text, a replacement leaves the rest as it was. */
static void fuzz_replace(struct slice in)
{
        struct diags errors = { 0 };
        struct buf out, again;

        buf_init(&out, 0);
        buf_init(&again, 0);
        if (config_replace_rules(in, "main", SLICE_LIT("w"), SLICE_LIT("allow web a.example\n"), &out, &errors) == 0) {
                must(config_replace_rules(buf_slice(&out), "main", SLICE_LIT("w"), SLICE_LIT("allow web a.example\n"), &again, &errors) == 0);
                must(slice_eq(buf_slice(&out), buf_slice(&again)));
        }
        buf_fini(&out);
        buf_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        static void (*const entrances[])(struct slice) = { fuzz_config, fuzz_policy, fuzz_rule, fuzz_replace };

        if (n == 0)
                return 0;
        entrances[data[0] % 4](slice_of(data + 1, n - 1));
        return 0;
}
