/* The chain's arithmetic and its two small files: see chain.h. The key is wiped wherever it was copied. */
#include "journal/chain.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KIND_RECORD = 1, KIND_GAP = 2, KIND_HEAD = 3 };

struct chain {
        EVP_MAC_CTX *ctx; /* keyed; a new message starts without keying again */
};

struct chain *chain_new(const uint8_t key[CHAIN_KEY_BYTES])
{
        OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)(uintptr_t)"SHA256", 0), OSSL_PARAM_construct_end() };
        struct chain *c = calloc(1, sizeof(*c));
        EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);

        if (c && hmac)
                c->ctx = EVP_MAC_CTX_new(hmac);
        EVP_MAC_free(hmac);
        if (!c || !c->ctx || !EVP_MAC_init(c->ctx, key, CHAIN_KEY_BYTES, params)) {
                chain_free(c);
                return NULL;
        }
        return c;
}

void chain_free(struct chain *c)
{
        if (!c)
                return;
        EVP_MAC_CTX_free(c->ctx);
        free(c);
}

bool mac_eq(const struct mac *a, const struct mac *b) { return CRYPTO_memcmp(a, b, sizeof(*a)) == 0; }

static void put_u64(uint8_t **to, uint64_t v)
{
        for (int i = 0; i < 8; i++)
                *(*to)++ = (uint8_t)(v >> (8 * i));
}
static uint64_t take_u64(const uint8_t **from)
{
        uint64_t v = 0;

        for (int i = 0; i < 8; i++)
                v |= (uint64_t)*(*from)++ << (8 * i);
        return v;
}
static void put_mac(uint8_t **to, const struct mac *m)
{
        memcpy(*to, m->b, sizeof(m->b));
        *to += sizeof(m->b);
}
static void take_mac(const uint8_t **from, struct mac *m)
{
        memcpy(m->b, *from, sizeof(m->b));
        *from += sizeof(m->b);
}

/* One message: a fixed head, then two texts (their lengths stand in the head). */
static int mac_of(struct chain *c, const uint8_t *head, size_t n, struct slice a, struct slice b, struct mac *out)
{
        size_t len = 0;

        return EVP_MAC_init(c->ctx, NULL, 0, NULL) && EVP_MAC_update(c->ctx, head, n) && (!a.n || EVP_MAC_update(c->ctx, a.p, a.n)) &&
                               (!b.n || EVP_MAC_update(c->ctx, b.p, b.n)) && EVP_MAC_final(c->ctx, out->b, &len, sizeof(out->b)) &&
                               len == sizeof(out->b)
                       ? 0
                       : -1;
}

int chain_record(struct chain *c, const struct mac *before, const struct chain_record *r, struct mac *out)
{
        uint8_t head[1 + CHAIN_MAC_BYTES + 6 * 8], *to = head;

        *to++ = KIND_RECORD;
        put_mac(&to, before);
        put_u64(&to, r->seq);
        put_u64(&to, (uint64_t)r->time_us);
        put_u64(&to, r->session);
        put_u64(&to, r->class);
        put_u64(&to, r->workspace.n);
        put_u64(&to, r->body.n);
        return mac_of(c, head, sizeof(head), r->workspace, r->body, out);
}

int chain_gap(struct chain *c, const struct chain_gap *g, struct mac *out)
{
        uint8_t head[1 + 4 * 8 + 2 * CHAIN_MAC_BYTES], *to = head;

        *to++ = KIND_GAP;
        put_u64(&to, g->first);
        put_u64(&to, g->last);
        put_u64(&to, (uint64_t)g->kind);
        put_u64(&to, (uint64_t)g->time_us);
        put_mac(&to, &g->before);
        put_mac(&to, &g->after);
        return mac_of(c, head, sizeof(head), SLICE_EMPTY, SLICE_EMPTY, out);
}

/* ---- key file ---- */

static int key_make(const char *path, uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
        if (RAND_bytes(key, CHAIN_KEY_BYTES) != 1)
                return err_set(err, "no random bytes for %s", path);
        return fd_write_file(path, 0600, key, CHAIN_KEY_BYTES, err) < 0 ? -1 : 1;
}

