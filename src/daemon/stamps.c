/* Stamps: see stamps.h. */
#include "daemon/stamps.h"
#include "base/buf.h"
#include "base/fd.h"
#include "daemon/bounds.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* A file written this shortly before it was read may be written again within the same tick of its file system's clock: its text is compared, once. */
enum { YOUNG_MS = 50, DIGEST_BYTES = 32 };

struct stamp {
        char *file;
        int missing; /* errno of stat; 0: it is there */
        bool young;
        bool has_digest;
        uint8_t digest[DIGEST_BYTES]; /* SHA-256 of the text */
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec modified, changed; /* `changed`: also where a tool set the time of a new text back */
};

struct stamps {
        struct stamp *list;
        size_t count, cap;
        bool lost; /* one found no memory: then everything counts as changed */
};

struct stamps *stamps_new(void) { return calloc(1, sizeof(struct stamps)); }

void stamps_clear(struct stamps *s)
{
        for (size_t i = 0; i < s->count; i++)
                free(s->list[i].file);
        s->count = 0;
        s->lost = false;
}

void stamps_free(struct stamps *s)
{
        if (!s)
                return;
        stamps_clear(s);
        free(s->list);
        free(s);
}

static bool later_than_ms(const struct timespec *now, const struct timespec *t, int64_t ms)
{
        int64_t past_ms = (int64_t)(now->tv_sec - t->tv_sec) * 1000 + (now->tv_nsec - t->tv_nsec) / 1000000;

        return past_ms >= ms || past_ms < -ms; /* a clock that is ahead of ours would make it young for ever */
}

static void look(struct stamp *out, const char *file)
{
        struct timespec now;
        struct stat st;

        *out = (struct stamp){ .missing = stat(file, &st) < 0 ? errno : 0 };
        if (out->missing)
                return;
        out->device = st.st_dev;
        out->inode = st.st_ino;
        out->size = st.st_size;
        out->modified = st.st_mtim;
        out->changed = st.st_ctim;
        clock_gettime(CLOCK_REALTIME, &now);
        out->young = !later_than_ms(&now, &st.st_mtim, YOUNG_MS) || !later_than_ms(&now, &st.st_ctim, YOUNG_MS);
}

static bool same_time(const struct timespec *a, const struct timespec *b) { return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec; }

static bool same(const struct stamp *a, const struct stamp *b)
{
        return a->missing == b->missing && a->device == b->device && a->inode == b->inode && a->size == b->size && same_time(&a->modified, &b->modified) &&
               same_time(&a->changed, &b->changed);
}

static bool grow(struct stamps *s)
{
        size_t cap = s->cap ? 2 * s->cap : 16;
        struct stamp *list = s->count < s->cap ? s->list : reallocarray(s->list, cap, sizeof(*list));

        if (!list)
                return false;
        if (s->count == s->cap)
                s->cap = cap;
        s->list = list;
        return true;
}

static struct stamp *find(struct stamps *s, const char *file)
{
        for (size_t i = 0; s && i < s->count; i++)
                if (strcmp(s->list[i].file, file) == 0)
                        return &s->list[i];
        return NULL;
}

void stamps_add(struct stamps *s, const char *file)
{
        struct stamp new;

        if (!s || find(s, file))
                return;
        look(&new, file);
        new.file = strdup(file);
        if (new.file && grow(s)) {
                s->list[s->count++] = new;
        } else {
                free(new.file);
                s->lost = true;
        }
}

static bool digest_of(uint8_t out[DIGEST_BYTES], struct slice text) { return EVP_Digest(text.n ? text.p : (const uint8_t *)"", text.n, out, NULL, EVP_sha256(), NULL) == 1; }

void stamps_read(struct stamps *s, const char *file, struct slice text)
{
        struct stamp *st = find(s, file);

        if (st)
                st->has_digest = digest_of(st->digest, text);
}

void stamps_wrote(struct stamps *s, const char *file, struct slice text)
{
        struct stamp *st, new;

        stamps_add(s, file);
        st = find(s, file);
        if (!st)
                return;
        look(&new, file);
        new.file = st->file;
        new.young = true; /* whoever wrote it between our rename and this look has the same stamp, but not the text */
        new.has_digest = digest_of(new.digest, text);
        *st = new;
}

static bool holds_what_was_read(const struct stamp *st)
{
        uint8_t now[DIGEST_BYTES];
        struct err quiet = ERR_INIT;
        struct buf text;
        bool same_text;

        if (st->missing)
                return true;
        buf_init(&text, DAEMON_CONFIG_BYTES + 65536);
        same_text = st->has_digest && fd_read_file(st->file, &text, DAEMON_CONFIG_BYTES, &quiet) == 0 && digest_of(now, buf_slice(&text)) &&
                    memcmp(now, st->digest, sizeof(now)) == 0;
        buf_fini(&text);
        return same_text;
}

bool stamps_changed(struct stamps *s)
{
        struct stamp now;

        if (s->lost)
                return true;
        for (size_t i = 0; i < s->count; i++) {
                look(&now, s->list[i].file);
                if (!same(&s->list[i], &now) || (s->list[i].young && !holds_what_was_read(&s->list[i])))
                        return true;
                s->list[i].young = now.young; /* as it was before the text was read */
        }
        return false;
}
