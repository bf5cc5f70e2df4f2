/* An empty layer: see qcow2.h. Numbers are big-endian. */
#include "vm/qcow2.h"

#include <string.h>

enum {
        CLUSTER = 1 << QCOW2_CLUSTER_BITS,
        HEAD_BYTES = 104,
        REFCOUNT_ORDER = 4, /* 16 bits each */
        EXTENSION_END = 0,
        SECTOR = 512,
};
#define EXTENSION_FORMAT 0xe2792acau /* of the disk below */

/* The clusters, in order. */
enum { AT_HEAD, AT_REFCOUNT_TABLE, AT_REFCOUNTS, AT_L1, CLUSTERS };

static void put(uint8_t *at, uint64_t v, size_t bytes)
{
        for (size_t i = 0; i < bytes; i++)
                at[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

static uint32_t l1_entries(uint64_t size)
{
        uint64_t covers = (uint64_t)CLUSTER * (CLUSTER / 8); /* one second table's */

        return (uint32_t)((size + covers - 1) / covers);
}

static void put_head(uint8_t *at, uint64_t size, const char *base)
{
        static const char format[] = "raw";
        size_t name = HEAD_BYTES + 8 + 8 + 8; /* behind two extensions */

        memcpy(at, "QFI\xfb", 4);
        put(at + 4, 3, 4);
        put(at + 8, name, 8);
        put(at + 16, strlen(base), 4);
        put(at + 20, QCOW2_CLUSTER_BITS, 4);
        put(at + 24, size, 8);
        put(at + 36, l1_entries(size), 4);
        put(at + 40, (uint64_t)AT_L1 * CLUSTER, 8);
        put(at + 48, (uint64_t)AT_REFCOUNT_TABLE * CLUSTER, 8);
        put(at + 56, 1, 4);
        put(at + 96, REFCOUNT_ORDER, 4);
        put(at + 100, HEAD_BYTES, 4);
        put(at + HEAD_BYTES, EXTENSION_FORMAT, 4);
        put(at + HEAD_BYTES + 4, sizeof(format) - 1, 4);
        memcpy(at + HEAD_BYTES + 8, format, sizeof(format) - 1); /* padded to 8 */
        put(at + HEAD_BYTES + 16, EXTENSION_END, 8);
        memcpy(at + name, base, strlen(base));
}

int qcow2_layer(struct buf *out, uint64_t size, const char *base)
{
        size_t n = (size_t)CLUSTERS * CLUSTER;
        uint8_t *at;

        if (size == 0 || size % SECTOR != 0 || size > QCOW2_DISK_BYTES || base[0] == 0 || strlen(base) > QCOW2_NAME_BYTES)
                return -1;
        at = buf_reserve(out, n);
        if (!at)
                return -1;
        memset(at, 0, n);
        put_head(at, size, base);
        put(at + (size_t)AT_REFCOUNT_TABLE * CLUSTER, (uint64_t)AT_REFCOUNTS * CLUSTER, 8);
        for (size_t i = 0; i < CLUSTERS; i++)
                put(at + (size_t)AT_REFCOUNTS * CLUSTER + 2 * i, 1, 2);
        buf_commit(out, n);
        return 0;
}