int chain_key_load(const char *path, bool make, uint8_t key[CHAIN_KEY_BYTES], struct err *err)
{
        uint8_t text[CHAIN_KEY_BYTES + 1];
        struct stat st;
        ssize_t n;
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW), saved;

        if (fd < 0 && errno == ENOENT)
                return make ? key_make(path, key, err) : 0;
        if (fd < 0 || fstat(fd, &st) < 0) {
                saved = errno;
                fd_close(&fd);
                return err_sys(err, saved, "%s", path);
        }
        n = read(fd, text, sizeof(text));
        fd_close(&fd);
        if (n == CHAIN_KEY_BYTES)
                memcpy(key, text, CHAIN_KEY_BYTES);
        OPENSSL_cleanse(text, sizeof(text));
        if (st.st_mode & 077 || st.st_uid != geteuid())
                return err_set(err, "%s is not private to you: chmod 600 it if nobody else could have changed it", path);
        if (n != CHAIN_KEY_BYTES)
                return err_set(err, "%s is damaged: put it back from a backup, or move journal.* away to begin a new journal", path);
        return 1;
}

/* ---- head file ---- */

static const char head_magic[8] = "bromehd1";
enum { HEAD_SIGNED_BYTES = 8 + 8 + CHAIN_MAC_BYTES + 8 + CHAIN_MAC_BYTES + CHAIN_BOOT_BYTES };
_Static_assert(HEAD_SIGNED_BYTES + CHAIN_MAC_BYTES <= CHAIN_HEAD_BYTES, "a slot holds head and MAC");

static int head_mac(struct chain *c, const uint8_t *slot, struct mac *out)
{
        static const uint8_t kind = KIND_HEAD;

        return mac_of(c, &kind, 1, slice_of(slot, HEAD_SIGNED_BYTES), SLICE_EMPTY, out);
}

static bool head_decode(struct chain *c, const uint8_t *slot, struct chain_head *h)
{
        const uint8_t *from = slot + sizeof(head_magic);
        struct mac want, have;

        if (memcmp(slot, head_magic, sizeof(head_magic)) != 0 || head_mac(c, slot, &want) < 0)
                return false;
        h->committed.seq = take_u64(&from);
        take_mac(&from, &h->committed.mac);
        h->synced.seq = take_u64(&from);
        take_mac(&from, &h->synced.mac);
        memcpy(h->boot, from, CHAIN_BOOT_BYTES);
        from += CHAIN_BOOT_BYTES;
        take_mac(&from, &have);
        return mac_eq(&want, &have);
}

int chain_head_read(int fd, struct chain *c, struct chain_head *h)
{
        uint8_t slots[2][CHAIN_HEAD_BYTES] = { 0 };
        ssize_t n = pread(fd, slots, sizeof(slots), 0);
        int found = 0;

        if (n == 0)
                return 0;
        for (int i = 0; i < 2; i++) {
                struct chain_head one;
                if (!head_decode(c, slots[i], &one) || (found && one.committed.seq < h->committed.seq))
                        continue;
                /* Of two at the same place the one that promises more. */
                if (found && one.committed.seq == h->committed.seq && one.synced.seq < h->synced.seq)
                        continue;
                *h = one;
                found = 1;
        }
        return found ? 1 : -1;
}

int chain_head_write(int fd, struct chain *c, const struct chain_head *h, unsigned turn)
{
        uint8_t slot[CHAIN_HEAD_BYTES] = { 0 }, *to = slot + sizeof(head_magic);
        struct mac mac;
        ssize_t n;

        memcpy(slot, head_magic, sizeof(head_magic));
        put_u64(&to, h->committed.seq);
        put_mac(&to, &h->committed.mac);
        put_u64(&to, h->synced.seq);
        put_mac(&to, &h->synced.mac);
        memcpy(to, h->boot, CHAIN_BOOT_BYTES);
        to += CHAIN_BOOT_BYTES;
        if (head_mac(c, slot, &mac) < 0) {
                errno = EIO;
                return -1;
        }
        put_mac(&to, &mac);
        n = pwrite(fd, slot, sizeof(slot), (off_t)(turn % 2) * CHAIN_HEAD_BYTES);
        if (n >= 0 && n < (ssize_t)sizeof(slot))
                errno = ENOSPC;
        return n == (ssize_t)sizeof(slot) ? 0 : -1;
}

void chain_boot_id(char out[CHAIN_BOOT_BYTES])
{
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

        memset(out, 0, CHAIN_BOOT_BYTES);
        if (fd >= 0 && read(fd, out, CHAIN_BOOT_BYTES) != CHAIN_BOOT_BYTES)
                memset(out, 0, CHAIN_BOOT_BYTES);
        fd_close(&fd);
}

const struct chain_point *chain_head_promise(const struct chain_head *h)
{
        char now[CHAIN_BOOT_BYTES];

        chain_boot_id(now);
        return now[0] && memcmp(now, h->boot, sizeof(now)) == 0 ? &h->committed : &h->synced;
}
