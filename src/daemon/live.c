/* The living part of a policy: see live.h. */
#include "daemon/live.h"
#include "base/buf.h"
#include "base/esc.h"
#include "base/fd.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KNOWN_FILE "known"

static bool host_ok(struct slice s)
{
        if (s.n == 0 || s.n >= LIVE_HOST_BYTES)
                return false;
        for (size_t i = 0; i < s.n; i++)
                if (!(s.p[i] >= 'a' && s.p[i] <= 'z') && !(s.p[i] >= '0' && s.p[i] <= '9') && !memchr("-._:", s.p[i], 4))
                        return false;
        return true;
}

/* "CREDENTIAL HOST"; what is malformed is left out: it only keeps a workspace from freezing again. */
static void known_line(struct live *l, struct slice line)
{
        ptrdiff_t at = slice_find(line, ' ');
        struct live_known *k = &l->known[l->known_count];
        struct slice host = at < 0 ? SLICE_EMPTY : slice_skip(line, (size_t)at + 1);

        if (at <= 0 || (size_t)at >= sizeof(k->credential) || !host_ok(host) || l->known_count == LIVE_KNOWN_MAX)
                return;
        snprintf(k->credential, sizeof(k->credential), "%.*s", (int)at, (const char *)line.p);
        snprintf(k->host, sizeof(k->host), "%.*s", SLICE_FMT(host));
        l->known_count += request_name_ok(k->credential);
}

static int read_known(struct live *l, const char *folder, struct err *err)
{
        enum { BYTES_MAX = LIVE_KNOWN_MAX * (REQUEST_NAME_BYTES + LIVE_HOST_BYTES) };
        char path[PATH_MAX];
        struct buf text;
        struct slice rest;
        int rc;

        if (snprintf(path, sizeof(path), "%s/" KNOWN_FILE, folder) >= (int)sizeof(path))
                return err_set(err, "the state folder is too long a path");
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return 0;
        buf_init(&text, BYTES_MAX + 65536);
        rc = fd_read_file(path, &text, BYTES_MAX, err);
        for (rest = buf_slice(&text); rc == 0 && rest.n;) {
                ptrdiff_t end = slice_find(rest, '\n');
                struct slice line = end < 0 ? rest : slice_first(rest, (size_t)end);

                known_line(l, line);
                rest = slice_skip(rest, line.n + 1);
        }
        buf_fini(&text);
        return rc;
}

struct live *live_read(const char *folder, struct err *err)
{
        struct live *l = calloc(1, sizeof(*l));

        if (!l)
                err_set(err, "out of memory");
        if (l && placeholders_read(&l->placeholders, folder, err) == 0 && read_known(l, folder, err) == 0)
                return l;
        free(l);
        return NULL;
}

void live_free(struct live *l) { free(l); }

int live_mint(struct live *l, const struct config_workspace *w, const char *folder, struct err *err)
{
        for (size_t i = 0; i < w->credential_count; i++) {
                const struct binding *b = &w->credentials[i]->b;

                if (!b->attach && !placeholders_want(&l->placeholders, b->name, b->kind))
                        return err_set(err, "credential %s: no placeholder can be made", esc(b->name));
        }
        return placeholders_write(&l->placeholders, folder, err);
}

int live_remember(struct live *l, const char *folder, const char *credential, const char *host, struct err *err)
{
        char path[PATH_MAX];
        struct buf text;
        int rc;

        if (!request_name_ok(credential) || !host_ok(slice_str(host)))
                return 0;
        for (size_t i = 0; i < l->known_count; i++)
                if (strcmp(l->known[i].credential, credential) == 0 && strcmp(l->known[i].host, host) == 0)
                        return 0;
        if (l->known_count == LIVE_KNOWN_MAX) /* the oldest goes: it may trip again */
                memmove(l->known, l->known + 1, --l->known_count * sizeof(l->known[0]));
        snprintf(l->known[l->known_count].credential, sizeof(l->known[0].credential), "%s", credential);
        snprintf(l->known[l->known_count++].host, sizeof(l->known[0].host), "%s", host);
        buf_init(&text, 0);
        for (size_t i = 0; i < l->known_count; i++)
                buf_addf(&text, "%s %s\n", l->known[i].credential, l->known[i].host);
        snprintf(path, sizeof(path), "%.*s/" KNOWN_FILE, PATH_MAX - 16, folder);
        rc = text.failed ? err_set(err, "out of memory") : fd_write_file(path, 0600, buf_slice(&text).p, buf_len(&text), err);
        buf_fini(&text);
        return rc;
}

static const char *placeholder_of(void *ctx, struct slice credential)
{
        const struct live *l = ctx;

        return placeholders_get(&l->placeholders, credential);
}

static bool binds(const struct config_workspace *w, struct slice credential)
{
        for (size_t i = 0; i < w->credential_count; i++)
                if (slice_eq(w->credentials[i]->b.name, credential))
                        return true;
        return false;
}

int live_policy(const struct daemon *d, const struct settings *s, const struct config_workspace *w, const struct live *l, struct policy **policy,
                struct err *err)
{
        struct config_known known[LIVE_KNOWN_MAX];
        struct config_live live = { .placeholder = placeholder_of, .ctx = (void *)(uintptr_t)l, .known = known };

        for (size_t i = 0; l && i < l->known_count; i++)
                if (binds(w, slice_str(l->known[i].credential)))
                        known[live.known_count++] = (struct config_known){ slice_str(l->known[i].credential), slice_str(l->known[i].host) };
        return settings_policy(d, s, w, l ? &live : NULL, policy, err);
}
