/* The chain: what makes a changed journal show. HMAC-SHA256 under one key, each message beginning with a byte for its kind:
 *
 *   record  predecessor's MAC | seq | time | session | class | workspace | record bytes    → the record's MAC
 *   gap     first | last | kind | time | MAC before | MAC after                            → the anchor's MAC
 *   head    the head slot's bytes                                                         → the slot's MAC
 *
 * Sequence numbers are 1, 2, 3, … without holes: where rows were removed a gap stands, and says which MAC the chain had before and after.
 * The head file holds two slots written in turn, so a torn write leaves the other. It is written after the commit, so it never promises
 * what the database does not have; after a power cut (another boot id) only the part that was synced counts. */
#ifndef BROME_JOURNAL_CHAIN_H
#define BROME_JOURNAL_CHAIN_H

#include "base/err.h"
#include "base/slice.h"

enum {
        CHAIN_KEY_BYTES = 32,
        CHAIN_MAC_BYTES = 32,
        CHAIN_BOOT_BYTES = 36, /* /proc/sys/kernel/random/boot_id as text */
        CHAIN_HEAD_BYTES = 256, /* one slot; a disk sector holds both */
};

struct mac {
        uint8_t b[CHAIN_MAC_BYTES];
};
struct chain_point {
        uint64_t seq; /* 0: before the first record, the MAC is zero */
        struct mac mac;
};

struct chain; /* the key, ready for use */
struct chain *chain_new(const uint8_t key[CHAIN_KEY_BYTES]) __attribute__((warn_unused_result));
/* Wipes the key. NULL is fine. */
void chain_free(struct chain *c);
/* The key file: 1 read (or made, with `make`), 0 there is none, -1 with the reason (wrong size, readable by others). */
int chain_key_load(const char *path, bool make, uint8_t key[CHAIN_KEY_BYTES], struct err *err) __attribute__((warn_unused_result));

struct chain_record {
        uint64_t seq;
        int64_t time_us;
        struct slice workspace;
        uint64_t session;
        uint8_t class;
        struct slice body;
};
/* 0; -1 when libcrypto refused (never seen; treated as a failed write). */
int chain_record(struct chain *c, const struct mac *before, const struct chain_record *r, struct mac *out) __attribute__((warn_unused_result));

enum chain_gap_kind { CHAIN_PRUNED = 1, CHAIN_LOST = 2 };
struct chain_gap {
        uint64_t first, last;
        enum chain_gap_kind kind;
        int64_t time_us;
        struct mac before, after; /* of first - 1 and of last */
};
int chain_gap(struct chain *c, const struct chain_gap *g, struct mac *out) __attribute__((warn_unused_result));

struct chain_head {
        struct chain_point committed, synced;
        char boot[CHAIN_BOOT_BYTES];
};
/* This boot's id; zeros when it cannot be read, then nothing unsynced is promised. */
void chain_boot_id(char out[CHAIN_BOOT_BYTES]);
/* The part of the head that must be in the database now. */
const struct chain_point *chain_head_promise(const struct chain_head *h);
/* Reads the head file: 1, 0 when it is missing or empty, -1 when no slot is valid. */
int chain_head_read(int fd, struct chain *c, struct chain_head *h) __attribute__((warn_unused_result));
/* Writes the slot whose turn it is (no fsync: a lost write is an older promise). 0, or -1 with errno. */
int chain_head_write(int fd, struct chain *c, const struct chain_head *h, unsigned turn) __attribute__((warn_unused_result));

bool mac_eq(const struct mac *a, const struct mac *b);

#endif
