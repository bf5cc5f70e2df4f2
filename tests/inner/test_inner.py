#!/usr/bin/env python3
"""The inner door on real transparent sockets, with real clients: what passes, what is refused, and what bromed is told.
test_inner.py BROME-INNER FAKE-OUTER [test name …]; makes its own namespaces, so it needs root (skipped without it). Prints TAP."""
import os, select, socket, ssl, struct, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from guest import H2, Client, closed, read_all, h2_frame, hpack
with open(sys.argv[1], "rb") as f:
    SANITIZED = b"__asan_init" in f.read()  # its memory says nothing then

RULES = """allow web example.org
allow web ro.example read-only
allow web small.example body max 100K
allow web path.example path "/ok/**"
allow tcp db.example:5432
allow udp dns.example:5353
allow icmp ping.example
allow any any.example
allow tls pass.example
allow web 192.0.2.7
allow tcp 192.0.2.8:9999
default deny"""

TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


@test
def dns_answers_from_policy(r, c):
    assert c.addr("example.org").startswith("198.18.1.")
    assert c.addr("example.org", "AAAA").startswith("fd62:726f:6d65:1::1")
    assert "NXDOMAIN" in c.dig("bad.example")
    ev = r.event(type="verdict", protocol="dns", host="bad.example")
    assert ev["verdict"] == "deny" and ev["reason"] == "name-not-allowed" and "bad.example" in ev["suggest"] and ev["method"] == "A", ev
    assert r.event(type="verdict", protocol="dns", host="example.org", method="AAAA")["verdict"] == "allow"
    for kind in ("HTTPS", "TXT", "MX", "SVCB"):
        out = c.dig("example.org", kind)
        assert "NOERROR" in out and "ANSWER: 0" in out, out
    assert "REFUSED" in c.dig("example.org", "ANY") or "ANSWER: 0" in c.dig("example.org", "ANY")
    assert "NXDOMAIN" in c.dig("host")
    assert "127.0.0.1" in c.dig("localhost")
    assert "example.org" in c.dig("0.1.18.198.in-addr.arpa", "PTR") or c.addr("example.org") != "198.18.1.0"
    assert "198.18.1." in c.dig("example.org", "A", "+tcp")
    assert c.rig.guest("dig", "+short", "+tries=1", "+time=3", "@203.0.113.9", "example.org").stdout.startswith(b"198.18.1.")
    assert c.rig.guest("dig", "+short", "+tries=1", "+time=3", "@fd62:726f:6d65::1", "example.org").stdout.startswith(b"198.18.1.")
    assert c.addr("EXAMPLE.org") == c.addr("example.org")


@test
def dns_malformed(r, c):
    from rig import in_guest

    def go():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5)
        s.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3fabc", ("10.88.0.1", 53))
        return s.recv(512)
    answer = in_guest(r.ns, go)
    assert answer[:2] == b"\x12\x34" and answer[3] & 15 == 1, answer
    ev = r.event(type="verdict", protocol="dns", reason="dns-short")
    assert ev["verdict"] == "deny" and ev["port"] == 53, ev
    assert "REFUSED" in c.dig("example.org", "ANY")
    assert r.event(type="verdict", reason="dns-any", method="ANY")["host"] == "example.org"


@test
def https_both_versions(r, c):
    for version, line in (("--http1.1", b"HTTP/1.1 200"), ("--http2", b"HTTP/2 200")):
        p = c.curl("https://example.org/hello?x=secret", "-i", version)
        assert p.returncode == 0 and line in p.stdout and b":authority: example.org:443" in p.stdout, p
        ev = r.event(type="verdict", path="/hello?x=…")
        assert ev["verdict"] == "allow" and ev["method"] == "GET" and ev["rule"] == "allow web example.org", ev
        end = r.event(type="end", id=ev["id"])
        assert end["status"] == 200 and end["address"] == "192.0.2.1" and end["bytes_down"] > 0, end
    p = c.curl("https://example.org/v6", ip="[%s]" % c.addr("example.org", "AAAA"))
    assert p.returncode == 0, p


