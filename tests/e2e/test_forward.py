"""brome forward: a server of a workspace on a loopback address of this machine that is the workspace's own; and pause and resume."""
import json
import os
import pathlib
import re
import signal
import socket
import threading
import time

from ground import both, two
from world import World, wait_for

CONFIG = "workspace s { rules { default deny } }\nworkspace t { rules { default deny } }\n"


def make_world():
    w = World()
    two(w, CONFIG)
    for b in (w.root, w.plain):
        b("workspace", "start", "s", check=0)
        b("workspace", "start", "t", check=0)
    return w


def server(b, script, port, host="127.0.0.1", workspace="s"):
    """A server inside; returns when it listens."""
    p = b.popen("exec", "-T", workspace, "--", "python3", "-uc", f"""import socket, struct, sys, time
s = socket.socket(socket.AF_INET6 if ':' in {host!r} else socket.AF_INET)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(({host!r}, {port})); s.listen(64); print('up', flush=True)
""" + script)
    assert p.stdout.readline() == b"up\n", p.communicate()
    return p


ECHO = """
import threading
def serve(c):
    while d := c.recv(65536): c.sendall(d)
    c.sendall(b'.'); c.close()
while True:
    threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""


class Forward:
    def __init__(self, b, *args):
        self.p = b.popen("forward", *args, "--json")
        line = self.p.stdout.readline()
        assert line, self.p.communicate()
        self.row = json.loads(line)
        self.at = (self.row["address"], self.row["at"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.send_signal(signal.SIGINT)
        self.p.communicate(timeout=60)

    def dial(self):
        c = socket.create_connection(self.at, timeout=60)
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return c


def everything(c):
    got = b""
    while d := c.recv(65536):
        got += d
    return got


@both
def test_bytes_both_ways_and_half_a_close(w, b):
    p = server(b, ECHO, 3000)
    with Forward(b, "s", 3000) as f:
        address, port = f.at
        assert port == 3000 and re.fullmatch(r"127\.\d+\.\d+\.\d+", address) and address != "127.0.0.1", f.row
        for text in (b"", b"hello", os.urandom(3_000_000)):
            c = f.dial()
            threading.Thread(target=lambda: (c.sendall(text), c.shutdown(socket.SHUT_WR)), daemon=True).start()
            assert everything(c) == text + b"."
            c.close()
        many = [f.dial() for _ in range(80)]  # more than go at once: the rest waits in the queue
        for c in many[:64]:
            c.sendall(b"x")
            assert c.recv(1) == b"x"
        for c in many[:64]:
            c.close()
        for c in many[64:]:
            c.sendall(b"y")
            assert c.recv(1) == b"y"
            c.close()
    # ^C: nothing listens any more.
    assert f.p.returncode == -signal.SIGINT
    try:
        socket.create_connection((address, port), timeout=5)
        raise AssertionError("it still listens")
    except ConnectionRefusedError:
        pass
    p.kill()


@both
def test_the_address_is_the_workspaces_own(w, b):
    with Forward(b, "s", 3001) as f, Forward(b, "t", 3001) as g:
        assert f.at[0] != g.at[0] and f.at[1] == g.at[1] == 3001
        mine = f.at[0]
        # Taken: another port, and the same address.
        with Forward(b, "s", 3001) as h:
            assert h.at[0] == mine and h.at[1] != 3001
        p = b("forward", "s", 3001, "--to", 3001)
        assert p.returncode == 69 and "in use" in p.stderr and not p.stdout, p
        # Only loopback: not on any other address of this machine.
        for address in ("203.0.113.1", "127.0.0.1"):
            try:
                socket.create_connection((address, 3001), timeout=5)
                raise AssertionError(f"reached at {address}")
            except (ConnectionRefusedError, OSError):
                pass
    with Forward(b, "s", 3001, "--to", 4001) as f:
        assert f.at == (mine, 4001)


def test_a_port_that_only_root_may_have(w):
    with Forward(w.plain, "s", 80) as f:
        assert f.at[1] in (80, 8080), f.row
    with Forward(w.root, "s", 80) as f:
        assert f.at[1] == 80


@both
def test_nobody_there_and_the_other_loopback(w, b):
    with Forward(b, "s", 3002) as f:
        for _ in range(3):
            try:
                assert f.dial().recv(9) == b"never"
            except ConnectionResetError:
                pass
        p = server(b, ECHO, 3002, "::1")
        c = f.dial()
        c.sendall(b"six")
        assert c.recv(3) == b"six"
        p.kill()
        f.p.send_signal(signal.SIGINT)
        err = f.p.communicate(timeout=60)[1].decode()
        assert err.count("nothing answers at this port inside") == 1, err  # said once, not for each


@both
def test_a_reset_is_a_reset(w, b):
    p = server(b, """
