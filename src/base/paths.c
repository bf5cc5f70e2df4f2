/* Places: see paths.h. */
#include "base/paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* out = value of `own`, or of `xdg` + tail, or HOME + home_tail. */
static int place(char out[PATH_MAX], const char *own, const char *xdg, const char *tail, const char *home_tail, struct err *err)
{
        const char *v = own ? getenv(own) : NULL, *t = "";
        int n;

        if (!v || !*v) {
                v = getenv(xdg);
                t = tail;
        }
        if (!v || !*v) {
                v = getenv("HOME");
                t = home_tail;
        }
        if (!v || v[0] != '/')
                return err_set(err, "no place for %s: set HOME (or %s) to an absolute path", tail + 1, own ? own : xdg);
        n = snprintf(out, PATH_MAX, "%s%s", v, t);
        return n < 0 || n >= PATH_MAX - 64 ? err_set(err, "%s is too long a path", own ? own : xdg) : 0;
}

int paths_find(struct paths *out, const char *config_override, struct err *err)
{
        struct paths p;
        const char *runtime = getenv("XDG_RUNTIME_DIR");

        if (config_override) {
                if (snprintf(p.config, sizeof(p.config), "%s", config_override) >= (int)sizeof(p.config))
                        return err_set(err, "--config is too long a path");
        } else if (place(p.config, "BROME_CONFIG", "XDG_CONFIG_HOME", "/brome/brome.conf", "/.config/brome/brome.conf", err) < 0) {
                return -1;
        }
        if (place(p.state, "BROME_STATE", "XDG_STATE_HOME", "/brome", "/.local/state/brome", err) < 0)
                return -1;
        if (getenv("BROME_RUNTIME") || (runtime && *runtime && access(runtime, W_OK | X_OK) == 0)) {
                if (place(p.runtime, "BROME_RUNTIME", "XDG_RUNTIME_DIR", "/brome", "/.cache/brome/run", err) < 0)
                        return -1;
        } else if (snprintf(p.runtime, sizeof(p.runtime), "%s/run", p.state) >= (int)sizeof(p.runtime) - 64) {
                return err_set(err, "BROME_STATE is too long a path");
        }
        /* A socket address holds 107 bytes. */
        if (strlen(p.runtime) > 107 - sizeof("/bromed.sock"))
                return err_set(err, "the runtime folder %s is too long a path for a socket; set BROME_RUNTIME to a shorter one", p.runtime);
        if (paths_data(p.agents, "agents") < 0)
                p.agents[0] = 0;
        *out = p;
        return 0;
}

/* The folder of the running program, without a slash at its end. */
static int own_folder(char *out, size_t size)
{
        ssize_t n = readlink("/proc/self/exe", out, size - 1);
        char *slash;

        if (n <= 0)
                return -1;
        out[n] = 0;
        slash = strrchr(out, '/');
        if (slash)
                *slash = 0;
        return 0;
}

/* As the kernel names it: what is handed on, to programs that take no "..", is no detour over the folder of our programs. */
static int settle(char path[PATH_MAX])
{
        char real[PATH_MAX];

        if (access(path, R_OK) < 0 || !realpath(path, real))
                return -1;
        snprintf(path, PATH_MAX, "%s", real);
        return 0;
}

int paths_data(char out[PATH_MAX], const char *name)
{
        static const char *const tail[] = { "/../share/brome/", "/../../share/brome/" };
        const char *fixed = getenv("BROME_DATA");
        char exe[PATH_MAX - 256];

        if (fixed && *fixed) {
                if (snprintf(out, PATH_MAX, "%s/%s", fixed, name) < PATH_MAX && settle(out) == 0)
                        return 0;
        } else if (own_folder(exe, sizeof(exe)) == 0) {
                for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
                        if (snprintf(out, PATH_MAX, "%s%s%s", exe, tail[i], name) < PATH_MAX && settle(out) == 0)
                                return 0;
        }
        out[0] = 0;
        return -1;
}

int paths_program(char out[PATH_MAX], const char *name, struct err *err)
{
        static const char *const tail[] = { "/../libexec/brome/", "/" };
        const char *fixed = getenv("BROME_LIBEXEC");
        char exe[PATH_MAX - 256];

        if (fixed && *fixed) {
                if (snprintf(out, PATH_MAX, "%s/%s", fixed, name) < PATH_MAX && access(out, X_OK) == 0)
                        return 0;
                return err_set(err, "%s is not in BROME_LIBEXEC (%s)", name, fixed);
        }
        if (own_folder(exe, sizeof(exe)) < 0)
                return err_set(err, "cannot find the folder of brome's programs: /proc is not mounted");
        for (size_t i = 0; i < sizeof(tail) / sizeof(tail[0]); i++)
                if (snprintf(out, PATH_MAX, "%s%s%s", exe, tail[i], name) < PATH_MAX && access(out, X_OK) == 0)
                        return 0;
        return err_set(err, "%s is not installed beside brome (looked in %s/../libexec/brome and %s)", name, exe, exe);
}
