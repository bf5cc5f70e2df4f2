/* Names ↔ synthetic addresses: see names.h. An array by number, and a hash over it (open addressing, SipHash-like keying is not needed for
 * correctness, but the guest chooses the names, so the seed is random). */
#include "inner/names.h"
#include "base/fd.h"
#include "base/host.h"
#include "inner/limits.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

struct names {
        int fd;
        bool broken; /* an append failed half-way: no more names */
        char **at;   /* NULL: a number without a name */
        size_t count, cap;
        uint32_t *hash; /* number + 1; 0 is empty */
        size_t hash_cap; /* a power of two, more than twice the count */
        uint64_t seed;
};

enum { NAMES_FIRST = 256, NAMES_FILE_BYTES = NAMES_MAX * (HOST_NAME_BYTES + 1) };

static uint64_t hash_of(const struct names *n, struct slice s)
{
        uint64_t h = n->seed ^ 0xcbf29ce484222325u;

        for (size_t i = 0; i < s.n; i++) {
                h = (h ^ s.p[i]) * 0x100000001b3u;
                h ^= h >> 29;
        }
        return h ^ h >> 32;
}

/* The slot where the name is, or where it would go. */
static size_t slot_of(const struct names *n, struct slice name)
{
        size_t i = hash_of(n, name) & (n->hash_cap - 1);

        while (n->hash[i] && !slice_eq(slice_str(n->at[n->hash[i] - 1]), name))
                i = (i + 1) & (n->hash_cap - 1);
        return i;
}

static int grow(struct names *n)
{
        size_t cap = n->cap ? n->cap * 2 : NAMES_FIRST;
        char **at;
        uint32_t *hash;

        if (n->count < n->cap)
                return 0;
        at = realloc(n->at, cap * sizeof(*at));
        if (!at)
                return -1;
        n->at = at;
        hash = calloc(cap * 4, sizeof(*hash));
        if (!hash)
                return -1;
        free(n->hash);
        n->hash = hash;
        n->hash_cap = cap * 4;
        n->cap = cap;
        for (size_t i = 0; i < n->count; i++)
                if (n->at[i])
                        n->hash[slot_of(n, slice_str(n->at[i]))] = (uint32_t)i + 1;
        return 0;
}

/* name empty: a number without a name. */
static int add(struct names *n, struct slice name)
{
        char *copy = NULL;
        size_t slot;

        if (n->count >= NAMES_MAX || grow(n) < 0 || (name.n && !(copy = strndup((const char *)name.p, name.n))))
                return -1;
        n->at[n->count] = copy;
        if (copy) {
                slot = slot_of(n, name);
                if (n->hash[slot]) {
                        /* Twice in the file: the first keeps it. */
                        free(copy);
                        n->at[n->count] = NULL;
                } else {
                        n->hash[slot] = (uint32_t)n->count + 1;
                }
        }
        return (int)n->count++;
}

static int load(struct names *n, struct err *err)
{
        struct buf text;
        struct slice rest;
        int rc = 0;

        buf_init(&text, 0);
        if (fd_read_all(n->fd, &text, NAMES_FILE_BYTES, err) < 0) {
                buf_fini(&text);
                return -1;
        }
        rest = buf_slice(&text);
        while (rc == 0 && rest.n && n->count < NAMES_MAX) {
                ptrdiff_t end = slice_find(rest, '\n');
                struct slice line = slice_first(rest, end < 0 ? rest.n : (size_t)end);
                if (add(n, host_is_canonical(line) ? line : SLICE_EMPTY) < 0)
                        rc = err_set(err, "names: out of memory");
                /* A crash may have cut the last line; its number stays used. */
                if (end < 0 && rc == 0 && fd_write_all(n->fd, "\n", 1) < 0)
                        rc = err_sys(err, errno, "names");
                rest = slice_skip(rest, line.n + 1);
        }
        buf_fini(&text);
        return rc;
}

struct names *names_open(int fd, struct err *err)
{
        struct names *n = calloc(1, sizeof(*n));

        if (!n) {
                err_set(err, "names: out of memory");
                return NULL;
        }
        n->fd = fd;
        if (getrandom(&n->seed, sizeof(n->seed), 0) != sizeof(n->seed) || grow(n) < 0 || load(n, err) < 0) {
                names_close(n);
                return NULL;
        }
        return n;
}

void names_close(struct names *n)
{
        if (!n)
                return;
        for (size_t i = 0; i < n->count; i++)
                free(n->at[i]);
        free(n->at);
        free(n->hash);
        fd_close(&n->fd);
        free(n);
}

size_t names_count(const struct names *n) { return n->count; }

int names_number(struct names *n, struct slice name)
{
        char line[HOST_NAME_BYTES + 1];
        size_t slot = slot_of(n, name);

        if (n->hash[slot])
                return (int)n->hash[slot] - 1;
        if (n->broken || n->count >= NAMES_MAX || !host_is_canonical(name) || name.n >= HOST_NAME_BYTES)
                return -1;
        memcpy(line, name.p, name.n);
        line[name.n] = '\n';
        if (fd_write_all(n->fd, line, name.n + 1) < 0) {
                n->broken = true;
                return -1;
        }
        return add(n, name);
}

struct addr names_v4(int number) { return addr_v4(0xc6120000u + NAME_ADDRESS_BASE + (uint32_t)number); } /* 198.18.0.0 */

static const uint8_t prefix_v6[8] = { 0xfd, 0x62, 0x72, 0x6f, 0x6d, 0x65, 0x00, 0x01 };

struct addr names_v6(int number)
{
        uint32_t n = NAME_ADDRESS_BASE + (uint32_t)number;
        struct addr a = { 0 };

        memcpy(a.b, prefix_v6, sizeof(prefix_v6));
        for (int i = 0; i < 4; i++)
                a.b[15 - i] = (uint8_t)(n >> (8 * i));
        return a;
}

static uint32_t low32(const struct addr *a)
{
        return (uint32_t)a->b[12] << 24 | (uint32_t)a->b[13] << 16 | (uint32_t)a->b[14] << 8 | a->b[15];
}

bool names_is_synthetic(const struct addr *a)
{
        if (addr_is_v4(a))
                return low32(a) >> 17 == 0xc6120000u >> 17;
        return memcmp(a->b, prefix_v6, sizeof(prefix_v6)) == 0;
}

struct slice names_owner(const struct names *n, const struct addr *a)
{
        uint32_t number = low32(a);
        static const uint8_t zero[4];

        if (!names_is_synthetic(a))
                return SLICE_EMPTY;
        if (addr_is_v4(a))
                number -= 0xc6120000u;
        else if (memcmp(a->b + 8, zero, sizeof(zero)) != 0)
                return SLICE_EMPTY;
        if (number < NAME_ADDRESS_BASE || number - NAME_ADDRESS_BASE >= n->count)
                return SLICE_EMPTY;
        return slice_str(n->at[number - NAME_ADDRESS_BASE]);
}
