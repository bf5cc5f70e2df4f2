#!/usr/bin/env python3
"""Plays bromed for one brome-launch: hands it descriptor 3, sends the plan, keeps the gateway's sockets as the inner door would, runs programs.

As a library (class Launch) for tests/launch/check.py; by hand:  drive.py STATE_FOLDER -- COMMAND…
"""
import array, json, os, pwd, select, shutil, socket, struct, subprocess, sys, tempfile, time

HEAD = struct.Struct("<IBBH")
(HELLO, SETUP, READY, EXEC, STARTED, FAILED, STDIN, STDOUT, STDERR, WINDOW, RESIZE, SIGNAL, EXIT, CLOSE, SHUTDOWN, CLOCK) = range(1, 17)
BUILD = os.environ.get("BROME_BUILD", os.path.join(os.path.dirname(__file__), "../../build/launch"))


def ca_pem(folder):
    path = os.path.join(folder, "ca.pem")
    if not os.path.exists(path):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "/dev/null", "-out", path,
                        "-subj", "/CN=brome workspace test", "-days", "30"], check=True, stderr=subprocess.DEVNULL)
    return open(path, "rb").read()


class Stream:
    """The client's end of an exec."""
    def __init__(self, sock):
        self.sock, self.buf = sock, b""
        self.out, self.err, self.status, self.failed = b"", b"", None, None

    def send(self, kind, payload=b""):
        try:
            self.sock.sendall(HEAD.pack(0, kind, 0, len(payload)) + payload)
        except BrokenPipeError:
            pass  # the program ended meanwhile; what it left to read is still there

    def pump(self, timeout):
        end = time.monotonic() + timeout
        while self.status is None and self.failed is None:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.sock], [], [], left)[0]:
                raise TimeoutError("exec gave no end")
            data = self.sock.recv(65536)
            if not data:
                break
            self.buf += data
            while len(self.buf) >= 8:
                stream, kind, _flags, n = HEAD.unpack(self.buf[:8])
                if len(self.buf) < 8 + n:
                    break
                payload, self.buf = self.buf[8:8 + n], self.buf[8 + n:]
                assert stream == 0
                if kind in (STDOUT, STDERR):
                    if kind == STDOUT: self.out += payload
                    else: self.err += payload
                    if payload: self.send(WINDOW, struct.pack("<IB", len(payload), kind))
                elif kind == EXIT:
                    self.status = struct.unpack("<I", payload)[0]
                elif kind == FAILED:
                    self.failed = payload[4:].decode()
        return self


