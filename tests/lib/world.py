"""A closed world for one test file: a network namespace without any way out, with names, servers and a sniffer of its own.

The file runs as root inside `unshare --net --mount` (tests/run.py does that). Names are answered by a small DNS server that logs
every query; addresses of 203.0.113.0/24 and 2001:db8::/64 stand for the outside and live on an interface without a far end, so whatever leaves a
workspace is seen by the sniffer and goes nowhere else. Servers here are stand-ins unless they say that they are real (nginx, git)."""
import http.server
import json
import os
import pathlib
import shutil
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
DEADLINE = 60  # seconds; "refused, not timed out" is asserted, never "fast"


class Skip(Exception):
    """The test cannot run here; the text says why."""


def sh(*argv, check=True, timeout=DEADLINE, **kw):
    kw.setdefault("stdin", subprocess.DEVNULL)
    p = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, **kw)
    if check and p.returncode != 0:
        raise AssertionError(f"{argv}: exit {p.returncode}\n{p.stdout.decode(errors='replace')}\n{p.stderr.decode(errors='replace')}")
    return p


def wait_for(what, fn, deadline=DEADLINE):
    """Polls a condition; for things that give no message of their own."""
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        v = fn()
        if v:
            return v
        time.sleep(0.02)
    raise AssertionError(f"gave up waiting for {what}")


class Dns(threading.Thread):
    """Answers A and AAAA from a table on 203.0.113.53:53 (UDP and TCP); everything else NXDOMAIN. Every question is logged."""

    def __init__(self):
        super().__init__(daemon=True)
        self.table, self.queries, self.lock = {}, [], threading.Lock()
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("203.0.113.53", 53))
        self.start()

    def set(self, name, *addresses, cname=None):
        self.table[name] = (addresses, cname)

    def asked(self, part):
        with self.lock:
            return [q for q in self.queries if part in q[0]]

    @staticmethod
    def name_of(data):
        at, labels = 12, []
        while data[at]:
            n = data[at]
            labels.append(data[at + 1:at + 1 + n].decode("ascii", "replace"))
            at += n + 1
        return ".".join(labels).lower(), at + 1

    def answer(self, data):
        name, at = self.name_of(data)
        qtype = struct.unpack(">H", data[at:at + 2])[0]
        question = data[12:at + 4]
        with self.lock:
            self.queries.append((name, qtype))
        rows, count = b"", 0
        known = self.table.get(name)
        addresses, cname = known or ((), None)
        if callable(addresses[0] if addresses else None):
            addresses = addresses[0]()
        owner = b"\xc0\x0c"
        if cname:
            target = b"".join(bytes([len(l)]) + l.encode() for l in cname.split(".")) + b"\0"
            rows += owner + struct.pack(">HHIH", 5, 1, 1, len(target)) + target
            count += 1
            owner = target
            addresses = self.table.get(cname, ((), None))[0]
        for a in addresses:
            family = socket.AF_INET6 if ":" in a else socket.AF_INET
            if qtype == (28 if family == socket.AF_INET6 else 1):
                raw = socket.inet_pton(family, a)
                rows += owner + struct.pack(">HHIH", qtype, 1, 1, len(raw)) + raw
                count += 1
        flags = 0x8180 if known else 0x8183
        return data[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0) + question + rows

    def run(self):
        while True:
            data, peer = self.udp.recvfrom(4096)
            try:
                self.udp.sendto(self.answer(data), peer)
            except Exception as e:  # a malformed query must not end the server
                print(f"dns: {e!r}", file=sys.stderr)


