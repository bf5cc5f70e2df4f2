/* The guest's bounds: see guestseal.h. SECURITY: each line removed here opens that call to a hostile root. */
#include "launch/guestseal.h"

#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct kept_cap {
        int cap;
        const char *why;
};
/* All of them act only on the guest's own ids, processes and files.
 * Not SETFCAP: on a share of root's, whose owner is shown as the guest's root, a file capability would hold on the host. Not MKNOD, SYS_ADMIN, NET_ADMIN,
 * NET_RAW, SYS_RESOURCE, AUDIT_WRITE: nothing in a workspace needs them that works without owning the network or the mounts. */
static const struct kept_cap kept_caps[] = {
        { CAP_CHOWN, "tar, dpkg, npm as root give files away" },
        { CAP_DAC_OVERRIDE, "root reads and writes the workspace's files" },
        { CAP_DAC_READ_SEARCH, "the same, for folders" },
        { CAP_FOWNER, "root changes modes of the workspace's files" },
        { CAP_FSETID, "keeps set-group-id folders as dpkg makes them" },
        { CAP_KILL, "root ends the workspace's processes" },
        { CAP_SETGID, "su, apt and daemons become other users of the workspace" },
        { CAP_SETUID, "the same" },
        { CAP_SETPCAP, "programs that drop capabilities by themselves" },
        { CAP_NET_BIND_SERVICE, "programs that check for it; ports below 1024 are open anyway" },
        { CAP_SYS_CHROOT, "apt, debootstrap, sshd" },
        { CAP_SYS_PTRACE, "debuggers across the workspace's own users" },
        { CAP_SYS_NICE, "scheduling within the workspace" },
};

struct denied {
        const char *name;
        int error; /* as an errno; ENOSYS where callers fall back to another call */
        uint8_t arg_count;
        struct scmp_arg_cmp args[2];
};
#define DENY(call) { .name = #call, .error = EPERM }
#define DENY_AS(call, e) { .name = #call, .error = e }
#define DENY_BITS(call, arg, bits) { .name = #call, .error = EPERM, .arg_count = 1, .args = { SCMP_CMP64(arg, SCMP_CMP_MASKED_EQ, bits, bits) } }
#define DENY_VALUE(call, n, value) { .name = #call, .error = EPERM, .arg_count = 1, .args = { SCMP_CMP64(n, SCMP_CMP_MASKED_EQ, 0xffffffffu, value) } }
#define DENY_CREATE(call, flag_arg, flag, mode_arg) \
        { .name = #call, .error = EPERM, .arg_count = 2, \
          .args = { SCMP_CMP64(flag_arg, SCMP_CMP_MASKED_EQ, flag, flag), SCMP_CMP64(mode_arg, SCMP_CMP_MASKED_EQ, S_ISUID, S_ISUID) } }

/* Kept back even in a workspace that may nest. */
static const struct denied denied[] = {
        DENY(add_key), DENY(request_key), DENY(keyctl),                                     /* keyrings have no namespace */
        DENY(bpf), DENY(perf_event_open), DENY(userfaultfd),                                /* the kernel's soft places */
        DENY_AS(io_uring_setup, ENOSYS), DENY_AS(io_uring_enter, ENOSYS), DENY_AS(io_uring_register, ENOSYS), /* passes by this filter */
        DENY(kexec_load), DENY(kexec_file_load), DENY(init_module), DENY(finit_module), DENY(delete_module), DENY(create_module),
        DENY(get_kernel_syms), DENY(query_module), DENY(open_by_handle_at), DENY(name_to_handle_at), DENY(swapon), DENY(swapoff), DENY(reboot),
        DENY(settimeofday), DENY(clock_settime), DENY(clock_adjtime), DENY(adjtimex), DENY(stime), DENY(quotactl), DENY(quotactl_fd), DENY(acct),
        DENY(syslog), DENY(vhangup), DENY(lookup_dcookie), DENY(nfsservctl), DENY(iopl), DENY(ioperm), DENY(_sysctl), DENY(uselib), DENY(ustat),
        DENY(sysfs), DENY(vm86), DENY(vm86old), DENY(kcmp), DENY(fanotify_init), DENY(move_pages), DENY(mbind), DENY(migrate_pages),
        DENY(lsm_set_self_attr), DENY(sethostname), DENY(setdomainname),
        DENY_VALUE(ioctl, 1, TIOCSTI), DENY_VALUE(ioctl, 1, TIOCLINUX),                     /* typing on a terminal that is somebody's */
        /* Set-user-ID files: without effect inside, but a share or the state folder is the host's, where such a file belongs to the host's user. */
        DENY_BITS(chmod, 1, S_ISUID), DENY_BITS(fchmod, 1, S_ISUID), DENY_BITS(fchmodat, 2, S_ISUID), DENY_BITS(fchmodat2, 2, S_ISUID),
        DENY_BITS(creat, 1, S_ISUID), DENY_BITS(mknod, 1, S_ISUID), DENY_BITS(mknodat, 2, S_ISUID),
        DENY_CREATE(open, 1, O_CREAT, 2), DENY_CREATE(openat, 2, O_CREAT, 3),
        DENY_CREATE(open, 1, 020000000 /* O_TMPFILE */, 2), DENY_CREATE(openat, 2, 020000000, 3),
        /* The limit of 1 byte that child.c sets is what keeps a crash inside from being piped to the host's core handler, which runs as the host's root;
         * a limit of 0 would not. "Done" is the right answer to whoever wants no core files. */
        { .name = "setrlimit", .error = 0, .arg_count = 1, .args = { SCMP_CMP64(0, SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE) } },
        { .name = "prlimit64", .error = 0, .arg_count = 2, .args = { SCMP_CMP64(1, SCMP_CMP_MASKED_EQ, 0xffffffffu, RLIMIT_CORE), SCMP_CMP64(2, SCMP_CMP_NE, 0) } },
        DENY_AS(openat2, ENOSYS), /* its mode is out of this filter's sight */
};

