/* A unified difference of one file: common ends cut off, the middle by Myers' greedy algorithm with a bound on the edits, beyond which the middle is shown
 * as replaced. Lines are an enemy's: escaped as they are written. */
#include "share/overlay.h"
#include "share/share_priv.h"
#include "base/esc.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 3, LINE_BYTES = 4096 /* of a line that are shown */, PIECE_BYTES = 64 /* escaped at a time: eight-fold at most, into 512 */, BINARY_LOOK_BYTES = 8192 };

struct side {
        struct buf text;
        struct slice *lines; /* with their newlines: a last line without one is not the same as one with it */
        size_t count;
        bool exists, is_text;
};
struct edits { /* one byte a line of either side: kept or not */
        uint8_t *gone, *come;
};

static int side_lines(struct side *s)
{
        struct slice rest = buf_slice(&s->text);
        s->lines = calloc(OVERLAY_TEXT_LINES, sizeof(*s->lines));
        if (s->lines == NULL)
                return -1;
        while (rest.n > 0) {
                ptrdiff_t at = slice_find(rest, '\n');
                if (s->count == OVERLAY_TEXT_LINES) {
                        s->is_text = false;
                        return 0;
                }
                s->lines[s->count++] = slice_first(rest, at < 0 ? rest.n : (size_t)at + 1);
                rest = slice_skip(rest, s->lines[s->count - 1].n);
        }
        return 0;
}

static int side_read(struct side *s, int dirfd, const char *path)
{
        struct stat st;
        struct err ignored = ERR_INIT;
        buf_init(&s->text, OVERLAY_TEXT_BYTES + 1);
        int fd = share_open(dirfd, path, O_RDONLY | O_NONBLOCK, 0);
        s->exists = fd >= 0 && fstat(fd, &st) == 0 && !S_ISCHR(st.st_mode);
        s->is_text = !s->exists || (S_ISREG(st.st_mode) && fd_read_all(fd, &s->text, OVERLAY_TEXT_BYTES, &ignored) == 0);
        fd_close(&fd);
        if (slice_find(slice_first(buf_slice(&s->text), BINARY_LOOK_BYTES), 0) >= 0)
                s->is_text = false;
        return s->is_text ? side_lines(s) : 0;
}

static void side_fini(struct side *s)
{
        buf_fini(&s->text);
        free(s->lines);
}

/* Walks back through the rounds and marks what is not common. v[d] holds the furthest x on each diagonal of round d. */
static void mark(size_t from, size_t n, size_t m, int32_t **v, int d, struct edits *e)
{
        int x = (int)n, y = (int)m;
        for (; d > 0; d--) {
                int k = x - y;
                const int32_t *before = v[d - 1] + (d - 1);
                int down = k == -d || (k != d && before[k - 1] < before[k + 1]);
                int k2 = down ? k + 1 : k - 1, x2 = before[k2], y2 = x2 - k2;
                if (down)
                        e->come[from + (size_t)y2] = 1;
                else
                        e->gone[from + (size_t)x2] = 1;
                x = x2;
                y = y2;
        }
}

/* 1: marked; 0: too many edits; -1: memory. */
static int myers(const struct side *a, const struct side *b, size_t from, size_t n, size_t m, struct edits *e)
{
        static int32_t *v[OVERLAY_TEXT_EDITS + 1];
        int result = 0, rounds = 0;
        for (int d = 0; d <= OVERLAY_TEXT_EDITS && (size_t)d <= n + m && result == 0; d++) {
                v[d] = calloc((size_t)(2 * d + 1), sizeof(int32_t));
                if (v[d] == NULL) {
                        result = -1;
                        break;
                }
                rounds = d + 1;
                int32_t *now = v[d] + d;
                const int32_t *before = d > 0 ? v[d - 1] + (d - 1) : NULL;
                for (int k = -d; k <= d && result == 0; k += 2) {
                        int x = d == 0 ? 0 : (k == -d || (k != d && before[k - 1] < before[k + 1])) ? before[k + 1] : before[k - 1] + 1;
                        int y = x - k;
                        while (x >= 0 && y >= 0 && (size_t)x < n && (size_t)y < m && slice_eq(a->lines[from + (size_t)x], b->lines[from + (size_t)y])) {
                                x++;
                                y++;
                        }
                        now[k] = x;
                        if ((size_t)x == n && (size_t)y == m) {
                                mark(from, n, m, v, d, e);
                                result = 1;
                        }
                }
        }
        for (int d = 0; d < rounds; d++)
                free(v[d]);
        return result;
}

static int find_edits(const struct side *a, const struct side *b, struct edits *e)
{
        size_t from = 0, n = a->count, m = b->count;
        while (from < n && from < m && slice_eq(a->lines[from], b->lines[from]))
                from++;
        while (n > from && m > from && slice_eq(a->lines[n - 1], b->lines[m - 1])) {
                n--;
                m--;
        }
        int r = myers(a, b, from, n - from, m - from, e);
        if (r == 0) {
                memset(e->gone + from, 1, n - from);
                memset(e->come + from, 1, m - from);
        }
        return r < 0 ? -1 : 0;
}

