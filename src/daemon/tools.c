/* Tools: see tools.h. Only names are looked at, no file is opened: bromed may not read them. */
#include "daemon/tools.h"
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

/* Is all of a prefix the program's? Not where many programs lie, not a folder right in the home (~/.cargo: what configures a tool, and its keys). */
static bool is_one_programs(const char *prefix, const char *home)
{
        char above[PATH_MAX], local[PATH_MAX];

        snprintf(above, sizeof(above), "%s", prefix);
        up(above);
        if (home && (snprintf(local, sizeof(local), "%s/.local", home) >= PATH_MAX || strcmp(prefix, home) == 0 || strcmp(prefix, local) == 0 || strcmp(above, home) == 0))
                return false;
        return *above; /* /opt and its like hold many */
}

/* Narrow: programs of node.js need no more than the outermost node_modules that they lie in; a `bin` stands for what is beside it only when that is one
 * program's. The prefix of node.js itself has etc/npmrc, with tokens perhaps. */
static void add_needed(json_t *list, const char *folder, const char *home)
{
        char text[PATH_MAX + sizeof("/lib/node_modules")], prefix[PATH_MAX];
        const char *modules = strstr(folder, "/node_modules"), *last = strrchr(folder, '/');
        struct stat st;

        if (modules && (modules[13] == '/' || !modules[13])) {
                snprintf(text, sizeof(text), "%.*s", (int)(modules + 13 - folder), folder);
                add(list, text);
                return;
        }
        snprintf(prefix, sizeof(prefix), "%s", folder);
        up(prefix);
        snprintf(text, sizeof(text), "%s/lib/node_modules", prefix);
        if (!last || strcmp(last, "/bin") != 0) {
                add(list, folder);
        } else if (stat(text, &st) == 0) {
                add(list, folder);
                add(list, text);
        } else {
                add(list, is_one_programs(prefix, home) ? prefix : folder);
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