while True:
    c, _ = s.accept(); c.sendall(b'half'); c.recv(9)
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); c.close()""", 3003)
    with Forward(b, "s", 3003) as f:
        c = f.dial()
        assert c.recv(4) == b"half"
        c.sendall(b"go")
        try:
            assert c.recv(9) == b"never", "it looks whole"
        except ConnectionResetError:
            pass
    p.kill()


@both
def test_a_client_that_goes_is_gone_inside(w, b):
    p = server(b, "while True:\n    c, _ = s.accept(); print('from', c.recv(9), flush=True)\n    try: print('then', c.recv(9), flush=True)\n    except OSError: print('then', b'', flush=True)", 3004)
    with Forward(b, "s", 3004) as f:
        c = f.dial()
        c.sendall(b"a")
        assert p.stdout.readline() == b"from b'a'\n"
        c.close()
        assert p.stdout.readline() == b"then b''\n"
        c = f.dial()
        c.sendall(b"b")
        assert p.stdout.readline() == b"from b'b'\n"
    assert p.stdout.readline() == b"then b''\n"  # the command's end is the connection's
    p.kill()


@both
def test_who_does_not_read_stops_the_other(w, b):
    p = server(b, """
c, _ = s.accept(); c.setblocking(False); n = 0; quiet = 0
while quiet < 20:
    try: n += c.send(b'z' * 65536); quiet = 0
    except BlockingIOError: quiet += 1; time.sleep(0.05)
print(n, flush=True); c.setblocking(True); c.close()""", 3005)
    with Forward(b, "s", 3005) as f:
        c = f.dial()
        n = int(p.stdout.readline())
        assert n < 64 * 1024 * 1024, n
        rss = int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{f.p.pid}/status").read_text()).group(1))
        assert rss < 64 * 1024, rss
        assert len(everything(c)) == n
    p.kill()


@both
def test_paused_and_resumed(w, b):
    p = server(b, ECHO, 3006)
    with Forward(b, "s", 3006) as f:
        c = f.dial()
        c.sendall(b"1")
        assert c.recv(1) == b"1"
        b("workspace", "pause", "s", check=0)
        assert "paused" in f.p.stderr.readline().decode()
        c.sendall(b"2")
        late = f.dial()
        late.sendall(b"3")
        for one in (c, late):
            one.settimeout(1)
            try:
                raise AssertionError(f"it flows: {one.recv(1)}")
            except TimeoutError:
                one.settimeout(60)
        q = b("forward", "s", 3006)
        assert q.returncode == 1 and "paused" in q.stderr and "resume s" in q.stderr, q
        q = b.sh("s", "true")
        assert q.returncode == 125 and "resume" in q.stderr, q
        b("workspace", "resume", "s", check=0)
        assert c.recv(1) == b"2" and late.recv(1) == b"3"
    q = b("workspace", "resume", "s")
    assert q.returncode == 1 and "not frozen" in q.stderr
    p.kill()


@both
def test_it_ends_with_the_workspace(w, b):
    p = server(b, ECHO, 3007, workspace="t")
    f = Forward(b, "t", 3007)
    c = f.dial()
    c.sendall(b"1")
    assert c.recv(1) == b"1"
    b("workspace", "stop", "t", check=0)
    out, err = f.p.communicate(timeout=60)
    assert f.p.returncode == 0 and b"t " in err, (f.p.returncode, err)
    try:
        assert c.recv(9) in (b".", b"")
    except ConnectionResetError:
        pass
    q = b("forward", "t", 3007)
    assert q.returncode == 1 and "`brome workspace start t` starts it" in q.stderr, q
    q = b("forward", "nosuch", 3007)
    assert q.returncode == 1 and "no workspace nosuch" in q.stderr, q
    for bad in (("s",), ("s", "0"), ("s", "65536"), ("s", "http"), ("s", "80", "--to", "0"), ("s", "80", "81")):
        assert b("forward", *bad).returncode == 64, bad
    b("workspace", "start", "t", check=0)
    p.communicate(timeout=60)


@both
def test_the_launcher_got_no_network_for_it(w, b):
    """The connection is made inside; what stands outside still has no way to make one."""
    p = server(b, ECHO, 3008)
    with Forward(b, "s", 3008) as f:
        c = f.dial()
        c.sendall(b"1")
        assert c.recv(1) == b"1"
        for pid in b.pids("brome-launch"):
            links = [os.readlink(x) for x in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
            inodes = {m.group(1) for x in links if (m := re.match(r"socket:\[(\d+)\]", x))}
            table = pathlib.Path(f"/proc/{pid}/net/tcp").read_text() + pathlib.Path(f"/proc/{pid}/net/tcp6").read_text()
            assert not inodes & {line.split()[9] for line in table.splitlines() if len(line.split()) > 9 and line.split()[9].isdigit()} - {"0"}
    p.kill()
