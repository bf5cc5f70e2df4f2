/* brome-launch: builds a workspace's namespaces and holds its life.
 *
 * Its life: seal what can be sealed at once, take the plan, become root of an own user namespace (unless started by root), make the guest's
 * network and the gateway, hand the sockets to bromed, prepare the file system while the inner door starts, let the guest's first process build it,
 * fork the keeper, give up everything, and then only relay and watch. It never has a network, never reads a file for the guest, and when it dies the guest dies. */
#include "base/chan.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/seal.h"
#include "launch/etc.h"
#include "launch/machine.h"
#include "launch/place.h"
#include "launch/rootfs.h"
#include "launch/session.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PLAN_WAIT_MS = 30 * 1000 }; /* bromed sends it at once */

/* What is left to do at the end: looking over the shares and carrying .git/config back. As root their files belong to others. */
static const int caps_for_shares[] = { CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_FOWNER };

static const struct seal_call calls[] = {
        SEAL_CALL(socketpair, "a stream for each exec"),
        SEAL_CALL(wait4, "the guest's and the keeper's end"),
        SEAL_CALL(openat, "shares at the end; Landlock says where"),
        SEAL_CALL(openat2, "the same, beneath a descriptor"),
        SEAL_CALL(getdents64, "the same"),
        SEAL_CALL(statx, "the same"),
        SEAL_CALL(fstatfs, "the same"),
        SEAL_CALL(readlinkat, "the same"),
        SEAL_CALL(faccessat, "the same"),
        SEAL_CALL(faccessat2, "the same"),
        SEAL_CALL(renameat, "carrying .git/config back"),
        SEAL_CALL(renameat2, "the same"),
        SEAL_CALL(rename, "the same"),
        SEAL_CALL(unlinkat, "the same"),
        SEAL_CALL(unlink, "the same"),
        SEAL_CALL(linkat, "the same"),
        SEAL_CALL(fchmod, "the same"),
        SEAL_CALL(fchown, "the same"),
        SEAL_CALL(fchownat, "the same"),
        SEAL_CALL(fsync, "the same"),
        SEAL_CALL(ftruncate, "the same"),
        SEAL_CALL(dup, "reading a folder from its descriptor"),
        SEAL_CALL(getuid, "whose file is it"),
        SEAL_CALL(geteuid, "the same"),
        SEAL_CALL_ARG(fcntl, 1, ~0ULL, 1030 /* F_DUPFD_CLOEXEC */, "the same"),
};

static int take_plan(struct session *s, struct err *err)
{
        struct chan_msg msg;
        int n = chan_wait(s->control, PLAN_WAIT_MS, &msg, err), rc;

        if (n <= 0)
                return n < 0 ? -1 : err_set(err, "no plan came");
        rc = strcmp(msg.op, "plan") == 0 ? plan_parse(&s->plan, &msg, err) : err_set(err, "the first message was no plan");
        chan_msg_fini(&msg);
        return rc;
}

/* Whom the guest's files and processes belong to. The shares are judged first, as who started us. */
static int identify(struct session *s, struct err *err)
{
        return shares_judge(&s->shares, &s->plan, err) < 0 || ids_enter(&s->ids, err) < 0 || ids_range(&s->ids, s->plan.state, err) < 0 ||
                               ids_guest(&s->ids, s->plan.nested, err) < 0
                       ? -1
                       : 0;
}

/* The gateway goes out first: the inner door starts meanwhile. Nothing is let in before bromed's `open`. */
static int make_gateway(struct session *s, struct err *err)
{
        json_t *names = json_array();

        session_progress(s, "making the gateway");
        if (gateway_make(&s->gateway, s->plan.machine, err) < 0)
                return -1;
        for (size_t i = 0; i < GATEWAY_SOCKET_COUNT; i++)
                json_array_append_new(names, json_string(gateway_socket_names[i]));
        if (chan_send(s->control, json_pack("{s:s,s:o}", "op", "gateway", "fds", names), s->gateway.sockets, GATEWAY_SOCKET_COUNT) < 0)
                return err_sys(err, errno, "cannot hand the gateway's sockets over");
        /* Only the inner door has them now: when it dies they close, and the rules' rejects answer. */
        gateway_close_sockets(&s->gateway);
        return 0;
}