/* Namespaces and mounts. The guest owns no mount namespace, so these fail anyway; a namespace of its own would change that. */
static const struct denied denied_nesting[] = {
        DENY_AS(clone3, ENOSYS), /* its flags are out of this filter's sight; C libraries fall back to clone */
        DENY_BITS(clone, 0, 0x00020000u), DENY_BITS(clone, 0, 0x02000000u), DENY_BITS(clone, 0, 0x04000000u), DENY_BITS(clone, 0, 0x08000000u),
        DENY_BITS(clone, 0, 0x10000000u), DENY_BITS(clone, 0, 0x20000000u), DENY_BITS(clone, 0, 0x40000000u),
        DENY_BITS(unshare, 0, 0x00020000u), DENY_BITS(unshare, 0, 0x02000000u), DENY_BITS(unshare, 0, 0x04000000u), DENY_BITS(unshare, 0, 0x08000000u),
        DENY_BITS(unshare, 0, 0x10000000u), DENY_BITS(unshare, 0, 0x20000000u), DENY_BITS(unshare, 0, 0x40000000u), DENY_BITS(unshare, 0, 0x00000080u),
        DENY(setns), DENY(mount), DENY(umount), DENY(umount2), DENY(pivot_root), DENY(fsopen), DENY(fsconfig), DENY(fsmount), DENY(fspick), DENY(open_tree),
        DENY(open_tree_attr), DENY(move_mount), DENY(mount_setattr), DENY(statmount), DENY(listmount),
};

/* QEMU has every socket that it needs before it starts, and nothing to do with other processes; its own filter (-sandbox, vm/command.c) forbids it to start any. */
static const struct denied denied_machine[] = {
        DENY(socket), DENY(socketpair), DENY(connect), DENY(bind), DENY(listen), DENY(accept), DENY(accept4),
        DENY(ptrace), DENY(process_vm_readv), DENY(process_vm_writev), DENY(process_madvise), DENY(pidfd_getfd), DENY(pidfd_open),
        DENY(shmget), DENY(shmat), DENY(msgget), DENY(semget), DENY(mq_open), DENY(chroot),
};

static int add(scmp_filter_ctx ctx, const struct denied *rows, size_t count, struct err *err)
{
        for (size_t i = 0; i < count; i++) {
                int nr = seccomp_syscall_resolve_name(rows[i].name), rc;

                if (nr == __NR_SCMP_ERROR || nr < 0)
                        continue; /* not a call of this architecture, or younger than this library: then the other filter has it (LAST_KNOWN_CALL) */
                rc = seccomp_rule_add_array(ctx, SCMP_ACT_ERRNO((uint16_t)rows[i].error), nr, rows[i].arg_count, rows[i].args);
                if (rc < 0)
                        return err_sys(err, -rc, "the guest's filter: %s", rows[i].name);
        }
        return 0;
}

static int load_table(enum guestseal_kind kind, struct err *err)
{
        scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
        int rc;

        if (!ctx)
                return err_set(err, "the guest's filter: out of memory");
        /* Foreign call tables (i386, x32) are not what this filter judges: such a call kills. */
        rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
        if (rc == 0)
                rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a search tree: 100 rows must not cost each call 100 steps */
        if (rc < 0)
                err_sys(err, -rc, "the guest's filter");
        if (rc == 0)
                rc = add(ctx, denied, COUNT(denied), err);
        if (rc == 0 && kind != GUESTSEAL_NESTED)
                rc = add(ctx, denied_nesting, COUNT(denied_nesting), err);
        if (rc == 0 && kind == GUESTSEAL_MACHINE)
                rc = add(ctx, denied_machine, COUNT(denied_machine), err);
        if (rc == 0 && (rc = seccomp_load(ctx)) < 0)
                err_sys(err, -rc, "the guest's filter");
        seccomp_release(ctx);
        return rc < 0 ? -1 : 0;
}

/* A second filter by hand, for ranges that the library cannot express: sockets, personality, and calls newer than this program.
 *   socket: AF_UNIX; AF_INET and AF_INET6 with SOCK_STREAM or SOCK_DGRAM for TCP, UDP and ICMP echo; AF_NETLINK for routes. Others do not exist here:
 *   no packet, vsock, netfilter, crypto sockets, and no module is loaded for a protocol nobody needs.
 * The kernel takes these arguments as 32-bit ints, so the low word is all there is to judge. */
