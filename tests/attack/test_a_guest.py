"""Guest root (A2, A7): the workspace's root tries everything that gives root power elsewhere. All of it fails, the gate stays what it was, and the
host is untouched; with brome started by root just as by an ordinary user."""
import contextlib
import os
import pathlib
import socket
import subprocess
import time

from ground import alive, both, gone, guest, inside, ns, quiet, status, tree, two
from world import World

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\n"
HOST_SYSCTL = ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "kernel/poweroff_cmd", "vm/drop_caches", "kernel/hostname", "net/ipv4/ip_forward", "fs/binfmt_misc/status", "kernel/sysrq")


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    two(w, CONFIG)
    for b in (w.root, w.plain):
        b("workspace", "start", "s", check=0)
    return w


@both
def test_the_network_is_not_the_guests(w, b):
    mark = w.sniffer.mark()
    for script in ("ip route replace default via 10.88.0.9", "ip route add 203.0.113.0/24 dev eth0", "ip -6 route add 2001:db8::/64 dev eth0", "ip route del default", "ip rule add from all lookup 99",
                   "ip link add d0 type dummy", "ip link add v0 type veth peer name v1", "ip link add t0 type ipip remote 203.0.113.66", "ip link add w0 type wireguard", "ip link add x type vlan id 5 link eth0",
                   "ip tuntap add dev t1 mode tun", "ip link set eth0 down", "ip link set eth0 mtu 1000", "ip link set eth0 promisc on", "ip link set eth0 address 02:00:00:00:00:09", "ip addr add 203.0.113.9/24 dev eth0",
                   "ip neigh replace 10.88.0.1 lladdr 02:00:00:00:00:09 dev eth0", "ip netns add x", "ip link set eth0 netns 1", "tc qdisc add dev eth0 root netem delay 1s", "ip xfrm state list && exit 1; exit 1",
                   "nft flush ruleset", "nft list ruleset", "iptables -F", "ip6tables -F", "ethtool -K eth0 tso off", "echo 1 > /proc/sys/net/ipv4/ip_forward", "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding",
                   "echo 1 > /proc/sys/net/ipv4/conf/all/accept_source_route", "modprobe dummy", "insmod /x.ko", "unshare -n true", "unshare -rn true", "unshare -Um true", "nsenter -t 1 -n true", "ping -I lo -c1 -W1 203.0.113.66"):
        p = b.sh("s", script)
        assert p.returncode != 0, f"{script}: it worked\n{p.stdout}"
    alive(b)
    quiet(w, mark)


@both
def test_mounts_devices_and_namespaces(w, b):
    for script in ("mount -t tmpfs x /mnt", "mount --bind / /mnt", "mount -o remount,rw /proc/sys", "mount -o remount,suid,dev /", "umount /proc/kcore", "umount -l /proc/sys", "umount /usr", "mount -t proc p /mnt",
                   "mount -t sysfs s /mnt", "mount -t cgroup2 c /mnt", "mount -t debugfs d /mnt", "mount -t overlay o -o lowerdir=/,upperdir=/tmp,workdir=/var/tmp /mnt", "mount --make-rshared /", "mount -t devtmpfs d /mnt",
                   "mount -t binfmt_misc b /mnt", "mount -t nfs 203.0.113.66:/ /mnt", "mount /dev/vda /mnt", "losetup -f", "pivot_root /mnt /mnt", "unshare -m true", "unshare -p true", "unshare -U true", "unshare -i true",
                   "unshare -u true", "unshare -C true", "unshare -T true", "hostname x", "mknod /tmp/sda b 8 0", "mknod /tmp/mem c 1 1", "mknod /tmp/kmsg c 1 11", "mknod /tmp/tun c 10 200", "mknod /tmp/fuse c 10 229",
                   "cat /dev/mem", "cat /dev/kmsg", "dmesg", "cat /dev/vda", "cat /proc/kcore | head -c 1 | grep -q .", "head -c1 /proc/kmsg | grep -q .", "ls /sys/kernel", "date -s 2001-01-01", "hwclock -w",
                   "reboot -f", "echo b > /proc/sysrq-trigger", "chroot /proc/1/root/../../.. ls /home/brome-test", "echo -1000 > /proc/1/oom_score_adj", "renice -n -20 1", "chrt -f 99 true", "setcap cap_net_raw+ep /tmp",
                   "chmod u+s /bin/true", "cp /bin/sh /tmp/sh && chmod 4755 /tmp/sh", "install -m 4755 /bin/sh /tmp/sh2", "echo 1 > /proc/sys/vm/drop_caches", "echo ff > /proc/irq/default_smp_affinity", "kill -9 -1; exit 1"):
        p = b.sh("s", script)
        assert p.returncode != 0, f"{script}: it worked\n{p.stdout}"
    alive(b)


