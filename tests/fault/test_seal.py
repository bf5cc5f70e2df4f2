"""The seals: what each process of a running session holds, and what happens when whoever took it over tries more. Forbidden calls are made inside
the real processes, by ptrace (inject.c); the process is killed or the call refused, and the workspace closed."""
import os
import pathlib
import re
import shutil
import subprocess

from ground import alive, both, groups_of, inside, ordinary_user, status, tree, two
from world import Skip, World, sh, wait_for

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\n"
KEEPER = {1, 5, 12, 19}  # DAC_OVERRIDE, KILL, NET_ADMIN, SYS_PTRACE: keeper.c says why


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    two(w, CONFIG)
    w.inject = w.dir / "inject"
    if shutil.which("cc"):
        sh("cc", "-O1", "-Wall", "-o", w.inject, pathlib.Path(__file__).parent / "inject.c")
    return w


def running(b):
    """The processes of a running session; one that still ends is waited for."""
    def up():
        b("workspace", "start", "s")
        return [r for r in b.json("workspace", "ls") if r["name"] == "s" and r["state"] == "running"]
    wait_for("the workspace", up)
    return {name: pids[0] for name, pids in tree(b).items()}


def caps(text):
    return {n for n in range(64) if int(text, 16) >> n & 1}


@both
def test_what_each_process_holds(w, b):
    pids = running(b)
    assert set(pids) >= {"bromed", "brome-spawn", "brome-launch", "keeper", "brome-inner", "brome-outer", "guest"}, pids
    for name in ("bromed", "brome-launch", "keeper", "brome-inner", "brome-outer"):
        s, p = status(pids[name]), f"/proc/{pids[name]}"
        assert s["NoNewPrivs"] == "1" and s["Seccomp"] == "2", (name, s["NoNewPrivs"], s["Seccomp"])
        assert caps(s["CapEff"]) == (KEEPER if name == "keeper" else set()) and caps(s["CapEff"]) == caps(s["CapPrm"]), (name, s["CapEff"])
        assert not caps(s["CapInh"]) and not caps(s["CapAmb"]), name
        if not b.user:
            assert caps(s["CapBnd"]) <= KEEPER, (name, s["CapBnd"])
        limits = pathlib.Path(p, "limits").read_text()
        assert re.search(r"Max core file size +[01] ", limits), (name, limits)
        if name == "brome-outer" and not b.user:
            assert s["Uid"].split() == ["65534"] * 4 and s["Gid"].split() == ["65534"] * 4 and not s.get("Groups", "").split(), s
    # Not dumpable: nobody of the same user looks into it.
    for name in ("bromed", "brome-spawn", "brome-launch", "keeper", "brome-inner", "brome-outer"):
        p = f"/proc/{pids[name]}"
        assert os.stat(p + "/environ").st_uid == 0, f"{name} is dumpable"
        if b.user:
            for f in ("environ", "mem", "maps", "fd", "root"):
                q = subprocess.run(["setpriv", "--reuid", b.user, "--regid", b.user, "--init-groups", "ls" if f in ("fd", "root") else "cat", f"{p}/{f}/." if f in ("fd", "root") else f"{p}/{f}"], capture_output=True)
                assert q.returncode, f"{name}: {f} is readable"


def kinds(pid):
    return [os.readlink(f"/proc/{pid}/fd/{f}") for f in sorted(os.listdir(f"/proc/{pid}/fd"), key=int)]


@both
def test_descriptors_are_of_the_expected_kinds(w, b):
    pids = running(b)
    d = re.escape(str(b.dir))
    common = [r"/dev/null", d + r"/run/bromed\.log", r"socket:\[\d+\]", r"anon_inode:\[eventpoll\]", r"pipe:\[\d+\]", r"anon_inode:\[pidfd\]"]
    groups = [r"/sys/fs/cgroup(/[^/]+)*", r"user:\[\d+\]"]
    expected = {
        "bromed": common + [d + r"/run/bromed\.lock", d + r"/state/bromed\.lock", d + r"/state/journal\.(db(-wal|-shm)?|head|key)"],
        "brome-spawn": common + [r"anon_inode:\[signalfd\]"],
        "brome-launch": common + groups + [d + r"/state/workspaces/s/ca\.pem", d + r"/state/cache/etc-[0-9a-f]+"],
        "keeper": common + groups + [r"/proc"],
        "brome-inner": common + [d + r"/state/workspaces/s/names"],
        "brome-outer": common,
        "guest": [r"/dev/null", r"socket:\[\d+\]", r"anon_inode:\[(eventpoll|signalfd|pidfd)\]", r"pipe:\[\d+\]"],
    }
    for name, patterns in expected.items():
        odd = [k for k in kinds(pids[name]) if not any(re.fullmatch(p, k) for p in patterns)]
        assert not odd, f"{name} holds {odd}"
        assert len(kinds(pids[name])) < 40, (name, kinds(pids[name]))
    assert len(kinds(pids["brome-outer"])) <= 12 and len(kinds(pids["guest"])) <= 10, (kinds(pids["brome-outer"]), kinds(pids["guest"]))