@test
def plain_http_and_http2_prior_knowledge(r, c):
    assert b":scheme: http\n" in c.curl("http://example.org/").stdout
    assert b":scheme: http\n" in c.curl("http://example.org/", "--http2-prior-knowledge").stdout


@test
def brome_fields_stay_here(r, c):
    for v in ("--http1.1", "--http2"):
        out = c.curl("https://example.org/", "-i", v, "-H", "brome-flow: 77", "-H", "brome-kind: tcp").stdout
        assert b"brome-flow: 77" not in out and b"brome-kind" not in out and b"brome-address" not in out, out


@test
def refusals_are_readable(r, c):
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://ro.example/x", "-i", v, "-X", "POST", "-d", "a=b")
        assert b" 403" in p.stdout and b"read-only" in p.stdout and b"brome rules edit rig" in p.stdout, p
        ev = r.event(type="verdict", host="ro.example", method="POST")
        assert ev["verdict"] == "deny" and ev["reason"].startswith("read-only") and ev["suggest"], ev
        p = c.curl("https://path.example/no", "-i", v)
        assert b" 403" in p.stdout, p
        assert c.curl("https://path.example/ok/x", v).returncode == 0


@test
def outer_refusal_is_readable(r, c):
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://example.org/refuse/address-private", "-i", v)
        assert b" 403" in p.stdout and b"private address" in p.stdout and b"made up for the test" in p.stdout, p
        p = c.curl("https://example.org/refuse/upstream-dns", "-i", v)
        assert b" 502" in p.stdout, p
        assert r.event(type="end", reason="upstream-dns")["status"] == 502


@test
def denied_flows_are_reset(r, c):
    for ip, port in (("192.0.2.1", 443), ("10.88.0.1", 80), ("198.18.77.1", 443), ("2001:db8::1", 80), (c.addr("example.org"), 22), ("127.1.2.3", 1)):
        start = time.monotonic()
        try:
            s = c.connect(ip, port)
            assert closed(s)
        except OSError:
            pass
        assert time.monotonic() - start < 3
    r.event(type="verdict", protocol="tcp", host="192.0.2.1", verdict="deny")
    r.event(type="verdict", protocol="tcp", host="198.18.77.1", reason="address-unknown")


@test
def sni_must_agree(r, c):
    ctx = ssl.create_default_context(cafile=r.ca_cert)
    try:
        c.tls("ro.example", ip=c.addr("example.org"), ctx=ctx)
        assert False
    except ssl.SSLError as e:
        assert "UNRECOGNIZED_NAME" in str(e).upper() or "ALERT" in str(e).upper(), e
    r.event(type="verdict", reason="authority-mismatch")
    try:
        c.tls("example.org", sni=False)
        assert False
    except ssl.SSLError:
        pass
    r.event(type="verdict", reason="sni-missing")


@test
def host_must_agree(r, c):
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://example.org/", "-i", v, "-H", "Host: ro.example")
        assert b" 421" in p.stdout, p
    p = c.curl("https://example.org:443/", "-i", "-H", "Host: EXAMPLE.org.:443")
    assert b" 200" in p.stdout, p
    s = c.connect(c.addr("example.org"), 443)
    s.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    assert b" 421 " in read_all(s)
    s = c.tls("example.org", port=80)
    s.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    assert b" 421 " in read_all(s)


@test
def literal_addresses(r, c):
    p = c.rig.guest("curl", "-sS", "-m", "10", "-k", "https://192.0.2.7/")
    assert b":authority: 192.0.2.7:443" in p.stdout, p
    s = c.connect("192.0.2.8", 9999)
    s.sendall(b"opaque")
    assert s.recv(100) == b"opaque"


@test
def not_http_on_web(r, c):
    s = c.connect(c.addr("example.org"), 443)
    s.sendall(b"SSH-2.0-x\r\n")
    assert closed(s)
    r.event(type="verdict", reason="not-http-or-tls")


