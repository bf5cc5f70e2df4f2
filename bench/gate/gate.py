#!/usr/bin/python3
"""The gate next to its peers: same origin, same load, one run. CPU time per operation is the steadiest figure; trust ratios within one run.

usage: bench/gate/gate.py BROME [--quick] [--only NAME[,NAME]] [--parts PART[,PART]] [--perf FOLDER] [--json FILE]   (root; makes a network namespace of its own)

Peers: direct (no proxy), haproxy and nginx re-encrypting with one fixed certificate, mitmproxy intercepting (when installed), brome.
The load comes from wrk and from small Python clients; for brome they run inside a workspace, so its figures include the gateway namespace.
--parts picks of PARTS below; --perf writes a profile of each part's processes. docs/BENCH.md says what came out, and what it means."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
if "BROME_BENCH_INSIDE" not in os.environ:
    os.environ["BROME_BENCH_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable, *sys.argv])
import world as W  # noqa: E402

NAMES = 200


def cpu_us(pids):
    """User and system time of processes and their threads, in µs (from the scheduler, finer than ticks)."""
    total = 0.0
    for pid in pids:
        try:
            for tid in os.listdir(f"/proc/{pid}/task"):
                total += int(pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0]) / 1000
        except OSError:
            pass
    return total


def private_mb(pids):
    total = 0
    for pid in pids:
        try:
            for line in open(f"/proc/{pid}/smaps_rollup"):
                if line.startswith("Private_Dirty:"):
                    total += int(line.split()[1])
        except OSError:
            pass
    return total / 1024


def tree(pid):
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        found.append(p)
        try:
            todo += [int(k) for k in pathlib.Path(f"/proc/{p}/task/{p}/children").read_text().split()]
        except OSError:
            pass
    return found


class Peer:
    """Something the load goes through: how a client reaches it, which processes cost."""
    name = ""
    many = ""  # the domain whose names it sees for the first time and mints a certificate for

    def __init__(self, world):
        self.w = world

    def run(self, *argv, timeout=300):
        p = subprocess.run([str(a) for a in argv], capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, env={**os.environ, "SSL_CERT_FILE": str(self.w.dir / "ca.pem")})
        if p.returncode:
            raise RuntimeError(f"{self.name}: {argv}: {p.stdout[-500:]} {p.stderr[-500:]}")
        return p.stdout.decode()

    def pids(self):
        return []

    def groups(self):
        """Parts of the peer whose cost is told apart too: name → processes."""
        return {}


class Direct(Peer):
    name = "direct"
    url = "https://allowed.example"


class Haproxy(Peer):
    name = "haproxy"
    url = "https://haproxy.example"

    def __init__(self, world):
        super().__init__(world)
        chain, key = world.cert("haproxy.example")
        pem = world.dir / "haproxy.pem"
        pem.write_text(chain.read_text() + key.read_text())
        conf = world.dir / "haproxy.cfg"
        conf.write_text(f"""
global
    nbthread 1
    maxconn 8000
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    option http-keep-alive
frontend f
    bind 203.0.113.21:443 ssl crt {pem} alpn h2,http/1.1
    default_backend b
backend b
    http-reuse always
    server s 203.0.113.10:443 ssl verify required ca-file {world.dir}/ca.pem sni str(allowed.example) verifyhost allowed.example
    http-request set-header Host allowed.example
""")
        world.dns.set("haproxy.example", "203.0.113.21")
        self.p = world.start("haproxy", "-f", conf, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        world.listening("203.0.113.21", 443)

    def pids(self):
        return tree(self.p.pid)


class NginxProxy(Peer):
    name = "nginx"
    url = "https://nginx.example"

    def __init__(self, world):
        super().__init__(world)
        chain, key = world.cert("nginx.example")
        d = world.dir / "ngx2"
        d.mkdir()
        conf = d / "nginx.conf"
        conf.write_text(f"""