SYS = {"read": 0, "open": 2, "mmap": 9, "mprotect": 10, "ioctl": 16, "socket": 41, "connect": 42, "bind": 49, "listen": 50, "fork": 57, "clone": 56, "execve": 59, "kill": 62, "ptrace": 101, "setuid": 105,
       "mount": 165, "chroot": 161, "unshare": 272, "setns": 308, "openat": 257, "unlink": 87, "symlink": 88, "mkdir": 83, "chmod": 90, "process_vm_readv": 310, "io_uring_setup": 425, "bpf": 321, "memfd_create": 319,
       "execveat": 322, "keyctl": 250, "prctl": 157, "seccomp": 317, "pidfd_getfd": 438, "landlock": 444, "personality": 135, "name_to_handle_at": 303, "add_key": 248, "userfaultfd": 323, "perf_event_open": 298,
       "clone3": 435, "openat2": 437, "rename": 82, "creat": 85, "prlimit64": 302, "dup2": 33, "setsockopt": 54, "shmget": 29, "pivot_root": 155, "sendfile": 40, "splice": 275, "x32 socket": 0x40000029}
EVERYWHERE = [("execve", "s:/bin/sh", 0, 0), ("execveat", -100, "s:/bin/sh", 0, 0, 0), ("fork",), ("clone", 17, 0, 0, 0, 0), ("clone3", 0, 88), ("ptrace", 16, 1, 0, 0), ("kill", 1, 9), ("setuid", 0), ("mount", "s:x", "s:/mnt", "s:tmpfs", 0, 0),
              ("chroot", "s:/"), ("unshare", 0x10000000), ("setns", 0, 0), ("socket", 16, 3, 12), ("socket", 17, 3, 768), ("socket", 40, 1, 0), ("bind", 0, 0, 0), ("listen", 0, 1), ("io_uring_setup", 4, 0), ("bpf", 0, 0, 128),
              ("process_vm_readv", 1, 0, 0, 0, 0, 0), ("mprotect", 0x1000, 0x1000, 7), ("mmap", 0, 4096, 7, 0x22, -1, 0), ("keyctl", 0, -3, 0), ("symlink", "s:/etc/passwd", "s:/tmp/x"), ("personality", 0x400000),
              ("prctl", 4, 1, 0, 0, 0), ("pidfd_getfd", 0, 0, 0), ("userfaultfd", 0), ("shmget", 1, 4096, 0o1666), ("x32 socket", 2, 1, 0), ("prlimit64", 1, 4, 0, 0)]
# Opening files: no call at all in the inner door; for the others Landlock says which.
FILES = [("openat", -100, "s:/etc/shadow", 0, 0), ("openat", -100, "s:/etc/passwd", 1, 0), ("openat", -100, "s:/root/.bashrc", 0, 0), ("openat", -100, "s:/proc/self/mem", 2, 0), ("openat", -100, "s:/tmp/made-by-a-door", 0o102, 0o600)]
# Level and option together: 13 is SO_LINGER of SOL_SOCKET, TCP_CONGESTION of TCP and IP_RECVTOS of IP; then SO_BINDTODEVICE, SO_MARK, SO_ATTACH_FILTER, IP_TRANSPARENT, TCP_REPAIR, TCP_ULP.
OPTIONS = [("setsockopt", 0, 6, 13, "s:reno", 4), ("setsockopt", 0, 0, 13, 0, 4), ("setsockopt", 0, 1, 25, "s:lo", 3), ("setsockopt", 0, 1, 36, 0, 4), ("setsockopt", 0, 1, 26, 0, 16), ("setsockopt", 0, 0, 19, 0, 4),
           ("setsockopt", 0, 6, 19, 0, 4), ("setsockopt", 0, 6, 31, "s:tls", 4), ("setsockopt", 0, 0x100000001, 25, 0, 4)]
