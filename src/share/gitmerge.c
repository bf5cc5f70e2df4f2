/* Carrying a workspace's branches and remotes back into the host's .git/config. The copy was written by an enemy: of it only four keys are looked at, and
 * of these only values that make git neither run a program nor write outside refs/remotes and refs/tags. The original's text is kept as it is but for
 * those keys. */
#include "share/share_priv.h"
#include "share/gitconf.h"
#include "base/arena.h"
#include "base/esc.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 8192, SHOWN_BYTES = 120 };

struct item {
        struct gitconf_entry e; /* copied into the arena */
        bool carried_key;       /* branch.* or remote.* with one of the four keys */
        bool drop;
};
struct config {
        struct arena arena;
        struct item *items;
        size_t count;
};

static bool is_carried_key(const struct gitconf_entry *e)
{
        if (!e->has_subsection || e->subsection.n == 0)
                return false;
        if (slice_is(e->section, "remote"))
                return slice_is(e->key, "url") || slice_is(e->key, "fetch");
        return slice_is(e->section, "branch") && (slice_is(e->key, "remote") || slice_is(e->key, "merge"));
}

static int add_item(void *arg, const struct gitconf_entry *e)
{
        struct config *c = arg;
        bool ok = true;
        if (c->count == ENTRIES)
                return -1;
        struct item *i = &c->items[c->count];
        i->e = *e;
        i->e.section = arena_copy(&c->arena, e->section, &ok);
        i->e.subsection = arena_copy(&c->arena, e->subsection, &ok);
        i->e.key = arena_copy(&c->arena, e->key, &ok);
        i->e.value = arena_copy(&c->arena, e->value, &ok);
        i->carried_key = is_carried_key(e);
        c->count += ok;
        return ok ? 0 : -1;
}

static int config_read(struct config *c, struct slice text)
{
        arena_init(&c->arena, 0);
        c->count = 0;
        c->items = calloc(ENTRIES, sizeof(*c->items));
        return c->items == NULL || text.n > SHARE_GIT_CONFIG_BYTES || gitconf_read(text, add_item, c) != 0 ? -1 : 0;
}

static void config_fini(struct config *c)
{
        arena_fini(&c->arena);
        free(c->items);
}

static bool same_section(const struct gitconf_entry *a, const struct gitconf_entry *b)
{
        return slice_eq(a->section, b->section) && a->has_subsection == b->has_subsection && slice_eq(a->subsection, b->subsection);
}
static bool same_entry(const struct gitconf_entry *a, const struct gitconf_entry *b)
{
        return same_section(a, b) && slice_eq(a->key, b->key) && slice_eq(a->value, b->value) && a->no_value == b->no_value;
}
static bool has_entry(const struct config *c, const struct gitconf_entry *e)
{
        for (size_t i = 0; i < c->count; i++)
                if (same_entry(&c->items[i].e, e))
                        return true;
        return false;
}

/* ---- what is harmless ---- */

static bool is_graphic(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] <= 0x20 || s.p[i] >= 0x7f)
                        return false;
        return s.n > 0;
}

/* [user@]host[:port] without anything that ssh would read as an option. */
static bool host_is_harmless(struct slice s)
{
        ptrdiff_t at = -1;
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] == '@')
                        at = (ptrdiff_t)i;
        struct slice host = slice_skip(s, (size_t)(at + 1));
        return s.n > 0 && host.n > 0 && s.p[0] != '-' && host.p[0] != '-' && s.p[0] != '@';
}

/* https, http, ssh and git URLs and host:path. No helper ("ext::…"), no file of this machine: git would execute or trust what it finds there. */
static bool url_is_harmless(struct slice s)
{
        static const char *const schemes[] = { "https://", "http://", "ssh://", "git://" };
        if (!is_graphic(s) || s.p[0] == '-')
                return false;
        for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
                if (slice_starts(s, slice_str(schemes[i]))) {
                        struct slice rest = slice_skip(s, strlen(schemes[i]));
                        ptrdiff_t slash = slice_find(rest, '/');
                        return host_is_harmless(slash < 0 ? rest : slice_first(rest, (size_t)slash));
                }
        ptrdiff_t colon = slice_find(s, ':'), slash = slice_find(s, '/');
        if (colon <= 0 || (slash >= 0 && slash < colon))
                return false;
        struct slice path = slice_skip(s, (size_t)colon + 1);
        return path.n > 0 && path.p[0] != ':' && path.p[0] != '-' && !slice_starts(path, SLICE_LIT("//")) && host_is_harmless(slice_first(s, (size_t)colon));
}

