/* Texts with a part of ours: see vm_text.h. */
#include "guest/vm_text.h"

#define OWN_ADDRESS "127.0.1.1" /* Debian's place for a machine's own name */

static struct slice take_line(struct slice *rest)
{
        ptrdiff_t end = slice_find(*rest, '\n');
        struct slice line = end < 0 ? *rest : slice_first(*rest, (size_t)end);
        *rest = slice_skip(*rest, line.n + 1);
        return line;
}

static struct slice take_word(struct slice *rest)
{
        size_t from = 0, to;
        while (from < rest->n && (rest->p[from] == ' ' || rest->p[from] == '\t'))
                from++;
        for (to = from; to < rest->n && rest->p[to] != ' ' && rest->p[to] != '\t';)
                to++;
        struct slice word = slice_of(rest->p + from, to - from);
        *rest = slice_skip(*rest, to);
        return word;
}

static bool line_is(struct slice line, const char *address, struct slice only_name)
{
        if (!slice_is(take_word(&line), address))
                return false;
        return only_name.n == 0 || (slice_eq(take_word(&line), only_name) && take_word(&line).n == 0);
}

int vm_text_hosts(struct slice present, struct slice name, struct buf *out)
{
        size_t own = 0, own_good = 0, local4 = 0, local6 = 0;
        for (struct slice rest = present; rest.n > 0;) {
                struct slice line = take_line(&rest);
                own += line_is(line, OWN_ADDRESS, SLICE_EMPTY);
                own_good += line_is(line, OWN_ADDRESS, name);
                local4 += line_is(line, "127.0.0.1", SLICE_EMPTY);
                local6 += line_is(line, "::1", SLICE_EMPTY);
        }
        if (own == 1 && own_good == 1 && local4 > 0 && local6 > 0)
                return 0;
        int r = local4 > 0 ? 0 : buf_add_str(out, "127.0.0.1 localhost\n");
        r = r < 0 || local6 > 0 ? r : buf_add_str(out, "::1 localhost ip6-localhost ip6-loopback\n");
        r = r < 0 || buf_add_str(out, OWN_ADDRESS " ") < 0 || buf_add_slice(out, name) < 0 || buf_add_str(out, "\n") < 0 ? -1 : 0;
        for (struct slice rest = present; r == 0 && rest.n > 0;) {
                struct slice line = take_line(&rest);
                if (!line_is(line, OWN_ADDRESS, SLICE_EMPTY))
                        r = buf_add_slice(out, line) < 0 || buf_add_str(out, "\n") < 0 ? -1 : 0;
        }
        return r < 0 ? -1 : 1;
}

static const uint8_t *find(struct slice in, struct slice what) { return what.n > 0 && in.n >= what.n ? memmem(in.p, in.n, what.p, what.n) : NULL; }

int vm_text_bundle(struct slice present, struct slice old, struct slice fresh, struct buf *out)
{
        const uint8_t *was = slice_eq(old, fresh) ? NULL : find(present, old);
        bool has = find(present, fresh) != NULL;
        if (was == NULL && has)
                return 0;
        struct slice head = was == NULL ? present : slice_first(present, (size_t)(was - present.p));
        struct slice tail = was == NULL ? SLICE_EMPTY : slice_skip(present, head.n + old.n);
        if (buf_add_slice(out, head) < 0 || buf_add_slice(out, tail) < 0)
                return -1;
        if (has)
                return 1;
        struct slice so_far = buf_slice(out);
        if (so_far.n > 0 && so_far.p[so_far.n - 1] != '\n' && buf_add_str(out, "\n") < 0)
                return -1;
        return buf_add_slice(out, fresh) < 0 ? -1 : 1;
}
