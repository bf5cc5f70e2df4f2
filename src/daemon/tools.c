/* Tools: see tools.h. Only names are looked at, no file is opened: bromed may not read them. */
#include "daemon/tools.h"
#include "base/esc.h"
#include "base/log.h"
#include "base/slice.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool lies_in(const char *path, const char *folder)
{
        size_t n = strlen(folder);

        return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0);
}

static bool is_program(char out[PATH_MAX], const char *folder, size_t n, struct slice program)
{
        struct stat st;

        return *folder == '/' && snprintf(out, PATH_MAX, "%.*s/%.*s", (int)n, folder, SLICE_FMT(program)) < PATH_MAX && stat(out, &st) == 0 && S_ISREG(st.st_mode) && access(out, X_OK) == 0;
}

/* The first of PATH's folders that has the program; then where installers put it whose folder a shell's start-up file adds to PATH. */
static bool find(char out[PATH_MAX], struct slice program, const char *path, const char *home)
{
        static const char *const more[] = { ".local/bin", "bin", ".npm-global/bin", ".bun/bin", ".opencode/bin" };
        char folder[PATH_MAX];

        while (path && *path) {
                const char *end = strchrnul(path, ':');

                if (is_program(out, path, (size_t)(end - path), program))
                        return true;
                path = *end ? end + 1 : end;
        }
        for (size_t i = 0; home && i < sizeof(more) / sizeof(more[0]); i++)
                if (snprintf(folder, sizeof(folder), "%s/%s", home, more[i]) < PATH_MAX && is_program(out, folder, strlen(folder), program))
                        return true;
        return false;
}

/* Cuts the last part off; an empty text is the root. */
static void up(char *path)
{
        char *slash = strrchr(path, '/');

        if (slash)
                *slash = 0;
}

static void add(json_t *list, const char *folder)
{
        size_t i;
        json_t *have;

        /* The root and what every guest has of the host. */
        if (folder[0] != '/' || !folder[1] || lies_in(folder, "/usr") || lies_in(folder, "/bin") || json_array_size(list) >= TOOLS_FOLDERS_MAX)
                return;
        json_array_foreach(list, i, have)
                if (lies_in(folder, json_string_value(have)))
                        return;
        json_array_append_new(list, json_string(folder));
}

static bool has(const char *folder, const char *name)
{
        char path[PATH_MAX];
        struct stat st;

        return snprintf(path, sizeof(path), "%s/%s", folder, name) < PATH_MAX && stat(path, &st) == 0;
}

/* Is what lies beside its `bin` the program's as well? In a home only below a hidden folder, as installers make them, or in an environment of Python: a
 * folder right in the home (~/.cargo: what configures a tool, and its keys) and a project with a `bin` are more than a program. /opt and its like hold many. */
static bool is_one_programs(const char *prefix, const char *home)
{
        static const char *const parts[] = { "lib", "lib64", "libexec", "share" };
        const char *below = home && lies_in(prefix, home) ? prefix + strlen(home) : NULL, *last = strrchr(prefix, '/');
        bool more = false;

        if (!last || last == prefix || (below && (!*below || last == below)))
                return false;
        if (has(prefix, "pyvenv.cfg"))
                return true;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
                more = more || has(prefix, parts[i]);
        return more && (!below || below[1] == '.') && !(below && strcmp(below, "/.local") == 0);
}

/* Narrow: programs of node.js need no more than the outermost node_modules that they lie in; a `bin` stands for what is beside it only when that is one
 * program's. Not a prefix of node.js: other packages lie in it, and etc/npmrc, with tokens perhaps. */
static void add_needed(json_t *list, const char *folder, const char *home)
{
        char text[PATH_MAX], prefix[PATH_MAX];
        const char *modules = strstr(folder, "/node_modules"), *last = strrchr(folder, '/');

        if (modules && (modules[13] == '/' || !modules[13])) {
                snprintf(text, sizeof(text), "%.*s", (int)(modules + 13 - folder), folder);
                add(list, text);
                return;
        }
        snprintf(prefix, sizeof(prefix), "%s", folder);
        up(prefix);
        if (!last || strcmp(last, "/bin") != 0) {
                if (home && strcmp(prefix, home) == 0)
                        log_info("%s is a folder of yours with more than programs in it, so no workspace sees it; link what it holds from ~/.local/bin", esc_str(folder));
                else
                        add(list, folder);
        } else {
                add(list, !has(prefix, "lib/node_modules") && is_one_programs(prefix, home) ? prefix : folder);
        }
}

static void add_program(json_t *list, struct slice program, const char *path, const char *home)
{
        char found[PATH_MAX], folder[PATH_MAX], real[PATH_MAX];

        if (program.n == 0 || slice_find(program, '/') >= 0 || !find(found, program, path, home) || !realpath(found, real))
                return;
        up(found);
        up(real);
        if (!realpath(found, folder)) /* the folder itself may be a link */
                return;
        add_needed(list, folder, home);
        add_needed(list, real, home);
}

json_t *tools_folders(const struct config_workspace *w, const char *path, const char *home)
{
        json_t *list = json_array();
        char real[PATH_MAX];

        if (!home || !realpath(home, real) || !real[1])
                home = NULL;
        for (size_t i = 0; list && i < w->tool_count; i++)
                add_program(list, w->tools[i], path, home ? real : NULL);
        return list;
}
