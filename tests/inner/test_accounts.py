#!/usr/bin/env python3
"""Accounts at the inner door: whose door an exchange takes, what is held, what trips, what is refused. Each test says both what the guest sees and what
reached a stand-in of an outer door: of a request that was refused, nothing.
test_accounts.py BROME-INNER FAKE-OUTER [test name …]; makes its own namespaces, so it needs root (skipped without it). Prints TAP."""
import base64, gzip, os, queue, re, socket, struct, subprocess, sys, threading, time, zlib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from guest import H2, Client, closed, h2_frame, hpack, read_all

FORGE = "brm_abcdefghijklmnopqrstuvwxyz234567"
OTHER = "brm_zyxwvutsrqponmlkjihgfedcba765432"
MODEL = "sk-ant-api03-brm-" + "mnbvcxzlkjhgfdsapoiuytrewq" * 3 + "2345672345672"
ROUTED = "brm_r3r3r3r3ssttuuvvwwxxyyzz22334455"
BODY = "brm_k7k7k7k7aabbccddeeffgghhiijjkk22"
def hub():
    """GitHub's shape: nothing between the marker and the random part, and a checksum."""
    chars, text = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "brm" + "hubhubhubabcdefghijklmnop27"
    crc, digits = zlib.crc32(text.encode()), ""
    for _ in range(6):
        crc, digits = crc // 62, chars[crc % 62] + digits
    return "ghp_" + text + digits


HUB = hub()
MINTED = "brm_" + "m2m3m4m5m6m7n2n3n4n5n6n7o2o3o4o5"

BEFORE = """credential forge { kind bearer; for { api.forge.example, git.forge.example, ws.forge.example, two.forge.example:8443 }; placeholder "%s" }
credential hub { kind github; for hub.example; placeholder "%s" }
credential other { kind bearer; for other.example; placeholder "%s" }
credential claude { kind anthropic; for api.model.example; placeholder "%s" }
credential inbody { kind bearer; for body.example; field body; field websocket; placeholder "%s" }
credential routed { kind bearer; for routed.corp.example; placeholder "%s" }
credential mirror { kind bearer; for mirror.corp.example; attach }
model { api.model.example }
known { forge known.example }
""" % (FORGE, HUB, OTHER, MODEL, BODY, ROUTED)
RULES = """allow web example.org
allow web known.example
allow web stream.example stream ok
allow web anon.example anonymous
allow web small.example body max 100K
allow web part.example path "/ok/**" GET
deny web api.forge.example path "/denied"
allow web routed.example as npm via "https://routed.corp.example/npm/"
allow web .forge.example
allow web git.example as git
allow web npm.example as npm
allow web mirrored.example as npm via "https://mirror.corp.example/npm/"
allow web other.example
allow web api.model.example
allow web body.example
allow web .wild.example
allow web {two.forge.example, api.forge.example}:8443
allow tcp db.example:5432
allow tcp api.forge.example:22
allow any any.example
allow udp dns.example:5353
allow icmp ping.example
default deny"""

TESTS = []


def test(fn):
    TESTS.append(fn)
    return fn


class Guest(Client):
    def __init__(self, rig):
        super().__init__(rig)
        self.known, self.count = {}, 0

    def addr(self, name, kind="A"):
        if (name, kind) not in self.known:
            self.known[name, kind] = super().addr(name, kind)
        return self.known[name, kind]

    def mark(self):
        self.count += 1
        return "mark-%d-end" % self.count

    def sync(self):
        """What was sent before on any link has arrived when this returns."""
        for host in ("example.org", *(("api.forge.example",) if "forge" in self.rig.doors else ())):
            mark = self.mark()
            p = self.curl("https://%s/sync" % host, "-H", "x-mark: " + mark)
            assert p.returncode == 0 and mark.encode() in p.stdout, p


BOTH = ("--http1.1", "--http2")


def decided(r, c):
    """What bromed does after a trip when a person says continue. The trip."""
    trip = r.trips.get(timeout=5)
    assert r.ask({"op": "refuse", "reason": "compromised"})["op"] == "refuse"
    assert r.ask({"op": "admit"})["op"] == "admit"
    return trip


def quiet(r, c, *never):
    """Nothing tripped, and none of these bytes reached an outer door."""
    c.sync()
    assert r.trips.empty(), r.trips.get()
    came = r.all_came()
    for text in never:
        assert (text if isinstance(text, bytes) else text.encode()) not in came, text


def tripped(r, c, p, mark, **want):
    assert b" 403" in p.stdout and b"tripwire" in p.stdout, p
    trip = decided(r, c)
    for k, v in want.items():
        assert trip[k] == v, (k, v, trip)
    assert r.trips.empty()
    quiet(r, c, mark)
    assert FORGE[6:] not in str(trip) and trip["flow"] > 0, trip
    return trip


PACKED = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"


@test
def accounts_come(r, c):
    """The first test: the rig begins without accounts. What was not looked at is not let on once there is something to look for."""
    db = c.connect(c.addr("db.example"), 5432)
    db.sendall(b"x")
    assert db.recv(1) == b"x"
    ws, head = ws_open(c, "example.org", more=PACKED)
    assert b" 101 " in head and b"permessage-deflate" in r.came()
    half = h1_open(c, "example.org", ["/echo", "Content-Length: 10"], b"hello")
    until(half, b"hello")
    keep = c.tls("example.org")
    keep.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\n\r\n")
    r.event(type="verdict", path="/never")
    forge = c.tls("api.forge.example")
    forge.sendall(b"GET /never HTTP/1.1\r\nHost: api.forge.example\r\n\r\n")
    r.event(type="verdict", path="/never")
    assert b"200" in c.curl("https://example.org/free", "-i", "-H", "X-T: " + FORGE).stdout
    assert r.policy(RULES, BEFORE) >= 4
    assert closed(db) and closed(ws) and closed(half)
    assert b" 403 " in read_all(forge, 300)
    assert r.policy(RULES.replace("allow web example.org", "ask web example.org"), BEFORE) >= 1
    assert b" 403 " in read_all(keep, 300)
    r.policy(RULES, BEFORE)


@test
def takes_its_own_door(r, c):
    for v in BOTH:
        mark = c.mark()
        p = c.curl("https://api.forge.example/mine", v, "-H", "x-mark: " + mark, "-H", "Authorization: Bearer " + FORGE)
        assert p.returncode == 0 and FORGE.encode() in p.stdout, p
        assert mark.encode() in r.came("forge") and mark.encode() not in r.came()
        ev = r.event(type="verdict", host="api.forge.example", path="/mine")
        assert ev["verdict"] == "allow" and ev["account"] == "forge", ev
    assert r.asked.get(timeout=1) == "forge" and r.asked.empty()
    c.curl("https://api.forge.example/used")
    ev = r.event(type="verdict", path="/used")
    assert r.event(type="end", id=ev["id"])["account"] == "forge"
    mark = c.mark()
    assert c.curl("https://api.forge.example/without", "-H", "x-mark: " + mark).returncode == 0
    assert mark.encode() in r.came("forge") and mark.encode() not in r.came()
    quiet(r, c)


