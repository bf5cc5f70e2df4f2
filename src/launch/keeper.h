/* The keeper: a process of two pages that has hands where brome-launch has none.
 *
 * brome-launch reads what the guest sends, so it keeps no capability. What still needs one during a session (the gate's switch, freezing, killing
 * the guest, removing its control groups, saying what runs in it) is done by this child at the word of one byte. It reads nothing else from anybody but
 * the command lines of the guest's processes, which it hands on as printable text; it knows no name and no path, and when brome-launch is gone it kills the guest and tidies up. */
#ifndef BROME_LAUNCH_KEEPER_H
#define BROME_LAUNCH_KEEPER_H

#include "base/err.h"
#include "launch/cgroup.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum keeper_order { KEEPER_OPEN = 'o', KEEPER_SHUT = 's', KEEPER_FREEZE = 'f', KEEPER_THAW = 't', KEEPER_KILL = 'k', KEEPER_LIST = 'l' };
enum { KEEPER_LIST_BYTES = 48 * 1024 }; /* docs/CONTROL.md: three quarters of a message */

struct keeper {
        int channel;
        pid_t pid;
};

/* Forks it in the gateway namespace. guest: pid and pidfd of the guest's first process (borrowed); base: its id 0 as seen here. */
int keeper_start(struct keeper *k, struct cgroup *groups, pid_t guest, int guest_pidfd, uint32_t base, struct err *err) __attribute__((warn_unused_result));
/* Gives an order and waits until it is done. 0; -1: it failed or the keeper is gone. */
int keeper_do(const struct keeper *k, enum keeper_order order) __attribute__((warn_unused_result));
/* What the guest runs: lines "pid parent user command", printable, in text (KEEPER_LIST_BYTES + 1). 0 or -1. */
int keeper_list(const struct keeper *k, char *text) __attribute__((warn_unused_result));
/* Lets it tidy up and end. */
void keeper_end(struct keeper *k);

#endif