@both
def test_host_settings_cannot_be_written(w, b):
    before = {}
    for name in HOST_SYSCTL:
        path = pathlib.Path("/proc/sys") / name
        if path.exists():
            try:
                before[name] = path.read_text()
            except OSError:
                pass
    out = guest(b, '''
import json, os
wrote = []
for top in ("/proc/sys", "/proc/sysvipc", "/proc/bus", "/proc/irq", "/proc/fs", "/proc/acpi", "/proc/driver", "/proc/tty"):
    for d, _, names in os.walk(top):
        for n in names:
            p = d + "/" + n
            try: fd = os.open(p, os.O_WRONLY | os.O_NONBLOCK)
            except OSError: continue
            wrote.append(p); os.close(fd)
for n in os.listdir("/proc"):
    p = "/proc/" + n
    if n.isdigit() or os.path.isdir(p) or os.path.islink(p): continue
    try: fd = os.open(p, os.O_WRONLY | os.O_NONBLOCK)
    except OSError: continue
    wrote.append(p); os.close(fd)
# read: the masked ones say nothing
said = [p for p in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/modules", "/proc/timer_list", "/proc/slabinfo", "/proc/iomem", "/proc/locks", "/proc/cmdline")
        if os.path.exists(p) and os.stat(p).st_rdev == 0 and open(p, "rb").read(1)]
print(json.dumps([wrote, said]))
''')
    devices = [p for p in out[0] if not os.path.exists(p)]  # whatever is writable must be /dev/null in disguise
    assert not devices, devices
    left = [p for p in out[0] if b.sh("s", f"test -c {p}").returncode]
    assert not left, f"writable: {left}"
    assert not out[1], f"readable: {out[1]}"
    assert {n: (pathlib.Path("/proc/sys") / n).read_text() for n in before} == before


CALLS = r'''
import ctypes, errno, json, os, platform
libc = ctypes.CDLL(None, use_errno=True); libc.syscall.restype = ctypes.c_long
def call(nr, *a):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(x) if isinstance(x, int) else x for x in a])
    return "ok" if r >= 0 else errno.errorcode[ctypes.get_errno()]
buf = ctypes.create_string_buffer(4096)
'''