@test
def door_is_not_to_be_had(r, c):
    for reason, want in (("locked", b"vault-locked"), ("no-secret", b"no-secret"), ("internal", b"outer-gone")):
        r.no_link["other"] = reason
        for v in BOTH:
            p = c.curl("https://other.example/x", "-i", v, "-H", "Authorization: Bearer " + OTHER)
            assert want in p.stdout and (b" 503" in p.stdout or b" 502" in p.stdout), p
            assert r.asked.get(timeout=1) == "other"
            ev = r.event(type="verdict", host="other.example", path="/x")
            assert ev["verdict"] == "deny" and ev["reason"] == want.decode(), ev
    r.no_link["other"] = None
    got = {}
    t = threading.Thread(target=lambda: got.update(p=c.curl("https://other.example/late", "-i", "-d", "body")))
    t.start()
    assert r.asked.get(timeout=5) == "other"
    assert c.curl("https://example.org/meanwhile").returncode == 0
    r.link("other")
    t.join()
    assert b" 200" in got["p"].stdout, got
    quiet(r, c)


@test
def its_end_is_its_own(r, c):
    s = c.tls("api.forge.example")
    s.sendall(b"GET /never HTTP/1.1\r\nHost: api.forge.example\r\n\r\n")
    r.event(type="verdict", path="/never")
    n = c.tls("example.org")
    n.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\n\r\n")
    r.event(type="verdict", path="/never")
    r.doors["forge"].kill()
    assert b" 502 " in read_all(s, 100)
    assert c.curl("https://example.org/other").returncode == 0
    n.settimeout(0.3)
    try:
        assert not n.recv(1), "cut too"
        assert False
    except TimeoutError:
        pass
    n.close()
    while not r.asked.empty():
        r.asked.get()
    assert c.curl("https://api.forge.example/again").returncode == 0
    assert r.asked.get(timeout=1) == "forge"


def encodings(t):
    t = t.encode()
    yield "plain", t
    for pad in (b"", b"x", b"xy"):
        yield "base64", base64.b64encode(pad + t)
    yield "base64", base64.urlsafe_b64encode(b"x" + t)
    yield "hex", t.hex().encode()
    yield "percent", b"".join(b"%%%02x" % b for b in t)
    yield "percent", b"".join(b"%%25%02x" % b for b in t)
    yield "json", b"".join(b"\\u%04x" % b for b in t)
    yield "plain", t.upper()


@test
def trips_in_the_head(r, c):
    for v in BOTH:
        for view, t in encodings(FORGE):
            mark = c.mark()
            trip = tripped(r, c, c.curl("https://example.org/x", "-i", v, "-H", "x-mark: " + mark, "-H", "X-Thing: a " + t.decode() + " b"), mark)
            assert trip["account"] == "forge" and trip["host"] == "example.org" and trip["port"] == 443 and trip["field"] == "header x-thing", trip
            assert trip["view"] == view and trip["method"] == "GET" and trip["path"] == "/x" and trip["placeholder"].startswith("brm_abcd"), trip
        ev = r.event(type="verdict", engine="Tripwire")
        assert ev["verdict"] == "deny" and ev["reason"] == "tripwire" and ev["host"] == "example.org", ev
        basic = base64.b64encode(("user:" + FORGE).encode()).decode()
        for field, args in (("header authorization", ["-H", "Authorization: Bearer " + FORGE]), ("header authorization", ["-H", "Authorization: Basic " + basic]),
                            ("header cookie", ["-H", "Cookie: a=1; t=" + FORGE]), ("header referer", ["-H", "Referer: https://x.example/#" + FORGE]),
                            ("header name", ["-H", FORGE + ": x"]),
                            ("header proxy-authorization", ["-H", "Proxy-Authorization: Bearer " + FORGE])):
            mark = c.mark()
            tripped(r, c, c.curl("https://example.org/y", "-i", v, "-H", "x-mark: " + mark, *args), mark, field=field)
        for field, url in (("path", "/p/" + FORGE), ("query", "/q?a=b&k=" + FORGE), ("path", "/p/" + "".join("%%%02X" % ord(ch) for ch in FORGE))):
            mark = c.mark()
            trip = tripped(r, c, c.curl("https://example.org" + url, "-i", v, "-H", "x-mark: " + mark), mark, field=field)
        mark = c.mark()
        tripped(r, c, c.curl("http://example.org/clear", "-i", "-H", "x-mark: " + mark, "-H", "X-T: " + FORGE), mark, port=80)


@test
def trips_in_a_head_that_is_refused(r, c):
    """Where it was going counts, not whether the rules would have let it."""
    for v in BOTH:
        for field, url, more in (("header x-t", "/no", ["-H", "X-T: " + FORGE]), ("path", "/" + FORGE, []), ("query", "/no?a=" + FORGE.encode().hex(), []),
                                 ("header authorization", "/ok/x", ["-X", "PUT", "-H", "Authorization: Basic " + base64.b64encode(b"u:" + FORGE.encode()).decode()])):
            mark = c.mark()
            trip = tripped(r, c, c.curl("https://part.example" + url, "-i", v, "-H", "x-mark: " + mark, *more), mark, field=field, host="part.example", account="forge")
            assert r.event(type="verdict", id=trip["flow"])["engine"] == "Tripwire"
        # At home, and refused for another reason.
        for url, more, reason in (("https://api.forge.example/denied", ["-H", "Authorization: Bearer " + FORGE], b"rule-deny"), ("https://part.example/no", [], b"default-deny"),
                                  ("https://routed.example/left", ["-X", "PUT", "-H", "Authorization: Bearer " + ROUTED], b"profile")):
            mark = c.mark()
            p = c.curl(url, "-i", v, "-H", "x-mark: " + mark, *more)
            assert b" 403" in p.stdout and reason in p.stdout, p
            quiet(r, c, mark)


@test
def trips_in_a_head_that_nobody_could_read(r, c):
    start, host = "GET /x HTTP/1.1\r\n", "Host: example.org\r\n"
    for head in ("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\nX-T: %s\r\n\r\n", "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\nX-T: %s\r\n\r\n",
                 start + "Host: other.example\r\nX-T: %s\r\n\r\n", start + "Host: api.forge.example\r\nAuthorization: Bearer %s\r\n\r\n",
                 "POST /x HTTP/1.1\r\n" + host + "X-T: %s\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", start + host + "X-T: %s\r\nBad header: x\r\n\r\n",
                 start + host + "X-T: %s\r\n folded\r\n\r\n", "GET /%s HTTP/3.0\r\n" + host + "\r\n", start + host + host + "Cookie: %s\r\n\r\n",
                 "GET /a/%%zz%s HTTP/1.1\r\n" + host + "\r\n", "GET /x HTTP/1.1\r\n" + host + "Upgrade: h2c\r\nConnection: upgrade\r\nX-T: %s\r\n\r\n"):
        for held in (FORGE, "a placeholder of nobody"):
            s = c.tls("example.org")
            s.sendall((head % held).encode())
            data = read_all(s, 20) + read_all(s) if "h2c" not in head else s.recv(4096)
            if held != FORGE:
                assert b" 403 " not in data[:20] or b"tripwire" not in data, (head, data)
                continue
            assert b" 403 " in data and b"tripwire" in data, (head, data)
            trip = decided(r, c)
            assert trip["host"] == "example.org" and trip["account"] == "forge" and trip["field"].split()[0] in ("header", "path"), (head, trip)
            assert r.event(type="verdict", reason="tripwire")["engine"] == "Tripwire"
    quiet(r, c, FORGE)
    for fields in ((("x-t", FORGE), ("X-Upper", "1")), (("x-t", FORGE), ("connection", "close")), (("host", "ro.example"), ("x-t", FORGE)), (("x-t", FORGE), ("a", b"b\r\nc"))):
        h = H2(c)
        h.send(h2_frame(1, 5, 1, hpack((":method", "GET"), (":scheme", "https"), (":path", "/h2"), (":authority", "example.org"), *fields)))
        assert decided(r, c)["account"] == "forge", fields
    for authority in ("example.org:443", "other.example:443"):
        h = H2(c)
        h.send(h2_frame(1, 4, 1, hpack((":method", "CONNECT"), (":authority", authority), ("x-t", FORGE))))
        assert decided(r, c)["field"] == "header x-t"
    h = H2(c)
    h.send(h2_frame(1, 5, 1, hpack((":method", "GET"), (":scheme", "https"), (":path", "/h2"), (":authority", "other.example"), ("x-t", FORGE))))
    assert decided(r, c)["host"] == "example.org"
    quiet(r, c, FORGE)


