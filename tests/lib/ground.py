"""What the attack and fault tests of the ground (namespaces, files, processes) share: finding the processes of a set-up, stepping into
the guest's network namespace, running a script as the guest's root, and asking what the outside saw."""
import contextlib
import ctypes
import json
import os
import pathlib
import socket
import subprocess
import textwrap

from world import Brome, wait_for

GUEST4, GATE4 = "10.88.0.2", "10.88.0.1"
GUEST6, GATE6 = "fd62:726f:6d65::2", "fd62:726f:6d65::1"
GUEST_MAC, GATE_MAC = bytes.fromhex("0262726f0002"), bytes.fromhex("0262726f0001")
ORIGIN = ("203.0.113.10", "2001:db8::10")  # the allowed one; its last packets may come late
CLONE_NEWNET = 0x40000000
PROGRAMS = ("bromed", "brome-spawn", "brome-launch", "brome-inner", "brome-outer")
libc = ctypes.CDLL(None, use_errno=True)


def ordinary_user():
    if subprocess.run(["id", "brome-test"], capture_output=True).returncode:
        subprocess.run(["useradd", "-m", "brome-test"], check=True)
    return "brome-test"


def both(fn):
    """Runs a test as root and as an ordinary user: w.root and w.plain."""
    def run(w):
        for b in (w.root, w.plain):
            try:
                fn(w, b)
            except AssertionError as e:
                raise AssertionError(f"as {b.user or 'root'}: {e}") from e
    run.__name__ = fn.__name__
    return run


def two(w, config):
    w.root, w.plain = Brome(w, config), Brome(w, config, user=ordinary_user())


def guest(b, script, workspace="s", timeout=120, check=True):
    """A Python script as the guest's root. What it prints as the last line is JSON and comes back."""
    p = b("exec", "-T", workspace, "--", "python3", "-", input=textwrap.dedent(script), timeout=timeout)
    if not check:
        return p
    assert p.returncode == 0 and p.stdout.strip(), f"guest script: exit {p.returncode}\n{p.stdout[-3000:]}\n{p.stderr[-3000:]}\n{b.log()}"
    return json.loads(p.stdout.splitlines()[-1])


def ns(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


def status(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)


def tree(b):
    """{program: [pids]} of the whole set-up; the keeper is told from its launcher, and `guest` is PID 1 inside."""
    top = int(b.json("daemon", "status")[0]["pid"])
    found, todo = {}, [top]
    while todo:
        pid = todo.pop(0)
        try:
            argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            kids = [int(k) for k in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
            parent = int(status(pid)["PPid"])
        except (OSError, KeyError):
            continue
        name = os.path.basename(argv)
        if name == "brome-launch" and parent in found.get("brome-launch", []):
            name = "keeper" if ns(pid, "pid") == ns("self", "pid") and ns(pid, "mnt") == ns("self", "mnt") else "guest"
        elif name == "brome-guest":
            name = "guest"
        found.setdefault(name, []).append(pid)
        if name != "guest":
            todo += kids
    return found


def inside(pid):
    """Every process of the pid namespace of a guest's PID 1."""
    want, found = ns(pid, "pid"), []
    for p in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if p.isdigit() and ns(p, "pid") == want:
                found.append(int(p))
    return found


def remains(b):
    """Everything that a set-up could leave behind on the host: processes, mounts, control groups, links."""
    left = []
    for p in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if p.isdigit() and str(b.dir).encode() in pathlib.Path(f"/proc/{p}/environ").read_bytes() and b"brome" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes():
                left.append(f"process {p} {pathlib.Path(f'/proc/{p}/cmdline').read_bytes()!r}")
    left += [f"mount {line.strip()}" for line in open("/proc/self/mounts") if str(b.dir) in line]
    return left


def groups_of(pid):
    """Control group folders named after a launcher."""
    found = []
    for root, dirs, _ in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(root, d) for d in dirs if d.startswith("brome.") and d.endswith(f".{pid}")]
    return found


@contextlib.contextmanager
def netns(pid):
    """What is opened inside belongs to that network namespace; the caller's thread steps in and out again."""
    ours, there = os.open("/proc/thread-self/ns/net", os.O_RDONLY), os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    try:
        assert libc.setns(there, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        yield
    finally:
        assert libc.setns(ours, CLONE_NEWNET) == 0
        os.close(ours)
        os.close(there)


def quiet(w, mark, *ignore):
    """Asserts that nothing but the test's own loopback traffic was seen outside, and that no name was asked for."""
    own = ("127.0.0.1", "::1", *ORIGIN, *ignore)
    seen = [p for p in w.sniffer.since(mark) if p["dst"] not in own and p["src"] not in own and "203.0.113.53" not in (p["src"], p["dst"])]
    assert not seen, f"the outside saw {[{k: v for k, v in p.items() if k != 'data'} for p in seen[:10]]}"


def alive(b, workspace="s"):
    """The way that is allowed still works."""
    assert b.sh(workspace, "curl -sS -m 20 https://allowed.example/", check=0).stdout == "hello from nginx\n"


def lives(pid):
    try:
        return status(pid).get("State", "Z")[0] not in "ZX"
    except OSError:
        return False


def gone(*pids):
    wait_for(f"the end of {pids}", lambda: not [p for p in pids if lives(p)])