/* What the first process of namespaces will mount: folders of the workspace and an /etc. */
static int prepare_namespace(struct session *s, struct child_job *job, struct err *err)
{
        static struct etc etc; /* its lock is held for life */
        static struct rootfs fs;

        fs = (struct rootfs){ .ids = &s->ids, .plan = &s->plan, .shares = &s->shares, .etc = &etc };
        fs.without_opt = !s->ids.root && rootfs_holds_mounts("/opt");
        if (fs.without_opt)
                json_array_append_new(s->warnings, json_string("/opt is empty inside: something is mounted below it, and only root can lay a layer over that"));
        job->enter = rootfs_enter;
        job->root = &fs;
        return etc_prepare(&etc, &s->plan, &s->ids, err) < 0 ? -1 : rootfs_prepare(&fs, err);
}

static int prepare(struct session *s, struct child_job *job, struct err *err)
{
        session_progress(s, "preparing the file system");
        if (shares_prepare(&s->shares, &s->plan, &s->ids, err) < 0 ||
            (s->plan.machine ? machine_prepare(&s->machine, &s->gateway, job, err) : prepare_namespace(s, job, err)) < 0)
                return -1;
        json_array_extend(s->warnings, s->shares.left_out);
        for (size_t i = 0; i < s->shares.count; i++)
                if (s->shares.one[i].checked.warning[0])
                        json_array_append_new(s->warnings, json_string(s->shares.one[i].checked.warning));
        cgroup_open(&s->groups, &s->plan);
        return 0;
}

static int build(struct session *s, struct err *err)
{
        struct child_job job = { .plan = &s->plan, .ids = &s->ids, .groups = &s->groups };

        if (s->plan.machine && machine_judge(&s->machine, &s->plan, &s->ids, &s->shares, s->warnings, err) < 0)
                return -1;
        if (identify(s, err) < 0 || make_gateway(s, err) < 0 || prepare(s, &job, err) < 0)
                return -1;
        job.netns = s->gateway.guest_netns;
        if (child_start(&s->child, &job, err) < 0)
                return -1;
        gateway_close_guest(&s->gateway);
        machine_started(&s->machine);
        return keeper_start(&s->keeper, &s->groups, s->child.pid, s->child.pidfd, s->ids.base, err);
}

static int seal(const struct session *s, struct err *err)
{
        struct seal_path paths[PLAN_SHARES + 1];
        char copies[PATH_MAX];
        size_t n = 0;
        bool writes = false;

        for (size_t i = 0; i < s->shares.count; i++)
                if (s->shares.one[i].plan->mode == SHARE_READ_WRITE) {
                        paths[n++] = (struct seal_path){ s->shares.one[i].checked.path, SEAL_READ_WRITE };
                        writes = true;
                }
        if (writes) {
                place(copies, sizeof(copies), "%s/copies", s->plan.state);
                paths[n++] = (struct seal_path){ copies, SEAL_READ };
        }
        if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
                return err_sys(err, errno, "prctl");
        if (seal_caps(caps_for_shares, s->ids.root && writes ? sizeof(caps_for_shares) / sizeof(caps_for_shares[0]) : 0, err) < 0 || seal_files(paths, n, err) < 0)
                return -1;
        return seal_calls(calls, sizeof(calls) / sizeof(calls[0]), err);
}

int main(void)
{
        static struct session s = { .control = SESSION_CONTROL_FD, .child = { .pid = -1, .pidfd = -1, .sync = -1, .channel = -1 },
                .keeper = { .channel = -1, .pid = -1 } };
        struct err err = ERR_INIT;
        struct sigaction ignore = { .sa_handler = SIG_IGN };
        int rc;

        log_init("brome-launch", NULL);
        machine_init(&s.machine);
        /* A peer that is gone is an error to handle; the keeper inherits this, the guest's first process takes it back. */
        sigaction(SIGPIPE, &ignore, NULL);
        s.warnings = json_array();
        if (fd_cloexec(SESSION_CONTROL_FD, true) < 0 || !s.warnings) {
                log_error("this program is started by brome, not by hand");
                return 2;
        }
        rc = seal_early(&err);
        if (rc == 0)
                rc = take_plan(&s, &err);
        if (rc == 0) {
                log_init("brome-launch", s.plan.workspace);
                rc = build(&s, &err);
        }
        if (rc == 0)
                rc = seal(&s, &err);
        if (rc == 0)
                rc = session_run(&s, &err);
        if (rc < 0) {
                log_error("%s", err.text);
                (void)!chan_send(s.control, json_pack("{s:s,s:s,s:b}", "op", "failed", "text", err.text, "again", s.again), NULL, 0);
        }
        /* Without a keeper the folders are empty but still there. */
        if (s.keeper.pid > 0)
                keeper_end(&s.keeper);
        else
                cgroup_remove(&s.groups);
        return rc < 0 ? 1 : 0;
}
