/* The machine of a session of the vm kind (docs/VM.md), as brome-launch holds it: QEMU's root and command line, what the guest in it has to set up, and its
 * console. The rest (first process, channel, keeper, end) is the same for both kinds. */
#ifndef BROME_LAUNCH_MACHINE_H
#define BROME_LAUNCH_MACHINE_H

#include "base/buf.h"
#include "base/err.h"
#include "launch/child.h"
#include "launch/gateway.h"
#include "launch/vmroot.h"

enum {
        MACHINE_HELLO_MS = 120 * 1000,      /* from QEMU's start to READY: 3 s emulated on a quiet machine, a minute where much else runs */
        MACHINE_KVM_MS = 30 * 1000,         /* with KVM, to HELLO: 1 s where it works, and what opens may still boot no kernel */
        MACHINE_KILL_MS = 5 * 1000,         /* after the grace: the disks are unmounted and the machine powers off */
        MACHINE_CONSOLE_BYTES = 256 * 1024, /* of console.log; a start that fails says little, a guest that prints for ever no more than this */
        MACHINE_TAIL_BYTES = 16 * 1024,     /* the last of it, kept for the end: a panic with its trace */
        MACHINE_WHY_BYTES = 200,            /* what of it is quoted */
};

struct machine {
        struct vmroot root;
        char **argv;
        struct buf setup;              /* payload of SETUP */
        int console, monitor;          /* our ends; -1 */
        int their_console, their_monitor;
        int log;                       /* console.log */
        int accel;                     /* of an image that KVM runs: where that is written; -1 */
        size_t logged;
        char tail[MACHINE_TAIL_BYTES]; /* a ring: what the file has no room for */
        size_t tailed;                 /* bytes that came into it */
        bool blames_kvm;               /* after the end: the console speaks of KVM */
};

/* Empty; nothing is open. */
void machine_init(struct machine *m);
/* In the launcher, before its namespaces: finds image and QEMU. */
int machine_judge(struct machine *m, const struct plan *plan, const struct ids *ids, const struct shares *shares, json_t *warnings, struct err *err)
        __attribute__((warn_unused_result));
/* After shares_prepare: disks, console, command line, set-up. Fills what of the job is the machine's. */
int machine_prepare(struct machine *m, const struct gateway *gateway, struct child_job *job, struct err *err) __attribute__((warn_unused_result));
/* QEMU has its descriptors. */
void machine_started(struct machine *m);
/* KVM did not bring it up: from now on its image is emulated, until somebody probes anew. */
void machine_forget_kvm(struct machine *m);
/* The console has something to read, or is at its end. */
void machine_console(struct machine *m);
/* QEMU is gone: the rest of the console, and into `why` (kept when there is nothing to say) the reason that stands there. */
void machine_ended(struct machine *m, char *why, size_t size);

#endif
