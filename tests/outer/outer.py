"""Common ground of the outer door's tests: one brome-outer behind the driver, local origins, one test CA.

TAP on standard output; readiness by message or by a connect that succeeds, never by sleep."""
import json, os, queue, socket, subprocess, sys, tempfile, threading, time, hashlib, ssl, contextlib

DRIVER = os.environ.get("OUTER_DRIVER") or sys.argv[1]
DOOR = os.environ.get("OUTER_DOOR") or sys.argv[2]
DEADLINE = 30


class Door:
    def __init__(self, rules, cas=None, proxy="", no_proxy=None, prefix=(), account=None, secret=None):
        self.dir = tempfile.mkdtemp(prefix="outer-")
        os.chmod(self.dir, 0o755)
        self.count = 0
        self.next_id = 1
        args = list(prefix) + [DRIVER, DOOR, self.policy_file(rules, cas), proxy]
        if no_proxy is not None:
            args.append(no_proxy)
        env = dict(os.environ, DOOR_ACCOUNT=account, DOOR_SECRET=secret) if account else None
        self.lines = []  # all that the door said, as it came
        self.p = subprocess.Popen(args, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.q = queue.Queue()
        self.pending = []
        threading.Thread(target=self.reader, daemon=True).start()
        self.pid = self.wait(lambda e: e["ev"] == "pid")["pid"]
        self.wait(lambda e: e["ev"] == "ready")

    def policy_file(self, rules, cas=None):
        self.count += 1
        path = os.path.join(self.dir, "policy%d.json" % self.count)
        with open(path, "w") as f:
            json.dump({"rules": rules, "cas": cas or {}}, f)
        return path

    def reader(self):
        for line in self.p.stdout:
            self.lines.append(line)
            self.q.put(json.loads(line))
        self.q.put({"ev": "eof"})

    def wait(self, want, deadline=DEADLINE):
        for i, e in enumerate(self.pending):
            if want(e):
                return self.pending.pop(i)
        end = time.monotonic() + deadline
        while True:
            try:
                e = self.q.get(timeout=max(0.01, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError("nothing came in %d s; seen: %s" % (deadline, self.pending[-5:]))
            if want(e):
                return e
            if e["ev"] in ("eof", "gone", "link-broken"):
                raise AssertionError("the door ended: %s %s" % (e, self.pending[-5:]))
            self.pending.append(e)

    def say(self, *words):
        self.p.stdin.write(" ".join(str(w) for w in words) + "\n")
        self.p.stdin.flush()

    def policy(self, rules, cas=None):
        self.say("policy", self.policy_file(rules, cas))
        return self.wait(lambda e: e["ev"] == "policy" and e["generation"] == self.count)

    @staticmethod
    def esc(v):
        return "".join("%%%02x" % b if b <= 32 or b == 37 or b > 126 else chr(b) for b in v.encode("utf-8", "surrogateescape"))

    def open(self, *fields, end=False, quiet=False):
        i = self.next_id
        self.next_id += 1
        self.say("open", i, *(["end"] if end else []), *(["quiet"] if quiet else []), *["%s=%s" % (n, self.esc(v)) for n, v in fields], "brome-flow=%d" % i)
        return i

    def request(self, method, scheme, authority, path, *fields, body=None, stream=False, quiet=False):
        """stream: the body comes later, by say(data|fill|end)."""
        end = body is None and not stream
        i = self.open((":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *fields, end=end, quiet=quiet)
        if body is not None:
            if body:
                self.say("data", i, self.esc(body))
            self.say("end", i)
        return i

    def result(self, i, deadline=DEADLINE):
        """Everything of stream i until it closed."""
        r = Result()
        while True:
            e = self.wait(lambda e: e.get("id") == i and e["ev"] in ("headers", "data", "end", "close"), deadline)
            if e["ev"] == "headers":
                r.blocks.append(dict((n, v) for n, v in e["fields"]))
            elif e["ev"] == "data":
                r.body += bytes.fromhex(e["text"][4:]).decode("latin-1") if e["text"].startswith("hex:") else e["text"]
            elif e["ev"] == "end":
                r.ended = True
            else:
                r.code, r.total, r.sha256 = e["code"], e["total"], e["sha256"]
                return r.done()

    def get(self, scheme, authority, path, *fields, method="GET", body=None, deadline=DEADLINE):
        return self.result(self.request(method, scheme, authority, path, *fields, body=body), deadline)

    def head(self, i):
        return dict(self.wait(lambda e: e.get("id") == i and e["ev"] == "headers")["fields"])

    def rss_kb(self, what="Private_Dirty"):
        with open("/proc/%d/smaps_rollup" % self.pid) as f:
            return sum(int(l.split()[1]) for l in f if l.startswith(what + ":"))

    def close(self):
        with contextlib.suppress(Exception):
            self.p.stdin.close()
        self.p.wait(DEADLINE)


class Result:
    def __init__(self):
        self.blocks, self.body, self.ended, self.code, self.total = [], "", False, None, 0

    def done(self):
        finals = [b for b in self.blocks if ":status" in b and not b[":status"].startswith("1")]
        self.head = finals[0] if finals else {}
        self.interim = [b for b in self.blocks if b.get(":status", "").startswith("1")]
        self.trailers = self.blocks[-1] if self.blocks and ":status" not in self.blocks[-1] else {}
        self.status = int(self.head.get(":status", 0))
        self.reason = self.head.get("brome-reason", "")
        self.detail = self.head.get("brome-detail", "")
        return self

    def __repr__(self):
        return "status %s reason %s detail %r code %s total %s blocks %s body %r" % (self.status, self.reason, self.detail, self.code, self.total, self.blocks, self.body[:200])


def run(*args, **kw):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kw)


class Pki:
    """A CA and leaves, by openssl."""
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="outer-pki-")
        self.ca_key, self.ca_pem = self.path("ca.key"), self.path("ca.pem")
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.ca_key, "-out", self.ca_pem,
            "-days", "30", "-subj", "/CN=outer test CA")
        with open(self.ca_pem) as f:
            self.ca = f.read()

    def path(self, name):
        return os.path.join(self.dir, name)

    def leaf(self, name, *alt, days="30"):
        key, csr, crt, ext = (self.path(name + s) for s in (".key", ".csr", ".crt", ".ext"))
        with open(ext, "w") as f:
            f.write("subjectAltName=%s\n" % ",".join(a if ":" in a[:4] else "DNS:" + a for a in (alt or (name,))))
        run("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", csr, "-subj", "/CN=" + name)
        run("openssl", "x509", "-req", "-in", csr, "-CA", self.ca_pem, "-CAkey", self.ca_key, "-CAcreateserial", "-out", crt, "-days", days, "-extfile", ext)
        return crt, key


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port):
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
    raise AssertionError("port %d never opened" % port)


class Nginx:
    def __init__(self, pki, *names):
        self.dir = tempfile.mkdtemp(prefix="outer-nginx-")
        os.chmod(self.dir, 0o755)
        self.h1, self.h2, self.plain = free_port(), free_port(), free_port()
        self.sink = Raw(sink)
        crt, key = pki.leaf("nginx", *names)
        self.www = os.path.join(self.dir, "www")
        os.mkdir(self.www)
        with open(os.path.join(self.www, "small"), "w") as f:
            f.write("hello\n")
        conf = """daemon off; worker_processes 1; pid %(d)s/pid; error_log %(d)s/error.log; user root;
events { worker_connections 2048; }
http { access_log %(d)s/access.log; client_body_temp_path %(d)s/b; proxy_temp_path %(d)s/p; fastcgi_temp_path %(d)s/f; uwsgi_temp_path %(d)s/u; scgi_temp_path %(d)s/s;
 client_max_body_size 0; keepalive_requests 1000000; http2_max_requests 1000000; ssl_certificate %(c)s; ssl_certificate_key %(k)s; sendfile on; keepalive_timeout 60; ssl_session_cache shared:S:1m;
 server { listen 127.0.0.1:%(h1)d ssl; listen 127.0.0.1:%(h2)d ssl http2; listen 127.0.0.1:%(plain)d; root %(w)s; location /echo { return 200 "$request_method $uri $http_x_test $server_protocol $http_host"; }
  location /moved { return 302 https://elsewhere.example/; } location /null { alias %(w)s/small; } 
  location /upload { proxy_pass http://127.0.0.1:%(sink)d; proxy_request_buffering off; proxy_http_version 1.1; }
  location /resumed { return 200 "$ssl_session_reused"; } location /header { add_header brome-reason forged; add_header x-ok yes; return 200 "x"; } } }""" % dict(
            d=self.dir, sink=self.sink.port, c=crt, k=key, h1=self.h1, h2=self.h2, plain=self.plain, w=self.www)
        path = os.path.join(self.dir, "conf")
        with open(path, "w") as f:
            f.write(conf)
        self.p = subprocess.Popen(["nginx", "-c", path, "-e", os.path.join(self.dir, "error.log")])
        for port in (self.h1, self.h2, self.plain):
            wait_port(port)

    def close(self):
        self.p.terminate()
        self.p.wait(DEADLINE)


def sink(c):
    """Reads a chunked or counted body to its end and answers its length and digest."""
    f = c.makefile("rb", 1 << 18)
    f.readline()
    head = {}
    while True:
        line = f.readline().strip()
        if not line:
            break
        n, v = line.decode("latin-1").split(":", 1)
        head[n.lower()] = v.strip()
    h, total = hashlib.sha256(), 0

    def take(n):
        nonlocal total
        while n:
            part = f.read(min(n, 1 << 18))
            if not part:
                raise OSError("short body")
            h.update(part)
            total += len(part)
            n -= len(part)
    if "content-length" in head:
        take(int(head["content-length"]))
    else:
        while True:
            n = int(f.readline(), 16)
            take(n)
            f.readline()
            if n == 0:
                break
    body = ("%d %s" % (total, h.hexdigest())).encode()
    c.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


class Raw:
    """A TCP origin that runs `serve(connection)` for each connection, in a thread."""
    def __init__(self, serve, tls=None, family=socket.AF_INET, host="127.0.0.1"):
        self.s = socket.socket(family)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind((host, 0))
        self.s.listen(128)
        self.port = self.s.getsockname()[1]
        self.serve, self.tls, self.accepted, self.errors = serve, tls, 0, []
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            try:
                c, _ = self.s.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.one, args=(c,), daemon=True).start()

    def one(self, c):
        try:
            if self.tls:
                c = self.tls.wrap_socket(c, server_side=True)
            with c:
                self.serve(c)
        except (OSError, ssl.SSLError, ValueError) as e:
            self.errors.append(e)

    def close(self):
        self.s.close()


def read_head(c):
    data = b""
    while b"\r\n\r\n" not in data:
        more = c.recv(65536)
        if not more:
            raise OSError("closed in the head: %r" % data)
        data += more
    head, rest = data.split(b"\r\n\r\n", 1)
    return head.decode("latin-1"), rest


def tls_server(crt, key, alpn=None):
    ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ctx.load_cert_chain(crt, key)
    if alpn:
        ctx.set_alpn_protocols(alpn)
    return ctx


class Tap:
    def __init__(self):
        self.n = self.failed = 0

    def __call__(self, name, fn):
        self.n += 1
        try:
            fn()
            print("ok %d - %s" % (self.n, name), flush=True)
        except Exception as e:
            self.failed += 1
            print("not ok %d - %s" % (self.n, name), flush=True)
            for line in ("%s: %s" % (type(e).__name__, e)).splitlines():
                print("# " + line, flush=True)

    def end(self):
        print("1..%d" % self.n, flush=True)
        return 1 if self.failed else 0


def expect(cond, what):
    if not cond:
        raise AssertionError(what)
