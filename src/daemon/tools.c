/* Tools: see tools.h. Only names are looked at, no file is opened: bromed may not read them. */
#include "daemon/tools.h"
#include "base/esc.h"
#include "base/log.h"
#include "base/slice.h"

#include <errno.h>
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

static bool is_closed(const struct tools_search *where, const char *path)
{
        size_t i;
        json_t *folder;

        json_array_foreach(where->closed, i, folder)
                if (lies_in(path, json_string_value(folder)))
                        return true;
        return false;
}

enum { LINKS_MAX = 40 /* as the kernel's */ };

/* Takes the next part of *rest off. False: there is none. */
static bool next_part(const char **rest, char part[NAME_MAX + 1])
{
        size_t n;

        *rest += strspn(*rest, "/");
        n = strcspn(*rest, "/");
        if (!n || n > NAME_MAX)
                return false;
        memcpy(part, *rest, n);
        part[n] = 0;
        *rest += n;
        return true;
}

/* SECURITY: does the way to this file, part by part and link by link, touch no closed folder? realpath alone does not tell: a guest's link in its share leads out
 * of it again. */
static bool is_open_way(const struct tools_search *where, const char *path)
{
        char at[PATH_MAX] = "", rest[2 * PATH_MAX], target[PATH_MAX], joined[2 * PATH_MAX], part[NAME_MAX + 1];
        const char *p = rest;
        unsigned links = 0;

        if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
                return false;
        while (next_part(&p, part)) {
                size_t here = strlen(at);
                ssize_t n;

                if (strcmp(part, ".") == 0)
                        continue;
                if (strcmp(part, "..") == 0) {
                        at[here ? (size_t)(strrchr(at, '/') - at) : 0] = 0;
                        continue;
                }
                if (is_closed(where, *at ? at : "/") || snprintf(at + here, sizeof(at) - here, "/%s", part) >= (int)(sizeof(at) - here))
                        return false;
                n = readlink(at, target, sizeof(target) - 1);
                if (n < 0 && errno == EINVAL)
                        continue;
                if (n < 0 || ++links > LINKS_MAX)
                        return false;
                target[n] = 0;
                if (snprintf(joined, sizeof(joined), "%s%s", target, p) >= (int)sizeof(joined))
                        return false;
                memcpy(rest, joined, sizeof(rest));
                p = rest;
                at[target[0] == '/' ? 0 : here] = 0;
        }
        return !*p && !is_closed(where, at);
}

/* A folder that everybody may write holds what anybody put there. */
static bool is_own_folder(const char *folder)
{
        struct stat st;

        return stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && !(st.st_mode & S_IWOTH);
}

static bool is_program(char out[PATH_MAX], const struct tools_search *where, const char *folder, size_t n, struct slice program)
{
        char name[PATH_MAX];
        struct stat st;

        if (*folder != '/' || snprintf(name, sizeof(name), "%.*s", (int)n, folder) >= (int)sizeof(name) || !is_own_folder(name))
                return false;
        if (snprintf(out, PATH_MAX, "%s/%.*s", name, SLICE_FMT(program)) >= PATH_MAX || stat(out, &st) < 0 || !S_ISREG(st.st_mode) || access(out, X_OK) < 0)
                return false;
        if (is_open_way(where, out))
                return true;
        log_info("%s is not used: the way there leads through a folder that a workspace can write", esc_str(out));
        return false;
}

static bool find_on(char out[PATH_MAX], const struct tools_search *where, struct slice program, const char *path)
{
        while (path && *path) {
                const char *end = strchrnul(path, ':');

                if (is_program(out, where, path, (size_t)(end - path), program))
                        return true;
                path = *end ? end + 1 : end;
        }
        return false;
}

