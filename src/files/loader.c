/* Configuration loader: see loader.h. SECURITY: a file that someone else may write decides nothing here. */
#include "files/loader.h"
#include "base/fd.h"
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct load {
        bool missing_ok;
};

int loader_expand(char *out, size_t size, struct slice path, struct slice dir, struct err *err)
{
        const char *home = getenv("HOME");
        int n;

        if (path.n && path.p[0] == '/')
                n = snprintf(out, size, "%.*s", SLICE_FMT(path));
        else if (path.n && path.p[0] == '~' && (path.n == 1 || path.p[1] == '/')) {
                if (!home || home[0] != '/')
                        return err_set(err, "HOME is not set, so ~ has no meaning; write the whole path");
                n = snprintf(out, size, "%s%.*s", home, SLICE_FMT(slice_skip(path, 1)));
        } else
                n = snprintf(out, size, "%.*s/%.*s", SLICE_FMT(dir), SLICE_FMT(path));
        return n < 0 || (size_t)n >= size ? err_set(err, "path too long") : 0;
}

/* The folder of a file name, without the slash; "." when it has none. */
static struct slice folder(const char *file)
{
        const char *slash = strrchr(file, '/');

        if (!slash)
                return SLICE_LIT(".");
        return slash == file ? SLICE_LIT("/") : slice_of(file, (size_t)(slash - file));
}

static int refuse(char *why, size_t size, const char *text)
{
        snprintf(why, size, "%s", text);
        return -1;
}

/* Opens a file that only the user or root can have written. */
static int open_trusted(const char *name, char *why, size_t why_size)
{
        struct stat st;
        int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                return refuse(why, why_size, strerror(errno));
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
                fd_close(&fd);
                return refuse(why, why_size, "not a regular file");
        }
        if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & S_IWOTH)) {
                fd_close(&fd);
                return refuse(why, why_size, "others could have written it: it must belong to you or root and not be writable by everyone (chmod o-w)");
        }
        return fd;
}

static int load_file(void *ctx, const char *path, const char *from, char *name, size_t name_size, char **text, size_t *text_bytes, char *why,
                     size_t why_size)
{
        struct load *l = ctx;
        struct buf buf;
        struct err err = ERR_INIT;
        int fd;

        if (loader_expand(name, name_size, slice_str(path), from ? folder(from) : SLICE_LIT("."), &err) < 0)
                return refuse(why, why_size, err.text);
        if (!from && l->missing_ok && access(name, F_OK) < 0 && errno == ENOENT) {
                *text = calloc(1, 1);
                *text_bytes = 0;
                return *text ? 0 : refuse(why, why_size, "out of memory");
        }
        fd = open_trusted(name, why, why_size);
        if (fd < 0)
                return -1;
        buf_init(&buf, 0);
        if (fd_read_all(fd, &buf, LOADER_FILE_BYTES, &err) < 0) {
                fd_close(&fd);
                buf_fini(&buf);
                return refuse(why, why_size, err.text);
        }
        fd_close(&fd);
        *text_bytes = buf_len(&buf);
        *text = malloc(*text_bytes + 1);
        if (*text) {
                if (*text_bytes)
                        memcpy(*text, buf_slice(&buf).p, *text_bytes);
                (*text)[*text_bytes] = 0;
        }
        buf_fini(&buf);
        return *text ? 0 : refuse(why, why_size, "out of memory");
}

struct config *loader_config(const char *path, bool missing_ok, struct slice extra, const char *extra_name, struct diags *errors)
{
        char absolute[PATH_MAX], cwd[PATH_MAX], agents[PATH_MAX];
        struct load ctx = { .missing_ok = missing_ok };
        struct config_loader loader = { .load = load_file, .ctx = &ctx, .agents = paths_data(agents, "agents") == 0 ? agents : NULL };

        if (path[0] != '/' && path[0] != '~' && getcwd(cwd, sizeof(cwd)) &&
            snprintf(absolute, sizeof(absolute), "%s/%s", cwd, path) < (int)sizeof(absolute))
                path = absolute;
        return config_load(&loader, path, extra, extra_name, errors);
}
