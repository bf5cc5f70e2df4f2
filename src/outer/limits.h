/* Every limit of the outer door, with its reason. */
#ifndef BROME_OUTER_LIMITS_H
#define BROME_OUTER_LIMITS_H

#include "link/limits.h"

enum {
        /* link, beside what both ends keep (link/limits.h) */
        LINK_OUT_BYTES = 128 * 1024,          /* serialised and not yet taken by the kernel: about a socket buffer */
        LINK_READ_BYTES = 128 * 1024,         /* one read: eight DATA frames */
        LINK_RESETS_BURST = 1 << 20,          /* streams that the inner door may cancel at once, and */
        LINK_RESETS_RATE = 1 << 17,           /* per second: more than the link can carry */
        /* exchanges */
        EXCHANGE_ARENA_BYTES = 1 << 20,       /* heads of both directions (64 KB each), trailers, their copies */
        EXCHANGE_DOWN_BYTES = 128 * 1024,     /* answer bytes that wait for the link; above it the origin is not read */
        EXCHANGE_SWAP_BYTES = 16 * 1024,      /* a queue of so much is handed over whole; less is copied, so as not to hold a large block for it */
        HELD_BYTES = 24 << 20,                /* the same, all exchanges together */
        REPLAY_BYTES = 64 * 1024,             /* of a body that is kept until the answer begins: a call of an API, not an upload */
        REPLAY_ALL_BYTES = 8 << 20,           /* the same, all exchanges together; what is above is not sent once more */
        /* accounts */
        ACCOUNT_TICK_MS = 1000,               /* uses are told, and idleness looked at, so often */
        ACCOUNT_IDLE_MS = 60 * 1000,          /* nothing open for so long: bromed may end the door */
        ACCOUNT_TOKEN_GRACE_MS = 10 * 60 * 1000, /* a minted token is kept so long after its time: the registry says better than we that it is over */
        CONSENT_GRANTS_MAX = 256,             /* remembered; one that is forgotten is asked for again, and bromed remembers it */
        CONSENT_PATH_BYTES = 1024,            /* of a question */
        CONSENT_NAME_BYTES = 8 * 1024,        /* a rule's text in it; bromed takes twice that */
        CONSENT_RETRY_S = 30,                 /* Retry-After where nobody agreed in time: a client that comes back asks again */
        CONTROL_QUEUE_MAX = 3 * LINK_STREAMS_MAX, /* messages that bromed did not take yet: each stream asks at most twice and withdraws once */
        SWAP_HOLD_BYTES = 512 * 1024,         /* of a body in which the secret is put, so that its length is known; a longer one goes on chunked */
        SWAP_GROWTH_BYTES = 128 * 1024,       /* by how much a body may grow: a secret of 16 KiB, escaped */
        /* profiles: what a workspace may ask for (rules/profile.h) */
        GIT_HOLD_BYTES = 512 * 1024,          /* of a git body, so that its length is known; a longer one goes on chunked */
        NAMED_REPOSITORIES = 64,              /* whose objects are remembered; the one that was used longest ago goes */
        NAMED_IDS = 192 * 1024,               /* objects of all of them (9 MB): the branches and tags of the largest there are */
        MISSES_HOUR = 30,                     /* of a registry that may not be there, where the rule does not say: wrong names, optional packages */
        BUDGET_OPEN = 96,                     /* questions that may turn out to be misses, at once: what pnpm opens, which opens most */
        BUDGET_REGISTRIES = 32,               /* counted one by one; all further ones together */
        BUDGET_KNOWN = 32 * 1024,             /* places that were asked for, remembered (twice that at most, 1 MB): asked again they say nothing new */
        BUDGET_NEW_HOUR = 20 * 1000,          /* places of one registry that were not asked for before: an install of 1,500 packages asks for 3,000 */
        BUDGET_MINUTE = 12 * 1000,            /* requests of one registry: several such installs out of a cache */
        /* answers that are looked at */
        ANSWER_STEP_BYTES = 32 * 1024,        /* decoded at a time */
        ANSWER_RAW_BYTES = 512 * 1024,        /* not decoded yet: more than one read of an origin, or an HTTP/2 window */
        /* connections */
        MMAP_BYTES = 4 << 20,                 /* malloc: queues come and go by the thousand, a page fault for each page of each is most of the cost */
        CONN_READ_BYTES = 128 * 1024,         /* one read of a socket: eight TLS records, a frame of the link */
        CONN_OUT_BYTES = 128 * 1024,          /* clear bytes that wait for the socket */
        CONN_WIRE_BYTES = 512 * 1024,         /* TLS records the origin does not take: a block of ours, and what OpenSSL answers by itself in two reads */
        CONN_TURN_BYTES = 256 * 1024,         /* read from one connection in one turn of the loop, so that the others have theirs */
        CONN_DEADLINE_MS = 30 * 1000,         /* name, dial, proxy and TLS together */
        CONN_IDLE_S = 30,                     /* below the 60 s at which common servers close */
        CONN_HEAD_BYTES = 64 * 1024,          /* of an answer, HEAD_BYTES_MAX of wire */
        INTERIM_MAX = 64,                     /* 1xx answers of one exchange: an origin that sends more means no good */
        /* dialling */
        DIAL_ADDRS_MAX = 16,                  /* tried for one connection, of both families */
        DIAL_STAGGER_MS = 250,                /* RFC 8305 §5, Connection Attempt Delay */
        /* pool */
        FILES_MAX = 8192,                     /* descriptors of this door, where the system gives as many: a connection for each stream of the link and room */
        FILES_FEW = 4096,                     /* with fewer, the pool has less */
        POOL_HOST_MAX = 256,                  /* connections to one origin: more than any client wants of HTTP/1.1, long polls included */
        POOL_HOST_FEW_MAX = 64,
        POOL_TOTAL_MAX = 1024,                /* four such origins */
        POOL_TOTAL_FEW_MAX = 512,             /* descriptors stay below 1,024 */
        POOL_WAIT_MS = 30 * 1000,             /* for a connection that another exchange has: as long as for one that is opened (CONN_DEADLINE_MS) */
        POOL_LOOK_MS = 1000,                  /* that deadline is looked at so often while anything waits */
        POOL_RETRIES_MAX = 2,                 /* of one exchange on stale connections */
        POOL_REFUSALS_MAX = 64,               /* of one exchange: a server that ends each connection after N requests refuses what comes behind them */
        POOL_AGAIN_MS = 60 * 1000,            /* after that it is not sent once more: each time it may wait POOL_WAIT_MS, and a client gave up by then */
        /* origins over HTTP/2 */
        H2_STREAM_WINDOW = 512 * 1024,        /* 40 Mbit/s at 100 ms */
        H2_WINDOW = 8 << 20,                  /* one slow stream must not stop its neighbours */
        H2_STREAMS_MAX = 256,                 /* of ours on one connection, whatever the origin offers */
        /* names */
        RESOLVE_ADDRS_MAX = 32,               /* of one name, both families */
        RESOLVE_NAMES_MAX = 1024,             /* cached */
        RESOLVE_TTL_MIN_S = 5,                /* one burst of requests asks once */
        RESOLVE_TTL_MAX_S = 300,              /* a moved service is found again */
        RESOLVE_NEGATIVE_S = 5,
        RESOLVE_TIMEOUT_MS = 2500,            /* per try; three tries stay below CONN_DEADLINE_MS */
        /* TLS */
        TLS_SESSIONS_MAX = 256,               /* hosts that are remembered */
        TLS_ROOTS_BYTES = 4 << 20,            /* a bundle; Debian's has 220 KB */
        TLS_ROOTS_MAX = 2048,                 /* certificates in it */
        /* events */
        EVENTS_BYTES = 1 << 20,               /* records that bromed did not take yet; then nothing new is admitted */
        /* policy */
        POLICY_BYTES = 24 << 20,              /* rules (8 MB) and CAs, escaped */
        /* datagrams */
        UDP_QUEUE_BYTES = 256 * 1024,         /* answers that wait for the link; more are dropped, as a router would */
        UDP_IDLE_S = 180,                     /* RFC 4787 REQ-5 asks for two minutes at least */
        PROXY_HEAD_BYTES = 16 * 1024,         /* an upstream proxy's answer to CONNECT */
        DETAIL_BYTES = 256,                   /* of brome-detail */
};

#endif