/* The first of PATH's folders that has the program; then where installers put it whose folder a shell's start-up file adds to PATH. */
static bool find(char out[PATH_MAX], const struct tools_search *where, struct slice program)
{
        static const char *const more[] = { ".local/bin", "bin", ".npm-global/bin", ".bun/bin", ".opencode/bin", ".volta/bin", ".deno/bin" };
        char folder[PATH_MAX];

        if (find_on(out, where, program, where->path) || find_on(out, where, program, where->own_path))
                return true;
        for (size_t i = 0; where->home && i < sizeof(more) / sizeof(more[0]); i++)
                if (snprintf(folder, sizeof(folder), "%s/%s", where->home, more[i]) < PATH_MAX && is_program(out, where, folder, strlen(folder), program))
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

/* Folders with parts of many programs: every system has its own. */
static bool is_the_systems(const char *folder)
{
        static const char *const below[] = { "", "/bin", "/sbin", "/games", "/lib", "/lib32", "/lib64", "/libexec", "/share", "/lib/node_modules", "/share/nodejs" };
        const char *rest = !lies_in(folder, "/usr") ? folder : lies_in(folder, "/usr/local") ? folder + strlen("/usr/local") : folder + strlen("/usr");

        for (size_t i = 0; i < sizeof(below) / sizeof(below[0]); i++)
                if (strcmp(rest, below[i]) == 0)
                        return true;
        return false;
}

static void add(json_t *list, const struct tools_search *where, const char *folder)
{
        size_t i;
        json_t *have;

        /* The root and what every guest has. */
        if (folder[0] != '/' || !folder[1] || is_the_systems(folder) || lies_in(folder, "/bin") || (!where->links && lies_in(folder, "/usr")) ||
            json_array_size(list) >= TOOLS_FOLDERS_MAX)
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

/* Of "/name/…" or "/@scope/name/…": how much is the package's name. */
static ptrdiff_t package_length(const char *below)
{
        const char *end = *below ? strchrnul(below + 1, '/') : below;

        return (*below && below[1] == '@' && *end ? strchrnul(end + 1, '/') : end) - below;
}

/* Narrow: programs of node.js need no more than the outermost node_modules that they lie in; a `bin` stands for what is beside it only when that is one
 * program's. Not a prefix of node.js: other packages lie in it, and etc/npmrc, with tokens perhaps. Of the system's the one package: a machine installs others beside it. */
static void add_needed(json_t *list, const struct tools_search *where, const char *folder)
{
        const char *home = where->home;
        char text[PATH_MAX], prefix[PATH_MAX];
        const char *modules = strstr(folder, "/node_modules"), *last = strrchr(folder, '/');

        if (modules && (modules[13] == '/' || !modules[13])) {
                snprintf(text, sizeof(text), "%.*s", (int)(modules + 13 - folder + (lies_in(folder, "/usr") ? package_length(modules + 13) : 0)), folder);
                add(list, where, text);
                return;
        }
        snprintf(prefix, sizeof(prefix), "%s", folder);
        up(prefix);
        if (!last || strcmp(last, "/bin") != 0) {
                if (home && strcmp(prefix, home) == 0)
                        log_info("%s is a folder of yours with more than programs in it, so no workspace sees it; link what it holds from ~/.local/bin", esc_str(folder));
                else
                        add(list, where, folder);
        } else {
                add(list, where, !has(prefix, "lib/node_modules") && is_one_programs(prefix, home) ? prefix : folder);
        }
}

static void add_program(json_t *list, const struct tools_search *where, struct slice program)
{
        char found[PATH_MAX], folder[PATH_MAX], real[PATH_MAX], target[PATH_MAX];

        if (program.n == 0 || slice_find(program, '/') >= 0 || !find(found, where, program) || !realpath(found, real))
                return;
        up(found);
        snprintf(target, sizeof(target), "%s", real);
        up(real);
        if (!realpath(found, folder)) /* the folder itself may be a link */
                return;
        if (where->links && is_the_systems(folder) && (!is_the_systems(real) || lies_in(real, "/usr/local")))
                json_object_setn_new(where->links, (const char *)program.p, program.n, json_string(target));
        add_needed(list, where, folder);
        add_needed(list, where, real);
}

json_t *tools_folders(const struct config_workspace *w, const struct tools_search *where)
{
        struct tools_search s = *where;
        json_t *list = json_array();
        char real[PATH_MAX];

        s.home = s.home && realpath(s.home, real) && real[1] ? real : NULL;
        for (size_t i = 0; list && i < w->tool_count; i++)
                add_program(list, &s, w->tools[i]);
        return list;
}