static bool ref_is_harmless(struct slice s)
{
        for (size_t i = 0; i + 1 < s.n; i++)
                if (s.p[i] == '.' && s.p[i + 1] == '.')
                        return false;
        return is_graphic(s) && s.p[0] != '-' && slice_find(s, '\\') < 0 && slice_find(s, '~') < 0 && slice_find(s, '?') < 0 && slice_find(s, '[') < 0;
}

static bool fetch_is_harmless(struct slice s)
{
        if (s.n > 0 && (s.p[0] == '+' || s.p[0] == '^'))
                s = slice_skip(s, 1);
        ptrdiff_t colon = slice_find(s, ':');
        if (colon < 0)
                return ref_is_harmless(s);
        struct slice to = slice_skip(s, (size_t)colon + 1);
        return ref_is_harmless(slice_first(s, (size_t)colon)) && ref_is_harmless(to) && slice_find(to, ':') < 0 &&
               (slice_starts(to, SLICE_LIT("refs/remotes/")) || slice_starts(to, SLICE_LIT("refs/tags/")));
}

/* A name that is no remote is a path or an address to git: it must be one that will be there. */
static bool remote_is_known(const struct config *edited, struct slice name)
{
        if (slice_is(name, "."))
                return true;
        for (size_t i = 0; i < edited->count; i++) {
                const struct gitconf_entry *e = &edited->items[i].e;
                if (slice_is(e->section, "remote") && slice_is(e->key, "url") && slice_eq(e->subsection, name) && !edited->items[i].drop)
                        return true;
        }
        return false;
}

static bool name_is_harmless(struct slice s)
{
        for (size_t i = 0; i < s.n; i++)
                if (s.p[i] < 0x20 || s.p[i] == 0x7f)
                        return false;
        return s.n > 0 && s.p[0] != '-';
}

static bool item_is_harmless(const struct config *edited, const struct gitconf_entry *e)
{
        if (e->no_value || !name_is_harmless(e->subsection))
                return false;
        if (slice_is(e->key, "url"))
                return ref_is_harmless(e->subsection) && slice_find(e->subsection, ':') < 0 && url_is_harmless(e->value);
        if (slice_is(e->key, "fetch"))
                return fetch_is_harmless(e->value);
        if (slice_is(e->key, "merge"))
                return slice_starts(e->value, SLICE_LIT("refs/")) && ref_is_harmless(e->value);
        return remote_is_known(edited, e->value);
}

/* ---- what is told ---- */

static bool same_name(const struct gitconf_entry *a, const struct gitconf_entry *b) { return same_section(a, b) && slice_eq(a->key, b->key); }

/* Is there an entry of this name among the first n? */
static bool has_name(const struct config *c, size_t n, const struct gitconf_entry *e)
{
        for (size_t i = 0; i < n; i++)
                if (same_name(&c->items[i].e, e))
                        return true;
        return false;
}

static void add_name(struct share_git_dropped *d, const struct gitconf_entry *e)
{
        static const char more[] = ", …";
        size_t used = strlen(d->names);
        char name[SHOWN_BYTES];
        int n = snprintf(name, sizeof(name), "%s%.*s%s%.*s.%.*s", used ? ", " : "", SLICE_FMT(e->section), e->has_subsection ? "." : "", SLICE_FMT(e->subsection), SLICE_FMT(e->key));
        if (used >= strlen(more) && strcmp(d->names + used - strlen(more), more) == 0)
                return;
        if (n >= (int)sizeof(name)) /* cut: a long name must not keep those behind it from being named */
                snprintf(name + sizeof(name) - 4, 4, "%s", more + 2);
        snprintf(d->names + used, sizeof(d->names) - used, "%s", used + strlen(name) + sizeof(more) <= sizeof(d->names) ? name : more);
}