class Sniffer:
    """Every IP packet on every interface of the world, with the parts a test asks for."""

    def __init__(self):
        self.packets, self.lock = [], threading.Lock()
        self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.ntohs(3))
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            data, meta = self.sock.recvfrom(65536)
            if meta[0] == "lo" and meta[2] == socket.PACKET_OUTGOING:
                continue  # lo shows each packet twice
            p = self.parse(data)
            if p:
                with self.lock:
                    self.packets.append(p)

    @staticmethod
    def parse(d):
        if len(d) >= 20 and d[0] >> 4 == 4:
            off = (d[0] & 15) * 4
            proto, src, dst = d[9], socket.inet_ntop(socket.AF_INET, d[12:16]), socket.inet_ntop(socket.AF_INET, d[16:20])
        elif len(d) >= 40 and d[0] >> 4 == 6:
            off, proto = 40, d[6]
            src, dst = socket.inet_ntop(socket.AF_INET6, d[8:24]), socket.inet_ntop(socket.AF_INET6, d[24:40])
        else:
            return None
        sport = dport = 0
        if proto in (6, 17) and len(d) >= off + 4:
            sport, dport = struct.unpack(">HH", d[off:off + 4])
        return {"src": src, "dst": dst, "proto": proto, "sport": sport, "dport": dport, "data": d[off:]}

    def mark(self):
        # A packet of our own on lo: when it has come by, so has everything before it.
        token = os.urandom(16)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.sendto(token, ("127.0.0.1", 9))
        s.close()

        def seen():
            with self.lock:
                return any(token in p["data"] for p in self.packets[-2000:])
        wait_for("the sniffer", seen)
        with self.lock:
            return len(self.packets)

    def since(self, mark, **want):
        self.mark()
        with self.lock:
            rows = self.packets[mark:]
        # The kernel's own neighbour and group messages of the world's interface are nobody's traffic.
        own = lambda p: p["dst"].startswith("ff02::") and p["proto"] in (0, 58)  # noqa: E731
        return [p for p in rows if p["dport"] != 9 and not own(p) and all(p[k] == v for k, v in want.items())]


