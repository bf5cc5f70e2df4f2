/* Every limit of the inner door, with its reason. What passes one is refused with a reason of reasons.tbl, or waits. */
#ifndef BROME_INNER_LIMITS_H
#define BROME_INNER_LIMITS_H

#include "account/registry.h"
#include "link/limits.h"

enum {
        /* Flows */
        FLOWS_MAX = 4096,            /* TCP flows of one workspace: more than a build or a crawler holds open, and what the link carries */
        EXCHANGES_MAX = LINK_STREAMS_MAX,
        UDP_FLOWS_MAX = 1024,        /* a resolver or a game opens tens; more is a scan */
        ACCEPTS_PER_TURN = 64,       /* so that a connection flood does not starve what is open */
        DATAGRAMS_PER_TURN = 64,     /* the same */
        TICK_MS = 1000,              /* deadlines below are checked this often */
        CLASSIFY_MS = 10 * 1000,     /* first bytes, the whole ClientHello, and the handshake after it */
        SERVER_FIRST_MS = 500,       /* silence of a client that may speak an opaque protocol, after which the server may begin */
        HEAD_MS = 60 * 1000,         /* a request head that was begun; a kept connection may be silent for ever */
        LINGER_MS = 2 * 1000,        /* after a refusal that ends a connection: time to read it before the reset */
        UDP_IDLE_MS = 30 * 1000,     /* a UDP flow without an answer yet */
        UDP_REPLIED_IDLE_MS = 60 * 1000,
        ICMP_IDLE_MS = 10 * 1000,
        KEEPALIVE_S = 60,            /* TCP keep-alive: finds guests that closed while we wait for an answer */

        /* Bytes */
        MMAP_BYTES = 4 << 20,        /* malloc: queues come and go with every turn; a page fault for each page of each is much of the cost */
        SCRATCH_BYTES = 64 * 1024,   /* one read of a socket: four TLS records */
        READS_PER_TURN = 4,          /* fairness between flows under bulk */
        CONN_IN_BYTES = 128 * 1024,  /* bytes kept unread for a flow: a head (64 KB) and one read */
        CONN_WIRE_BYTES = 256 * 1024, /* TLS records the guest does not take: one block of ours (148 KB), and answers that OpenSSL makes by itself */
        CONN_OUT_HIGH_BYTES = 128 * 1024, /* above it nothing more is made for this guest connection (h2 frames) */
        UP_HIGH_BYTES = 256 * 1024,  /* of one exchange, waiting for the link; then the guest waits */
        UP_LEAN_BYTES = 16 * 1024,   /* the same once the workspace holds HELD_BYTES */
        HELD_BYTES = 16 * 1024 * 1024, /* of all exchanges, waiting for the link */
        HELD_MAX_BYTES = 256 * 1024 * 1024, /* HTTP/2 windows are promised already when HELD_BYTES is passed: beyond this an exchange is cut */
        LINK_OUT_BYTES = 256 * 1024, /* frames made but not yet taken by the socket */
        EVENTS_HIGH_BYTES = 1024 * 1024,       /* records bromed did not take: stop admitting */
        EVENTS_MAX_BYTES = 4 * 1024 * 1024,    /* ends of what was admitted still fit */
        EVENTS_DELAY_MS = 20,                  /* contract: within 50 ms */
        EXCHANGE_ARENA_BYTES = 512 * 1024,     /* head, its canonical form, the answer's head, trailers */
        REFUSAL_BYTES = 2048,                  /* body of a refusal */
        POLICY_BYTES = 16 * 1024 * 1024,       /* the policy memory file */