/* What the copy says otherwise than the host will, once for a name. */
static void tell(const struct config *edited, const struct config *original, struct share_git_dropped *d)
{
        for (size_t i = 0; i < edited->count; i++) {
                const struct item *it = &edited->items[i];
                bool told = false;
                if (it->e.key.n == 0 || !it->drop || has_entry(original, &it->e))
                        continue;
                for (size_t k = 0; k < i && !told; k++)
                        told = edited->items[k].drop && same_name(&edited->items[k].e, &it->e) && !has_entry(original, &edited->items[k].e);
                d->count += !told;
                if (!told)
                        add_name(d, &it->e);
        }
        for (size_t i = 0; i < original->count; i++) {
                const struct item *it = &original->items[i];
                if (it->e.key.n == 0 || it->carried_key || has_name(edited, edited->count, &it->e) || has_name(original, i, &it->e))
                        continue;
                d->count++;
                add_name(d, &it->e);
        }
}

/* Marks what is not carried. URLs first: which remotes there are decides about the branches. */
static void judge(struct config *edited, const struct config *original)
{
        for (int round = 0; round < 2; round++)
                for (size_t i = 0; i < edited->count; i++) {
                        struct item *it = &edited->items[i];
                        if (it->e.key.n == 0 || slice_is(it->e.key, "url") != (round == 0))
                                continue;
                        bool same = has_entry(original, &it->e);
                        it->drop = !it->carried_key || (!same && !item_is_harmless(edited, &it->e));
                }
}

/* ---- writing ---- */

static size_t next_carried(const struct config *c, size_t i)
{
        while (i < c->count && (!c->items[i].carried_key || c->items[i].drop))
                i++;
        return i;
}

static bool same_carried(const struct config *a, const struct config *b)
{
        size_t i = next_carried(a, 0), k = next_carried(b, 0);
        while (i < a->count && k < b->count && same_entry(&a->items[i].e, &b->items[k].e)) {
                i = next_carried(a, i + 1);
                k = next_carried(b, k + 1);
        }
        return i >= a->count && k >= b->count;
}

static int add_escaped(struct buf *out, struct slice s)
{
        for (size_t i = 0; i < s.n; i++) {
                uint8_t two[2] = { '\\', s.p[i] };
                bool escape = s.p[i] == '"' || s.p[i] == '\\';
                if (buf_add(out, escape ? two : two + 1, escape ? 2 : 1) < 0)
                        return -1;
        }
        return 0;
}

static int add_entry(struct buf *out, const struct gitconf_entry *e, bool header)
{
        if (header && (buf_add_str(out, "[") < 0 || buf_add_slice(out, e->section) < 0 || buf_add_str(out, " \"") < 0 || add_escaped(out, e->subsection) < 0 ||
                       buf_add_str(out, "\"]\n") < 0))
                return -1;
        return buf_add_str(out, "\t") < 0 || buf_add_slice(out, e->key) < 0 || buf_add_str(out, " = \"") < 0 || add_escaped(out, e->value) < 0 ||
               buf_add_str(out, "\"\n") < 0 ? -1 : 0;
}

/* A branch or remote header whose entries all go, goes with them. */
static bool header_is_left_alone(const struct config *c, size_t header)
{
        const struct gitconf_entry *e = &c->items[header].e;
        bool any = false;
        if (!slice_is(e->section, "branch") && !slice_is(e->section, "remote"))
                return false;
        for (size_t i = header + 1; i < c->count && c->items[i].e.key.n > 0; i++) {
                any = true;
                if (!c->items[i].carried_key)
                        return false;
        }
        return any;
}

static int write_merged(const struct config *original, const struct config *edited, struct slice text, struct buf *out)
{
        size_t at = 0;
        for (size_t i = 0; i < original->count; i++) {
                const struct item *it = &original->items[i];
                bool goes = it->e.key.n > 0 ? it->carried_key : header_is_left_alone(original, i);
                if (!goes)
                        continue;
                if (buf_add(out, text.p + at, it->e.start - at) < 0)
                        return -1;
                at = it->e.end;
                /* a header shared its line with the entry that went */
                if (buf_len(out) > 0 && buf_slice(out).p[buf_len(out) - 1] != '\n' && buf_add_str(out, "\n") < 0)
                        return -1;
        }
        if (buf_add_slice(out, slice_skip(text, at)) < 0)
                return -1;
        if (buf_len(out) > 0 && buf_slice(out).p[buf_len(out) - 1] != '\n' && buf_add_str(out, "\n") < 0)
                return -1;
        const struct gitconf_entry *last = NULL;
        for (size_t i = next_carried(edited, 0); i < edited->count; i = next_carried(edited, i + 1)) {
                const struct gitconf_entry *e = &edited->items[i].e;
                if (add_entry(out, e, last == NULL || !same_section(last, e)) < 0)
                        return -1;
                last = e;
        }
        return 0;
}

