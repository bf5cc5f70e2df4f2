/* workspace describe and daemon status for a person: the members of bromed's answers in the order of a table, with their meaning in words.
 * SECURITY: names, folders and reasons may be foreign text; esc() is the only way from here to the terminal. */
#include "cli/describe.h"
#include "base/esc.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LABEL_COLUMNS = 12 };

static const char *text_of(json_t *o, const char *key)
{
        const char *s = json_string_value(json_object_get(o, key));
        return s ? s : "";
}

static long long number_of(json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

static const char *local_time(char out[32], long long us)
{
        time_t t = (time_t)(us / 1000000);
        struct tm tm;

        if (us <= 0 || !localtime_r(&t, &tm) || !strftime(out, 32, "%Y-%m-%d %H:%M:%S", &tm))
                snprintf(out, 32, "-");
        return out;
}

/* ---- one line a member ---- */

typedef void put_fn(json_t *answer, const char *key);

static void put_text(json_t *a, const char *key) { printf("%s", esc_str(text_of(a, key))); }
static void put_switch(json_t *a, const char *key) { printf("%s", json_is_true(json_object_get(a, key)) ? "yes" : "no"); }

static void put_limit(json_t *a, const char *key)
{
        if (number_of(a, key))
                printf("%lld", number_of(a, key));
        else
                printf("no limit");
}

static void put_percent(json_t *a, const char *key)
{
        put_limit(a, key);
        if (number_of(a, key))
                printf(" %% of one processor");
}

static void put_size(json_t *a, const char *key)
{
        static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
        double v = (double)number_of(a, key);
        size_t u = 0;

        while (v >= 1024 && u + 1 < sizeof(units) / sizeof(units[0])) {
                v /= 1024;
                u++;
        }
        if (number_of(a, key))
                printf("%.4g %s", v, units[u]);
        else
                printf("no limit");
}

static void put_state(json_t *a, const char *key)
{
        char when[32];

        printf("%s", esc_str(text_of(a, key)));
        if (number_of(a, "since") > 0)
                printf(" since %s", local_time(when, number_of(a, "since")));
        if (number_of(a, "pid"))
                printf(", session %lld, process %lld", number_of(a, "session"), number_of(a, "pid"));
        if (*text_of(a, "reason"))
                printf(": %s", esc_str(text_of(a, "reason")));
}

static void put_origin(json_t *a, const char *key)
{
        static const struct { const char *id, *text; } origins[] = {
                { "config", "written in the configuration" }, { "made", "saved by `brome workspace new`" }, { "throw-away", "throw-away: made by `brome run`" },
        };
        const char *id = text_of(a, key);

        for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++)
                if (strcmp(id, origins[i].id) == 0)
                        id = origins[i].text;
        printf("%s", esc_str(id));
}

static void next_line(size_t i) { printf("%s%*s", i ? "\n" : "", i ? LABEL_COLUMNS : 0, ""); }

static void put_shares(json_t *a, const char *key)
{
        static const struct { const char *id, *text; } modes[] = { { "rw", "read and write" }, { "ro", "read-only" }, { "overlay", "overlay" } };
        json_t *list = json_object_get(a, key), *share;
        size_t i;

        json_array_foreach(list, i, share) {
                const char *mode = text_of(share, "mode");
                for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
                        if (strcmp(mode, modes[m].id) == 0)
                                mode = modes[m].text;
                next_line(i);
                printf("%s  (%s%s)", esc_str(text_of(share, "path")), esc_str(mode), json_is_true(json_object_get(share, "sockets")) ? ", sockets too" : "");
        }
        if (!json_array_size(list))
                printf("none");
}

static void put_env(json_t *a, const char *key)
{
        json_t *env = json_object_get(a, key), *value;
        const char *name;
        size_t i = 0;

        json_object_foreach(env, name, value) {
                next_line(i++);
                printf("%s=%s", esc_str(name), esc_str(json_string_value(value)));
        }
        if (!i)
                printf("none");
}

static void put_kind(json_t *a, const char *key)
{
        const char *image = text_of(a, "image");

        printf("%s", esc_str(text_of(a, key)));
        if (*image)
                printf(", image %s", esc_str(image));
}

static void put_rules(json_t *a, const char *key)
{
        struct slice rest = slice_str(text_of(a, key));
        size_t i = 0;

        if (!json_is_string(json_object_get(a, key)))
                printf("too long for here: `brome rules show %s`", esc_str(text_of(a, "name")));
        while (rest.n) {
                ptrdiff_t nl = slice_find(rest, '\n');
                struct slice line = nl < 0 ? rest : slice_first(rest, (size_t)nl);
                next_line(i++);
                printf("%s", esc(line));
                rest = slice_skip(rest, line.n + (nl >= 0));
        }
}

struct member {
        const char *label, *key;
        put_fn *put;
};

static void put_members(json_t *answer, const struct member *list, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                printf("%-*s", LABEL_COLUMNS, list[i].label);
                list[i].put(answer, list[i].key);
                putchar('\n');
        }
}

void describe_workspace(json_t *answer)
{
        static const struct member members[] = {
                { "workspace", "name", put_text },        { "state", "state", put_state },          { "origin", "origin", put_origin },
                { "file", "file", put_text },             { "folder", "folder", put_text },         { "isolation", "isolation", put_kind },
                { "memory", "memory_bytes", put_size },   { "processes", "processes", put_limit },  { "cpu", "cpu_percent", put_percent },
                { "dns", "dns", put_text },               { "nested", "nested", put_switch },       { "detect", "detect", put_text },
                { "trace", "trace", put_text },           { "shares", "shares", put_shares },       { "env", "env", put_env },
                { "generation", "generation", put_limit }, { "rules", "rules", put_rules },
        };

        put_members(answer, members, sizeof(members) / sizeof(members[0]));
}

/* ---- the supervisor ---- */

static void put_process(json_t *a, const char *key) { printf("runs (process %lld)", number_of(a, key)); }

static void put_config(json_t *a, const char *key)
{
        json_t *c = json_object_get(a, key);

        printf("%s, read %lld time%s", esc_str(text_of(c, "path")), number_of(c, "generation"), number_of(c, "generation") == 1 ? "" : "s");
        if (*text_of(c, "error"))
                printf("\n%*sbut what stands there now does not parse: %s", LABEL_COLUMNS, "", esc_str(text_of(c, "error")));
}

static void put_journal(json_t *a, const char *key)
{
        json_t *j = json_object_get(a, key);

        if (json_is_true(json_object_get(j, "writable")))
                printf("good");
        else
                printf("cannot be written, so every request is refused: %s", esc_str(text_of(j, "why")));
        if (*text_of(j, "damage"))
                printf("\n%*sdamage: %s", LABEL_COLUMNS, "", esc_str(text_of(j, "damage")));
}

static void put_workspaces(json_t *a, const char *key)
{
        json_t *list = json_object_get(a, key), *row;
        size_t i;

        json_array_foreach(list, i, row) {
                next_line(i);
                printf("%-24s ", esc_str(text_of(row, "name")));
                put_state(row, "state");
        }
        if (!json_array_size(list))
                printf("none");
}

void describe_supervisor(json_t *answer)
{
        static const struct member members[] = {
                { "supervisor", "pid", put_process }, { "config", "config", put_config }, { "journal", "journal", put_journal },
                { "workspaces", "workspaces", put_workspaces },
        };

        put_members(answer, members, sizeof(members) / sizeof(members[0]));
}
