/* Memory for secrets: see secret.h. Small ones share one locked region, because a user may lock only some pages; larger ones have a mapping of their own.
 *
 * SECURITY: every byte is locked (never in swap), left out of dumps, zero in a forked child, and wiped when it is given back. There is no fallback to
 * ordinary memory: where nothing can be locked, there is no secret. */
#include "base/secret.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        SLOT_BYTES = 256,          /* most tokens fit in one */
        SLOTS = 128,               /* 32 KB: half of what an unprivileged user may lock on an older kernel */
        SMALL_BYTES_MAX = 4 * 1024, /* beyond: pages of its own */
};

static uint8_t *region;
static uint8_t used[SLOTS]; /* slots of the allocation that begins here; 0: none begins */
static bool taken[SLOTS];

static void *map(size_t bytes)
{
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                return NULL;
        if (mlock(p, bytes) == 0 && madvise(p, bytes, MADV_DONTDUMP) == 0 && madvise(p, bytes, MADV_WIPEONFORK) == 0)
                return p;
        munmap(p, bytes);
        return NULL;
}

static size_t slots_of(size_t bytes) { return (bytes + SLOT_BYTES - 1) / SLOT_BYTES; }
static size_t pages_of(size_t bytes)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);

        return (bytes + page - 1) / page * page;
}

/* The first run of free slots; SLOTS when there is none. */
static size_t find_run(size_t want)
{
        size_t run = 0;

        for (size_t i = 0; i < SLOTS; i++) {
                run = taken[i] ? 0 : run + 1;
                if (run == want)
                        return i + 1 - want;
        }
        return SLOTS;
}

static void *small_alloc(size_t bytes)
{
        size_t want = slots_of(bytes), at;

        if (!region && !(region = map(SLOTS * SLOT_BYTES)))
                return NULL;
        at = find_run(want);
        if (at == SLOTS)
                return NULL;
        used[at] = (uint8_t)want;
        for (size_t i = 0; i < want; i++)
                taken[at + i] = true;
        return region + at * SLOT_BYTES;
}

void *secret_alloc(size_t bytes)
{
        void *p = NULL;

        if (bytes == 0)
                bytes = 1;
        if (bytes > SECRET_ALLOC_BYTES_MAX)
                return NULL;
        if (bytes <= SMALL_BYTES_MAX)
                p = small_alloc(bytes);
        return p ? p : map(pages_of(bytes));
}

void secret_free(void *p, size_t bytes)
{
        uint8_t *b = p;

        if (!p)
                return;
        if (bytes == 0)
                bytes = 1;
        explicit_bzero(p, bytes);
        if (region && b >= region && b < region + SLOTS * SLOT_BYTES) {
                size_t at = (size_t)(b - region) / SLOT_BYTES;

                for (size_t i = 0; i < used[at]; i++)
                        taken[at + i] = false;
                used[at] = 0;
                return;
        }
        munmap(p, pages_of(bytes));
}
