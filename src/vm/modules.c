/* modules.dep: see modules.h. */
#include "vm/modules.h"
#include "base/esc.h"

#include <stdlib.h>

enum { STATE_NEW, STATE_UNDER_WAY, STATE_DONE };

static const struct {
        const char *end;
        enum modules_coding coding;
} endings[] = { { ".ko", MODULES_PLAIN }, { ".ko.xz", MODULES_XZ }, { ".ko.zst", MODULES_ZSTD }, { ".ko.gz", MODULES_GZIP } };

static ptrdiff_t ending_of(struct slice path)
{
        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
                if (slice_ends(path, slice_str(endings[i].end)))
                        return (ptrdiff_t)i;
        return -1;
}

enum modules_coding modules_coding(struct slice path)
{
        ptrdiff_t i = ending_of(path);
        return i < 0 ? MODULES_PLAIN : endings[i].coding;
}

struct slice modules_name(struct slice path)
{
        ptrdiff_t i = ending_of(path), slash;

        while ((slash = slice_find(path, '/')) >= 0)
                path = slice_skip(path, (size_t)slash + 1);
        return i < 0 ? path : slice_first(path, path.n - strlen(endings[i].end));
}

static bool path_ok(struct slice path)
{
        if (path.n == 0 || path.n > MODULES_PATH_BYTES || ending_of(path) < 0)
                return false;
        for (size_t i = 0, start = 0; i <= path.n; i++) {
                if (i == path.n || path.p[i] == '/') {
                        struct slice part = slice_of(path.p + start, i - start);
                        if (part.n == 0 || part.p[0] == '.')
                                return false;
                        start = i + 1;
                } else if (path.p[i] <= ' ' || path.p[i] >= 0x7f || path.p[i] == ':') {
                        return false;
                }
        }
        return modules_name(path).n > 0;
}

/* The text up to the byte, and what is behind it; without the byte everything. */
static struct slice cut(struct slice *rest, uint8_t at)
{
        ptrdiff_t i = slice_find(*rest, at);
        struct slice first = i < 0 ? *rest : slice_first(*rest, (size_t)i);

        *rest = i < 0 ? SLICE_EMPTY : slice_skip(*rest, (size_t)i + 1);
        return first;
}

static int by_path(const void *a, const void *b)
{
        struct slice x = ((const struct module *)a)->path, y = ((const struct module *)b)->path;
        int rc = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);

        return rc != 0 ? rc : (x.n > y.n) - (x.n < y.n);
}

static int parse_lines(struct modules *m, struct slice text, struct err *err)
{
        while (text.n > 0) {
                struct slice line = cut(&text, '\n'), needs = line, path = cut(&needs, ':'), rest;

                if (path.n == line.n || !path_ok(path) || (needs.n > 0 && needs.p[0] != ' '))
                        return err_set(err, "modules.dep: line %zu is not `path: paths`", m->count + 1);
                needs = slice_skip(needs, 1);
                if (needs.n > 0 && needs.p[needs.n - 1] == ' ')
                        return err_set(err, "modules.dep: the line of %s ends with a space", esc(path));
                for (rest = needs; rest.n > 0;)
                        if (!path_ok(cut(&rest, ' ')))
                                return err_set(err, "modules.dep: %s needs what is no module", esc(path));
                m->all[m->count++] = (struct module){ .path = path, .needs = needs };
        }
        return 0;
}

int modules_parse(struct modules *m, struct slice text, struct err *err)
{
        size_t lines = 1; /* at most: the last one may have no end */

        *m = (struct modules){ 0 };
        if (text.n > MODULES_TEXT_BYTES)
                return err_set(err, "modules.dep is larger than %d bytes", MODULES_TEXT_BYTES);
        for (size_t i = 0; i < text.n; i++)
                lines += text.p[i] == '\n';
        if (lines > MODULES_MAX)
                return err_set(err, "modules.dep has more than %d lines", MODULES_MAX);
        m->all = calloc(lines, sizeof(*m->all));
        m->order = calloc(lines, sizeof(*m->order));
        if (!m->all || !m->order) {
                modules_free(m);
                return err_set(err, "no memory");
        }
        if (parse_lines(m, text, err) < 0) {
                modules_free(m);
                return -1;
        }
        qsort(m->all, m->count, sizeof(*m->all), by_path);
        for (size_t i = 1; i < m->count; i++)
                if (slice_eq(m->all[i - 1].path, m->all[i].path)) {
                        err_set(err, "modules.dep has %s twice", esc(m->all[i].path));
                        modules_free(m);
                        return -1;
                }
        return 0;
}

void modules_free(struct modules *m)
{
        free(m->all);
        free(m->order);
        *m = (struct modules){ 0 };
}

void modules_forget(struct modules *m)
{
        m->order_count = 0;
        for (size_t i = 0; i < m->count; i++)
                m->all[i].state = STATE_NEW;
}

static bool same_name(struct slice a, const char *name)
{
        if (a.n != strlen(name))
                return false;
        for (size_t i = 0; i < a.n; i++)
                if ((a.p[i] == '-' ? '_' : a.p[i]) != (uint8_t)(name[i] == '-' ? '_' : name[i]))
                        return false;
        return true;
}

ptrdiff_t modules_find(const struct modules *m, const char *name)
{
        for (size_t i = 0; i < m->count; i++)
                if (same_name(modules_name(m->all[i].path), name))
                        return (ptrdiff_t)i;
        return -1;
}

bool modules_built_in(struct slice text, const char *name)
{
        while (text.n > 0)
                if (same_name(modules_name(cut(&text, '\n')), name))
                        return true;
        return false;
}

static int need(struct modules *m, size_t i, unsigned depth, struct err *err)
{
        struct module *self = &m->all[i];
        struct slice rest = self->needs;

        if (self->state == STATE_DONE)
                return 0;
        if (self->state == STATE_UNDER_WAY || depth > MODULES_DEPTH)
                return err_set(err, "modules.dep: %s needs itself", esc(self->path));
        self->state = STATE_UNDER_WAY;
        /* modprobe loads the list from its end: what is needed most stands last. */
        while (rest.n > 0) {
                size_t start = rest.n;
                while (start > 0 && rest.p[start - 1] != ' ')
                        start--;
                struct module key = { .path = slice_skip(rest, start) };
                const struct module *found = bsearch(&key, m->all, m->count, sizeof(*m->all), by_path);
                if (!found)
                        return err_set(err, "modules.dep: %s needs %s, which is not there", esc(self->path), esc(key.path));
                if (need(m, (size_t)(found - m->all), depth + 1, err) < 0)
                        return -1;
                rest = slice_first(rest, start > 0 ? start - 1 : 0);
        }
        self->state = STATE_DONE;
        m->order[m->order_count++] = i;
        return 0;
}

int modules_need(struct modules *m, size_t i, struct err *err) { return need(m, i, 0, err); }
