/* bromed's side of brome-spawn (docs/CONTROL.md): asks for programs, hears of their ends, has peers checked. bromed itself starts nothing,
 * signals nobody and reads nobody's /proc: it is sealed; brome-spawn, forked before, is not, and knows only a fixed table. */
#ifndef BROME_DAEMON_SPAWN_H
#define BROME_DAEMON_SPAWN_H

#include "base/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_base;
struct spawn;

struct spawn_calls {
        void (*started)(void *ctx, uint64_t id, pid_t pid);
        void (*failed)(void *ctx, uint64_t id, const char *text); /* it never ran */
        void (*exited)(void *ctx, uint64_t id, int status);       /* wait status */
        void (*peer)(void *ctx, uint64_t id, const char *refusal); /* NULL: it is the user's own, here */
        void (*lost)(void *ctx, const char *text);                /* brome-spawn is gone: nothing can be started or ended any more */
};

/* Forks and executes brome-spawn; *fd is the channel to it (the caller's). Before anything is opened that it should not inherit. */
int spawn_launch(int *fd, struct err *err) __attribute__((warn_unused_result));
/* Takes fd. `calls` is borrowed for life. NULL: memory. */
struct spawn *spawn_new(struct event_base *base, int fd, const struct spawn_calls *calls, void *ctx);
void spawn_free(struct spawn *s);
/* Starts `program` with fds (borrowed; the first becomes its descriptor 3). The number under which it is spoken of; 0: brome-spawn does not
 * take it. */
uint64_t spawn_program(struct spawn *s, const char *program, const char *label, const int *fds, size_t fd_count);
/* KILL, when it still runs. */
void spawn_kill(struct spawn *s, uint64_t id);
/* Has the process behind pidfd (borrowed) compared with bromed: same user and pid namespace? Answered by calls->peer; 0: not taken. */
uint64_t spawn_peer(struct spawn *s, pid_t pid, int pidfd);

#endif