@both
def test_kernel_interfaces_are_shut(w, b):
    if os.uname().machine != "x86_64":
        return
    out = guest(b, CALLS + '''
table = {
 "keyctl join": (250, 1, 0), "keyctl read": (250, 11, -3, buf, 4096), "keyctl link user to session": (250, 8, -4, -3), "keyctl persistent": (250, 22, -1, -3), "add_key": (248, b"user", b"x", b"y", 1, -5),
 "request_key": (249, b"user", b"x", 0, 0), "bpf": (321, 0, buf, 128), "bpf prog": (321, 5, buf, 128), "perf_event_open": (298, buf, 0, -1, -1, 0), "userfaultfd": (323, 1), "io_uring_setup": (425, 4, buf),
 "io_uring_enter": (426, 0, 0, 0, 0, 0), "io_uring_register": (427, 0, 0, 0, 0), "init_module": (175, buf, 0, b""), "finit_module": (313, 0, b"", 0), "delete_module": (176, b"x", 0), "kexec_load": (246, 0, 0, 0, 0),
 "kexec_file_load": (320, 0, 0, 0, b"", 0), "open_by_handle_at": (304, -100, buf, 0), "name_to_handle_at": (303, -100, b"/", buf, buf, 0), "mount": (165, b"x", b"/mnt", b"tmpfs", 0, 0), "umount2": (166, b"/proc", 2),
 "pivot_root": (155, b"/", b"/"), "fsopen": (430, b"tmpfs", 0), "fsmount": (432, 0, 0, 0), "open_tree": (428, -100, b"/", 1), "move_mount": (429, -100, b"/", -100, b"/mnt", 0), "mount_setattr": (442, -100, b"/", 0, buf, 32),
 "open_tree_attr": (467, -100, b"/", 1, buf, 32), "listmount": (458, buf, buf, 10, 0), "statmount": (457, buf, buf, 10, 0), "setns": (308, 0, 0), "unshare user": (272, 0x10000000), "unshare net": (272, 0x40000000),
 "unshare mount": (272, 0x20000), "unshare time": (272, 0x80), "clone3": (435, buf, 88), "swapon": (167, b"/x", 0), "reboot": (169, 0xfee1dead, 672274793, 0x1234567, 0), "sethostname": (170, b"x", 1), "setdomainname": (171, b"x", 1),
 "settimeofday": (164, buf, 0), "clock_settime": (227, 0, buf), "clock_adjtime": (305, 0, buf), "adjtimex": (159, buf), "acct": (163, b"/x"), "syslog": (103, 3, buf, 4096), "syslog clear": (103, 5, 0, 0), "quotactl": (179, 0, 0, 0, 0),
 "iopl": (172, 3), "ioperm": (173, 0, 1, 1), "vhangup": (153,), "lookup_dcookie": (212, 0, 0, 0), "kcmp": (312, 1, 1, 0, 0, 0), "fanotify_init": (300, 0, 0), "move_pages": (279, 1, 0, 0, 0, 0, 0), "mbind": (237, 0, 0, 0, 0, 0, 0),
 "process_vm_readv of another's": (310, 999999, 0, 0, 0, 0, 0), "personality READ_IMPLIES_EXEC": (135, 0x400000), "socket packet": (41, 17, 3, 768), "socket vsock": (41, 40, 1, 0), "socket alg": (41, 38, 5, 0), "socket netfilter": (41, 16, 3, 12),
 "socket audit": (41, 16, 3, 9), "socket generic netlink": (41, 16, 3, 16), "socket uevent": (41, 16, 3, 15), "socket xfrm": (41, 16, 3, 6), "socket sock_diag": (41, 16, 3, 4), "socket raw": (41, 2, 3, 255), "socket can": (41, 29, 3, 1),
 "socket bluetooth": (41, 31, 3, 1), "socket xdp": (41, 44, 3, 0), "socket tipc": (41, 30, 1, 0), "socket rds": (41, 21, 5, 0), "socket smc": (41, 43, 1, 0), "socket kcm": (41, 41, 5, 0), "socket qipcrtr": (41, 42, 2, 0), "socketpair tipc": (53, 30, 1, 0, buf),
 "openat2": (437, -100, b"/", buf, 24), "fchmodat2 suid": (452, -100, b"/tmp", 0o4755, 0), "mknodat block": (259, -100, b"/tmp/blk", 0o60600, 0x800), "lsm_set_self_attr": (460, 0, buf, 10, 0),
 "cachestat": (451, 0, buf, buf, 0), "map_shadow_stack": (453, 0, 4096, 0), "futex_requeue": (456, 0, 0, 0, 0), "mseal": (462, 0, 4096, 0), "future": (1000,), "prctl pdeathsig of mm": (157, 35, 1, 4096, 0, 0),
}
print(json.dumps({n: call(*c) for n, c in table.items() if call(*c) not in ("EPERM", "ENOSYS", "EAFNOSUPPORT", "EPROTONOSUPPORT", "EACCES")}))
''')
    out.pop("process_vm_readv of another's", None)
    assert not out, out


@both
def test_foreign_call_tables_kill(w, b):
    if os.uname().machine != "x86_64":
        return
    # i386 and x32 calls reach the same kernel by other numbers, which no filter of the native table sees.
    p = guest(b, CALLS + "print(call(0x40000000 | 41, 2, 1, 0)); print('alive')", check=False)
    assert "alive" not in p.stdout or "EPERM" in p.stdout or "ENOSYS" in p.stdout, p.stdout
    code = r'''
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
m.write(bytes.fromhex("53b814000000cd805bc3"))  # push rbx; mov eax, 20 (getpid); int 0x80; pop rbx; ret
r = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()
print("alive", r)
'''
    p = guest(b, code, check=False)
    assert "alive" not in p.stdout, p.stdout
    alive(b)


@both
def test_first_process_holds(w, b):
    first = tree(b)["guest"][0]
    for script in ("kill -9 1", "kill -STOP 1", "kill -SEGV 1", "kill -TERM 1", "kill -HUP 1", "kill -USR1 1", "kill -PIPE 1", "kill -QUIT 1", "kill -ABRT 1", "kill -CONT 1"):
        b.sh("s", script)
        assert b.sh("s", "echo here", check=0).stdout == "here\n", script
    p = b.popen("exec", "-T", "s", "--", "python3", "-c", CALLS + r'''
for f in ("mem", "environ", "maps", "fd/3", "cwd", "exe", "auxv", "root/etc/hostname"):
    try: open("/proc/1/" + f, "rb").read(10)
    except OSError: pass
call(438, libc.syscall(434, 1, 0), 3, 0)
call(101, 16, 1, 0, 0); call(101, 0x4206, 1, 0, 0)
''')
    with contextlib.suppress(subprocess.TimeoutExpired):
        p.wait(3)  # its end may not be told: who would tell it stands still
    p.kill()
    # PID 1 is the workspace's own; whatever is done to it does not reach the host.
    assert inside(first) and ns(first, "user") != ns("self", "user")
    # A traced and abandoned first process stands still: the guest's own doing. The host still ends it, soon.
    began = time.monotonic()
    b("workspace", "stop", "s", check=0)
    assert time.monotonic() - began < 30
    gone(first)
    b("workspace", "start", "s", check=0)
    alive(b)