BAD = [b"GET / HTTP/1.1\nHost: example.org\n\n", b"GET / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
       b"POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       b"POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
       b"GET / HTTP/1.1\r\nHost : example.org\r\n\r\n", b"GET / HTTP/1.1\r\nHost: example.org\r\n folded\r\n\r\n",
       b"GET / HTTP/1.1\r\nHost: example.org\r\nX: a\x00b\r\n\r\n", b"GET / HTTP/1.1\r\nHost: example.org\r\nHost: example.org\r\n\r\n",
       b"GET / HTTP/1.1\r\n\r\n", b"GET /../x HTTP/1.1\r\nHost: example.org\r\n\r\n", b"GET /a/%2e%2e/b HTTP/1.1\r\nHost: example.org\r\n\r\n",
       b"GET / HTTP/1.1\r\nHost: a@example.org\r\n\r\n", b"GET / HTTP/9.1\r\nHost: example.org\r\n\r\n",
       b"GET / HTTP/1.1\r\nHost: example.org\r\nX: " + b"a" * 9000 + b"\r\n\r\n",
       b"POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\n0\r\n\r\n",
       b"POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n+5\r\nhello\r\n0\r\n\r\n"]


@test
def malformed_requests(r, c):
    ip = c.addr("example.org")
    for bad in BAD:
        s = c.connect(ip, 80)
        s.sendall(bad)
        answer = read_all(s)
        assert answer[:9] == b"HTTP/1.1 " and answer[9:10] in (b"4", b"5"), (bad, answer)
        assert answer.count(b"content-type") == 1 and b"connection: close" in answer, (bad, answer)


