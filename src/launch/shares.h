/* The shares of one session: judged and remembered by the launcher (src/share does the judging), mounted by the guest's first process, and
 * looked over again when the guest is gone.
 *
 * In the workspace's state folder: overlay/N/{path,upper,work} for each overlay share, found again by the host path written in `path`
 * (`brome share diff` and `apply` read upper); copies/N/config, the private git configurations of the last session. */
#ifndef BROME_LAUNCH_SHARES_H
#define BROME_LAUNCH_SHARES_H

#include "base/err.h"
#include "launch/ids.h"
#include "launch/plan.h"
#include "share/share.h"
#include <jansson.h>
#include <sys/types.h>

enum {
        SHARES_CHANGED = 200, /* paths named at the end, all shares together: a person reads them */
        SHARES_CHANGED_BYTES = 32 * 1024,  /* and so long, as JSON: half of a message */
        SHARES_KEPT_OUT_BYTES = 16 * 1024, /* what is told of git configurations, as JSON: a quarter */
};

struct shares_protected {
        char *path;
        enum share_protection how;
        int copy; /* SHARE_PROTECT_COPY: number of the private copy in the state folder; -1 */
        bool made; /* a file that stands there only to be mounted on: goes with the session */
};

struct shares_one {
        const struct plan_share *plan;
        struct share_checked checked;
        dev_t dev;
        ino_t ino;
        uid_t uid; /* of the folder */
        gid_t gid;
        int owner_map; /* user namespace that shows the folder's owner as the guest's root; -1 */
        int layer;     /* SHARE_OVERLAY: number of its store in the state folder */
        struct shares_protected *protected;
        size_t protected_count, protected_cap;
        struct share_snapshot *before;
};

#define SHARES_LINKS "/run/brome/tools" /* in a machine: the plan's links, made by vmroot.c */

struct shares {
        struct shares_one one[PLAN_SHARES + PLAN_TOOLS]; /* outer folders before what is in them; the plan's tools among them */
        size_t count;
        char tool_path[2 * PATH_MAX]; /* where the tools' programs lie, as PATH has it */
        json_t *left_out;             /* sentences: tools that cannot be shown */
        int copies; /* private copies made so far */
};

/* Judges, opens and remembers each share, and each folder of a tool: one that cannot be shown is left out, with a sentence. As who started us: before the user namespace, in which every owner looks different. shares_fini in any case. */
int shares_judge(struct shares *s, const struct plan *plan, struct err *err) __attribute__((warn_unused_result));
/* Makes what is kept in the state folder: private copies and overlay stores. */
int shares_prepare(struct shares *s, const struct plan *plan, const struct ids *ids, struct err *err) __attribute__((warn_unused_result));
/* In the guest's process, the new root being the working directory. */
int shares_mount(const struct shares *s, const struct ids *ids, const struct plan *plan, struct err *err) __attribute__((warn_unused_result));
/* Where private copy n lies in the guest: a folder, to which the link over the share's own file leads. */
void shares_copy_path(char out[PATH_MAX], int n);
struct shares_end {
        json_t *changed;  /* array of paths that the host may execute and that changed */
        json_t *kept_out; /* array of { path, count, keys } and { path, error }: git configurations that were not carried back as the workspace left them */
        long long more;   /* changed paths that are not in the array */
};
/* After the guest's end: carries git configuration back and says what is new. The arrays are the caller's; NULL when memory is out. */
struct shares_end shares_finish(struct shares *s, const struct plan *plan);
void shares_fini(struct shares *s);

#endif