user root; worker_processes 1; daemon off; pid {d}/pid; error_log {d}/error.log;
events {{ worker_connections 8000; }}
http {{
    access_log off; keepalive_requests 1000000; client_max_body_size 0; proxy_temp_path {d}/p; client_body_temp_path {d}/c; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
    upstream o {{ server 203.0.113.10:443; keepalive 64; keepalive_requests 1000000; }}
    server {{ listen 203.0.113.11:443 ssl http2; ssl_certificate {chain}; ssl_certificate_key {key};
        location / {{ proxy_pass https://o; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host allowed.example; proxy_ssl_name allowed.example; proxy_ssl_server_name on;
            proxy_ssl_verify on; proxy_ssl_trusted_certificate {world.dir}/ca.pem; proxy_buffering off; proxy_request_buffering off; }} }}
}}""")
        world.dns.set("nginx.example", "203.0.113.11")
        self.p = world.start("nginx", "-c", conf, "-e", d / "error.log")
        world.listening("203.0.113.11", 443)

    def pids(self):
        return tree(self.p.pid)


class BromeGate(Peer):
    name = "brome"
    url = "https://allowed.example"
    many = "many.example"

    def __init__(self, world):
        super().__init__(world)
        self.b = W.Brome(world, "workspace s { rules { allow web allowed.example; allow web .many.example; default deny } }")
        self.b("workspace", "start", "s", check=0)
        self.inner, self.outer, self.daemon = (self.b.pids(n) for n in ("brome-inner", "brome-outer", "bromed"))

    def run(self, *argv, timeout=300):
        p = self.b("exec", "-T", "s", "--", *argv, timeout=timeout)
        if p.returncode:
            raise RuntimeError(f"brome: {argv}: {p.stdout[-500:]} {p.stderr[-500:]}")
        return p.stdout

    def pids(self):
        return self.inner + self.outer

    def groups(self):
        return {"inner": self.inner, "outer": self.outer, "bromed": self.daemon}


class Mitm(Peer):
    name = "mitmproxy"
    url = "https://mitm.example"
    many = "mitm.example"

    def __init__(self, world):
        super().__init__(world)
        if not shutil.which("mitmdump"):
            raise W.Skip("mitmproxy is not installed")
        d = world.dir / "mitm"
        d.mkdir()
        (d / "mitmproxy-ca.pem").write_text((world.dir / "ca.key").read_text() + (world.dir / "ca.pem").read_text())
        for n in ("mitm.example", *(f"n{i}.mitm.example" for i in range(NAMES))):
            world.dns.set(n, "203.0.113.20")
        self.p = world.start("mitmdump", "-q", "--set", "stream_large_bodies=1", "--set", f"confdir={d}", "--mode", "reverse:https://allowed.example",
                             "--listen-host", "203.0.113.20", "-p", "443", "--set", f"ssl_verify_upstream_trusted_ca={world.dir}/ca.pem",
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        world.listening("203.0.113.20", 443)

    def pids(self):
        return tree(self.p.pid)


PACED = r'''
import http.client, ssl, sys, time, socket
host, path, rate, count = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
c = http.client.HTTPSConnection(host, context=ssl.create_default_context()); c.connect()
c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
times, due = [], time.perf_counter()
for i in range(count):
    due += 1 / rate
    while time.perf_counter() < due: time.sleep(max(0, min(0.001, due - time.perf_counter())))
    t = time.perf_counter(); c.request("GET", path); c.getresponse().read(); times.append(time.perf_counter() - t)
times.sort(); print(times[len(times)//2] * 1e6, times[len(times)*99//100] * 1e6)
'''

CONNECT = r'''
import socket, ssl, sys
host, count, names = sys.argv[1], int(sys.argv[2]), len(sys.argv) > 3
ctx = ssl.create_default_context()
for i in range(count):
    h = f"n{i}.{host}" if names else host
    s = ctx.wrap_socket(socket.create_connection((h, 443)), server_hostname=h)
    s.sendall(f"GET /small HTTP/1.1\r\nHost: {h}\r\nConnection: close\r\n\r\n".encode())
    while s.recv(65536): pass
    s.close()
'''

IDLE = r'''
import socket, ssl, sys
host, count = sys.argv[1], int(sys.argv[2])
ctx, keep = ssl.create_default_context(), []
for i in range(count):
    s = ctx.wrap_socket(socket.create_connection((host, 443)), server_hostname=host)
    s.sendall(f"GET /small HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()); s.recv(65536); keep.append(s)
print("held", flush=True); sys.stdin.readline()
'''

SSE = r'''
import http.client, ssl, sys, time
out = []
for i in range(int(sys.argv[2])):
    c = http.client.HTTPSConnection(sys.argv[1], context=ssl.create_default_context()); c.connect()
    t = time.perf_counter(); c.request("GET", "/sse"); r = c.getresponse(); r.read(1); out.append(time.perf_counter() - t); c.close()
out.sort(); print(out[len(out)//2] * 1e3)
'''

EVENTS = r'''
import http.server, threading
class Stream(http.server.BaseHTTPRequestHandler):
    """One event at once; then the response is held open until the client leaves."""
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Type", "text/event-stream"); self.end_headers()
        self.wfile.write(b"data: 1\\n\\n"); self.rfile.read(1)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8081), Stream).serve_forever()
'''


def host(peer):
    return peer.url.split("//")[1]


class Meter:
    """The CPU time that a block costs the peer, per operation: r[key], and r[key_GROUP] for its parts."""

    def __init__(self, peer, r, key, operations=1):
        self.peer, self.r, self.key, self.operations = peer, r, key, operations

    def __enter__(self):
        self.groups = {"": self.peer.pids(), **{"_" + k: v for k, v in self.peer.groups().items()}}
        self.before = {k: cpu_us(v) for k, v in self.groups.items()}
        self.start = time.monotonic()
        return self

    def __exit__(self, *a):
        self.seconds = time.monotonic() - self.start
        for k, v in self.groups.items():
            if v:
                self.r[self.key + k] = (cpu_us(v) - self.before[k]) / max(self.operations, 1)


def wrk(peer, r, connections, seconds):
    with Meter(peer, r, f"cpu_us_{connections}") as m:
        out = peer.run("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", peer.url + "/small")
        m.operations = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Socket errors.*|Non-2xx.*", out)
    if bad:
        r["errors"] = bad.group(0)
    r[f"requests_s_{connections}"] = float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1))


# --- the parts; each adds its rows to r ---

def part_request(peer, o, r):
    peer.run("wrk", "-t1", "-c1", "-d1s", peer.url + "/small")
    for c in (1, 32):
        wrk(peer, r, c, 2 if o.quick else 5)


def part_connection(peer, o, r):
    n = 100 if o.quick else 400
    with Meter(peer, r, "cpu_us_connection", n):
        peer.run("python3", "-c", CONNECT, host(peer), n)


def part_name(peer, o, r):
    n = 50 if o.quick else NAMES
    if peer.many:
        with Meter(peer, r, "cpu_us_name", n):
            peer.run("python3", "-c", CONNECT, peer.many, n, "names")


def part_paced(peer, o, r):
    r["p50_us"], r["p99_us"] = map(float, peer.run("python3", "-c", PACED, host(peer), "/small", 100, 200 if o.quick else 1000).split())


def part_sse(peer, o, r):
    r["sse_ms"] = float(peer.run("python3", "-c", SSE, host(peer), 10 if o.quick else 40))


def part_bulk(peer, o, r):
    mb = 256 if o.quick else 1024
    with Meter(peer, r, "down_cpu_us_mb", mb) as m:
        peer.run("curl", "-sS", "--fail", "--http1.1", "-o", "/dev/null", f"{peer.url}/big{mb}")
    r["down_mb_s"] = mb / m.seconds
    with Meter(peer, r, "up_cpu_us_mb", mb) as m:
        peer.run("sh", "-c", f"head -c {mb}M /dev/zero | curl -sS --fail --http1.1 -H 'Expect:' -o /dev/null -T - {peer.url}/sink/f")
    r["up_mb_s"] = mb / m.seconds


def part_idle(peer, o, r):
    rest, n = private_mb(peer.pids()), 200 if o.quick else 1000
    argv = ["python3", "-c", IDLE, host(peer), str(n)]
    if not peer.pids() or peer.name == "mitmproxy":
        return
    if peer.name == "brome":
        p = peer.b.popen("exec", "-T", "s", "--", *argv, stdin=subprocess.PIPE)
    else:
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SSL_CERT_FILE": str(peer.w.dir / "ca.pem")})
    if p.stdout.readline() == b"held\n":
        r["mb_idle"] = private_mb(peer.pids())
        r["kb_connection"] = (r["mb_idle"] - rest) * 1024 / n
        for k, v in peer.groups().items():
            r["mb_idle_" + k] = private_mb(v)
    p.communicate(b"\n", timeout=60)


def part_session(peer, o, r):
    if peer.name != "brome":
        return
    times = []
    for _ in range(5 if o.quick else 20):
        t = time.monotonic()
        peer.b("run", "--", "true", check=0)
        times.append((time.monotonic() - t) * 1000)
    r["session_ms"] = statistics.median(times)


PARTS = {"request": part_request, "connection": part_connection, "name": part_name, "paced": part_paced, "sse": part_sse, "bulk": part_bulk, "idle": part_idle,
         "session": part_session}


def measure(peer, o):
    r = {}
    peer.run("curl", "-sS", "--fail", "-o", "/dev/null", peer.url + "/small")
    if peer.pids():
        r["mb_rest"] = private_mb(peer.pids())
        for k, v in peer.groups().items():
            r["mb_rest_" + k] = private_mb(v)
    for name in o.parts:
        watch = None
        if o.perf and peer.pids():
            out = pathlib.Path(o.perf) / f"{peer.name}-{name}.perf"
            watch = subprocess.Popen(["perf", "record", "-q", "-g", "-F", "2000", "-o", out, "-p", ",".join(map(str, peer.pids()))], stderr=subprocess.DEVNULL)
        PARTS[name](peer, o, r)
        if watch:
            watch.send_signal(signal.SIGINT)
            watch.wait()
    return r


ROWS = [("cpu_us_32", "CPU µs a request, 32 kept connections"), ("cpu_us_1", "CPU µs a request, 1 kept connection"), ("cpu_us_connection", "CPU µs a new connection"),
        ("cpu_us_name", "CPU µs a first-seen name"), ("requests_s_1", "requests/s, 1 connection"), ("requests_s_32", "requests/s, 32 connections"),
        ("p50_us", "p50 µs at 100 requests/s"), ("p99_us", "p99 µs at 100 requests/s"), ("sse_ms", "SSE: request to first byte, ms"), ("down_mb_s", "bulk down, MB/s"),
        ("up_mb_s", "bulk up, MB/s"), ("down_cpu_us_mb", "CPU µs a MB down"), ("up_cpu_us_mb", "CPU µs a MB up"), ("mb_rest", "private dirty MB at rest"),
        ("mb_idle", "private dirty MB with idle connections"), ("kb_connection", "KB an idle connection"), ("session_ms", "ms a session's command, warm supervisor"), ("errors", "errors")]


def cell(v):
    return f"{v:>12.1f}" if isinstance(v, float) else f"{str(v or '-'):>12}"


def table(results):
    names, both = list(results), {"brome", "haproxy"} <= set(results)
    print(f"{'':46}" + "".join(f"{n:>12}" for n in names) + ("  brome/haproxy" if both else ""))
    for key, text in ROWS:
        cells = [results[n].get(key) for n in names]
        if not any(c is not None for c in cells):
            continue
        h, b = (results.get(n, {}).get(key) for n in ("haproxy", "brome"))
        print(f"{text:46}" + "".join(map(cell, cells)) + (f"{b / h:>15.2f}" if isinstance(h, float) and isinstance(b, float) and h else ""))
    b = results.get("brome", {})
    if b:
        print(f"\n{'of brome':46}{'inner':>12}{'outer':>12}{'bromed':>12}")
    for key, text in ROWS:
        cells = [b.get(f"{key}_{g}") for g in ("inner", "outer", "bromed")]
        if any(c is not None for c in cells):
            print(f"{text:46}" + "".join(map(cell, cells)))


def origin(w):
    """One nginx behind every peer: small and large files, uploads that it reads to their end into memory, a stream of events."""
    sink = w.dir / "www/sink"
    sink.mkdir(parents=True)
    W.sh("mount", "-t", "tmpfs", "-o", "mode=777", "none", sink)
    w.start(sys.executable, "-c", EVENTS)
    w.nginx(("allowed.example", "*.many.example"), extra=f"""
            location /sink/ {{ dav_methods PUT; client_body_temp_path {sink}/t; client_body_buffer_size 128k; }}
            location /sse {{ proxy_pass http://127.0.0.1:8081; proxy_buffering off; }}""")
    w.listening("127.0.0.1", 8081)
    for i in range(NAMES):
        w.dns.set(f"n{i}.many.example", "203.0.113.10")
    (w.dir / "www/small").write_text("x" * 1024)
    for mb in (256, 1024):
        with open(w.dir / f"www/big{mb}", "wb") as f:
            f.truncate(mb << 20)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("brome")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--only", default="")
    a.add_argument("--parts", default=",".join(PARTS))
    a.add_argument("--perf")
    a.add_argument("--json")
    o = a.parse_args()
    o.parts = o.parts.split(",")
    os.environ["BROME_UNDER_TEST"] = os.path.abspath(o.brome)
    w = W.World(sniff=False)
    results = {}
    try:
        origin(w)
        for cls in (Direct, Haproxy, NginxProxy, Mitm, BromeGate):
            if o.only and cls.name not in o.only.split(","):
                continue
            try:
                start = time.monotonic()
                results[cls.name] = measure(cls(w), o)
                print(f"… {cls.name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            except W.Skip as e:
                print(f"{cls.name}: {e}", file=sys.stderr)
    finally:
        w.close()
    table(results)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
