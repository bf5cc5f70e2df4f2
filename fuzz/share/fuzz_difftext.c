/* A text difference: applied to the old file by a naive reader it gives the new one (where nothing had to be escaped or cut), its line counts are true, it
 * is empty for equal files, and a person reads no control character in it. First byte: where the two files are cut apart. */
#include "hold.h"
#include "share/overlay.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int dirs[2] = { -1, -1 };
static char path[] = "/dev/shm/fuzz-difftext-XXXXXX";

static void tear_down(void)
{
        for (int i = 0; i < 2; i++) {
                char sub[64];
                unlinkat(dirs[i], "f", 0);
                snprintf(sub, sizeof(sub), "%s/%d", path, i);
                rmdir(sub);
        }
        rmdir(path);
}

static void set_up(void)
{
        HOLDS(mkdtemp(path) && atexit(tear_down) == 0);
        for (int i = 0; i < 2; i++) {
                char sub[64];
                snprintf(sub, sizeof(sub), "%s/%d", path, i);
                HOLDS(mkdir(sub, 0700) == 0 && (dirs[i] = open(sub, O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0);
        }
}

static void put(int dir, struct slice s)
{
        int fd = openat(dir, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        HOLDS(fd >= 0 && write(fd, s.p, s.n) == (ssize_t)s.n && close(fd) == 0);
}

static bool is_plain(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] != '\n' && s.p[i] != '\t' && (s.p[i] < 0x20 || s.p[i] > 0x7e))
                        return false;
        return true;
}

/* The next line with its newline, in `s`. */
static struct slice line(struct slice *s)
{
        ptrdiff_t nl = slice_find(*s, '\n');

        return fuzz_take(s, nl < 0 ? s->n : (size_t)nl + 1);
}

static void add(struct buf *b, struct slice s) { HOLDS(buf_add_slice(b, s) == 0); }

/* Applies a unified difference; aborts when it does not fit. */
static void apply(struct slice from, struct slice diff, struct buf *out)
{
        size_t at = 1, olds = 0, news = 0, old_first = 0;

        (void)line(&diff);
        (void)line(&diff);
        while (diff.n) {
                struct slice l = line(&diff);
                bool no_newline = slice_starts(diff, SLICE_LIT("\\ No newline"));
                struct slice text = slice_skip(l, 1);

                if (l.p[0] == '@') {
                        char head[128];
                        size_t a, b, c, d;
                        snprintf(head, sizeof(head), "%.*s", SLICE_FMT(l));
                        HOLDS(olds == 0 && news == 0);
                        char *p = head + 4;
                        a = strtoul(p, &p, 10), HOLDS(*p++ == ','), b = strtoul(p, &p, 10), HOLDS(*p++ == ' ' && *p++ == '+');
                        c = strtoul(p, &p, 10), HOLDS(*p++ == ','), d = strtoul(p, &p, 10);
                        (void)c;
                        olds = b, news = d, old_first = a;
                        while (at < old_first + (b == 0)) {
                                add(out, line(&from));
                                at++;
                        }
                        continue;
                }
                if (no_newline) {
                        text.n--;
                        (void)line(&diff);
                }
                HOLDS(l.p[0] == ' ' || l.p[0] == '-' || l.p[0] == '+');
                if (l.p[0] != '+') {
                        HOLDS(olds-- > 0 && slice_eq(line(&from), text));
                        at++;
                }
                if (l.p[0] != '-') {
                        HOLDS(news-- > 0);
                        add(out, text);
                }
        }
        HOLDS(olds == 0 && news == 0);
        add(out, from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
        struct slice in = slice_of(data, n), old;
        size_t part = (size_t)fuzz_byte(&in) * in.n / 255;
        struct buf out, made;
        struct err err;

        if (dirs[0] < 0)
                set_up();
        old = fuzz_take(&in, part);
        put(dirs[0], old);
        put(dirs[1], in);
        buf_init(&out, 0);
        buf_init(&made, 0);
        HOLDS(overlay_diff_text(dirs[0], dirs[1], "f", &out, &err) == 0);
        for (size_t i = 0; i < buf_len(&out); i++)
                HOLDS(out.bytes[out.start + i] >= 0x20 || out.bytes[out.start + i] == '\n' || out.bytes[out.start + i] == '\t');
        if (is_plain(old) && is_plain(in) && slice_starts(buf_slice(&out), SLICE_LIT("--- "))) {
                bool cut = memmem(out.bytes, buf_len(&out), "\xe2\x80\xa6", 3) != NULL;
                if (!cut) {
                        apply(old, buf_slice(&out), &made);
                        HOLDS(slice_eq(buf_slice(&made), in));
                }
                HOLDS(!slice_eq(old, in) || buf_len(&out) == strlen("--- a/f\n+++ b/f\n"));
        }
        buf_fini(&out);
        buf_fini(&made);
        return 0;
}