int share_git_config_merge(struct slice original, struct slice edited, struct buf *out, struct share_git_dropped *dropped, struct err *err)
{
        struct config o, e;
        struct buf merged;
        int r;
        buf_init(&merged, 0);
        if (config_read(&o, original) < 0)
                r = err_set(err, "the host's git configuration cannot be read");
        else
                r = 0;
        if (config_read(&e, edited) < 0 && r == 0)
                r = err_set(err, "the workspace left a git configuration that cannot be read: nothing of it is kept");
        if (r == 0) {
                *dropped = (struct share_git_dropped){ 0 };
                judge(&e, &o);
                tell(&e, &o, dropped);
                if (same_carried(&o, &e))
                        r = buf_add_slice(&merged, original);
                else
                        r = write_merged(&o, &e, original, &merged);
                if (r < 0 || buf_add_slice(out, buf_slice(&merged)) < 0)
                        r = err_set(err, "out of memory");
        }
        buf_fini(&merged);
        config_fini(&o);
        config_fini(&e);
        return r;
}

/* ---- on files ---- */

static int read_regular(int fd, struct buf *out, struct err *err)
{
        struct stat st;
        if (fd < 0 || fstat(fd, &st) < 0)
                return err_sys(err, errno, "cannot read the git configuration");
        if (!S_ISREG(st.st_mode))
                return err_set(err, "the git configuration is no file");
        return fd_read_all(fd, out, SHARE_GIT_CONFIG_BYTES, err);
}

static int replace(int dirfd, const char *relative, struct slice text, mode_t mode, struct err *err)
{
        const char *name;
        char temporary[64];
        snprintf(temporary, sizeof(temporary), ".brome-config.%d", (int)getpid());
        int parent = share_open_parent(dirfd, relative, &name);
        if (parent < 0)
                return err_sys(err, errno, "cannot open the folder of %s", esc_str(relative));
        unlinkat(parent, temporary, 0);
        int fd = openat(parent, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0777);
        int r = fd >= 0 && fd_write_all(fd, text.p, text.n) == 0 && fsync(fd) == 0 && renameat(parent, temporary, parent, name) == 0 ? 0 : -1;
        if (r < 0) {
                err_sys(err, errno, "cannot replace %s", esc_str(relative));
                unlinkat(parent, temporary, 0);
        }
        fd_close(&fd);
        close(parent);
        return r;
}

int share_git_config_carry(int dirfd, const char *relative, int copy_fd, struct share_git_dropped *dropped, struct err *err)
{
        struct buf original, edited, merged;
        struct stat st = { .st_mode = 0 };
        buf_init(&original, SHARE_GIT_CONFIG_BYTES + 1);
        buf_init(&edited, SHARE_GIT_CONFIG_BYTES + 1);
        buf_init(&merged, 4 * SHARE_GIT_CONFIG_BYTES);
        int fd = share_open(dirfd, relative, O_RDONLY | O_NONBLOCK, 0);
        int r = read_regular(fd, &original, err);
        if (r == 0)
                r = read_regular(copy_fd, &edited, err);
        if (r == 0)
                r = share_git_config_merge(buf_slice(&original), buf_slice(&edited), &merged, dropped, err);
        if (r == 0 && !slice_eq(buf_slice(&original), buf_slice(&merged))) {
                r = fstat(fd, &st) < 0 ? err_sys(err, errno, "cannot read the git configuration") : replace(dirfd, relative, buf_slice(&merged), st.st_mode, err);
                r = r == 0 ? 1 : r;
        }
        fd_close(&fd);
        buf_fini(&original);
        buf_fini(&edited);
        buf_fini(&merged);
        return r;
}