        /* Accounts: only where the workspace has a placeholder */
        ACCOUNT_WAIT_MS = 10 * 1000, /* for the account's door: bromed starts a process and hands it the secret in far less */
        LINK_QUIET_MS = 30 * 1000,   /* a door that said nothing for half its idle time may be leaving: what goes up first is kept, to go up again at the next one */
        ACCOUNT_WAITING = 1024,      /* exchanges that wait for one door: a build that opens everything at once */
        ACCOUNT_MINTED = REGISTRY_TOKENS_MAX, /* placeholders of tokens that are still looked for, of one account: its door keeps no more pairs */
        HOLD_BYTES = 1024 * 1024,    /* of a body, scanned before a byte of its request leaves (DESIGN section 5) */
        HOLD_SLACK_BYTES = 512 * 1024, /* and what a hold may grow beyond that before the first MiB is decided: one read, and what a decoder has swallowed */
        HOLDS_BYTES = 32 * 1024 * 1024, /* of all holds of the workspace; further requests wait. What HTTP/2 windows promised to those that wait may stand here besides, to HELD_MAX_BYTES */
        HOLD_STALL_MS = 10 * 1000,   /* a body of unknown length that stands still: a duplex stream, which nobody should hold */
        DECODE_BYTES = 64 * 1024 * 1024, /* what decoders may take for their windows, all together: four of br, a thousand of gzip; further requests wait */
        DECODE_PIECE_BYTES = 4096,   /* of a coded body, decoded at a time: what stays back while its end is not known to be clear */
        DECODED_HELD_BYTES = 2 * SCRATCH_BYTES, /* decoded text that is kept back (SCAN_KEEP_BYTES_MAX) and one decoded block */
        DECODED_FREE_BYTES = 16 * 1024 * 1024,  /* a body may decode to that and */
        DECODED_RATIO = 256,                    /* so many times itself: logs reach 100. More is a bomb, and each GiB of it a second of everybody's time */
        GIT_PLAIN_BYTES = 4 * 1024 * 1024,      /* of a git body, written anew and not given on: git packs a body of 1 MiB at most (http.postBuffer). All together to HELD_MAX_BYTES */
        GUESSES_MAX = 256,                      /* packed parts of one body that are decoded without having been declared: forms have a few */
        GUESS_PENDING_BYTES = 256 * 1024,       /* of them, not decided; the largest block of zstd is 128 KiB. What is beyond goes on undecided: a guess refuses nobody */
        LEAKS_KEPT = 64,             /* leak warnings that are not repeated: a client says its key with every request */
        WS_HELD_BYTES = 512 * 1024,  /* frames whose text is not clear yet, and one read */

        /* HTTP/2 towards the guest: the counts against reset, settings and continuation floods */
        H2_STREAMS = 128,
        H2_STREAM_WINDOW = 256 * 1024,
        H2_WINDOW = 8 * 1024 * 1024, /* a few stuck uploads do not stop the rest */
        H2_DISCARD_BYTES = 1024 * 1024, /* of a refused request's body, before its stream is reset */
        H2_RESET_BURST = 512, H2_RESET_RATE = 64, /* stream resets of the peer: then GOAWAY (CVE-2023-44487) */
        H2_FAULTS = 64,           /* streams a second that the peer's own frames spoil: a reset of ours costs as much as one of its (CVE-2025-8671) */
        H2_CONTINUATIONS = 8,     /* one head is at most 64 KB: 5 frames */
        H2_OUTBOUND_ACKS = 256,   /* unread PING and SETTINGS answers */
        H2_SETTINGS = 16,         /* entries of one SETTINGS frame */
        H2_IDLE_FRAMES = 1024,    /* control frames and empty DATA frames a second */

        /* Names and certificates */
        NAMES_MAX = 65536,        /* docs/CONTROL.md */
        NAME_ADDRESS_BASE = 256,  /* name n has address 256 + n */
        DNS_TTL_S = 60,
        DNS_IDLE_MS = 10 * 1000, /* of a DNS connection over TCP (RFC 7766 §6.2.3: seconds) */
        DNS_QUERY_ARENA_BYTES = 4096,
        CERTS_MAX = 1024,         /* leaves kept; the oldest goes */
        CERT_BACKDATE_S = 3600,   /* guests whose clock is behind */
        CERT_DAYS = 30,
};

#endif
