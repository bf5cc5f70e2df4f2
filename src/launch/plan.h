/* The plan: what bromed asks for (docs/CONTROL.md, `plan`), checked member by member. bromed may have been taken over: a path is absolute and
 * without "..", a name is a name, numbers are in range; anything else ends the launch. */
#ifndef BROME_LAUNCH_PLAN_H
#define BROME_LAUNCH_PLAN_H

#include "account/listed.h"
#include "base/chan.h"
#include "base/err.h"
#include "share/share.h"
#include "vm/command.h"
#include <limits.h>

enum {
        PLAN_SHARES = 32,     /* a mount tree a person can still read */
        PLAN_PROTECT = 64,    /* brome's own folders and the files its configuration names */
        PLAN_TOOLS = 16,      /* folders of installations: an agent needs one or two; bromed sends no more */
        PLAN_ACCOUNTS = LISTED_MAX,
        PLAN_PROCESSES = 4096, /* default: a fork bomb ends here, a parallel build does not */
        PLAN_MACHINE_THREADS = 512, /* of QEMU: processors, file service (64 at most), disks; what runs in the machine does not count on the host */
        PLAN_MACHINE_CPUS = 2, /* default, where the host has as many */
};

#define PLAN_MACHINE_BYTES (2LL << 30) /* default memory of a machine: a compiler and an agent beside it */

struct plan_share {
        char path[PATH_MAX];
        enum share_mode mode;
        bool sockets;
};

/* A credential as the guest gets it: its placeholder, never its secret. Borrows from plan.accounts_json. */
struct plan_account {
        struct binding_host hosts[ACCOUNT_HOSTS_MAX];
        struct slice as_env; /* one more variable; empty: none */
};

/* A program of a machine that lies in a folder which it does not see. */
struct plan_link {
        char name[NAME_MAX + 1], target[PATH_MAX];
};

struct plan {
        char workspace[65];
        char hostname[65];
        long long session;
        char state[PATH_MAX];
        char home[PATH_MAX];
        char cache[PATH_MAX]; /* shared by all workspaces; empty: none */
        bool nested;
        bool machine;         /* the kind: a virtual machine, else namespaces */
        char image[PATH_MAX]; /* of a machine: folder, or the link `current` */
        long long cpus;       /* of a machine; never 0 there */
        long long memory_bytes, processes, cpu_percent; /* 0: no limit; processes never 0 here */
        struct plan_share shares[PLAN_SHARES];
        size_t share_count;
        struct plan_share tools[PLAN_TOOLS]; /* read-only, where they lie */
        size_t tool_count;
        struct plan_link links[PLAN_TOOLS];
        size_t link_count;
        struct binding accounts[PLAN_ACCOUNTS]; /* their fields are left empty: nothing here reads a request */
        struct plan_account *account_parts;     /* one for each of them */
        size_t account_count;
        json_t *accounts_json;
        char *protect[PLAN_PROTECT];
        size_t protect_count;
        json_t *env;  /* object of strings; may be NULL */
        int ca_cert;  /* PEM; -1: none */
};

/* Fills *plan from a `plan` message, taking the descriptor out of it. 0; -1 with the reason. plan_fini frees in both cases. */
int plan_parse(struct plan *plan, struct chan_msg *msg, struct err *err) __attribute__((warn_unused_result));
void plan_fini(struct plan *plan);
/* What its control group may hold: of a machine more than its own memory. 0: no limit. */
long long plan_group_bytes(const struct plan *plan);
/* A variable name that a shell could have exported. */
bool plan_env_name(const char *name);

#endif
