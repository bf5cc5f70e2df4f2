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

/* The first of PATH's folders that has the program. */
static bool find(char out[PATH_MAX], struct slice program, const char *path)
{
        while (path && *path) {
                const char *end = strchrnul(path, ':');
                struct stat st;

                if (*path == '/' && snprintf(out, PATH_MAX, "%.*s/%.*s", (int)(end - path), path, SLICE_FMT(program)) < PATH_MAX && stat(out, &st) == 0 &&
                    S_ISREG(st.st_mode) && access(out, X_OK) == 0)
                        return true;
                path = *end ? end + 1 : end;
        }
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

/* Somebody's home, or what everything of one user's is installed below: keys and brome's own files lie there too. */
static bool too_wide(const char *prefix)
{
        const char *home = getenv("HOME");
        char real[PATH_MAX], local[PATH_MAX + 8];

        if (!home || !realpath(home, real))
                return false;
        snprintf(local, sizeof(local), "%s/.local", real);
        return lies_in(local, prefix);
}

/* Below such a prefix: the folder of programs, and of what it leads to the package: PREFIX/lib/node_modules, PREFIX/share/NAME. */
static void add_narrow(json_t *list, const char *prefix, const char *bin, const char *real)
{
        size_t n = strlen(prefix);
        char package[PATH_MAX];
        const char *end;

        add(list, bin);
        if (!lies_in(real, prefix) || lies_in(real, bin) || !(end = strchr(real + n + 1, '/')))
                return;
        end = strchrnul(end + 1, '/');
        snprintf(package, sizeof(package), "%.*s", (int)(end - real), real);
        add(list, package);
}

static void add_program(json_t *list, struct slice program, const char *path)
{
        char found[PATH_MAX], prefix[PATH_MAX], real[PATH_MAX], bin[PATH_MAX];
        const char *last;

        if (program.n == 0 || slice_find(program, '/') >= 0 || !find(found, program, path) || !realpath(found, real))
                return;
        up(found);
        if (!realpath(found, prefix)) /* the folder itself may be a link */
                return;
        snprintf(bin, sizeof(bin), "%s", prefix);
        last = strrchr(prefix, '/');
        if (last && strcmp(last, "/bin") == 0)
                up(prefix);
        up(real);
        if (too_wide(prefix))
                add_narrow(list, prefix, bin, real);
        else
                add(list, prefix);
        if (!lies_in(real, prefix))
                add(list, real);
}

json_t *tools_folders(const struct config_workspace *w, const char *path)
{
        json_t *list = json_array();

        for (size_t i = 0; list && i < w->tool_count; i++)
                add_program(list, w->tools[i], path);
        return list;
}
