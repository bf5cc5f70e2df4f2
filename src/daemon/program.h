/* One program that brome-spawn started for a session: its channel and its end. The channel is ours as soon as it is made, so messages may
 * be sent before the program runs. */
#ifndef BROME_DAEMON_PROGRAM_H
#define BROME_DAEMON_PROGRAM_H

#include "base/chan.h"
#include "daemon/daemon.h"

struct session;
struct program;
struct program_queued;

/* Handles one message, whose descriptors it may take. False: illegal; the session is then failed. */
typedef bool program_heard(struct program *p, struct chan_msg *msg);

/* Its channel ended or takes nothing; called with the channel closed. */
typedef void program_lost(struct program *p, const char *why);

struct program {
        struct session *session;
        const char *name; /* as brome-spawn knows it, static */
        const char *call; /* for a person: "the inner door" */
        program_heard *heard;
        program_lost *lost; /* NULL: its end is the session's */
        uint64_t id;  /* at brome-spawn; 0: never asked for */
        bool running; /* asked for, and its end not yet heard of */
        int fd;       /* -1: closed */
        struct event *read;
        struct event *write; /* while something is queued; NULL before the first time */
        struct program_queued *queue, **queue_end; /* the oldest first; NULL: none */
        size_t queued;
};

/* Asks for it. 0, or -1: nothing was started. */
int program_start(struct daemon *d, struct program *p, const char *label) __attribute__((warn_unused_result));
/* Sends; takes body. False when the program does not read or is gone: it is then lost, and the session failed unless `lost` says otherwise. */
bool program_send(struct program *p, json_t *body, const int *fds, size_t fd_count);
/* The same for one of many messages that may come at once: what the program has no room for is sent when it reads again, in order with all that follows. */
bool program_post(struct program *p, json_t *body);
/* Hears what it said before, although nothing more is asked of it. */
void program_drain(struct program *p);
/* Ends the channel, by which the program ends. */
void program_hang_up(struct program *p);

#endif
