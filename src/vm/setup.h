/* What a virtual machine's first process has to do before it is ready: the payload of PROTO_SETUP (guest/proto.h), written by brome-launch and read by
 * brome-guest in the machine. A list of  u8 tag | u32 length | bytes  (little-endian), each tag at most once unless it says otherwise, in any order.
 * The reader refuses an unknown tag, a doubled one, a wrong length and a text with a NUL inside: the machine then says FAILED on stream 0 and ends.
 * The payload may be longer than a frame: SETUP frames are joined until one with PROTO_LAST_PIECE. In the namespace kind there is one, and it is empty.
 * Pure codec: no I/O. */
#ifndef BROME_VM_SETUP_H
#define BROME_VM_SETUP_H

#include "base/buf.h"
#include "base/slice.h"
#include <stdbool.h>
#include <stdint.h>

enum {
        SETUP_BYTES = 512 * 1024,  /* the whole payload: a CA, 32 shares, 64 accounts and their files are far below */
        SETUP_SHARES = 64,         /* shares and tools, as the plan's PLAN_SHARES + PLAN_TOOLS, rounded up */
        SETUP_TEXT_BYTES = 4096,   /* one path or name */
        SETUP_TAG_BYTES = 31,      /* virtio 9p: P9_MAX_TAG; we use "share0", "share1", … */
        SETUP_ACCOUNTS_BYTES = 256 * 1024,
        SETUP_PEM_BYTES = 64 * 1024,
        SETUP_HASH_BYTES = 8,
};

enum setup_tag {
        SETUP_HOSTNAME = 1, /* text */
        SETUP_CLOCK,        /* u64 real time in µs */
        SETUP_SEED,         /* 32 bytes for the kernel's random pool, credited; fresh in each start and each clone of a snapshot */
        SETUP_LINK,         /* u8[6] own MAC, u8[6] gateway's MAC, u32 MTU: the one network card */
        SETUP_V4,           /* u8[4] own address (/32), u8[4] gateway and resolver */
        SETUP_V6,           /* u8[16] own address (/128), u8[16] gateway and resolver */
        SETUP_SYSTEM,       /* text: serial number of the disk that becomes / (ext4) */
        SETUP_HOME,         /* text: serial number of the disk that becomes /root (ext4) */
        SETUP_CA,           /* PEM of the workspace's CA, to be merged into the trust stores */
        SETUP_SHARE,        /* u8 flags (SETUP_SHARE_READ_ONLY), u8 n, tag of n bytes, rest: absolute path. May come SETUP_SHARES times, outer folders first */
        SETUP_ACCOUNTS,     /* JSON array as in the plan's `accounts` (docs/CONTROL.md): placeholders only; for the files that tools read */
        SETUP_CA_HASH,      /* text: the name under which OpenSSL looks for the CA in a folder, 8 hexadecimal digits; only with SETUP_CA */
        SETUP_TAG_COUNT
};
enum {
        SETUP_SHARE_READ_ONLY = 1,
        SETUP_SHARE_STILL = 2, /* nobody changes it while the machine runs (tools), so it may be cached; only with READ_ONLY */
};

struct setup_share {
        char tag[SETUP_TAG_BYTES + 1];
        struct slice path; /* borrowed; absolute, without "..", not "/" */
        bool read_only, still;
};

struct setup {
        struct slice hostname, system, home, ca, ca_hash, accounts; /* borrowed from the payload; n == 0: absent */
        uint64_t clock_us;                                 /* 0: absent */
        const uint8_t *seed;                               /* 32 bytes; NULL: absent */
        bool has_link, has_v4, has_v6;
        uint8_t mac[6], gate_mac[6];
        uint32_t mtu;
        uint8_t v4[4], gate_v4[4], v6[16], gate_v6[16];
        struct setup_share shares[SETUP_SHARES];
        size_t share_count;
};

/* Appends the payload (tags and lengths; not framed). 0; -1: too long, or a value that the reader would refuse (nothing appended that counts: give the buffer up). */
int setup_write(struct buf *out, const struct setup *setup) __attribute__((warn_unused_result));
/* 0, or -1 with the reason in *why (a static sentence). *out borrows from payload. */
int setup_read(struct slice payload, struct setup *out, const char **why) __attribute__((warn_unused_result));

#endif
