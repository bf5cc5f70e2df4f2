/* Changes to brome.conf: see confedit.h. */
#include "cli/confedit.h"
#include "base/esc.h"
#include "base/fd.h"
#include "cli/local.h"
#include "files/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int take_lock(struct cli *cli, struct err *err)
{
        char path[PATH_MAX];
        int fd;

        if (fd_mkdirs(cli->paths.state, 0700, err) < 0)
                return -1;
        if (snprintf(path, sizeof(path), "%s/config.lock", cli->paths.state) >= (int)sizeof(path))
                return err_set(err, "BROME_STATE is too long a path");
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
                return err_sys(err, errno, "%s", path);
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
                fd_close(&fd);
                return err_set(err, "another brome is changing the configuration just now; try again when it is done");
        }
        return fd;
}

static int find_file(struct cli *cli, struct confedit *e, struct err *err)
{
        char folder[PATH_MAX], *slash;

        e->there = realpath(cli->paths.config, e->file) != NULL;
        if (!e->there) {
                snprintf(e->file, sizeof(e->file), "%s", cli->paths.config);
                snprintf(folder, sizeof(folder), "%s", e->file);
                slash = strrchr(folder, '/');
                if (slash && slash != folder) {
                        *slash = 0;
                        if (fd_mkdirs(folder, 0700, err) < 0)
                                return -1;
                }
        }
        return e->there ? fd_read_file(e->file, &e->text, LOADER_FILE_BYTES, err) : 0;
}

int confedit_open(struct cli *cli, struct confedit *e)
{
        struct err err = ERR_INIT;

        *e = (struct confedit){ .lock = -1 };
        buf_init(&e->text, 0);
        e->lock = take_lock(cli, &err);
        return e->lock < 0 || find_file(cli, e, &err) < 0 ? cli_fail(EXIT_CONFIG_, "%s", err.text) : EXIT_OK;
}

static int write_fresh(struct confedit *e, struct slice text, struct err *err)
{
        char path[PATH_MAX];
        struct stat st;
        mode_t mode = e->there && stat(e->file, &st) == 0 ? st.st_mode & 0777 : 0600;

        if (snprintf(path, sizeof(path), "%s.brome-new", e->file) >= (int)sizeof(path))
                return err_set(err, "the configuration's path is too long");
        if (fd_write_file(path, mode, text.p, text.n, err) < 0)
                return -1;
        snprintf(e->fresh, sizeof(e->fresh), "%s", path);
        return 0;
}

int confedit_prepare(struct cli *cli, struct confedit *e, struct slice text, struct config **config)
{
        static struct diags errors; /* large */
        struct cli other = *cli;
        struct err err = ERR_INIT;
        struct config *c;

        errors = (struct diags){ 0 };
        if (write_fresh(e, text, &err) < 0)
                return cli_fail(EXIT_CONFIG_, "%s", err.text);
        snprintf(other.paths.config, sizeof(other.paths.config), "%s", e->fresh);
        c = local_config(&other, NULL, &errors);
        if (!c)
                return local_diags(&errors);
        if (config)
                *config = c;
        else
                config_free(c);
        return EXIT_OK;
}

int confedit_commit(struct confedit *e)
{
        if (rename(e->fresh, e->file) < 0)
                return cli_fail(EXIT_CONFIG_, "%s: %s", esc_str(e->file), strerror(errno));
        e->fresh[0] = 0;
        return EXIT_OK;
}

void confedit_close(struct confedit *e)
{
        if (e->fresh[0])
                unlink(e->fresh);
        e->fresh[0] = 0;
        buf_fini(&e->text);
        fd_close(&e->lock);
}

/* ---- pure ---- */

int confedit_append(struct slice text, struct slice block, struct buf *out)
{
        buf_add_slice(out, text);
        if (text.n && text.p[text.n - 1] != '\n')
                buf_add_str(out, "\n");
        if (text.n)
                buf_add_str(out, "\n");
        return buf_add_slice(out, block);
}

static bool ends_word(uint8_t c) { return c <= ' ' || strchr("{}\"#;,=<>$\\", c) != NULL; }

/* The next thing of the language from *i on: a word, a string (with its quotes) or one character. Comments and blanks are passed over; line breaks are things.
 * Empty at the end. */
static struct slice next_thing(struct slice t, size_t *i)
{
        size_t at;

        for (; *i < t.n; (*i)++) {
                if (t.p[*i] == '#')
                        while (*i + 1 < t.n && t.p[*i + 1] != '\n')
                                (*i)++;
                else if (t.p[*i] == '\\' && *i + 1 < t.n && t.p[*i + 1] == '\n')
                        (*i)++;
                else if (t.p[*i] != ' ' && t.p[*i] != '\t' && t.p[*i] != '\r')
                        break;
        }
        at = *i;
        if (at >= t.n)
                return SLICE_EMPTY;
        if (t.p[at] == '"') {
                for ((*i)++; *i < t.n && t.p[*i] != '"' && t.p[*i] != '\n'; (*i)++)
                        if (t.p[*i] == '\\')
                                (*i)++;
                *i = *i < t.n ? *i + 1 : t.n;
        } else if (ends_word(t.p[at])) {
                (*i)++;
        } else {
                while (*i < t.n && !ends_word(t.p[*i]))
                        (*i)++;
        }
        return slice_of(t.p + at, *i - at);
}

/* Behind the brace that closes the one before *i. */
static bool skip_block(struct slice t, size_t *i)
{
        struct slice s;

        for (int depth = 1; depth > 0;) {
                s = next_thing(t, i);
                if (s.n == 0)
                        return false;
                depth += slice_is(s, "{") ? 1 : slice_is(s, "}") ? -1 : 0;
        }
        return true;
}

/* Whole lines when nothing else stands on them. */
static void take_lines(struct slice t, size_t *at, size_t *end)
{
        size_t a = *at, b = *end;

        while (a && (t.p[a - 1] == ' ' || t.p[a - 1] == '\t'))
                a--;
        while (b < t.n && (t.p[b] == ' ' || t.p[b] == '\t' || t.p[b] == ';' || t.p[b] == '\r'))
                b++;
        if ((a && t.p[a - 1] != '\n') || (b < t.n && t.p[b] != '\n'))
                return;
        *at = a;
        *end = b < t.n ? b + 1 : b;
        /* One of two empty lines around it goes too. */
        if (*at >= 2 && t.p[*at - 1] == '\n' && t.p[*at - 2] == '\n' && (*end == t.n || t.p[*end] == '\n'))
                (*at)--;
}

bool confedit_find(struct slice t, const char *word, const char *name, size_t *at, size_t *n)
{
        size_t i = 0;

        for (;;) {
                struct slice first = next_thing(t, &i), s;
                size_t begin = first.n ? (size_t)(first.p - t.p) : 0, end;

                if (first.n == 0)
                        return false;
                if (slice_is(first, "{") && !skip_block(t, &i))
                        return false;
                if (!slice_is(first, word))
                        continue;
                end = i;
                s = next_thing(t, &end);
                if (!slice_is(s, name))
                        continue;
                s = next_thing(t, &end);
                if (!slice_is(s, "{") || !skip_block(t, &end))
                        continue;
                take_lines(t, &begin, &end);
                *at = begin;
                *n = end - begin;
                return true;
        }
}
