"""The host and the neighbour (A3): loopback, LAN, sockets, shared memory, locks, watches, keys, folders. Two workspaces and a host stand side by side
and none hears of another."""
import ctypes
import fcntl
import os
import pathlib
import select
import socket
import struct
import time

from ground import both, guest, inside, libc, quiet, tree, two
from world import Recorder, World

CONFIG = """
workspace s { rules { allow web allowed.example; default deny } }
workspace t { rules { default deny } }
"""


def make_world():
    w = World()
    w.loop = [Recorder("127.0.0.1", 8000), Recorder("::1", 8000), Recorder("203.0.113.1", 8000), Recorder("2001:db8::1", 8000)]
    w.abstract = socket.socket(socket.AF_UNIX)
    w.abstract.bind("\0the-host")
    w.abstract.listen()
    two(w, CONFIG)
    for b in (w.root, w.plain):
        for name in ("s", "t"):
            b("workspace", "start", name, check=0)
    return w


@both
def test_loopback_and_lan_of_the_host(w, b):
    mark = w.sniffer.mark()
    names = ["127.0.0.1", "127.0.0.2", "localhost", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "203.0.113.1", "[2001:db8::1]", "10.88.0.1", "169.254.169.254", "[fd00:ec2::254]", "100.100.100.200", "192.168.0.1",
             "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "host.docker.internal", "gateway.docker.internal"]
    for name in names:
        for path in (f"http://{name}:8000/", f"http://{name}/latest/meta-data/"):
            began = time.monotonic()
            p = b.sh("s", f"curl -sS -m 20 -H 'Metadata-Flavor: Google' '{path}'")
            assert p.returncode not in (0, 28) and time.monotonic() - began < 10, (path, p.returncode, p.stdout)
    assert not [r for r in w.loop if r.connections]
    quiet(w, mark)


@both
def test_sockets_and_folders_of_the_host(w, b):
    out = guest(b, '''
import json, os, socket
r = []
s = socket.socket(socket.AF_UNIX)
try: s.connect("\\0the-host"); r.append("abstract")
except OSError: pass
for p in ("/run/systemd/private", "/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user", "/tmp/.X11-unix", "/run/nscd/socket"):
    if os.path.exists(p): r.append(p)
print(json.dumps(r))
''')
    assert not out, out
    host = pathlib.Path("/var/tmp/of-the-host")
    host.write_text("host secret")
    try:
        p = b.sh("s", "ls -A /home /srv /mnt /media /var/tmp /tmp /run /var/log /var/mail; cat /etc/shadow /etc/ssh/* /var/tmp/of-the-host; find / -xdev -name of-the-host 2>/dev/null")
        assert "secret" not in p.stdout and "of-the-host" not in p.stdout and "brome-test" not in p.stdout, p.stdout
    finally:
        host.unlink()


@both
def test_a_taken_program_of_the_set_up_is_out_of_reach(w, b):
    """The control socket, the journal, the configuration: not in the file system, and refused even to a descriptor that leaked."""
    out = b.sh("s", f"ls {b.dir} {b.dir}/run {b.dir}/state; ls /proc/*/cwd/; find / -xdev -name 'bromed*' -o -xdev -name 'brome.conf' -o -xdev -name journal.db 2>/dev/null").stdout
    assert "bromed.sock" not in out and "journal.db" not in out and "brome.conf" not in out, out
    # A process of the guest's namespaces that holds a connection: handed over by the host's root, as nobody should.
    path = str(b.dir / "run/bromed.sock")
    pid = tree(b)["guest"][0]
    r, wr = os.pipe()
    child = os.fork()
    if child == 0:
        for kind, flag in (("user", 0x10000000), ("pid", 0x20000000)):
            fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
            libc.setns(fd, flag)
        grand = os.fork()
        if grand == 0:
            answer = b"nothing"
            try:
                c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                c.settimeout(20)
                c.connect(path)
                c.send(b'{"op":"hello","version":1,"build":"0.1.0"}')
                answer = c.recv(65536)
            except OSError as e:
                answer = repr(e).encode()
            os.write(wr, answer or b"closed")
            os._exit(0)
        os.waitpid(grand, 0)
        os._exit(0)
    os.waitpid(child, 0)
    os.close(wr)
    answer = os.read(r, 65536)
    assert b'"hello"' not in answer and b'"pid"' not in answer, answer


@both
def test_nothing_passes_between_workspaces(w, b):
    talk = '''
import ctypes, fcntl, json, mmap, os, socket, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
role, seen = sys.argv[1] if len(sys.argv) > 1 else "ROLE", []
libc.shmget.restype = ctypes.c_int
'''
    # The sender leaves a mark in everything that two processes could have in common.
    guest(b, talk + '''
keep = []
shm = libc.shmget(0x62726f6d, 4096, 0o1666); msg = libc.msgget(0x62726f6d, 0o1666); sem = libc.semget(0x62726f6d, 1, 0o1666)
os.makedirs("/dev/shm", exist_ok=True); open("/dev/shm/mark", "w").write("x")
for d in ("/tmp", "/var/tmp", "/run", "/run/lock", "/var/lib", "/usr/local/bin", "/usr/bin", "/etc", "/opt", "/srv", "/mnt"):
    try: open(d + "/mark-of-s", "w").write("from s")
    except OSError: pass
libc.syscall(240, b"/mark", 0o102, 0o666, None)
open("/root/mark-of-s", "w").write("from s")
if os.fork() == 0:
    os.setsid()
    for f in (0, 1, 2): os.close(f)
    a = socket.socket(socket.AF_UNIX); a.bind("\\0mark-of-s"); a.listen()
    u = socket.socket(); u.bind(("0.0.0.0", 9999)); u.listen()
    locks = []
    for p in ("/usr/bin/env", "/usr/bin/python3", "/etc/passwd", "/usr", "/", "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/proc/kcore", "/proc", "/usr/lib", "/var/lib/dpkg/status"):
        try: f = os.open(p, os.O_RDONLY); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); locks.append(f)
        except OSError: pass
    import time; time.sleep(600); os._exit(0)
print(json.dumps("done"))
''', workspace="s")
    out = guest(b, talk + '''
if libc.shmget(0x62726f6d, 4096, 0) >= 0: seen.append("shm")
if libc.msgget(0x62726f6d, 0) >= 0: seen.append("msg")
if libc.semget(0x62726f6d, 1, 0) >= 0: seen.append("sem")
if os.path.exists("/dev/shm/mark"): seen.append("dev/shm")
if libc.syscall(240, b"/mark", 2, 0, None) >= 0: seen.append("posix queue")
for d in ("/tmp", "/var/tmp", "/run", "/run/lock", "/var/lib", "/usr/local/bin", "/usr/bin", "/etc", "/opt", "/srv", "/mnt", "/root"):
    if os.path.exists(d + "/mark-of-s"): seen.append(d)
s = socket.socket(socket.AF_UNIX)
try: s.connect("\\0mark-of-s"); seen.append("abstract")
except OSError: pass
for a in ("127.0.0.1", "10.88.0.2", "10.88.0.1", "10.88.0.3"):
    s = socket.socket(); s.settimeout(5)
    try: s.connect((a, 9999)); s.recv(1) and seen.append(a)
    except OSError: pass
devices = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/proc/kcore") if AS_ROOT else ()
for p in ("/usr/bin/env", "/usr/bin/python3", "/etc/passwd", "/usr", "/", "/proc", "/usr/lib", "/var/lib/dpkg/status", *devices):
    try: f = os.open(p, os.O_RDONLY); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: seen.append("lock on " + p)
    except OSError: pass
print(json.dumps(seen))
'''.replace("AS_ROOT", str(not b.user)), workspace="t")  # an ordinary user can make no device nodes: docs/THREAT-MODEL.md
    assert not out, f"from s to t: {out}"


@both
def test_watches_and_locks_on_the_hosts_files(w, b):
    inotify = libc.inotify_init1(os.O_NONBLOCK)
    for p in (b"/usr/bin/env", b"/usr/bin", b"/usr/lib", b"/etc"):
        assert libc.inotify_add_watch(inotify, p, 0x20 | 0x1 | 0x10 | 0x4) >= 0  # open, access, close, attributes
    held = os.open("/usr/bin/env", os.O_RDONLY)
    os.read(inotify, 65536) if select.select([inotify], [], [], 0)[0] else None
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    out = guest(b, '''
import fcntl, json, os
f = os.open("/usr/bin/env", os.O_RDONLY)
try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); r = "mine"
except OSError: r = "seen"
os.system("/usr/bin/env true; touch /usr/bin/env; ls /etc >/dev/null")
print(json.dumps(r))
''', workspace="t")
    assert out == "mine", "a lock of the host's is seen inside"
    fcntl.flock(held, fcntl.LOCK_UN)
    os.close(held)
    os.close(inotify)


@both
def test_folders_of_the_state_are_private(w, b):
    for d in ("state", "run", "state/workspaces/s", "state/workspaces/s/home"):
        assert os.stat(b.dir / d).st_mode & 0o077 == 0 or d.endswith("home") and os.stat(b.dir / "state/workspaces/s").st_mode & 0o077 == 0, d
    assert os.stat(b.dir / "run/bromed.sock").st_mode & 0o077 == 0 or os.stat(b.dir / "run").st_mode & 0o077 == 0
    if b.user:
        return
    # Another user of the host does not get in by the home of root's workspace, whose owner is an unused id.
    assert b.sh("s", "echo x > ~/open; chmod 777 ~ ~/open", check=0)
    import subprocess
    p = subprocess.run(["setpriv", "--reuid", "brome-test", "--regid", "brome-test", "--clear-groups", "cat", str(b.dir / "state/workspaces/s/home/open")], capture_output=True)
    assert p.returncode != 0, p


@both
def test_a_guest_is_no_user_of_the_daemon(w, b):
    """Processes of two workspaces are of different ids when root started them, so not even /proc or signals of the host could confuse them."""
    if b.user:
        return
    owners = [set(open(f"/proc/{p}/status").read().split("Uid:")[1].split("\n")[0].split()) for p in tree(b)["guest"]]
    assert len(owners) == 2 and not owners[0] & owners[1], owners
