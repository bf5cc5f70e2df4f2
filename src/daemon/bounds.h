/* Every limit and deadline of bromed, with its reason. */
#ifndef BROME_DAEMON_BOUNDS_H
#define BROME_DAEMON_BOUNDS_H

enum {
        DAEMON_CLIENTS = 64,               /* connections at once: commands of one person and some scripts */
        DAEMON_CLIENT_REQUESTS = 16,       /* unanswered requests of one connection */
        DAEMON_HELLO_MS = 5 * 1000,        /* a connection that says nothing gives its place back */
        DAEMON_EXECS = 1024,               /* answers owed by one workspace's launch; four times the streams it can have */
        DAEMON_MESSAGES_A_TURN = 16,       /* of one channel before the others get their turn */
        DAEMON_EVENT_BYTES = 64 * 1024,    /* unread records of one door; at least one whole record */
        DAEMON_STAGE_MS = 20 * 1000,       /* silence while a session opens: a slow machine mounts and loads roots in 2 s */
        DAEMON_STAGE_VM_MS = 150 * 1000,   /* the same of a machine: an emulated one boots in seconds, in a minute where much else runs */
        DAEMON_ACK_MS = 1000,              /* a door must have stopped what new rules forbid, see docs/CONTROL.md */
        DAEMON_GRACE_MS = 3 * 1000,        /* TERM to KILL inside the guest */
        DAEMON_STOP_MS = 10 * 1000,        /* then brome-spawn kills what is left of a session */
        DAEMON_LOCK_MS = 1000,             /* for a bromed that is just ending to be gone */
        DAEMON_FLUSH_MS = 50,              /* records reach the disk; half of what the journal promises */
        DAEMON_RETRY_MS = 1000,            /* between two tries of a journal that could not be written */
        DAEMON_LOG_BYTES = 8 * 1024 * 1024, /* of bromed.log; a larger one becomes bromed.log.1 at start */
        DAEMON_CONFIG_BYTES = 8 * 1024 * 1024, /* one file of the configuration: as src/rules */
        DAEMON_BLOCK_BYTES = 1024 * 1024,  /* rules or a workspace block from a client */
        DAEMON_CA_BYTES = 1024 * 1024,     /* one file named by `ca file`: a full system bundle has 220 KB */
        DAEMON_SPAWNED = 2048,             /* programs at once: three a workspace, and sweeps */
        DAEMON_FILES = 4096,               /* descriptors, where the hard limit allows: some twelve a session */
        DAEMON_DRAINED = 256,              /* last messages of a program whose session ends */
        DAEMON_DOORS = 320,                /* of one session: every account it can have, and some that are ending */
        DAEMON_DOORS_ENDING = 4,           /* of one account: an inner door that was taken over must not start programs without end */
        DAEMON_QUEUED = 16384,             /* messages that a door has not read: an answer for each exchange that it may hold, twice */
        DAEMON_SWEEPS = 4,                 /* folders removed at once; the rest waits on disk */
};

#endif
