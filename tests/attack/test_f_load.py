"""Load (F2): one workspace does its worst; its neighbour and the daemon keep their pace, memory and descriptors stay bounded, nothing hangs."""
import os
import socket
import time

from ground import both, guest, status, tree, two
from world import World, wait_for

CONFIG = """
workspace s { memory 512M; rules { allow web allowed.example; default deny } }
workspace t { rules { allow web allowed.example; default deny } }
"""
RESIDENT_KB = 160 * 1024  # of any process of ours, under every load here
DESCRIPTORS = 20000


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    two(w, CONFIG)
    for b in (w.root, w.plain):
        for name in ("s", "t"):
            b("workspace", "start", name, check=0)
    return w


def neighbour(b):
    """How long a request of the neighbour and a question to the daemon take."""
    began = time.monotonic()
    assert b.sh("t", "curl -sS -m 30 https://allowed.example/", check=0).stdout == "hello from nginx\n"
    b.json("daemon", "status")
    return time.monotonic() - began


def bounded(b):
    for name, pids in tree(b).items():
        for pid in pids:
            if name != "guest":
                assert int(status(pid)["VmRSS"].split()[0]) < RESIDENT_KB, (name, status(pid)["VmRSS"])
                assert len(os.listdir(f"/proc/{pid}/fd")) < DESCRIPTORS, name


def under(w, b, script, seconds=15):
    """Runs a script in s, in the background; the neighbour is asked meanwhile."""
    p = b.popen("exec", "-T", "s", "--", "python3", "-c", "import os, socket, struct, sys, time\n" + script)
    assert p.stdout.readline() == b"on\n", p.stderr.read()
    slowest = max(neighbour(b) for _ in range(3))
    bounded(b)
    p.kill()
    p.wait()
    assert slowest < seconds, f"the neighbour waited {slowest:.1f} s"
    b("workspace", "stop", "s", "--force")
    wait_for("the next start", lambda: b("workspace", "start", "s").returncode == 0)
    bounded(b)


@both
def test_a_fork_bomb(w, b):
    under(w, b, "print('on', flush=True)\nwhile True:\n  try:\n    os.fork()\n  except OSError: pass\n", 30)


@both
def test_ten_thousand_idle_connections(w, b):
    under(w, b, """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
addresses = [i[4] for i in socket.getaddrinfo("allowed.example", 443, type=socket.SOCK_STREAM)]
keep = []
for n in range(10000):
    a = addresses[n % len(addresses)]
    s = socket.socket(socket.AF_INET6 if ":" in a[0] else socket.AF_INET); s.setblocking(False)
    try: s.connect(a)
    except BlockingIOError: pass
    except OSError: break
    keep.append(s)
print("on", flush=True)
time.sleep(600)
""", 30)


@both
def test_slow_bodies_half_requests_and_garbage(w, b):
    under(w, b, """
a = socket.getaddrinfo("allowed.example", 80, type=socket.SOCK_STREAM)[0][4]
keep = []
for n in range(400):
    s = socket.socket(socket.AF_INET6 if ":" in a[0] else socket.AF_INET); s.connect(a)
    s.sendall((b"POST / HTTP/1.1\\r\\nHost: allowed.example\\r\\nContent-Length: 100000000\\r\\n\\r\\nx", b"GET / HT", os.urandom(300), b"\\x16\\x03\\x01\\x02\\x00\\x01", b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n", b"\\0" * 9000)[n % 6])
    keep.append(s)
print("on", flush=True)
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    for s in keep:
        try: s.sendall(b"x")
        except OSError: pass
    try: u.sendto(os.urandom(200), ("10.88.0.1", 53))
    except OSError: pass
""")


@both
def test_a_flood_of_refusals(w, b):
    rows = len(b.trace())
    under(w, b, """
print("on", flush=True)
n = 0
while True:
    n += 1
    s = socket.socket(); s.settimeout(2)
    try: s.connect(("203.0.113.%d" % (n % 250 + 1), n % 60000 + 1))
    except OSError: pass
    s.close()
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try: u.sendto(b"x", ("203.0.113.66", n % 60000 + 1))
    except OSError: pass
    u.close()
""")
    assert len(b.trace()) >= rows
    size = sum(f.stat().st_size for f in (b.dir / "state").glob("journal*"))
    assert size < 300 << 20, size
    b("trace", "verify", check=0)


@both
def test_output_and_files_without_end(w, b):
    under(w, b, "print('on', flush=True)\nfor _ in range(3):\n  if os.fork() == 0:\n    while True: os.write(2, b'x' * 65536)\nwhile True:\n  try: open('/tmp/fill', 'ab').write(b'x' * (1 << 20))\n  except OSError: time.sleep(0.01)\n", 30)


def test_garbage_on_the_control_socket(w):
    b = w.root
    path = str(b.dir / "run/bromed.sock")
    held = []
    for data in (b"", b"{", b"\0" * 100, os.urandom(1000), b'{"op":"hello"}', b'{"op":"stop","id":1}', b"[" * 60000, b'{"op":"hello","version":99,"build":"x"}', b'{"op":"hello","version":1,"build":"0.1.0"}'):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(10)
        s.connect(path)
        try:
            s.send(data)
        except OSError:
            pass
        held.append(s)
    idle = []
    for _ in range(300):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.settimeout(2)
        try:
            s.connect(path)
        except OSError:
            break
        idle.append(s)
    bounded_fds = len(os.listdir(f"/proc/{status_pid(b)}/fd"))
    assert bounded_fds < 1024, bounded_fds
    for s in held + idle:
        s.close()
    wait_for("the daemon", lambda: b("daemon", "status").returncode == 0)
    assert neighbour(b) < 30


def status_pid(b):
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                if os.readlink(f"/proc/{p}/fd/3") == str(b.dir / "run/bromed.lock"):
                    return p
            except OSError:
                pass
    raise AssertionError("no bromed")