def packed(tool, data):
    return subprocess.run([tool, "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def coded(t):
    text = b"some text " * 50 + t.encode() + b" and more" * 50
    yield "gzip", gzip.compress(text)
    yield "deflate", zlib.compress(text)
    yield "br", packed("brotli", text)
    yield "zstd", packed("zstd", text)
    yield "gzip, br", packed("brotli", gzip.compress(text))


def post(c, url, body, *more, v="--http1.1", **kw):
    return c.curl(url, "-i", v, "--data-binary", "@-", *more, input=body, **kw)


@test
def trips_in_the_body(r, c):
    for v in BOTH:
        for view, t in encodings(FORGE):
            for chunked in ([], ["-H", "Transfer-Encoding: chunked"]) if v == "--http1.1" else ([],):
                mark = c.mark()
                body = mark.encode() + b" text " * 1000 + t + b" after" * 1000
                tripped(r, c, post(c, "https://example.org/b", body, "-H", "x-mark: " + mark, *chunked, v=v), mark, field="body", view=view, method="POST")
        for coding, body in coded(FORGE):
            mark = c.mark()
            p = post(c, "https://example.org/c", body, "-H", "x-mark: " + mark, "-H", "Content-Encoding: " + coding, v=v)
            tripped(r, c, p, mark, field="body", view="plain")
    form = ["-F", "a=b", "-F", "file=@-;filename=x"]
    mark = c.mark()
    tripped(r, c, c.curl("https://example.org/f", "-i", "-H", "x-mark: " + mark, *form, input=base64.encodebytes(b"y" * 100 + FORGE.encode())), mark, view="base64")


@test
def coded_bodies_arrive_as_they_were(r, c):
    for v in BOTH:
        for coding, body in coded("nothing in it"):
            mark = c.mark()
            assert b" 200" in post(c, "https://example.org/count", body, "-H", "x-mark: " + mark, "-H", "Content-Encoding: " + coding, v=v).stdout
            assert body in r.came()
        big = gzip.compress(os.urandom(3 << 20))
        p = post(c, "https://example.org/count", big, "-H", "Content-Encoding: gzip", v=v)
        assert b"%d\n" % len(big) in p.stdout, p
        for coding, body in (("x-odd", b"abc"), ("gzip", b"no gzip at all"), ("gzip", gzip.compress(b"x" * 1000)[:-3]), ("gzip", gzip.compress(b"y") + b"tail")):
            mark = c.mark()
            p = post(c, "https://example.org/x", body, "-H", "x-mark: " + mark, "-H", "Content-Encoding: " + coding, v=v)
            assert b" 403" in p.stdout and b"coding-unknown" in p.stdout, p
            quiet(r, c, mark)
        mark = c.mark()
        # a decoder has its window until its body is whole; no more are open than there is room for
        small = packed("brotli", b"small" * 100)
        open_ones = [h1_open(c, "example.org", ["/count", "Content-Encoding: br", "Content-Length: %d" % len(small)], small[:-1]) for _ in range(10)]
        for s in open_ones:
            s.sendall(small[-1:])
        for s in open_ones:
            until(s, b"%d\n" % len(small))
        bomb = packed("zstd", b"\0" * (200 << 20))
        start = time.monotonic()
        p = post(c, "https://example.org/x", bomb, "-H", "x-mark: " + mark, "-H", "Content-Encoding: zstd", v=v)
        assert b" 403" in p.stdout and time.monotonic() - start < 5, p
        quiet(r, c, mark)


@test
def packed_without_saying_so(r, c):
    """An archive that is uploaded. What only looks like one is refused to nobody."""
    text = b"some text " * 50 + FORGE.encode() + b" and more" * 50
    noise = os.urandom(200_000).hex().encode()
    bodies = [gzip.compress(text), packed("zstd", text), gzip.compress(noise + text), packed("zstd", noise + text), gzip.compress(b"first") + gzip.compress(text),
              gzip.compress(text)[:-9], gzip.compress(text)[:-8] + b"12345678", gzip.compress(base64.b64encode(text)), gzip.compress(text) + b"tail", packed("zstd", text) + b"tail"]
    for v in BOTH:
        for body in bodies:
            mark = c.mark()
            p = post(c, "https://example.org/packed", body, "-H", "x-mark: " + mark, "-H", "Content-Type: application/octet-stream", v=v)
            tripped(r, c, p, mark, field="body", method="POST", account="forge")
        for body in bodies:
            mark = c.mark()
            p = c.curl("https://example.org/form", "-i", v, "-H", "x-mark: " + mark, "-F", "a=b", "-F", "file=@-;filename=x.gz", "-F", "c=d", input=body)
            tripped(r, c, p, mark, field="body", method="POST", account="forge")
    for body in bodies[:2]:  # a byte a chunk; and as the last of several packed parts
        mark = c.mark()
        s = h1_open(c, "example.org", ["/echo", "Transfer-Encoding: chunked", "x-mark: " + mark])
        s.sendall(b"".join(b"1\r\n%c\r\n" % ch for ch in body) + b"0\r\n\r\n")
        assert b" 403 " in read_all(s)
        assert decided(r, c)["field"] == "body"
        quiet(r, c, mark)
        many = b"".join(b"--zz\r\nContent-Disposition: form-data; name=%d\r\n\r\n%s\r\n" % (i, part) for i, part in enumerate([gzip.compress(b"small")] * 20 + [b"", body])) + b"--zz--\r\n"
        mark = c.mark()
        p = post(c, "https://example.org/form", many, "-H", "x-mark: " + mark, "-H", "Content-Type: multipart/form-data; boundary=zz")
        tripped(r, c, p, mark, field="body")
        p = post(c, "https://api.forge.example/own", body)
        assert b" 403" in p.stdout and b"wrong-field" in p.stdout, p
        quiet(r, c)
    late = b"--zz\r\n\r\n" + b"x" * (3 << 19) + b"\r\n--zz\r\n\r\n" + gzip.compress(os.urandom(300_000) + text) + b"\r\n--zz--\r\n"
    p = post(c, "https://example.org/count", late, "-H", "Content-Type: multipart/form-data; boundary=zz")
    assert decided(r, c)["field"] == "body" and b" 200" not in p.stdout
    for v in BOTH:
        for body in (gzip.compress(noise), packed("zstd", noise), b"\x1f\x8b\x08 no gzip" + noise, b"\x28\xb5\x2f\xfd no zstd" + noise, b"\x1f\x8b\x08", b"\x1f", b"\x28\xb5\x2f\xfd",
                     packed("zstd", b"\0" * (100 << 20)), gzip.compress(os.urandom(3 << 20)), b"x" + gzip.compress(b"y"), packed("zstd", os.urandom(3 << 20)),
                     b"\x50\x2a\x4d\x18" + struct.pack("<I", 2 << 20) + bytes(2 << 20), b"\x28\xb5\x2f\xfd\x00\x58" + b"\0\0\0" * 400_000):
            for how in ([], ["-H", "Content-Type: multipart/form-data; boundary=zz"]):
                p = post(c, "https://example.org/count", body, *how, v=v)
                assert b" 200" in p.stdout and p.stdout.endswith(b"\n%d\n" % len(body)), (body[:9], len(body), p)
    assert r.ask({"op": "stats"})["held_bytes"] == 0
    quiet(r, c)


def until(s, text):
    got = b""
    while text not in got:
        data = s.recv(4096)
        assert data, got
        got += data
    return got


def h1_open(c, host, head, body=b"", port=443):
    s = c.tls(host, port)
    s.sendall(("POST %s HTTP/1.1\r\nHost: %s\r\n" % (head[0], host) + "".join(h + "\r\n" for h in head[1:]) + "\r\n").encode() + body)
    return s


@test
def chunk_and_trailer(r, c):
    mark = c.mark()
    s = h1_open(c, "example.org", ["/echo", "Transfer-Encoding: chunked", "x-mark: " + mark])
    for ch in FORGE:
        s.sendall(b"1\r\n" + ch.encode() + b"\r\n")
    s.sendall(b"0\r\n\r\n")
    assert b" 403 " in read_all(s)
    assert decided(r, c)["field"] == "body"
    quiet(r, c, mark)
    mark = c.mark()
    s = h1_open(c, "example.org", ["/echo", "Transfer-Encoding: chunked", "x-mark: " + mark], b"2\r\nab\r\n0\r\nx-t: %s\r\n\r\n" % FORGE.encode())
    assert b" 403 " in read_all(s)
    assert decided(r, c)["field"] == "trailer x-t"
    quiet(r, c, mark)


@test
def h2_trailers(r, c):
    """Of a held body, of one behind its first MiB, of a stream: a placeholder in the trailers trips, and the request never ends for the origin."""
    def begin(host, path):
        h = H2(c, host)
        h.send(h2_frame(1, 4, 1, hpack((":method", "POST"), (":scheme", "https"), (":path", path), (":authority", host), ("x-mark", mark))))
        return h
    for host, path, account in (("example.org", "/count", ""), ("api.forge.example", "/count", "forge")):
        mark = c.mark()
        h = begin(host, path)
        h.send(h2_frame(0, 0, 1, b"body"), h2_frame(1, 5, 1, hpack(("x-t", "harmless"), ("x-sum", "1"))))
        assert h.outcome(1)[0] == "answer"
        assert mark.encode() in r.came(account) and b"harmless" in r.came(account)
    for view, t in list(encodings(OTHER))[:6]:
        for name, value in (("x-t", t), (OTHER, b"1")):
            mark = c.mark()
            h = begin("example.org", "/count")
            h.send(h2_frame(0, 0, 1, b"body"), h2_frame(1, 5, 1, hpack(("x-sum", "1"), (name, value))))
            kind, head = h.outcome(1)
            assert kind in ("answer", "closed"), kind
            trip = decided(r, c)
            assert trip["field"] == ("trailer x-t" if name == "x-t" else "trailer name"), trip
            assert trip["account"] == "other" and trip["host"] == "example.org", trip
            quiet(r, c, mark)
    mark = c.mark()
    h = begin("stream.example", "/echo")
    h.send(h2_frame(0, 0, 1, b"said"))
    assert h.outcome(1)[0] == "answer"
    h.send(h2_frame(1, 5, 1, hpack(("x-t", OTHER))))
    assert decided(r, c)["field"] == "trailer x-t"
    assert mark.encode() in r.came()
    quiet(r, c, OTHER)
    # At home, but nobody swaps it there.
    mark = c.mark()
    h = begin("api.forge.example", "/count")
    h.send(h2_frame(0, 0, 1, b"body"), h2_frame(1, 5, 1, hpack(("x-t", FORGE))))
    assert h.outcome(1)[0] == "answer"
    assert r.event(type="verdict", host="api.forge.example", reason="wrong-field")["engine"] == "Credential"
    quiet(r, c, mark)


@test
def behind_the_first_mib(r, c):
    """The random part does not leave; what stands before it may have."""
    for v in BOTH:
        mark = c.mark()
        body = b"z" * (1536 * 1024) + FORGE.encode() + b"z" * 4096
        p = post(c, "https://example.org/count", body, "-H", "x-mark: " + mark, v=v)
        assert b"200" not in p.stdout[:20] or p.returncode != 0, p
        assert decided(r, c)["field"] == "body"
        c.sync()
        came = r.came()
        assert mark.encode() in came and FORGE[4:16].encode() not in came and FORGE[:5].encode() not in came[came.rfind(mark.encode()):]


@test
def nothing_leaves_before_it_was_seen(r, c):
    mark = c.mark()
    s = h1_open(c, "example.org", ["/count", "Content-Length: 600000", "x-mark: " + mark], b"a" * 599999)
    c.sync()
    assert mark.encode() not in r.came()
    s.sendall(b"b")
    until(s, b"600000\n")
    assert mark.encode() in r.came()
    # beyond the first MiB it goes on as it comes
    mark = c.mark()
    s = h1_open(c, "example.org", ["/count", "Content-Length: 3000000", "x-mark: " + mark], b"a" * 1000000)
    c.sync()
    assert mark.encode() not in r.came()
    s.sendall(b"a" * 500000)
    end = time.monotonic() + 5
    while mark.encode() not in r.came() and time.monotonic() < end:
        c.sync()
    assert mark.encode() in r.came()
    s.sendall(b"a" * 1500000)
    until(s, b"3000000\n")


@test
def expect_is_answered_here(r, c):
    for v in BOTH:
        mark = c.mark()
        p = post(c, "https://example.org/count", b"q" * 70000, "-v", "-H", "Expect: 100-continue", "-H", "x-mark: " + mark, "--expect100-timeout", "20", v=v, timeout=15)
        assert b"70000" in p.stdout, p
        assert b"expect" not in r.came()[r.came().rfind(mark.encode()):]


@test
def streams_that_are_duplex(r, c):
    for host, more in (("example.org", ["Content-Type: application/grpc+proto"]), ("stream.example", [])):
        mark = c.mark()
        s = h1_open(c, host, ["/echo", "Transfer-Encoding: chunked", "x-mark: " + mark] + more, b"5\r\nhello\r\n")
        until(s, b"hello")
        s.sendall(b"%x\r\n%s\r\n" % (len(FORGE), FORGE.encode()))
        read_all(s)
        assert decided(r, c)["field"] == "body"
        c.sync()
        assert FORGE[4:12].encode() not in r.all_came()


@test
def stalled(r, c):
    mark = c.mark()
    s = h1_open(c, "example.org", ["/echo", "Transfer-Encoding: chunked", "x-mark: " + mark], b"5\r\nhello\r\n")
    slow = h1_open(c, "example.org", ["/count", "Content-Length: 10"], b"hello")
    s.settimeout(14)
    start = time.monotonic()
    got = read_all(s)
    assert b" 403 " in got and b"stream ok" in got and 9 < time.monotonic() - start < 13, got
    ev = r.event(type="verdict", reason="body-stalled")
    assert ev["host"] == "example.org", ev
    slow.sendall(b"world")
    assert b" 200 " in slow.recv(4096)
    quiet(r, c, mark)


@test
def holds_are_bounded(r, c):
    """Those that find no room wait and are served when there is some."""
    def begin(n):
        s = h1_open(c, "example.org", ["/count", "Content-Length: 1048576"])
        s.settimeout(20)
        return s
    some = [begin(i) for i in range(40)]
    for s in some:
        s.sendall(b"h" * 60000)
    for v in BOTH:
        p = c.curl("https://example.org/get", v)
        assert p.returncode == 0, p
    stats = r.ask({"op": "stats"})
    assert stats["held_bytes"] <= 34 << 20, stats
    late = threading.Thread(target=lambda: setattr(c, "late", post(c, "https://example.org/count", b"l" * 200000, v="--http2")))
    late.start()
    for s in some:
        s.sendall(b"h" * (1048576 - 60000))
    for s in some:
        until(s, b"1048576\n")
    late.join()
    assert b"200000\n" in c.late.stdout, c.late
    assert r.ask({"op": "stats"})["held_bytes"] == 0


@test
def many_at_once_on_one_connection(r, c):
    """More bodies than there is room for, in one HTTP/2 connection: the window of those that wait does not stop those that have room."""
    body = os.path.join(r.dir, "body")
    with open(body, "wb") as f:
        f.write(b"w" * 1500000)
    p = r.guest("h2load", "-n", "300", "-c", "1", "-m", "100", "-d", body, "--header", ":authority: example.org", "http://%s:80/count" % c.addr("example.org"), timeout=60)
    assert b"300 succeeded" in p.stdout and b" 0 failed" in p.stdout, p
    assert r.ask({"op": "stats"})["held_bytes"] == 0


@test
def at_home_in_the_wrong_place(r, c):
    own = ["-H", "Authorization: Bearer " + FORGE]
    cases = [("https://api.forge.example/x", ["-H", "X-Other: " + FORGE], b"wrong-field"), ("https://api.forge.example/x?a=" + FORGE, [], b"wrong-field"),
             ("https://api.forge.example/" + FORGE, [], b"wrong-field"), ("https://api.forge.example/x", own + ["-H", "X-Other: " + FORGE], b"placeholder-twice"),
             ("https://api.forge.example/x", ["-H", "X-Hex: " + FORGE.encode().hex()], b"wrong-field"), ("http://api.forge.example/x", own, b"account-cleartext"),
             ("https://api.forge.example:8443/x", own, b"account-cleartext"), ("https://api.forge.example/x", own + ["--data-binary", "token=" + FORGE], b"wrong-field"),
             ("https://api.forge.example/x", ["-H", "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345"], b"foreign-account"),
             ("https://api.forge.example/x", ["-H", "Cookie: session=1"], b"foreign-account"), ("https://api.forge.example/x?api_key=abc", [], b"foreign-account"),
             ("https://anon.example/x", ["-H", "Authorization: Bearer abc"], b"not-anonymous"), ("https://anon.example/x", ["-H", "Cookie: a=b"], b"not-anonymous")]
    for v in BOTH:
        for url, more, reason in cases:
            mark = c.mark()
            p = c.curl(url, "-i", v if url.startswith("https") else "--http1.1", "-H", "x-mark: " + mark, *more)
            assert b" 403" in p.stdout and reason in p.stdout, (url, more, p)
            ev = r.event(type="verdict", reason=reason.decode())
            assert ev["engine"] == "Credential" and ev["verdict"] == "deny", ev
            quiet(r, c, mark)
        assert c.curl("https://two.forge.example:8443/x", v, *own).returncode == 0
        assert c.curl("https://anon.example/x", v).returncode == 0
    quiet(r, c)


@test
def decided_before(r, c):
    """A person said continue to this pair: refused, and nothing stands still."""
    for v in BOTH:
        mark = c.mark()
        p = c.curl("https://known.example/x", "-i", v, "-H", "x-mark: " + mark, "-H", "X-T: " + FORGE)
        assert b" 403" in p.stdout and b"tripwire" in p.stdout, p
        quiet(r, c, mark)
    tripped(r, c, c.curl("https://known.example/x", "-i", "-H", "X-T: " + OTHER), "X-T-none")


@test
def limits_of_the_rule_while_held(r, c):
    for v in BOTH:
        mark = c.mark()
        p = post(c, "https://small.example/count", b"s" * 200000, "-H", "Content-Type: a/b", "-H", "Transfer-Encoding: chunked", "-H", "x-mark: " + mark, v=v)
        assert b" 413" in p.stdout or b"body-too-large" in p.stdout, p
        assert r.event(type="verdict", host="small.example", path="/count", verdict="deny")["reason"] == "body-too-large"
        quiet(r, c, mark)
        assert b"99999\n" in post(c, "https://small.example/count", b"s" * 99999, v=v).stdout


@test
def leak_is_told(r, c):
    p = c.curl("https://example.org/leak", "-H", "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345")
    assert p.returncode == 0, p
    ev = r.event(type="note", reason="leak")
    assert ev["engine"] == "Credential" and "github" in ev["detail"] and "0123456" not in str(ev), ev
    p = c.curl("https://example.org/leak2", "-H", "Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345")
    r.event(type="end", id=r.event(type="verdict", path="/leak2")["id"])
    try:
        r.event(timeout=0, type="note", reason="leak")
        assert False, "told twice"
    except AssertionError as e:
        assert "no record" in str(e), e


@test
def everything_stops(r, c):
    db = c.connect(c.addr("db.example"), 5432)
    db.sendall(b"x")
    assert db.recv(1) == b"x"
    waiting = c.tls("example.org")
    waiting.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\n\r\n")
    r.event(type="verdict", path="/never")
    own = c.tls("api.forge.example")
    own.sendall(b"GET /never HTTP/1.1\r\nHost: api.forge.example\r\n\r\n")
    r.event(type="verdict", path="/never")
    p = c.curl("https://example.org/x", "-i", "-H", "X-T: " + FORGE)
    assert b"tripwire" in p.stdout, p
    assert closed(db)
    assert b" 503 " in read_all(waiting, 1000) and b" 503 " in read_all(own, 1000)
    trip = r.trips.get(timeout=5)
    # the journal's admit, said before bromed heard of it, does not open
    assert r.ask({"op": "admit"})["op"] == "admit"
    try:
        s = c.connect(c.addr("example.org"), 443)
        assert closed(s)
    except OSError:
        pass
    r.event(type="verdict", reason="compromised")
    assert "SERVFAIL" in c.dig("new.wild.example")
    r.ask({"op": "refuse", "reason": "compromised"})
    r.ask({"op": "admit"})
    quiet(r, c)


@test
def names(r, c):
    name = HUB[4:].lower() + ".wild.example"
    assert "REFUSED" in c.dig(name)
    ev = r.event(type="verdict", protocol="dns", reason="tripwire")
    assert ev["engine"] == "Tripwire", ev
    trip = decided(r, c)
    assert trip["field"] == "dns" and trip["port"] == 53 and trip["host"] == "wild.example", trip
    assert "REFUSED" in c.dig(name[:14] + "." + name[14:30] + ".bad.example", "TXT")
    trip = decided(r, c)
    assert trip["field"] == "dns" and trip["host"] == "bad.example", trip
    try:
        c.tls(name, ip=c.addr("example.org"))
        assert False
    except OSError:
        pass
    assert decided(r, c)["field"] == "sni"
    quiet(r, c)


@test
def flows_and_datagrams(r, c):
    from rig import in_guest
    for host, port in (("db.example", 5432), ("any.example", 7777)):
        s = c.connect(c.addr(host), port)
        s.sendall(b"\x00\x01hello brm")
        assert s.recv(100) == b"\x00\x01hello brm"[:100]
        s.sendall(FORGE[3:].encode())
        assert closed(s)
        trip = decided(r, c)
        assert trip["field"] == "tcp" and trip["port"] == port, trip
        ev = r.event(type="note", engine="Tripwire", host=host)
        assert ev["reason"] == "tripwire" and ev["account"] == "forge", ev
    s = c.connect(c.addr("api.forge.example"), 22)
    s.sendall(FORGE.encode())
    assert closed(s)
    r.event(type="note", reason="wrong-field")
    s = c.connect(c.addr("db.example"), 5432)
    s.sendall(b"z" * 300000)
    got = b""
    while len(got) < 300000:
        got += s.recv(65536)

    def udp(data):
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        u.settimeout(5)
        u.connect((c.addr("dns.example"), 5353))
        u.send(data)
        try:
            return u.recv(2000)
        except OSError as e:
            return e
    assert in_guest(r.ns, lambda: udp(b"fine")) == b"fine"
    assert isinstance(in_guest(r.ns, lambda: udp(b"q " + FORGE.encode())), OSError)
    assert decided(r, c)["field"] == "udp"
    r.guest("ping", "-c", "1", "-W", "1", "-s", "96", "-p", FORGE[:16].encode().hex(), c.addr("ping.example"))
    assert decided(r, c)["field"] == "icmp"
    quiet(r, c, FORGE[4:16])


def ws_open(c, host, path="/ws", more=""):
    s = c.tls(host)
    s.sendall(("GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n" %
               (path, host, more)).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        got = s.recv(4096)
        assert got, head
        head += got
    return s, head


def frame(data, opcode=1, fin=True):
    n = len(data)
    return bytes([(0x80 if fin else 0) | opcode]) + (bytes([0x80 | n]) if n < 126 else bytes([0xfe]) + struct.pack(">H", n)) + b"abcd" + bytes(b ^ b"abcd"[i % 4] for i, b in enumerate(data))


def mask_of(came, text):
    """A text as it stands in masked frames: every key position that the tests use."""
    return any(bytes(b ^ b"abcd"[(i + k) % 4] for i, b in enumerate(text)) in came for k in range(4))


@test
def websockets(r, c):
    s, head = ws_open(c, "example.org", more=PACKED)
    assert b" 101 " in head and b"xtensions" not in head, head
    s.sendall(frame(b"hello") + frame(b"bin", 2) + frame(b"frag", 1, False) + frame(b"ping", 9) + frame(b"ment", 0))
    got = b""
    while not got.endswith(b"\x80\x04ment"):
        data = s.recv(100)
        assert data, got
        got += data
    assert got.startswith(b"\x81\x05hello\x82\x03bin\x01\x04frag\x89\x04ping"), got
    assert b"permessage-deflate" not in r.came()
    for frames in ([frame(FORGE.encode())], [frame(b"\x00" + FORGE.encode() + b"\x01", 2)], [frame(FORGE[:10].encode(), 1, False), frame(b"p", 9), frame(FORGE[10:].encode(), 0)],
                   [frame(base64.b64encode(b"x" + FORGE.encode()))], [frame(FORGE.encode(), 9)]):
        s, head = ws_open(c, "example.org")
        s.sendall(b"".join(frames))
        read_all(s)
        assert decided(r, c)["field"] == "websocket"
    s, head = ws_open(c, "example.org")
    for b in frame(b"{\"a\": \"" + FORGE.encode() + b"\"}"):
        s.sendall(bytes([b]))
    read_all(s)
    assert decided(r, c)["field"] == "websocket"
    p = c.tls("example.org")
    p.sendall(("GET /packed HTTP/1.1\r\nHost: example.org\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n" % PACKED).encode())
    assert b" 502 " in until(p, b"\r\n\r\n")
    s, head = ws_open(c, "ws.forge.example")
    s.sendall(frame(FORGE.encode()))
    assert closed(s)
    r.event(type="note", reason="wrong-field")
    quiet(r, c, FORGE[4:16])
    assert not mask_of(r.all_came(), FORGE[4:16].encode())


@test
def websockets_with_packed_messages(r, c):
    text = b"some text " * 50 + FORGE.encode() + b" and more" * 50
    for body in (gzip.compress(text), packed("zstd", text), gzip.compress(os.urandom(60_000) + text)):
        for fragments in (1, 7) if len(body) < 1000 else (len(body) // 100,):  # the stand-in reads small frames only
            s, _ = ws_open(c, "example.org")
            s.sendall(frame(b"hello"))
            assert b"hello" in s.recv(100)
            step = -(-len(body) // fragments)
            try:
                s.sendall(b"".join(frame(body[i:i + step], 2 if i == 0 else 0, i + step >= len(body)) for i in range(0, len(body), step)))
            except OSError:
                pass  # it was cut meanwhile
            read_all(s)
            trip = decided(r, c)
            assert trip["field"] == "websocket" and trip["account"] == "forge", trip
    s, _ = ws_open(c, "example.org")
    for body in (gzip.compress(b"harmless" * 4), b"\x1f\x8b\x08 no gzip", packed("zstd", b"harmless")[:20], b"\x28\xb5\x2f\xfd no zstd"):
        s.sendall(frame(body, 2) + frame(b"next"))
        until(s, b"next")
    s.close()
    quiet(r, c)


@test
def model_sees_letters(r, c):
    red = FORGE[:4] + "x" * 32
    own = MODEL[:MODEL.index("brm-") + 4]
    for v in BOTH:
        mark = c.mark()
        body = ('{"mark": "%s", "env": "TOKEN=%s\\nKEY=%s", "more": ["%s"]}' % (mark, FORGE, MODEL, OTHER)).encode()
        p = post(c, "https://api.model.example/echo", body, "-H", "X-Api-Key: " + MODEL, v=v)
        assert p.returncode == 0 and b" 200" in p.stdout, p
        came = r.came("claude")
        at = came.rfind(mark.encode())
        assert red.encode() in came[at:] and OTHER.encode() not in came and FORGE.encode() not in came and own.encode() + b"xxxxxxxx" in came[at:]
        assert len(p.stdout[p.stdout.index(b'{"mark"'):]) == len(body)
        assert r.event(type="note", reason="redacted", account="forge")["engine"] == "Credential"
        for text in (base64.b64encode(FORGE.encode()).decode(), FORGE.encode().hex()):
            mark = c.mark()
            tripped(r, c, post(c, "https://api.model.example/x", ('{"a": "%s %s"}' % (mark, text)).encode(), v=v), mark, host="api.model.example")
        mark = c.mark()
        tripped(r, c, post(c, "https://api.model.example/x", ("%s %s" % (mark, FORGE)).encode(), v=v), mark)
        mark = c.mark()
        tripped(r, c, post(c, "https://api.model.example/x", b"{}", "-H", "X-T: " + FORGE, "-H", "x-mark: " + mark, v=v), mark)
    s, head = ws_open(c, "api.model.example")
    s.sendall(frame(b'{"a": "%s' % FORGE[:12].encode(), 1, False) + frame(b'%s"}' % FORGE[12:].encode(), 0))
    got = b""
    while b'"}' not in got:
        data = s.recv(200)
        assert data, got
        got += data
    assert got == b'\x01\x13{"a": "brm_xxxxxxxx' + b'\x80\x1a' + b"x" * 24 + b'"}', got
    quiet(r, c, FORGE[4:16] + "y")


@test
def declared_in_the_body(r, c):
    for v in BOTH:
        mark = c.mark()
        body = ('{"mark": "%s", "token": "%s"}' % (mark, BODY)).encode()
        assert b" 200" in post(c, "https://body.example/count", body, v=v).stdout
        assert body in r.came("inbody")
        mark = c.mark()
        p = post(c, "https://body.example/count", ('{"mark": "%s", "a": "%s", "b": "%s"}' % (mark, BODY, BODY)).encode(), v=v)
        assert b"placeholder-twice" in p.stdout, p
        quiet(r, c, mark)
        p = post(c, "https://body.example/count", ('{"mark": "%s", "a": "%s"}' % (mark, BODY)).encode(), "-H", "Authorization: Bearer " + BODY, v=v)
        assert b"placeholder-twice" in p.stdout, p
        p = post(c, "https://body.example/count", gzip.compress(BODY.encode()), "-H", "Content-Encoding: gzip", "-H", "x-mark: " + mark, v=v)
        assert b"wrong-field" in p.stdout, p
        quiet(r, c, mark)
    s, head = ws_open(c, "body.example")
    s.sendall(frame(BODY.encode()))
    assert s.recv(100) == b"\x81\x24" + BODY.encode()
    s.sendall(frame(BODY.encode()))
    assert closed(s)
    c.sync()
    r.event(type="note", reason="placeholder-twice")


@test
def minted_tokens(r, c):
    assert c.curl("https://api.forge.example/minted/" + "notone").returncode == 0
    before = c.curl("https://example.org/x", "-H", "X-T: " + MINTED)
    assert before.returncode == 0 and r.trips.empty()
    p = c.curl("https://api.forge.example/tokens")
    # the stand-in says it of itself; the guest's request must not hold what was not minted yet
    assert c.curl("https://api.forge.example/minted/" + MINTED, "-i").returncode == 0
    mark = c.mark()
    trip = tripped(r, c, c.curl("https://example.org/x", "-i", "-H", "x-mark: " + mark, "-H", "X-T: " + MINTED), mark)
    assert trip["account"] == "forge", trip


def pkt(line):
    return b"%04x%s" % (len(line) + 4, line)


@test
def profiles(r, c):
    good = pkt(b"command=fetch") + pkt(b"agent=git/2.39.5") + pkt(b"object-format=sha1") + b"0001" + pkt(b"want " + b"a" * 40 + b"\n") + pkt(b"done\n") + b"0000"
    sent = pkt(b"command=fetch") + pkt(b"agent=git/2") + pkt(b"object-format=sha1") + b"0001" + pkt(b"want " + b"a" * 40 + b"\n") + pkt(b"done\n") + b"0000"
    bad = good[:-4] + pkt(b"secret text") + b"0000"
    head = ["-H", "Content-Type: application/x-git-upload-pack-request", "-H", "Git-Protocol: version=2", "-H", "X-Carry: out", "-A", "git/9 carry", "-H", "Accept: application/x-git-upload-pack-result"]
    for v in BOTH:
        for body, more in ((good, []), (gzip.compress(good), ["-H", "Content-Encoding: gzip"])):
            r.forget()
            p = post(c, "https://git.example/acme/r.git/git-upload-pack", body, *head, *more, v=v)
            assert b" 200" in p.stdout and b"carry" not in p.stdout.lower(), p
            came = r.came()
            assert sent in came and b"git/2.39" not in came and b"content-encoding" not in came and b"content-length" not in came, came
        # Written anew: session ids, refs' names and packed bytes stay here.
        mark = c.mark().encode()
        asks = pkt(b"command=ls-refs\n") + pkt(b"agent=" + mark) + pkt(b"session-id=" + mark) + b"0001" + b"".join(pkt(b"ref-prefix " + f + mark) for f in (b"", b"refs/", b"refs/heads/", b"refs/tags/")) + b"0000"
        for body, more in ((asks, []), (gzip.compress(asks), ["-H", "Content-Encoding: gzip"]), (gzip.compress(b"", 0) + gzip.compress(asks), ["-H", "Content-Encoding: gzip"])):
            r.forget()
            p = post(c, "https://git.example/acme/r.git/git-upload-pack", body, *head, *more, v=v)
            came = r.came()
            assert b" 200" in p.stdout and pkt(b"ref-prefix refs/heads/\n") + pkt(b"ref-prefix refs/tags/\n") + b"0000" in came and mark not in came, (p, came)
        for body, more in ((bad, []), (gzip.compress(bad), ["-H", "Content-Encoding: gzip"]), (good[:-4], []), (b"garbage", [])):
            mark = c.mark()
            p = post(c, "https://git.example/%s/r.git/git-upload-pack" % mark, body, *head, *more, v=v)
            assert b" 403" in p.stdout and b"(profile)" in p.stdout, p
            assert r.event(type="verdict", host="git.example", verdict="deny")["reason"] == "profile"
            quiet(r, c, mark)
        p = c.curl("https://npm.example/left-pad", "-i", v, "-H", "npm-session: carry", "-H", "Cookie: carry=1", "-A", "carry")
        assert b" 200" in p.stdout and b"carry" not in p.stdout, p
        p = c.curl("https://mirrored.example/left-pad", "-i", v)
        assert b" 200" in p.stdout and b":path: /left-pad" in r.came("mirror"), p


GIT_HEAD = ["Content-Type: application/x-git-upload-pack-request", "Git-Protocol: version=2"]


@test
def git_bodies_that_shrink(r, c):
    """More comes than goes on: the client's window is for what came."""
    body = pkt(b"command=ls-refs\n") + b"0001" + b"".join(pkt(b"ref-prefix refs/heads/topic/%032d\n" % i) for i in range(40000)) + b"0000"
    for v in BOTH:
        r.forget()
        p = post(c, "https://git.example/count/git-upload-pack", body, *sum((["-H", h] for h in GIT_HEAD), []), v=v, timeout=30)
        assert b" 200" in p.stdout and pkt(b"ref-prefix refs/heads/\n") + b"0000" in r.came() and b"topic" not in r.came(), p
    assert r.ask({"op": "stats"})["held_bytes"] == 0


@test
def git_bodies_that_grow(r, c):
    """What they grow to is held as well, and bounded."""
    have = pkt(b"have " + b"a" * 40 + b"\n")
    body = gzip.compress(pkt(b"command=fetch") + b"0001" + have * (3800 * 1024 // len(have)))
    coded = GIT_HEAD + ["Content-Encoding: gzip", "Content-Length: %d" % (len(body) + 1)]
    socks, refused = [], 0
    for i in range(75):
        s = h1_open(c, "git.example", ["/count/git-upload-pack"] + coded, body)
        s.settimeout(20)
        socks.append(s)
        assert r.ask({"op": "stats"})["held_bytes"] <= 257 << 20
    p = c.curl("https://example.org/get", "--http2")  # in turn: all that came was read
    assert p.returncode == 0, p
    for s in socks:
        s.settimeout(0.05)
        try:
            refused += b" 503 " in s.recv(4096)
        except TimeoutError:
            pass
    assert 3 < refused < 40, refused
    for s in socks:
        s.close()
    end = time.monotonic() + 5
    while r.ask({"op": "stats"})["held_bytes"] and time.monotonic() < end:
        c.sync()
    assert r.ask({"op": "stats"})["held_bytes"] == 0


@test
def policy_changes(r, c):
    s = c.tls("example.org")
    s.sendall(b"GET /never HTTP/1.1\r\nHost: example.org\r\nCookie: a=b\r\n\r\n")
    r.event(type="verdict", path="/never")
    r.policy(RULES.replace("allow web example.org", "allow web example.org anonymous"), BEFORE)
    assert b" 403 " in read_all(s, 300)
    r.policy(RULES, BEFORE)
    s = h1_open(c, "example.org", ["/count", "Content-Length: 10"], b"hello")
    c.sync()
    r.policy(RULES.replace("allow web example.org", "allow web example.org read-only"), BEFORE)
    assert b" 403 " in read_all(s, 300)
    r.event(type="verdict", reason="policy-changed")
    r.policy(RULES, BEFORE)
    moved = c.tls("mirrored.example")
    moved.sendall(b"GET /left-pad HTTP/1.1\r\nHost: mirrored.example\r\n\r\n")
    until(moved, b"\r\n\r\n")
    # an account that is gone: its placeholder is still this workspace's, and at home nowhere
    r.policy(RULES, BEFORE.replace("credential forge", "credential later").replace("known { forge known.example }", ""))
    mark = c.mark()
    p = c.curl("https://api.forge.example/x", "-i", "-H", "x-mark: " + mark, "-H", "Authorization: Bearer " + FORGE)
    assert b" 200" in p.stdout and mark.encode() in r.came("later"), p
    r.policy(RULES, BEFORE)
    quiet(r, c)


def fresh_door(r, c):
    """The door of forge is now the first one that writes to its file."""
    if "forge" in r.doors:
        r.doors["forge"].kill()
        r.doors["forge"].wait()
    r.forget()
    while not r.asked.empty():
        r.asked.get()
    while r.asked.empty():
        c.curl("https://api.forge.example/used")


@test
def a_door_that_leaves(r, c):
    """It says what it did not take: that goes to the next door, once, and nothing is done twice."""
    fresh_door(r, c)
    for v in BOTH:
        assert c.curl("https://api.forge.example/leave", v).returncode == 0
        while not r.asked.empty():
            r.asked.get()
        mark = c.mark()
        p = c.curl("https://api.forge.example/behind", "-i", v, "-H", "x-mark: " + mark, "-d", "body")
        assert b" 200" in p.stdout and r.asked.get(timeout=1) == "forge" and r.asked.empty(), p
        assert r.came("forge").count(mark.encode()) == 1
    for v in BOTH:
        for more in ([], ["-d", "a body"], ["-H", "Transfer-Encoding: chunked", "-d", "a body"]):
            if v == "--http2" and "chunked" in str(more):
                continue
            c.curl("https://api.forge.example/leave")  # so that the next one is new
            c.curl("https://api.forge.example/begin")
            r.forget()
            mark = c.mark()
            p = c.curl("https://api.forge.example/gone/x", "-i", v, "-H", "x-mark: " + mark, *more)
            assert b" 502" in p.stdout and b"outer-gone" in p.stdout, p
            # A body had gone up to a door that spoke a moment ago: nobody keeps those.
            assert r.came("forge").count(mark.encode()) == (1 if more else 2), (v, more)
            ev = r.event(type="verdict", path="/gone/x")
            assert r.event(type="end", id=ev["id"])["reason"] == "outer-gone"
    c.curl("https://api.forge.example/begin")
    assert b" 200" in c.curl("https://api.forge.example/late/x", "-i").stdout
    assert r.ask({"op": "stats"})["held_bytes"] == 0
    quiet(r, c)


@test
def a_door_that_leaves_after_a_long_rest(r, c):
    """As at its idle end: what went up to it is still there, and goes up to the next one whole."""
    fresh_door(r, c)
    r.asked.get()
    time.sleep(30.1)  # LINK_QUIET_MS
    got, bodies = [], [os.urandom(n) for n in (3, 100_000, 900_000)]

    def go(body, v):
        got.append((len(body), post(c, "https://api.forge.example/late/%d" % len(body), body, v=v)))
    threads = [threading.Thread(target=go, args=(body, v)) for body in bodies for v in BOTH]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, p in got:
        assert b" 200" in p.stdout and p.stdout.endswith(b"\n%d\n" % n), p
    assert r.asked.get() == "forge" and r.asked.empty()
    for body in bodies[1:]:
        assert body[-1000:] in r.came("forge")
    deadline = time.monotonic() + 5
    while r.ask({"op": "stats"})["held_bytes"]:
        assert time.monotonic() < deadline
    quiet(r, c)


@test
def no_door_in_time(r, c):
    r.no_link["other"] = None
    r.doors["other"].kill() if "other" in r.doors else None
    if "other" in r.doors:
        r.doors["other"].wait()
    start = time.monotonic()
    p = c.curl("https://other.example/x", "-i", "-H", "Authorization: Bearer " + OTHER)
    assert b" 502" in p.stdout and b"outer-gone" in p.stdout and 9 < time.monotonic() - start < 13, p
    del r.no_link["other"]
    assert c.curl("https://other.example/x", "-H", "Authorization: Bearer " + OTHER).returncode == 0


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
    if chosen and chosen[0] is not accounts_come:
        r.policy(RULES, BEFORE)
    c, failed = Guest(r), 0
    for t in chosen:
        start = time.monotonic()
        r.forget()
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
            while not r.trips.empty():
                decided(r, c)
    r.close()
    return 1 if failed else 0


sys.exit(main())