/* Tabs and backslashes as they are: they do no harm, and code is full of them. */
static int add_line(struct buf *out, char sign, struct slice line)
{
        char shown[8 * PIECE_BYTES + 8];
        bool newline = slice_ends(line, SLICE_LIT("\n")), cut = line.n > LINE_BYTES + (size_t)newline;
        line = slice_first(slice_first(line, line.n - newline), LINE_BYTES);
        int r = buf_add(out, &sign, 1);
        while (line.n > 0 && r == 0) {
                size_t n = 0;
                if (line.p[0] == '\t' || line.p[0] == '\\') {
                        r = buf_add(out, line.p, 1);
                        line = slice_skip(line, 1);
                        continue;
                }
                while (n < line.n && n < PIECE_BYTES && line.p[n] != '\t' && line.p[n] != '\\')
                        n++;
                if (n == PIECE_BYTES) /* not within a character */
                        while (n > PIECE_BYTES - 4 && n < line.n && (line.p[n] & 0xc0) == 0x80)
                                n--;
                r = buf_add_str(out, esc_text(shown, sizeof(shown), slice_first(line, n)));
                line = slice_skip(line, n);
        }
        if (r == 0 && cut)
                r = buf_add_str(out, "…");
        return r == 0 && buf_add_str(out, newline ? "\n" : "\n\\ No newline at end of file\n") == 0 ? 0 : -1;
}

/* One hunk from lines i, k on; leaves them behind it. */
static int add_hunk(struct buf *out, const struct side *a, const struct side *b, const struct edits *e, size_t *i, size_t *k)
{
        size_t before = *i < CONTEXT ? *i : CONTEXT;
        size_t i0 = *i - before, k0 = *k - before, x = *i, y = *k, quiet = 0;
        while ((x < a->count || y < b->count) && quiet <= 2 * CONTEXT) {
                if (x < a->count && e->gone[x]) {
                        x++;
                        quiet = 0;
                } else if (y < b->count && e->come[y]) {
                        y++;
                        quiet = 0;
                } else {
                        x++;
                        y++;
                        quiet++;
                }
        }
        size_t back = quiet > CONTEXT ? quiet - CONTEXT : 0;
        x -= back;
        y -= back;
        int r = buf_addf(out, "@@ -%zu,%zu +%zu,%zu @@\n", x - i0 ? i0 + 1 : i0, x - i0, y - k0 ? k0 + 1 : k0, y - k0);
        while (r == 0 && (i0 < x || k0 < y)) {
                bool gone = i0 < x && e->gone[i0], come = !gone && k0 < y && e->come[k0];
                r = add_line(out, gone ? '-' : come ? '+' : ' ', come ? b->lines[k0] : a->lines[i0]);
                i0 += !come;
                k0 += !gone;
        }
        *i = x;
        *k = y;
        return r;
}

static int add_hunks(struct buf *out, const struct side *a, const struct side *b, const struct edits *e, size_t limit)
{
        size_t i = 0, k = 0;
        while (i < a->count || k < b->count) {
                if ((i < a->count && e->gone[i]) || (k < b->count && e->come[k])) {
                        if (add_hunk(out, a, b, e, &i, &k) < 0)
                                return -1;
                } else {
                        i++;
                        k++;
                }
                if (buf_len(out) > limit)
                        return buf_add_str(out, "… (the rest is not shown)\n");
        }
        return 0;
}

int overlay_diff_text(int lower_fd, int upper_fd, const char *path, struct buf *out, struct err *err)
{
        struct side a = { .exists = false }, b = { .exists = false };
        struct edits e = { NULL, NULL };
        int r = side_read(&a, lower_fd, path) < 0 || side_read(&b, upper_fd, path) < 0 ? -1 : 0;
        if (r == 0 && (!a.is_text || !b.is_text)) {
                r = buf_addf(out, "%s differs (binary, large, or no file)\n", esc_str(path));
        } else if (r == 0) {
                e.gone = calloc(a.count + 1, 1);
                e.come = calloc(b.count + 1, 1);
                r = e.gone == NULL || e.come == NULL || find_edits(&a, &b, &e) < 0 ? -1 : 0;
                if (r == 0)
                        r = buf_addf(out, "--- %s%s\n+++ %s%s\n", a.exists ? "a/" : "/dev/null", a.exists ? esc_str(path) : "", b.exists ? "b/" : "/dev/null",
                                     b.exists ? esc_str(path) : "");
                if (r == 0)
                        r = add_hunks(out, &a, &b, &e, buf_len(out) + OVERLAY_TEXT_OUT_BYTES);
        }
        free(e.gone);
        free(e.come);
        side_fini(&a);
        side_fini(&b);
        return r < 0 ? err_set(err, "out of memory") : 0;
}