#define ARG_LOW(n) (offsetof(struct seccomp_data, args) + 8 * (n)) /* little-endian */
#define LOAD(off) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, off)
#define EQ(v, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, t, f)
#define RET(v) BPF_STMT(BPF_RET | BPF_K, v)
#define FAIL(e) RET(SECCOMP_RET_ERRNO | (e))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ARG_LOW");
#ifdef __x86_64__
#define OWN_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "name this architecture here"
#endif
/* set_mempolicy_home_node, Linux 5.17: what is newer, fchmodat2 above all, is not known to every libseccomp and has not been judged; callers fall back. */
enum { LAST_KNOWN_CALL = 450 };

static int load_ranges(struct err *err)
{
        static const struct sock_filter code[] = {
                /* 0 */ LOAD(offsetof(struct seccomp_data, arch)),
                EQ(OWN_ARCH, 1, 0),
                RET(SECCOMP_RET_KILL_PROCESS),
                LOAD(offsetof(struct seccomp_data, nr)),
                EQ(__NR_socket, 5, 0),
                /* 5 */ EQ(__NR_socketpair, 25, 0),
                EQ(__NR_personality, 28, 0),
                BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN_CALL, 0, 1),
                FAIL(ENOSYS),
                RET(SECCOMP_RET_ALLOW),
                /* 10: socket */ LOAD(ARG_LOW(0)),
                EQ(AF_UNIX, 18, 0),
                EQ(AF_INET, 5, 0),
                EQ(AF_INET6, 4, 0),
                EQ(AF_NETLINK, 1, 0),
                FAIL(EAFNOSUPPORT),
                /* 16: netlink, routes only */ LOAD(ARG_LOW(2)),
                EQ(0, 12, 11),
                /* 18: internet; the upper bits of the type are flags */ LOAD(ARG_LOW(1)),
                BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf),
                EQ(SOCK_STREAM, 2, 0),
                EQ(SOCK_DGRAM, 1, 0),
                FAIL(EPERM),
                LOAD(ARG_LOW(2)),
                EQ(0, 5, 0),
                EQ(6, 4, 0),  /* TCP */
                EQ(17, 3, 0), /* UDP */
                EQ(1, 2, 0),  /* ICMP echo */
                EQ(58, 1, 0), /* ICMPv6 echo */
                FAIL(EPROTONOSUPPORT),
                RET(SECCOMP_RET_ALLOW),
                /* 31: socketpair */ LOAD(ARG_LOW(0)),
                EQ(AF_UNIX, 1, 0),
                FAIL(EAFNOSUPPORT),
                RET(SECCOMP_RET_ALLOW),
                /* 35: personality: what 32-bit builds and debuggers ask for, and the question itself */ LOAD(ARG_LOW(0)),
                EQ(0, 5, 0),
                EQ(0x0008, 4, 0),
                EQ(0x20000, 3, 0),
                EQ(0x40000, 2, 0),
                EQ(0xffffffffu, 1, 0),
                FAIL(EPERM),
                RET(SECCOMP_RET_ALLOW),
        };
        static const struct sock_fprog prog = { COUNT(code), (struct sock_filter *)(uintptr_t)code };

        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? err_sys(err, errno, "the guest's filter") : 0;
}

static int drop_caps(enum guestseal_kind kind, struct err *err)
{
        struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
        struct __user_cap_data_struct data[2] = { 0 };
        uint64_t kept = 0;

        for (size_t i = 0; kind != GUESTSEAL_MACHINE && i < COUNT(kept_caps); i++)
                kept |= 1ull << kept_caps[i].cap;
        /* Mapping one's root into a namespace inside asks for it (Linux 5.12). */
        if (kind == GUESTSEAL_NESTED)
                kept |= 1ull << CAP_SETFCAP;
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
                return err_sys(err, errno, "ambient capabilities");
        for (int cap = 0; cap < 64; cap++)
                if (!(kept >> cap & 1) && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
                        return err_sys(err, errno, "bounding capabilities");
        /* Root keeps its list over exec (not SECBIT_NOROOT), and no program can change how. Keeping capabilities over setuid stays free: ping does it,
         * and the bounding set is what it has to stay in. */
        if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED, 0, 0, 0) < 0)
                return err_sys(err, errno, "secure bits");
        for (int i = 0; i < 2; i++)
                data[i].effective = data[i].permitted = (uint32_t)(kept >> (32 * i));
        return syscall(SYS_capset, &head, data) < 0 ? err_sys(err, errno, "capabilities") : 0;
}

int guestseal(enum guestseal_kind kind, struct err *err)
{
        /* A keyring of its own: the session's of whoever started us is not the guest's to possess. */
        if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
                return err_sys(err, errno, "cannot make a session keyring");
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return err_sys(err, errno, "no new privileges");
        if (drop_caps(kind, err) < 0 || load_ranges(err) < 0)
                return -1;
        return load_table(kind, err);
}