PROGRAMS = {
    "brome-inner": FILES + OPTIONS + [("setsockopt", 0, 1, 9, 0, 4), ("setsockopt", 0, 6, 1, 0, 4), ("open", "s:/etc/passwd", 0, 0), ("socket", 2, 1, 0), ("socket", 10, 1, 0), ("socket", 1, 1, 0), ("connect", 3, 0, 0), ("memfd_create", "s:x", 0), ("unlink", "s:/tmp/x"), ("mkdir", "s:/tmp/x", 0o700)],
    "brome-outer": FILES + OPTIONS + [("setsockopt", 0, 1, 1, 0, 4), ("setsockopt", 0, 6, 9, 0, 4), ("socket", 1, 1, 0), ("memfd_create", "s:x", 0), ("unlink", "s:/tmp/x"), ("mkdir", "s:/tmp/x", 0o700), ("rename", "s:/tmp/x", "s:/tmp/y"), ("openat", -100, "s:/etc/hosts", 2, 0)],
    "bromed": FILES + OPTIONS + [("setsockopt", 0, 1, 8, 0, 4), ("socket", 2, 1, 0), ("socket", 10, 2, 0), ("socket", 1, 1, 0), ("connect", 3, 0, 0), ("unlink", "s:/etc/hostname"), ("mkdir", "s:/tmp/made-by-a-door", 0o700), ("rename", "s:/etc/hostname", "s:/etc/hostname2")],
    "brome-launch": FILES + [("socket", 2, 1, 0), ("socket", 1, 1, 0), ("connect", 3, 0, 0), ("memfd_create", "s:x", 0), ("rename", "s:/etc/hostname", "s:/etc/hostname2"), ("openat", -100, "s:/sys/fs/cgroup/x", 0o102, 0o600)],
    "keeper": [("socket", 2, 1, 0), ("socket", 1, 1, 0), ("socket", 16, 3, 0), ("connect", 3, 0, 0), ("memfd_create", "s:x", 0), ("mkdir", "s:/tmp/x", 0o700), ("rename", "s:/tmp/x", "s:/tmp/y")],
}
REFUSED = {-1, -13}  # EPERM, EACCES
# seal.c leaves these to the caller where the kernel says no by itself
HARMLESS = {}


def attempt(w, b, name, call):
    pids = running(b)
    argv = [str(w.inject), str(pids[name]), str(SYS[call[0]]), *[str(a) for a in call[1:]]]
    p = subprocess.run(argv, capture_output=True, timeout=30)
    out = p.stdout.decode().strip()
    assert out, f"{name}: {call}: {p.stderr.decode()}"
    verdict = out.split()
    if verdict[0] == "returned":
        return None if int(verdict[1]) in REFUSED else f"{name}: {call}: {out}"
    if verdict != ["killed", "31"]:
        return f"{name}: {call}: {out}"
    # Whatever was killed: the guest ends with it.
    wait_for(f"the end of the guest after {name} was killed", lambda: not os.path.exists(f"/proc/{pids['guest']}"))
    return None


def attempts(name):
    def test(w):
        if os.uname().machine != "x86_64" or not w.inject.exists():
            raise Skip("needs x86-64 and a C compiler")
        bad = [r for call in EVERYWHERE + PROGRAMS[name] if (r := attempt(w, w.root, name, call))]
        # The same filters as an ordinary user; what root's identity could have changed is tried again.
        bad += [f"as brome-test: {r}" for call in PROGRAMS[name][:8] if (r := attempt(w, w.plain, name, call))]
        assert not bad, "\n".join(bad)
        for b in (w.root, w.plain):
            running(b)
            alive(b)
            b("trace", "verify", check=0)
        assert not os.path.exists("/tmp/made-by-a-door")
    return test


test_the_inner_door_taken_over = attempts("brome-inner")
test_the_outer_door_taken_over = attempts("brome-outer")
test_the_launcher_taken_over = attempts("brome-launch")
test_the_keeper_taken_over = attempts("keeper")
test_bromed_taken_over = attempts("bromed")


@both
def test_the_outer_door_reads_only_what_it_needs(w, b):
    pids = running(b)
    if os.uname().machine != "x86_64" or not w.inject.exists():
        raise Skip("needs x86-64 and a C compiler")
    for path, ok in (("/etc/resolv.conf", True), (f"{b.dir}/state/journal.db", False), (f"{b.dir}/state/workspaces/s/ca.key", False), (f"{b.dir}/brome.conf", False), ("/proc/1/environ", False), ("/etc/ssh/sshd_config", b.user)):
        p = subprocess.run([str(w.inject), str(pids["brome-outer"]), "257", "-100", f"s:{path}", "0", "0"], capture_output=True)
        n = int(p.stdout.split()[1]) if p.stdout.startswith(b"returned") else -1
        # A user's door may read the folder of resolv.conf, which that user can read anyway; root's is nobody.
        assert (n >= 0) == bool(ok) or not os.path.exists(path) or path == "/etc/ssh/sshd_config", (path, p.stdout)


def test_a_stranger_on_the_host_reaches_no_socket(w):
    b = w.root
    running(b)
    user = ordinary_user()
    code = f"import socket; s=socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('{b.dir}/run/bromed.sock'); s.send(b'{{}}'); print(s.recv(9))"
    p = subprocess.run(["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "/usr/bin/python3", "-c", code], capture_output=True)
    assert p.returncode and b"Permission" in p.stderr, p
    assert not groups_of(0) and inside(tree(b)["guest"][0])