@test
def pipelining_and_keep_alive(r, c):
    s = c.connect(c.addr("example.org"), 80)
    s.sendall(b"".join(b"GET /bytes/%d HTTP/1.1\r\nHost: example.org\r\n\r\n" % n for n in (1, 2, 3)) + b"GET /bytes/4 HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
    out = read_all(s)
    assert [out.count(b"content-length: %d\r\n" % n) for n in (1, 2, 3, 4)] == [1, 1, 1, 1], out
    assert out.endswith(b"\r\n\r\nxxxx")


@test
def old_clients(r, c):
    s = c.connect(c.addr("example.org"), 80)
    s.sendall(b"GET /x HTTP/1.0\r\nHost: example.org\r\n\r\n")
    out = read_all(s)
    assert out.startswith(b"HTTP/1.1 200") and b"chunked" not in out and b":path: /x" in out, out


@test
def half_close(r, c):
    s = c.connect(c.addr("example.org"), 80)
    s.sendall(b"GET /x HTTP/1.1\r\nHost: example.org\r\n\r\n")
    s.shutdown(socket.SHUT_WR)
    assert b":path: /x" in read_all(s)


@test
def expect_interim_trailers(r, c):
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://example.org/hints", "-i", v)
        assert b" 103" in p.stdout and b"hinted" in p.stdout, p
        p = c.curl("https://example.org/trailers", "-i", v, "--raw", "-H", "te: trailers")
        assert b"x-trailer: last" in p.stdout, p
    p = c.curl("https://example.org/count", "--http1.1", "-v", "-H", "Expect: 100-continue", "--data-binary", "x" * 5000)
    assert b"100 Continue" in p.stderr and p.stdout == b"5000\n", p
    p = c.curl("https://ro.example/", "--http1.1", "-v", "-H", "Expect: 100-continue", "--data-binary", "x" * 5000)
    assert b"100 Continue" not in p.stderr and b" 403" in p.stderr, p


@test
def bodies_up_and_down(r, c):
    blob = os.path.join(r.dir, "blob")
    with open(blob, "wb") as f:
        f.write(os.urandom(20000000))
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://example.org/bytes/50000000", v, "-o", "/dev/null", "-w", "%{size_download}")
        assert p.stdout == b"50000000", p
        p = c.rig.guest("sh", "-c", "head -c 50000000 /dev/zero | curl -sS -m 60 %s --cacert %s --resolve example.org:443:%s -T - https://example.org/count" %
                        (v, r.ca_cert, c.addr("example.org")))
        assert p.stdout == b"50000000\n", p
        p = c.rig.guest("sh", "-c", "curl -sS -m 60 %s --cacert %s --resolve example.org:443:%s -T - https://example.org/echo < %s | cmp - %s && echo same" %
                        (v, r.ca_cert, c.addr("example.org"), blob, blob))
        assert p.stdout == b"same\n", p
    if SANITIZED:
        return
    rss = [l for l in open("/proc/%d/status" % r.inner.pid) if l.startswith("VmHWM")]
    assert int(rss[0].split()[1]) < 32 * 1024, rss


@test
def slow_readers_stop_nobody(r, c):
    ip = c.addr("example.org")
    stuck = []
    for _ in range(40):
        s = c.connect(ip, 80)
        s.sendall(b"GET /bytes/100000000 HTTP/1.1\r\nHost: example.org\r\n\r\n")
        assert s.recv(1)
        stuck.append(s)
    p = c.curl("https://example.org/bytes/1000000", "-o", "/dev/null", "-w", "%{size_download}")
    assert p.stdout == b"1000000", p
    for s in stuck:
        s.close()
    p = c.curl("https://example.org/bytes/50000000", "-o", "/dev/null", "-w", "%{size_download}")
    assert p.stdout == b"50000000", p


@test
def body_limit(r, c):
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://small.example/count", "-i", v, "--data-binary", "x" * 1000)
        assert p.stdout.endswith(b"1000\n"), p
        p = c.rig.guest("sh", "-c", "head -c 300000 /dev/zero | curl -sS -i -m 20 %s --cacert %s --resolve small.example:443:%s -T - https://small.example/count" %
                        (v, r.ca_cert, c.addr("small.example")))
        assert b" 413" in p.stdout, p


@test
def answer_cut_short(r, c):
    p = c.curl("https://example.org/cut", "--http1.1")
    assert p.returncode != 0, p
    p = c.curl("https://example.org/cut", "--http2")
    assert p.returncode != 0, p


def ws_open(s, name):
    s.sendall(b"GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % name.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(4096)
        assert got, head
        head += got
    return head


def ws_frame(data):
    return b"\x82" + bytes([0x80 | len(data)]) + b"abcd" + bytes(b ^ b"abcd"[i % 4] for i, b in enumerate(data))


@test
def websocket(r, c):
    s = c.tls("example.org")
    head = ws_open(s, "example.org")
    assert b" 101 " in head and b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
    s.sendall(ws_frame(b"hello"))
    assert s.recv(100) == b"\x82\x05hello"
    s.sendall(b"\x82\x05hello")  # not masked
    assert closed(s)
    assert r.event(type="end", reason="ws-mask")["detail"]
    s = c.tls("ro.example")
    head = ws_open(s, "ro.example")
    assert b" 403 " in head, head


@test
def splices(r, c):
    s = c.connect(c.addr("db.example"), 5432)
    s.sendall(b"x" * 100000)
    got = b""
    while len(got) < 100000:
        got += s.recv(65536)
    s.sendall(b"last")
    s.shutdown(socket.SHUT_WR)
    assert read_all(s) == b"last"
    end = r.event(type="end", bytes_up=100004)
    assert end["bytes_down"] == 100004, end
    s = c.connect(c.addr("any.example"), 7777)
    s.sendall(b"\x00\x01opaque")
    assert s.recv(100) == b"\x00\x01opaque"
    assert b":path: /any" in c.curl("https://any.example/any").stdout


@test
def silent_client_under_any(r, c):
    s = c.connect(c.addr("any.example"), 7778)
    r.event(type="verdict", protocol="tcp", host="any.example", port=7778, verdict="allow")
    s.sendall(b"late")
    assert s.recv(10) == b"late"


@test
def tls_passed_unseen(r, c):
    s = c.connect(c.addr("pass.example"), 443)
    ctx = ssl.create_default_context()
    inc, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = ctx.wrap_bio(inc, out, server_hostname="pass.example")
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = out.read()
    s.sendall(hello)
    got = b""
    while len(got) < len(hello):
        got += s.recv(65536)
    assert got == hello
    s = c.connect(c.addr("pass.example"), 443)
    o = ctx.wrap_bio(ssl.MemoryBIO(), out, server_hostname="other.example")
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    s.sendall(out.read())
    assert read_all(s)[:1] in (b"\x15", b"<")


@test
def udp_and_icmp(r, c):
    from rig import in_guest

    def ask(ip, port, family=socket.AF_INET):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.settimeout(5)
        s.connect((ip, port))
        s.send(b"ping")
        return s.recv(100)
    assert in_guest(r.ns, lambda: ask(c_v4, 5353)) == b"ping" if (c_v4 := c.addr("dns.example")) else False
    v6 = c.addr("dns.example", "AAAA")
    assert in_guest(r.ns, lambda: ask(v6, 5353, socket.AF_INET6)) == b"ping"
    for ip, port, family in ((c.addr("example.org"), 443, socket.AF_INET), (c.addr("example.org", "AAAA"), 443, socket.AF_INET6), ("192.0.2.1", 1234, socket.AF_INET)):
        try:
            in_guest(r.ns, lambda: ask(ip, port, family))
            assert False
        except ConnectionRefusedError:
            pass
    r.event(type="verdict", protocol="udp", reason="udp-443")
    for family, ip in (("-4", c.addr("ping.example")), ("-6", c.addr("ping.example", "AAAA"))):
        p = r.guest("ping", family, "-c", "1", "-W", "5", ip)
        assert b"1 received" in p.stdout, p
        p = r.guest("ping", family, "-c", "1", "-W", "5", c.addr("example.org", "A" if family == "-4" else "AAAA"))
        assert b"0 received" in p.stdout and (b"iltered" in p.stdout or b"rohibited" in p.stdout), p


@test
def resumption_is_bound_to_the_name(r, c):
    ctx = ssl.create_default_context(cafile=r.ca_cert)
    s = c.tls("example.org", ctx=ctx)
    s.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
    read_all(s)
    session = s.session
    s = c.tls("example.org", ctx=ctx, session=session)
    assert s.session_reused
    s = c.tls("ro.example", ctx=ctx, session=session)
    assert not s.session_reused


@test
def policy_changes_cut(r, c):
    kept = c.tls("example.org")
    kept.sendall(b"GET /bytes/1 HTTP/1.1\r\nHost: example.org\r\n\r\n")
    while not kept.recv(4096).endswith(b"x"):
        pass
    waiting = c.tls("example.org")
    waiting.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\n\r\n")
    r.event(type="verdict", path="/never")
    ws = c.tls("example.org")
    ws_open(ws, "example.org")
    db = c.connect(c.addr("db.example"), 5432)
    db.sendall(b"x")
    db.recv(1)
    stays = c.tls("ro.example")
    ws2 = r.policy("allow web ro.example")
    assert ws2 >= 4, ws2
    for s in (kept, ws, db):
        assert closed(s)
    assert b" 403 " in read_all(waiting)
    stays.sendall(b"GET /x HTTP/1.1\r\nHost: ro.example\r\n\r\n")
    assert b" 200 " in stays.recv(4096)
    assert "NXDOMAIN" in c.dig("example.org")
    r.policy(RULES)
    assert c.curl("https://example.org/").returncode == 0


@test
def limit_below_what_came(r, c):
    up = c.connect(c.addr("example.org"), 80)
    up.sendall(b"POST /echo HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + b"z" * 5000 + b"\r\n")
    got = b""
    while got.count(b"z") < 5000:
        got += up.recv(65536)
    assert r.policy(RULES.replace("allow web example.org", "allow web example.org body max 1K", 1)) == 1
    assert closed(up)
    r.policy(RULES)


@test
def frozen(r, c):
    s = c.tls("example.org")
    r.ask({"op": "refuse", "reason": "frozen"})
    assert closed(s)
    assert "SERVFAIL" in c.dig("example.org")
    try:
        assert closed(c.connect("198.18.1.0", 443))
    except ConnectionResetError:
        pass
    r.ask({"op": "admit"})
    assert c.curl("https://example.org/").returncode == 0
    st = r.ask({"op": "stats"})
    assert st["op"] == "stats" and st["hits"] and st["held_bytes"] == 0, st


@test
def floods(r, c):
    ip = c.addr("example.org")
    idle = [c.connect(ip, 80) for _ in range(200)]
    assert c.curl("https://example.org/").returncode == 0
    for s in idle:
        s.close()
    p = r.guest("h2load", "-n", "2000", "-c", "4", "-m", "50", "--header", ":authority: example.org", "http://%s:80/bytes/10" % ip)
    assert b"2000 succeeded" in p.stdout, p.stdout
    st = r.ask({"op": "stats"})
    deadline = time.monotonic() + 5
    while (st["flows"] or st["exchanges"]) and time.monotonic() < deadline:
        st = r.ask({"op": "stats"})
    assert st["flows"] <= 4 and st["held_bytes"] == 0, st


# --- HTTP/2 frames by hand ---

GET = ((":method", "GET"), (":scheme", "https"), (":path", "/h2"), (":authority", "example.org"))


@test
def h2_malformed(r, c):
    bad = [GET + (("X-Upper", "1"),), GET + (("connection", "close"),), GET + (("transfer-encoding", "chunked"),), GET + (("a", b"b\r\nx: y"),), GET + (("a", b"b\0"),),
           GET + ((":path", "/twice"),), (("a", "b"),) + GET, GET[:3], GET + ((":foo", "x"),), GET[:2] + ((":path", ""),) + GET[3:], GET[:2] + ((":path", "/a/../b"),) + GET[3:],
           GET + (("content-length", "7"),), GET + (("host", "ro.example"),), GET[:3] + ((":authority", "u@example.org"),), GET[:1] + ((":scheme", "http"),) + GET[2:],
           ((":method", "CONNECT"), (":authority", "example.org:443")), GET + (("te", "gzip"),)]
    for length, sent in (("0", b"body"), ("3", b"body")):  # a body that its head denies
        h = H2(c)
        h.send(h2_frame(1, 4, 1, hpack(*((":method", "POST"),) + GET[1:] + (("content-length", length),))) + h2_frame(0, 1, 1, sent))
        kinds = [(k, p) for k, _, sid, p in h.frames() if k == "closed" or sid == 1]
        assert (3, b"\0\0\0\1") in kinds, (length, kinds)
        r.event(type="end", reason="framing")
    empty = h2_frame(1, 4, 1, hpack(*((":method", "POST"),) + GET[1:] + (("content-length", "0"),)))
    h = H2(c)  # the same when it has been answered already
    h.send(empty)
    assert h.outcome(1)[0] == "answer"
    h.send(h2_frame(0, 1, 1, b"body"))
    assert h.outcome(1) == ("reset", b"\0\0\0\1")
    r.event(type="end", reason="framing")
    h = H2(c)  # no body is no lie
    h.send(empty + h2_frame(0, 1, 1))
    assert h.outcome(1)[0] == "answer"
    for fields in bad:
        h = H2(c)
        h.send(h2_frame(1, 5, 1, hpack(*fields)))
        what, payload = h.outcome(1)
        assert what in ("answer", "reset", "goaway", "closed"), (fields, what)
        if what == "answer":
            assert payload[:1] != b"\x88", fields  # :status 200
    h = H2(c)
    h.send(h2_frame(1, 5, 1, hpack(*GET)))
    assert h.outcome(1)[0] == "answer"


@test
def h2_another_authority(r, c):
    h = H2(c)
    h.send(h2_frame(1, 5, 1, hpack(*(GET[:3] + ((":authority", "ro.example"),)))))
    assert h.outcome(1)[0] == "answer"
    ev = r.event(type="verdict", reason="host-disagrees")
    assert ev["protocol"] == "h2"
    assert r.event(type="end", id=ev["id"])["status"] == 421


@test
def h2_websocket(r, c):
    open_ws = ((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", "/ws"), (":authority", "example.org"), ("sec-websocket-version", "13"))
    h = H2(c)
    h.send(h2_frame(1, 4, 1, hpack(*open_ws)))
    assert h.outcome(1)[0] == "answer"
    h.send(h2_frame(0, 0, 1, ws_frame(b"hello")))
    assert any(k == 0 and p == b"\x82\x05hello" for k, _, s, p in h.frames())
    h.send(h2_frame(0, 0, 1, b"\xf2\x81abcdx"))
    assert h.outcome(1)[0] == "reset"
    assert r.event(type="end", reason="ws-rsv")["status"] == 200
    h = H2(c, "ro.example")
    h.send(h2_frame(1, 4, 1, hpack(*(open_ws[:4] + ((":authority", "ro.example"),)))))
    assert h.outcome(1)[0] == "answer"
    r.event(type="verdict", host="ro.example", protocol="h2", verdict="deny")


@test
def h2_floods(r, c):
    h = H2(c)  # rapid reset
    for i in range(1, 4001, 2):
        h.send(h2_frame(1, 5, i, hpack(*GET)) + h2_frame(3, 0, i, struct.pack(">I", 8)))
    assert any(k in (7, "closed") for k, *_ in h.frames())
    for flood in (h2_frame(6, 0, 0, b"x" * 8), h2_frame(4, 0, 0, b"\0\4\0\0\xff\xff"), h2_frame(2, 0, 1, b"\0\0\0\0\1")):
        h = H2(c)
        h.send(flood * 20000)
        assert any(k in (7, "closed") for k, *_ in h.frames()), flood
    h = H2(c)  # a head that never ends
    h.send(h2_frame(1, 1, 1, hpack(*GET)))
    for _ in range(200):
        h.send(h2_frame(9, 0, 1, hpack(("a", "b" * 100))))
    assert any(k in (7, "closed") for k, *_ in h.frames())
    h = H2(c)  # a header bomb: one field, indexed a hundred thousand times
    h.send(h2_frame(1, 5, 1, hpack(*GET) + b"\x40\x01a\x7f\xa1\x1d" + b"b" * 3872 + b"\xbe" * 16000))
    assert h.outcome(1)[0] in ("answer", "reset", "goaway", "closed")
    rss = [l for l in open("/proc/%d/status" % r.inner.pid) if l.startswith("VmRSS")]
    assert SANITIZED or int(rss[0].split()[1]) < 40 * 1024, rss
    assert c.curl("https://example.org/").returncode == 0


@test
def hello_in_pieces(r, c):
    ctx = ssl.create_default_context(cafile=r.ca_cert)
    inc, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    o = ctx.wrap_bio(inc, out, server_hostname="example.org")
    try:
        o.do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = out.read()
    s = c.connect(c.addr("example.org"), 443)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # one handshake byte a record, one record a segment for the first hundred
    records = [b"\x16\x03\x01\x00\x01" + hello[i:i + 1] for i in range(5, len(hello))]
    for rec in records[:100]:
        s.sendall(rec)
    s.sendall(b"".join(records[100:]))
    inc.write(s.recv(65536))
    while True:
        try:
            o.do_handshake()
            break
        except ssl.SSLWantReadError:
            data = out.read()
            if data:
                s.sendall(data)
            got = s.recv(65536)
            if not got:
                # OpenSSL's own limit on records may refuse it: closed, never spliced
                return
            inc.write(got)
        except ssl.SSLError:
            return


@test
def tls_refusals(r, c):
    for alpn in (["acme-tls/1"], ["imap"]):
        try:
            c.tls("example.org", alpn=alpn)
            assert False
        except (ssl.SSLError, ConnectionResetError):
            pass
    s = c.connect(c.addr("example.org"), 443)
    s.sendall(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00")
    assert read_all(s)[:1] in (b"\x15", b"<", b"")


@test
def certificates_are_strict(r, c):
    """What newer clients insist on: RFC 5280 to the letter, TLS 1.2 as well as 1.3, names and addresses."""
    get = b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n"
    for version in ("-tls1_2", "-tls1_3"):
        p = r.guest("openssl", "s_client", version, "-connect", c.addr("example.org") + ":443", "-servername", "example.org", "-verify_hostname", "example.org", "-CAfile",
                    r.ca_cert, "-verify_return_error", "-x509_strict", "-quiet", "-ign_eof", input=get)
        assert b"HTTP/1.1 200" in p.stdout, p
    p = r.guest("curl", "-sS", "-m", "10", "--cacert", r.ca_cert, "https://192.0.2.7/")
    assert p.returncode == 0, p


@test
def slow_ones_end(r, c):
    """Half a head and half a hello are kept to their deadline, not for ever; others are served meanwhile."""
    ip = c.addr("example.org")
    hello = c.connect(ip, 443, timeout=20)
    hello.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
    start = time.monotonic()
    assert c.curl("https://example.org/").returncode == 0
    assert closed(hello) and 8 < time.monotonic() - start < 14
    r.event(type="verdict", reason="classify-timeout")


@test
def sealed(r, c):
    status = open("/proc/%d/status" % r.inner.pid).read()
    for line in ("NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "CapBnd:\t0000000000000000", "CapAmb:\t0000000000000000"):
        assert line in status, line
    assert len(os.listdir("/proc/%d/task" % r.inner.pid)) == 1


@test
def records_pile_up(r, c):
    """Who does not read records gets no new flows, and the door goes on when he does."""
    r.reading.clear()
    try:
        for _ in range(40):
            p = r.guest("h2load", "-n", "2000", "-c", "2", "-m", "50", "-T", "2", "--connection-inactivity-timeout", "2", "--header", ":authority: example.org", "http://%s:80/bytes/1" % c.addr("example.org"), timeout=30)
            if b" 0 failed" not in p.stdout:
                break
        else:
            assert False, "never stalled"
    finally:
        r.reading.set()
    p = c.curl("https://example.org/")
    assert p.returncode == 0, p


@test
def name_flood_unread(r, c):
    """A guest that floods with refused names while nobody reads records costs nobody else anything."""
    from rig import in_guest
    r.reading.clear()

    def go():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for i in range(60000):
            s.sendto(struct.pack(">HHHHHH", i & 65535, 0x100, 1, 0, 0, 0) + b"\x3f" + b"%063d" % i + b"\x03bad\0\0\1\0\1", ("10.88.0.1", 53))
    in_guest(r.ns, go)
    assert r.inner.poll() is None
    r.reading.set()
    assert c.curl("https://example.org/").returncode == 0


@test
def outer_gone(r, c):
    """Last: without the outer door everything is refused, readably and at once; what was open is cut."""
    db = c.connect(c.addr("db.example"), 5432)
    db.sendall(b"x")
    assert db.recv(1) == b"x"
    waiting = c.tls("example.org")
    waiting.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\n\r\n")
    r.event(type="verdict", path="/never")
    r.outer.kill()
    assert closed(db)
    assert b" 502 " in read_all(waiting, 100)
    for v in ("--http1.1", "--http2"):
        p = c.curl("https://example.org/", "-i", v)
        assert b" 502" in p.stdout and b"outer-gone" in p.stdout, p
    try:
        assert closed(c.connect(c.addr("db.example"), 5432))
    except ConnectionResetError:
        pass
    r.event(type="end", reason="outer-gone")


def main():
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for its namespaces")
        return 0
    if os.environ.get("BROME_RIG") != "1":
        os.environ["BROME_RIG"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    from rig import Rig
    chosen = [t for t in TESTS if len(sys.argv) <= 3 or t.__name__ in sys.argv[3:]]
    print("1..%d" % len(chosen), flush=True)
    r = Rig(sys.argv[1], sys.argv[2], RULES, ROOT)
    c, failed = Client(r), 0
    for t in chosen:
        start = time.monotonic()
        try:
            t(r, c)
            print("ok - %s # %.1f s" % (t.__name__, time.monotonic() - start), flush=True)
        except Exception as e:
            failed += 1
            print("not ok - %s" % t.__name__)
            print("# %s: %s" % (type(e).__name__, str(e)[:1500].replace("\n", "\n# ")), flush=True)
            if os.environ.get("RIG_TRACE"):
                import traceback
                traceback.print_exc()
            if r.inner.poll() is not None:
                print("Bail out! the door ended: %s" % r.inner.returncode)
                return 1
    r.close()
    return 1 if failed else 0


sys.exit(main())