class Launch:
    def __init__(self, state, user=None, **plan):
        self.t0 = time.monotonic()
        us, them = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ctl, self.progress, self.ids, self.ended = us, [], 0, {}
        self.fds, self.log = {}, tempfile.TemporaryFile()
        if "BROME_LIBEXEC" not in os.environ:
            os.makedirs(BUILD + "/libexec", exist_ok=True)
            for part, name in (("launch", "brome-launch"), ("guest", "brome-guest")):
                if not os.path.lexists(BUILD + "/libexec/" + name): os.symlink("../src/%s/%s" % (part, name), BUILD + "/libexec/" + name)
        env = {"PATH": os.environ["PATH"], "HOME": pwd.getpwuid(os.geteuid() if user is None else user).pw_dir, "BROME_LIBEXEC": os.environ.get("BROME_LIBEXEC", os.path.abspath(os.path.join(BUILD, "libexec")))}
        program = os.path.join(env["BROME_LIBEXEC"], "brome-launch")
        kw = {}
        if user is not None:
            kw = dict(user=user, group=user, extra_groups=[])
        def place():
            os.dup2(self.child_end, 3)
            os.set_inheritable(3, True)
        self.child_end = them.fileno()
        self.proc = subprocess.Popen([program], preexec_fn=place, pass_fds=[3], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.log, env=env, **kw)
        them.close()
        pem = plan.pop("ca", None)
        body = dict(op="plan", workspace="test", session=1, hostname="test", state=state, home=state + "/home", nested=False, memory_bytes=0, processes=0,
                    cpu_percent=0, shares=[], protect=[], env={}, fds=["ca_cert"])
        body.update(plan)
        fd = os.memfd_create("ca")
        os.write(fd, pem if pem is not None else b"")
        self.send(body, [fd] if pem is not None else [])
        os.close(fd)

    def send(self, body, fds=()):
        self.ctl.sendmsg([json.dumps(body).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def recv(self, timeout=30):
        if not select.select([self.ctl], [], [], timeout)[0]:
            raise TimeoutError("no message from brome-launch\n" + self.text())
        data, anc, _f, _a = self.ctl.recvmsg(65536, 4096)
        fds = array.array("i")
        for level, kind, payload in anc:
            if kind == socket.SCM_RIGHTS: fds.frombytes(payload[:len(payload) - len(payload) % 4])
        return (json.loads(data) if data else None), list(fds)

    def expect(self, *ops, timeout=30):
        while True:
            msg, fds = self.recv(timeout)
            if msg is None:
                raise EOFError("brome-launch is gone: " + self.text())
            if msg["op"] == "progress":
                self.progress.append((round((time.monotonic() - self.t0) * 1000, 1), msg["step"]))
            elif msg["op"] == "exec-end" and "exec-end" not in ops:
                self.ended[msg["id"]] = msg["status"]
            elif msg["op"] in ops:
                return msg, fds
            else:
                raise AssertionError("unexpected %r" % msg)

    def text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def gateway(self):
        msg, fds = self.expect("gateway", "failed")
        if msg["op"] == "failed": raise RuntimeError(msg["text"])
        self.sockets = {n: f for n, f in zip(msg["fds"], fds)}
        return self.sockets

    def open(self):
        self.send({"op": "open"})
        msg, _ = self.expect("ready", "failed")
        if msg["op"] == "failed": raise RuntimeError(msg["text"])
        self.ready = msg
        return msg

    def start(self):
        self.gateway()
        return self.open()

    def exec(self, argv, env=None, cwd=None, pty=False):
        self.ids += 1
        body = dict(op="exec", id=self.ids, argv=list(argv), env=env or {}, pty=pty, rows=24, cols=80)
        if cwd: body["cwd"] = cwd
        self.send(body)
        msg, fds = self.expect("exec")
        if "error" in msg: raise RuntimeError(msg["error"])
        return Stream(socket.socket(fileno=fds[0]))

    def run(self, *argv, timeout=60, stdin=b"", **kw):
        s = self.exec(argv, **kw)
        if stdin: s.send(STDIN, stdin)
        s.send(STDIN)
        s.pump(timeout)
        return s

    def sh(self, script, timeout=60, **kw):
        s = self.run("/bin/sh", "-c", script, timeout=timeout, **kw)
        return s.out.decode(errors="replace") + s.err.decode(errors="replace")

    def stop(self, grace_ms=1000):
        self.send({"op": "stop", "grace_ms": grace_ms})
        msg, _ = self.expect("exit", "failed", timeout=90)
        self.proc.wait(20)
        return msg


if __name__ == "__main__":
    at = sys.argv.index("--")
    state = sys.argv[1]
    os.makedirs(state, exist_ok=True); os.chown(state, int(os.environ.get('DRIVE_UID','0')), -1)
    user = int(os.environ["DRIVE_UID"]) if "DRIVE_UID" in os.environ else None
    ca = ca_pem(os.path.dirname(state))
    l = Launch(state, user=user, ca=ca)
    try:
        l.gateway(); t1 = time.monotonic()
        l.open(); t2 = time.monotonic()
        s = l.run(*sys.argv[at + 1:])
        t3 = time.monotonic()
        sys.stdout.write(s.out.decode(errors="replace")); sys.stderr.write(s.err.decode(errors="replace"))
        print("gateway %.1f ms, ready %.1f ms, exec %.1f ms; status %r %r" % ((t1 - l.t0) * 1e3, (t2 - l.t0) * 1e3, (t3 - t2) * 1e3, s.status, s.failed), file=sys.stderr)
        print(l.progress, l.ready, l.stop(), l.text(), file=sys.stderr)
    except Exception:
        print(l.text(), file=sys.stderr)
        raise
