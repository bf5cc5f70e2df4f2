/* Golden runner: for each NNN.in of a folder, NNN.ok (what it prints as) or NNN.fail (the exact error text), and NNN.lint (warnings) where it is there.
 * A text whose first line is "# policy" is a policy text, "# rule" one rule as on a command line; all others are configurations. Besides the comparison:
 * print∘parse is the identity on what was printed, and every workspace's policy survives the way to a door. `--update` writes what comes out. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rules/config.h"

static const char *folder;
static bool update;
static int failures, passes;

static char *read_file(const char *path, size_t *n)
{
        FILE *f = fopen(path, "rb");
        char *text = NULL;
        long size;

        if (!f)
                return NULL;
        if (fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= 0 && fseek(f, 0, SEEK_SET) == 0 && (text = malloc((size_t)size + 1)) != NULL) {
                *n = fread(text, 1, (size_t)size, f);
                text[*n] = 0;
        }
        fclose(f);
        return text;
}

static int load(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *n, char *why, size_t why_size)
{
        char full[8192];

        (void)ctx;
        (void)from;
        snprintf(full, sizeof(full), "%s/%s", folder, path);
        snprintf(name, name_size, "%s", path);
        *text = read_file(full, n);
        if (*text)
                return 0;
        snprintf(why, why_size, "No such file or directory");
        return -1;
}

static void fail(const char *name, const char *what, struct slice got, struct slice want)
{
        failures++;
        printf("FAIL %s: %s\n--- got\n", name, what);
        fwrite(got.p, 1, got.n, stdout);
        printf("--- want\n");
        fwrite(want.p, 1, want.n, stdout);
}

/* Compares with folder/stem.ext, or writes it. */
static void compare(const char *stem, const char *ext, struct slice got)
{
        char path[4096];
        size_t n = 0;
        char *want;

        snprintf(path, sizeof(path), "%s/%s.%s", folder, stem, ext);
        if (update) {
                FILE *f = fopen(path, "wb");
                if (!f || fwrite(got.p, 1, got.n, f) != got.n || fclose(f) != 0)
                        abort();
        }
        want = read_file(path, &n);
        if (!want || !slice_eq(got, slice_of(want, n)))
                fail(stem, want ? ext : "the golden file is missing", got, slice_of(want, n));
        else
                passes++;
        free(want);
}

static void check_policy_identity(const char *stem, struct policy *p, struct buf *first)
{
        struct diags errors = { 0 };
        struct buf second;
        struct policy *q;

        policy_print(p, first);
        q = policy_parse(buf_slice(first), "printed", &errors);
        buf_init(&second, 0);
        if (q)
                policy_print(q, &second);
        else
                diags_print(&errors, &second);
        if (!slice_eq(buf_slice(first), buf_slice(&second)))
                fail(stem, "print∘parse of the policy is not the identity", buf_slice(&second), buf_slice(first));
        policy_free(q);
        buf_fini(&second);
}

static void check_workspaces(const char *stem, struct config *c, struct buf *lint)
{
        for (size_t i = 0; i < config_workspace_count(c); i++) {
                struct diags errors = { 0 }, warnings = { 0 };
                struct buf text;
                struct policy *p = config_policy(c, config_workspace_at(c, i), SLICE_EMPTY, SLICE_EMPTY, &errors);
                buf_init(&text, 0);
                if (!p) {
                        diags_print(&errors, &text);
                        fail(stem, "the workspace has no policy", buf_slice(&text), SLICE_EMPTY);
                } else {
                        check_policy_identity(stem, p, &text);
                        config_lint(c, config_workspace_at(c, i), &warnings);
                        diags_print(&warnings, lint);
                }
                policy_free(p);
                buf_fini(&text);
        }
}

static void check_config(const char *stem, const char *file)
{
        struct config_loader loader = { .load = load, .agents = "agents" };
        struct diags errors = { 0 }, again = { 0 };
        struct config *c = config_load(&loader, file, SLICE_EMPTY, NULL, &errors), *d;
        struct buf out, second, lint;

        buf_init(&out, 0);
        buf_init(&second, 0);
        buf_init(&lint, 0);
        if (!c) {
                diags_print(&errors, &out);
                compare(stem, "fail", buf_slice(&out));
        } else {
                config_print(c, &out);
                compare(stem, "ok", buf_slice(&out));
                d = config_parse(buf_slice(&out), "printed", &again);
                if (d)
                        config_print(d, &second);
                else
                        diags_print(&again, &second);
                if (!slice_eq(buf_slice(&out), buf_slice(&second)))
                        fail(stem, "print∘parse is not the identity", buf_slice(&second), buf_slice(&out));
                config_free(d);
                check_workspaces(stem, c, &lint);
                if (buf_len(&lint))
                        compare(stem, "lint", buf_slice(&lint));
        }
        config_free(c);
        buf_fini(&out);
        buf_fini(&second);
        buf_fini(&lint);
}

static void check_policy(const char *stem, const char *file, struct slice text)
{
        struct diags errors = { 0 };
        struct policy *p = policy_parse(text, file, &errors);
        struct buf out;

        buf_init(&out, 0);
        if (p)
                check_policy_identity(stem, p, &out);
        else
                diags_print(&errors, &out);
        compare(stem, p ? "ok" : "fail", buf_slice(&out));
        policy_free(p);
        buf_fini(&out);
}

static void check_rule(const char *stem, struct slice text)
{
        struct diags errors = { 0 };
        struct buf out;
        int rc;

        buf_init(&out, 0);
        text = slice_skip(text, strlen("# rule\n"));
        if (text.n && text.p[text.n - 1] == '\n')
                text.n--;
        rc = policy_rule_parse_one(text, &out, &errors);
        if (rc < 0)
                diags_print(&errors, &out);
        else
                buf_add_str(&out, "\n");
        compare(stem, rc < 0 ? "fail" : "ok", buf_slice(&out));
        buf_fini(&out);
}

static int is_input(const struct dirent *e) { return slice_ends(slice_str(e->d_name), SLICE_LIT(".in")); }

int main(int argc, char **argv)
{
        struct dirent **list;
        int n;

        if (argc < 2)
                return 2;
        folder = argv[1];
        update = argc > 2 && strcmp(argv[2], "--update") == 0;
        n = scandir(folder, &list, is_input, alphasort);
        for (int i = 0; i < n; i++) {
                char path[4096], stem[256];
                size_t size = 0;
                char *text;
                snprintf(path, sizeof(path), "%s/%s", folder, list[i]->d_name);
                snprintf(stem, sizeof(stem), "%.*s", (int)(strlen(list[i]->d_name) - 3), list[i]->d_name);
                text = read_file(path, &size);
                if (!text)
                        abort();
                if (slice_starts(slice_of(text, size), SLICE_LIT("# policy\n")))
                        check_policy(stem, list[i]->d_name, slice_of(text, size));
                else if (slice_starts(slice_of(text, size), SLICE_LIT("# rule\n")))
                        check_rule(stem, slice_of(text, size));
                else
                        check_config(stem, list[i]->d_name);
                free(text);
                free(list[i]);
        }
        free(list);
        printf("%d golden texts agree, %d do not\n", passes, failures);
        return failures || passes == 0;
}