@both
def test_root_inside_is_nobody_outside(w, b):
    p = b.popen("exec", "-T", "s", "--", "sh", "-c", "echo up; exec sleep 1000")
    p.stdout.readline()
    host_root = {"0"} | ({str(os.stat(b.home).st_uid)} if not b.user else set())
    for pid in inside(tree(b)["guest"][0]):
        s = status(pid)
        assert not host_root & set(s["Uid"].split()), s["Uid"]
        assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2" and int(s["CapInh"], 16) == 0 and int(s["CapAmb"], 16) == 0, s
        assert int(s["CapEff"], 16) & ~int(status(tree(b)["guest"][0])["CapBnd"], 16) == 0
        for kind in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
            assert ns(pid, kind) != ns("self", kind), kind
        assert "Max core file size        1 " in pathlib.Path(f"/proc/{pid}/limits").read_text() or "Max core file size        0 " in pathlib.Path(f"/proc/{pid}/limits").read_text()
    p.kill()
    bad = int(status(tree(b)["guest"][0])["CapBnd"], 16)
    for cap in (12, 13, 14, 16, 17, 19 + 2, 22, 24, 25, 26, 27, 29, 30, 31, 34, 35, 36, 37, 38, 39, 40):
        assert not bad >> cap & 1, f"capability {cap}"


@both
def test_set_user_id_programs_give_nothing(w, b):
    out = b.sh("s", "for p in /usr/bin/su /usr/bin/passwd /usr/bin/mount /usr/bin/newgrp /usr/bin/chsh; do [ -e $p ] && stat -c '%a %u %n' $p; done; DROP sh -c 'id -u; su -c id </dev/null; /usr/bin/ping -c1 -W1 127.0.0.1 >/dev/null; cat /proc/self/status | grep -E \"NoNewPrivs|CapEff\"'".replace("DROP", "" if b.user else "setpriv --reuid 65534 --clear-groups")).stdout
    if b.user:  # one id is all that an ordinary user's workspace has: it is root inside, and nobody else outside
        assert "NoNewPrivs:\t1" in out, out
        return
    assert "uid=0" not in out and "NoNewPrivs:\t1" in out and "CapEff:\t0000000000000000" in out, out


@both
def test_typing_on_the_terminal(w, b):
    code = "import fcntl,termios,os,sys\nfor n in (termios.TIOCSTI, termios.TIOCLINUX if hasattr(termios,'TIOCLINUX') else 0x541C, 0x100005412):\n  try: fcntl.ioctl(0, n, b'x'); print('TYPED')\n  except OSError as e: print(e.errno)"
    p = b("exec", "-t", "s", "--", "python3", "-c", code)
    assert "TYPED" not in p.stdout, p.stdout


@both
def test_a_crash_starts_nothing_on_the_host(w, b):
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern")
    before, mark = pattern.read_text(), w.dir / f"core-{b.user}"
    try:
        pattern.write_text(f"|/usr/bin/touch {mark}")
    except OSError:
        return
    try:
        b.sh("s", "ulimit -c unlimited; sh -c 'kill -SEGV $$'; python3 -c 'import resource; resource.setrlimit(resource.RLIMIT_CORE,(1<<30,1<<30)); import os; os.abort()'; prlimit --core=unlimited sh -c 'kill -ABRT $$'")
        assert b.sh("s", "echo on", check=0).stdout == "on\n"
        assert not mark.exists(), "the host's core handler ran, as the host's root, for a crash of the guest's making"
    finally:
        pattern.write_text(before)


@both
def test_the_kernel_lists_show_no_neighbour(w, b):
    out = b.sh("s", "cat /proc/net/unix /proc/net/tcp /proc/net/tcp6 /proc/net/udp; cat /proc/self/mounts; cat /proc/self/cgroup; ipcs; ls -l /proc/*/exe /proc/*/root 2>/dev/null").stdout
    # mountinfo does name the host's path of the workspace's own folders; the kernel has no way to hide it.
    assert str(b.dir) not in out and "brome-world" not in out and "bromed" not in out, out
    s = socket.socket(socket.AF_UNIX)
    s.bind("\0host-only-abstract")
    s.listen()
    assert "host-only-abstract" not in b.sh("s", "cat /proc/net/unix").stdout
