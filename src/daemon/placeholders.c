/* Placeholders: see placeholders.h. */
#include "daemon/placeholders.h"
#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = PLACEHOLDERS_MAX * (REQUEST_NAME_BYTES + PLACEHOLDER_BYTES_MAX + 32) };

/* The next word of a line; empty at its end. */
static struct slice word(struct slice *line)
{
        ptrdiff_t end = slice_find(*line, ' ');
        struct slice w = end < 0 ? *line : slice_first(*line, (size_t)end);

        *line = end < 0 ? SLICE_EMPTY : slice_skip(*line, (size_t)end + 1);
        return w;
}

static struct placeholder_row *find(const struct placeholders *p, struct slice credential)
{
        for (size_t i = 0; i < p->count; i++)
                if (slice_is(credential, p->rows[i].credential))
                        return (struct placeholder_row *)(uintptr_t)&p->rows[i];
        return NULL;
}

static int parse_line(struct placeholders *p, struct slice line)
{
        struct slice name = word(&line), kind = word(&line), text = line;
        struct placeholder_row *row = &p->rows[p->count];

        if (p->count == PLACEHOLDERS_MAX || !name.n || !text.n || name.n >= sizeof(row->credential) || text.n >= sizeof(row->text) || find(p, name))
                return -1;
        *row = (struct placeholder_row){ .kind = kind_by_name(kind) };
        memcpy(row->credential, name.p, name.n);
        memcpy(row->text, text.p, text.n);
        if (memchr(name.p, 0, name.n) || !request_name_ok(row->credential) || row->kind == ACCOUNT_KIND_COUNT || !placeholder_ok(text))
                return -1;
        p->count++;
        return 0;
}

int placeholders_parse(struct placeholders *p, struct slice text)
{
        memset(p, 0, sizeof(*p));
        while (text.n) {
                ptrdiff_t end = slice_find(text, '\n');

                if (end <= 0 || parse_line(p, slice_first(text, (size_t)end)) < 0)
                        return -1;
                text = slice_skip(text, (size_t)end + 1);
        }
        return 0;
}

static int path_of(char out[PATH_MAX], const char *folder, struct err *err)
{
        return snprintf(out, PATH_MAX, "%s/placeholders", folder) < PATH_MAX ? 0 : err_set(err, "the state folder is too long a path");
}

int placeholders_read(struct placeholders *p, const char *folder, struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        int rc;

        memset(p, 0, sizeof(*p));
        if (path_of(path, folder, err) < 0)
                return -1;
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return 0;
        buf_init(&text, FILE_BYTES_MAX + 65536);
        rc = fd_read_file(path, &text, FILE_BYTES_MAX, err);
        if (rc == 0 && placeholders_parse(p, buf_slice(&text)) < 0)
                rc = err_set(err, "%s is damaged; remove it, and the workspace gets new placeholders", path);
        buf_fini(&text);
        return rc;
}

/* A row that nobody asked for makes room. */
static struct placeholder_row *free_row(struct placeholders *p)
{
        if (p->count < PLACEHOLDERS_MAX)
                return &p->rows[p->count++];
        for (size_t i = 0; i < p->count; i++)
                if (!p->rows[i].wanted)
                        return &p->rows[i];
        return NULL;
}

const char *placeholders_want(struct placeholders *p, struct slice credential, enum account_kind kind)
{
        struct placeholder_row *row = find(p, credential);
        uint8_t bytes[PLACEHOLDER_RANDOM_BYTES];

        if (row && row->kind == kind) {
                row->wanted = true;
                return row->text;
        }
        if (credential.n >= REQUEST_NAME_BYTES || getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes) || (!row && !(row = free_row(p))))
                return NULL;
        *row = (struct placeholder_row){ .kind = kind, .wanted = true };
        memcpy(row->credential, credential.p, credential.n);
        placeholder_mint(kind, bytes, row->text);
        p->changed = true;
        return row->text;
}

const char *placeholders_get(const struct placeholders *p, struct slice credential)
{
        const struct placeholder_row *row = find(p, credential);

        return row ? row->text : NULL;
}

int placeholders_write(struct placeholders *p, const char *folder, struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        int rc;

        if (!p->changed)
                return 0;
        if (path_of(path, folder, err) < 0)
                return -1;
        buf_init(&text, 0);
        for (size_t i = 0; i < p->count; i++)
                buf_addf(&text, "%s %s %s\n", p->rows[i].credential, kind_row(p->rows[i].kind)->name, p->rows[i].text);
        rc = text.failed ? err_set(err, "out of memory") : fd_write_file(path, 0600, buf_slice(&text).p, buf_len(&text), err);
        buf_fini(&text);
        if (rc == 0)
                p->changed = false;
        return rc;
}