class Recorder:
    """A TCP (or TLS) server that accepts, records every byte and answers with a fixed text or a function of what came. A stand-in."""

    def __init__(self, address, port, tls=None, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"):
        self.connections, self.bytes, self.lock, self.answer, self.tls = 0, [], threading.Lock(), answer, tls
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.sock = socket.socket(family)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind((address, port))
        self.sock.listen(128)
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            c, _ = self.sock.accept()
            threading.Thread(target=self.serve, args=(c,), daemon=True).start()

    def serve(self, c):
        with self.lock:
            self.connections += 1
            mine = len(self.bytes)
            self.bytes.append(b"")
        try:
            c.settimeout(DEADLINE)
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            while True:
                d = c.recv(65536)
                if not d:
                    break
                with self.lock:
                    self.bytes[mine] += d
                    so_far = self.bytes[mine]
                if callable(self.answer):
                    if self.answer(c, so_far):
                        break
                elif b"\r\n\r\n" in so_far:
                    c.sendall(self.answer)
                    break
        except OSError:
            pass
        finally:
            try:
                c.close()
            except OSError:
                pass

    def everything(self):
        with self.lock:
            return b"".join(self.bytes)


class World:
    made = []  # also one whose set-up failed half way

    def __init__(self, sniff=True):
        World.made.append(self)
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brome-world-", dir=os.environ.get("BROME_TEST_TMP", "/tmp")))
        self.dir.chmod(0o755)
        self.children, self.bromes = [], []
        sh("ip", "link", "set", "lo", "up")
        # A veth pair whose far end nobody reads: what is sent to the outside is seen there and goes no further.
        sh("ip", "link", "add", "world0", "type", "veth", "peer", "name", "world1")
        sh("ip", "link", "set", "world0", "up")
        sh("ip", "link", "set", "world1", "up")
        for a in (1, 10, 11, 20, 21, 30, 40, 53, 66):
            sh("ip", "addr", "add", f"203.0.113.{a}/24", "dev", "world0")
            sh("ip", "-6", "addr", "add", f"2001:db8::{a}/64", "dev", "world0", "nodad")
        sh("ip", "route", "add", "default", "via", "203.0.113.254", "dev", "world0")
        sh("ip", "-6", "route", "add", "default", "via", "2001:db8::fe", "dev", "world0")
        self.make_ca()
        self.cover("/etc/resolv.conf", "nameserver 203.0.113.53\noptions timeout:1 attempts:1\n")
        self.cover("/etc/hosts", "127.0.0.1 localhost\n::1 localhost\n")
        bundle = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
        self.cover(bundle, bundle.read_text() + (self.dir / "ca.pem").read_text())
        self.dns = Dns()
        self.sniffer = Sniffer() if sniff else None

    def cover(self, path, text):
        real = os.path.realpath(path)
        mine = self.dir / os.path.basename(real)
        mine.write_text(text)
        mine.chmod(0o644)
        sh("mount", "--bind", mine, real)

    def make_ca(self):
        d = self.dir
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", d / "ca.key", "-out", d / "ca.pem",
           "-days", "2", "-subj", "/CN=brome test CA", "-addext", "keyUsage=critical,keyCertSign,cRLSign")

    def cert(self, *names):
        """A certificate of the test CA for names and addresses; (chain file, key file)."""
        d, n = self.dir, names[0].replace("*", "_")
        if not (d / f"{n}.pem").exists():
            alt = ",".join(("IP:" if name.replace(".", "").isdigit() or ":" in name else "DNS:") + name for name in names)
            (d / f"{n}.ext").write_text(f"subjectAltName={alt}\nbasicConstraints=CA:FALSE\n")
            sh("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", d / f"{n}.key", "-out", d / f"{n}.csr",
               "-subj", f"/CN={names[0]}")
            sh("openssl", "x509", "-req", "-in", d / f"{n}.csr", "-CA", d / "ca.pem", "-CAkey", d / "ca.key", "-days", "2", "-out", d / f"{n}.pem", "-extfile", d / f"{n}.ext")
        return d / f"{n}.pem", d / f"{n}.key"

    def server_tls(self, *names, alpn=("http/1.1",)):
        chain, key = self.cert(*names)
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(chain, key)
        if alpn:
            c.set_alpn_protocols(list(alpn))
        return c

    def start(self, *argv, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.Popen([str(a) for a in argv], **kw)
        self.children.append(p)
        return p

    def listening(self, address, port):
        def up():
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
                return s.connect_ex((address, port)) == 0
        wait_for(f"{address}:{port}", up)

    def nginx(self, names=("allowed.example",), address="203.0.113.10", v6="2001:db8::10", extra=""):
        """The real nginx: TLS with HTTP/1.1 and HTTP/2 on 443, plain HTTP on 80, files of self.www, uploads by PUT under /put/."""
        if not shutil.which("nginx"):
            raise Skip("nginx is not installed")
        chain, key = self.cert(*names)
        www = self.dir / "www"
        for sub in (www, www / "put", self.dir / "nginx"):
            sub.mkdir(exist_ok=True)
            sub.chmod(0o777)
        (www / "index.html").write_text("hello from nginx\n")
        for n in names:
            self.dns.set(n, address, v6)
        body = f"""
            root {www}; default_type text/plain; client_max_body_size 0;
            location / {{ try_files $uri $uri/index.html =404; }}
            location /echo {{ add_header Content-Type text/plain always; return 200 "$request_method $request_uri $server_protocol\\n"; }}
            location /redirect {{ return 302 https://evil.example/elsewhere; }}
            {extra}"""
        conf = self.dir / "nginx.conf"
        conf.write_text(f"""
            user root; worker_processes 1; daemon off; pid {self.dir}/nginx.pid; error_log {self.dir}/nginx/error.log;
            events {{ worker_connections 4096; }}
            http {{
                access_log {self.dir}/nginx/access.log; keepalive_requests 1000000;
                client_body_temp_path {self.dir}/nginx/body; proxy_temp_path {self.dir}/nginx/p; fastcgi_temp_path {self.dir}/nginx/f; uwsgi_temp_path {self.dir}/nginx/u; scgi_temp_path {self.dir}/nginx/s;
                server {{ listen {address}:80; listen [{v6}]:80; {body} }}
                server {{ listen {address}:443 ssl http2; listen [{v6}]:443 ssl http2; ssl_certificate {chain}; ssl_certificate_key {key}; {body} }}
            }}""")
        self.start("nginx", "-c", conf, "-e", self.dir / "nginx/error.log")
        self.listening(address, 443)

    def close(self):
        for b in self.bromes:
            b.close()
        for p in self.children:
            if p.poll() is None:
                p.terminate()
        for p in self.children:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
        # Mounts and interfaces go with the namespaces.


class Brome:
    """One hermetic set-up: configuration, state, runtime folder, supervisor. As root, or as an ordinary user."""

    def __init__(self, world, config="", user=None):
        self.world, self.user = world, user
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="b-", dir=world.dir))
        self.config = self.dir / "brome.conf"
        self.config.write_text(config)
        self.home = self.dir / "home"
        self.home.mkdir()
        if user:
            for p in (self.dir, self.config, self.home):
                shutil.chown(p, user, user)
        self.env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8",
                    "BROME_CONFIG": str(self.config), "BROME_STATE": str(self.dir / "state"), "BROME_RUNTIME": str(self.dir / "run")}
        if os.environ.get("BROME_DEBUG"):
            self.env["BROME_DEBUG"] = os.environ["BROME_DEBUG"]
        self.program = os.environ["BROME_UNDER_TEST"]
        world.bromes.append(self)

    def argv(self, *args):
        argv = [self.program, *[str(a) for a in args]]
        return ["setpriv", "--reuid", self.user, "--regid", self.user, "--init-groups", "--", *argv] if self.user else argv

    def __call__(self, *args, check=None, timeout=DEADLINE, input=None, cwd=None, env=None, text=True):
        """Runs `brome args`; check: the exit code it must have."""
        p = subprocess.run(self.argv(*args), env={**self.env, **(env or {})}, cwd=cwd or self.home, timeout=timeout, capture_output=True,
                           input=input.encode() if isinstance(input, str) else input, **({} if input is not None else {"stdin": subprocess.DEVNULL}))
        if text:
            p.stdout, p.stderr = p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")
        if check is not None:
            assert p.returncode == check, f"brome {' '.join(map(str, args))}: exit {p.returncode}, not {check}\n{p.stdout}\n{p.stderr}\n{self.log()}"
        return p

    def popen(self, *args, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        p = subprocess.Popen(self.argv(*args), env={**self.env, **kw.pop("extra_env", {})}, cwd=kw.pop("cwd", self.home), **kw)
        self.world.children.append(p)
        return p

    def json(self, *args, check=0):
        return [json.loads(line) for line in self(*args, "--json", check=check).stdout.splitlines()]

    def run(self, rules, *command, check=None, args=(), **kw):
        """`brome run --allow … -- command`; rules: one string or several."""
        rules = [rules] if isinstance(rules, str) else rules
        return self("run", *[x for r in rules for x in ("--allow", r)], *args, "--", *command, check=check, **kw)

    def rules(self, workspace, text, check=0):
        return self("rules", "set", workspace, "-", input=text, check=check)

    def sh(self, workspace, script, **kw):
        return self("exec", "-T", workspace, "--", "sh", "-c", script, **kw)

    def timeline(self, **want):
        rows = self.json("timeline")
        return [r for r in rows if all(r.get(k) == v for k, v in want.items())]

    def trace(self, **want):
        rows = self.json("trace", "ls")
        return [r for r in rows if all(r.get(k) == v for k, v in want.items())]

    def pids(self, program):
        """Processes of this set-up by program name, found through bromed's own children."""
        status = self.json("daemon", "status")[0]
        found, todo = [], [int(status["pid"])]
        while todo:
            pid = todo.pop()
            try:
                comm = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
                kids = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except OSError:
                continue
            if comm == program:
                found.append(pid)
            todo += [int(k) for k in kids]
        return found

    def log(self):
        try:
            return (self.dir / "run/bromed.log").read_text(errors="replace")[-4000:]
        except OSError:
            return "(no log)"

    def close(self):
        try:
            self("daemon", "stop", timeout=30)
        except Exception as e:
            print(f"stopping: {e!r}", file=sys.stderr)
