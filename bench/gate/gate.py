#!/usr/bin/python3
"""The gate next to its peers: same origin, same load, one run. CPU time per operation is the steadiest figure; trust ratios within one run.

usage: bench/gate/gate.py BROME [--quick] [--only NAME[,NAME]] [--json FILE]   (root; makes a network namespace of its own)

Peers: direct (no proxy), haproxy and nginx re-encrypting with one fixed certificate, mitmproxy intercepting (when installed), brome.
The load comes from wrk and from small Python clients; for brome they run inside a workspace, so its figures include the gateway namespace."""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/lib"))
if "BROME_BENCH_INSIDE" not in os.environ:
    os.environ["BROME_BENCH_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable, *sys.argv])
import world as W  # noqa: E402

HZ = os.sysconf("SC_CLK_TCK")


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

    def __init__(self, world):
        self.w = world

    def run(self, *argv, timeout=300):
        p = subprocess.run([str(a) for a in argv], capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL, env={**os.environ, "SSL_CERT_FILE": str(self.w.dir / "ca.pem")})
        if p.returncode:
            raise RuntimeError(f"{self.name}: {argv}: {p.stdout[-500:]} {p.stderr[-500:]}")
        return p.stdout.decode()

    def pids(self):
        return []


class Direct(Peer):
    name = "direct"
    url = "https://allowed.example"

    def pids(self):
        return []


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

    def __init__(self, world):
        super().__init__(world)
        self.b = W.Brome(world, "workspace s { rules { allow web allowed.example; allow web sse.example; allow web .many.example; default deny } }")
        self.b("workspace", "start", "s", check=0)
        self.doors = self.b.pids("brome-inner") + self.b.pids("brome-outer")
        self.daemon = self.b.pids("bromed")

    def run(self, *argv, timeout=300):
        p = self.b("exec", "-T", "s", "--", *argv, timeout=timeout)
        if p.returncode:
            raise RuntimeError(f"brome: {argv}: {p.stdout[-500:]} {p.stderr[-500:]}")
        return p.stdout

    def pids(self):
        return self.doors


class Mitm(Peer):
    name = "mitmproxy"
    url = "https://mitm.example"

    def __init__(self, world):
        super().__init__(world)
        if not shutil.which("mitmdump"):
            raise W.Skip("mitmproxy is not installed")
        chain, key = world.cert("mitm.example")
        pem = world.dir / "mitm.pem"
        pem.write_text(key.read_text() + chain.read_text())
        world.dns.set("mitm.example", "203.0.113.20")
        self.p = world.start("mitmdump", "-q", "--set", "stream_large_bodies=1", "--set", f"confdir={world.dir}/mitm", "--certs", f"mitm.example={pem}", "--mode", "reverse:https://allowed.example",
                             "--listen-host", "203.0.113.20", "-p", "443", "--set", f"ssl_verify_upstream_trusted_ca={world.dir}/ca.pem",
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        world.listening("203.0.113.20", 443)

    def pids(self):
        return tree(self.p.pid)


def wrk(peer, connections, seconds, path="/small", headers=()):
    before = cpu_us(peer.pids())
    out = peer.run("wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", *[x for h in headers for x in ("-H", h)], peer.url + path)
    cpu = cpu_us(peer.pids()) - before
    count = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Socket errors.*|Non-2xx.*", out)
    rate = float(re.search(r"Requests/sec:\s*([\d.]+)", out).group(1))
    return {"requests_s": rate, "cpu_us": cpu / max(count, 1), "errors": bad.group(0) if bad else ""}


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
for i in range(20):
    c = http.client.HTTPSConnection(sys.argv[1], context=ssl.create_default_context()); c.connect()
    t = time.perf_counter(); c.request("GET", "/small"); r = c.getresponse(); r.read(1); out.append(time.perf_counter() - t); c.close()
out.sort(); print(out[len(out)//2] * 1e3)
'''


def host(peer):
    return peer.url.split("//")[1]


def measure(peer, o):
    r = {}
    seconds = 2 if o.quick else 5
    peer.run("curl", "-sS", "--fail", "-o", "/dev/null", peer.url + "/small")
    r["mb_rest"] = private_mb(peer.pids())
    wrk(peer, 1, 1)
    for c in (1, 32):
        x = wrk(peer, c, seconds)
        r[f"requests_s_{c}"], r[f"cpu_us_{c}"] = x["requests_s"], x["cpu_us"]
        if x["errors"]:
            r["errors"] = x["errors"]
    before, n = cpu_us(peer.pids()), 100 if o.quick else 400
    peer.run("python3", "-c", CONNECT, host(peer), n)
    r["cpu_us_connection"] = (cpu_us(peer.pids()) - before) / n
    if peer.name == "brome":
        before, n = cpu_us(peer.pids()), 50 if o.quick else 200
        peer.run("python3", "-c", CONNECT, "many.example", n, "names")
        r["cpu_us_name"] = (cpu_us(peer.pids()) - before) / n
    p50, p99 = map(float, peer.run("python3", "-c", PACED, host(peer), "/small", 100, 200 if o.quick else 500).split())
    r["p50_us"], r["p99_us"] = p50, p99
    r["sse_ms"] = float(peer.run("python3", "-c", SSE, host(peer)))
    mb = 256 if o.quick else 1024
    t, c = time.monotonic(), cpu_us(peer.pids())
    peer.run("curl", "-sS", "--fail", "--http1.1", "-o", "/dev/null", f"{peer.url}/big{mb}")
    r["down_mb_s"] = mb / (time.monotonic() - t)
    r["down_cpu_us_mb"] = (cpu_us(peer.pids()) - c) / mb
    t, c = time.monotonic(), cpu_us(peer.pids())
    peer.run("sh", "-c", f"head -c {mb}M /dev/zero | curl -sS --fail --http1.1 -H 'Expect:' -o /dev/null -T - {peer.url}/put")
    r["up_mb_s"] = mb / (time.monotonic() - t)
    r["up_cpu_us_mb"] = (cpu_us(peer.pids()) - c) / mb
    if peer.name != "direct" and peer.name != "mitmproxy":
        rest = private_mb(peer.pids())
        n = 200 if o.quick else 1000
        argv = ["python3", "-c", IDLE, host(peer), str(n)]
        if peer.name == "brome":
            p = peer.b.popen("exec", "-T", "s", "--", *argv, stdin=subprocess.PIPE)
        else:
            p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "SSL_CERT_FILE": str(peer.w.dir / "ca.pem")})
        if p.stdout.readline() == b"held\n":
            r["mb_idle"] = private_mb(peer.pids())
            r["kb_connection"] = (r["mb_idle"] - rest) * 1024 / n
        p.communicate(b"\n", timeout=60)
    if peer.name == "brome":
        times = []
        for _ in range(10 if o.quick else 20):
            t = time.monotonic()
            peer.b("run", "--", "true", check=0)
            times.append((time.monotonic() - t) * 1000)
        r["session_ms"] = statistics.median(times)
        r["mb_bromed"] = private_mb(peer.daemon)
    return r


ROWS = [("cpu_us_32", "CPU µs a request, 32 kept connections"), ("cpu_us_1", "CPU µs a request, 1 kept connection"), ("cpu_us_connection", "CPU µs a new connection"),
        ("cpu_us_name", "CPU µs a first-seen name"), ("requests_s_1", "requests/s, 1 connection"), ("requests_s_32", "requests/s, 32 connections"),
        ("p50_us", "p50 µs at 100/s"), ("p99_us", "p99 µs at 100/s"), ("sse_ms", "first byte of a new connection's answer, ms"), ("down_mb_s", "down MB/s"), ("up_mb_s", "up MB/s"),
        ("down_cpu_us_mb", "CPU µs a MB down"), ("up_cpu_us_mb", "CPU µs a MB up"), ("mb_rest", "private dirty MB at rest"), ("mb_idle", "… with 1,000 idle connections"),
        ("kb_connection", "KB an idle connection"), ("session_ms", "ms a session's command, warm supervisor"), ("mb_bromed", "bromed, private dirty MB"), ("errors", "errors")]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("brome")
    a.add_argument("--quick", action="store_true")
    a.add_argument("--only", default="")
    a.add_argument("--json")
    o = a.parse_args()
    os.environ["BROME_UNDER_TEST"] = os.path.abspath(o.brome)
    w = W.World(sniff=False)
    results = {}
    try:
        w.nginx(("allowed.example", "*.many.example"), extra="location /put { return 200 ok; }")
        for i in range(200):
            w.dns.set(f"n{i}.many.example", "203.0.113.10")
        (w.dir / "www/small").write_text("x" * 1024)
        for mb in (256, 1024):
            with open(w.dir / f"www/big{mb}", "wb") as f:
                f.truncate(mb << 20)
        for cls in (Direct, Haproxy, NginxProxy, Mitm, BromeGate):
            if o.only and cls.name not in o.only.split(","):
                continue
            try:
                print(f"… {cls.name}", file=sys.stderr, flush=True)
                results[cls.name] = measure(cls(w), o)
            except W.Skip as e:
                print(f"{cls.name}: {e}", file=sys.stderr)
    finally:
        w.close()
    names = list(results)
    print(f"{'':46}" + "".join(f"{n:>12}" for n in names) + ("   brome/haproxy" if {"brome", "haproxy"} <= set(names) else ""))
    for key, text in ROWS:
        cells = [results[n].get(key) for n in names]
        if not any(c is not None for c in cells):
            continue
        line = f"{text:46}" + "".join(f"{c:>12.1f}" if isinstance(c, float) else f"{str(c or '-'):>12}" for c in cells)
        h, b = results.get("haproxy", {}).get(key), results.get("brome", {}).get(key)
        if isinstance(h, float) and isinstance(b, float) and h:
            line += f"   {b / h:.2f}"
        print(line)
    if o.json:
        pathlib.Path(o.json).write_text(json.dumps(results, indent=1))


main()
