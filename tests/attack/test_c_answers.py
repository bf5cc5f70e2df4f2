"""C5 and the way back: an upgraded connection keeps its limits and its frames, and a hostile origin's answer is read strictly: what cannot
be read in one way becomes 502, never a second answer, and nothing of it is taken for an answer to somebody else's request."""
import base64
import hashlib
import re
import struct
import threading
import time

from attack import check, guest, rows_for
from world import Brome, Recorder, World

RULES = "allow web { bad.example, ws.example, good.example }\nallow web shut.example read-only\ndefault deny\n"


def make_world():
    w = World()
    for name, a in (("bad.example", 20), ("ws.example", 21), ("good.example", 30), ("shut.example", 21)):
        w.dns.set(name, f"203.0.113.{a}")
    w.answers = {}

    def bad(c, d):
        if b"\r\n\r\n" not in d:
            return False
        while True:  # kept open: an answer without an end must not hang the client, and a surplus must not serve the next request
            head, _, d = d.partition(b"\r\n\r\n")
            what = w.answers.get(head.split(b" ", 2)[1].decode(), b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood")
            if callable(what):
                return what(c, head)
            c.sendall(what)
            while b"\r\n\r\n" not in d:
                x = c.recv(65536)
                if not x:
                    return True
                d += x
    w.bad = Recorder("203.0.113.20", 443, tls=w.server_tls("bad.example"), answer=bad)
    w.good = Recorder("203.0.113.30", 443, tls=w.server_tls("good.example"))
    w.seen, w.cut = [], threading.Event()
    w.ws = Recorder("203.0.113.21", 443, tls=w.server_tls("ws.example", "shut.example"), answer=lambda c, d: websocket(w, c, d))
    w.b = Brome(w, "workspace s { rules { %s } }" % RULES)
    w.b("workspace", "start", "s", check=0)
    return w


def websocket(w, c, d):
    """A WebSocket origin: what it sends first hangs on the path; what comes is kept."""
    if b"\r\n\r\n" not in d:
        return False
    path = d.split(b" ", 2)[1].decode()
    key = re.search(rb"(?i)sec-websocket-key: *(\S+)", d)
    accept = base64.b64encode(hashlib.sha1((key[1] if key else b"") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    ok = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    first = {"/wrong-accept": ok.replace(accept, b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "/no-accept": ok.replace(b"Sec-WebSocket-Accept: " + accept + b"\r\n", b""), "/two-accepts": ok.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Accept: x\r\n\r\n"),
             "/no-upgrade": ok.replace(b"Upgrade: websocket\r\n", b""), "/other": ok.replace(b"websocket", b"h2c"), "/no-connection": ok.replace(b"Connection: Upgrade\r\n", b""), "/unasked-extension": ok.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Extensions: x-evil\r\n\r\n"),
             "/refuse": b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", "/plain": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "/101-http10": ok.replace(b"HTTP/1.1", b"HTTP/1.0")}.get(path, ok)
    frames = {"/masked": b"\x81\x83abcdxyz", "/rsv": b"\xb1\x02hi", "/rsv1": b"\xc1\x02hi", "/opcode": b"\x83\x02hi", "/control-opcode": b"\x8b\x02hi", "/long-ping": b"\x89\x7e\x00\x80" + b"p" * 128, "/cut-ping": b"\x09\x02hi", "/continuation": b"\x80\x02hi",
              "/interleaved": b"\x01\x02hi\x81\x02hi", "/length-16": b"\x81\x7e\x00\x02hi", "/length-64": b"\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x02hi", "/length-63": b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", "/close-1": b"\x88\x01x", "/after-close": b"\x88\x02\x03\xe8\x81\x05AFTER",
              "/ok": b"\x81\x05hello", "/shut": b"\x81\x05hello"}.get(path, b"")
    c.sendall(first + frames)
    if not first.startswith(b"HTTP/1.1 101"):
        return True
    c.settimeout(60)
    got = b""
    try:
        while True:
            x = c.recv(65536)
            if not x:
                break
            got += x
            with w.bad.lock:
                w.seen.append((threading.get_ident(), x))
            if path == "/echo":
                c.sendall(b"\x81\x02ok")
    except OSError:
        pass
    w.cut.set()
    return True


def ok(fields=b"", body=b"good", line=b"HTTP/1.1 200 OK"):
    return line + b"\r\n" + fields + b"\r\n" + body


EVIL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL"
L4, CHUNKED = b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n"
# Answers that have no single reading: 502, or a cut when the head was already fine. None: any ending but a whole answer of ours with EVIL in it.
BAD = {
    "CL twice": ok(L4 + b"Content-Length: 0\r\n"), "CL list": ok(b"Content-Length: 4, 4\r\n"), "CL signed": ok(b"Content-Length: +4\r\n"), "CL hex": ok(b"Content-Length: 0x4\r\n"), "CL negative": ok(b"Content-Length: -4\r\n"), "CL empty": ok(b"Content-Length:\r\n"),
    "CL huge": ok(b"Content-Length: 99999999999999999999\r\n"), "CL and TE": ok(L4 + CHUNKED, b"0\r\n\r\n"), "TE and CL": ok(CHUNKED + L4, b"0\r\n\r\n"), "TE xchunked": ok(b"Transfer-Encoding: xchunked\r\n"), "TE twice": ok(CHUNKED * 2, b"0\r\n\r\n"),
    "TE gzip, chunked": ok(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"), "TE identity": ok(b"Transfer-Encoding: identity\r\n"), "TE in 1.0": ok(CHUNKED, b"4\r\ngood\r\n0\r\n\r\n", b"HTTP/1.0 200 OK"), "TE with a space": ok(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 4\n\ngood", "bare LF field": ok(b"X: y\nContent-Length: 4\r\n"), "bare CR": ok(b"X: y\rZ: 1\r\n" + L4), "fold": ok(b"X: y\r\n z\r\n" + L4), "NUL": ok(b"X: a\0b\r\n" + L4), "no colon": ok(b"X y\r\n" + L4), "empty name": ok(b": y\r\n" + L4),
    "control": ok(b"X: a\x01b\r\n" + L4), "HTTP/2.0": ok(L4, line=b"HTTP/2.0 200 OK"), "HTTP/1.2": ok(L4, line=b"HTTP/1.2 200 OK"), "status 99": ok(L4, line=b"HTTP/1.1 99 X"), "status 2000": ok(L4, line=b"HTTP/1.1 2000 X"), "status text": ok(L4, line=b"HTTP/1.1 abc X"),
    "no status": ok(L4, line=b"HTTP/1.1"), "two spaces": ok(L4, line=b"HTTP/1.1  200 OK"), "ICY": ok(L4, line=b"ICY 200 OK"), "HTTP/0.9": b"<html>EVIL</html>", "TLS": b"\x15\x03\x01\x00\x02\x02\x28", "garbage": b"\xff" * 500, "SSH": b"SSH-2.0-x\r\n\r\n",
    "field of 20 KB": ok(b"X: " + b"a" * 20000 + b"\r\n" + L4), "head of 200 KB": ok(b"".join(b"X%d: %s\r\n" % (i, b"a" * 4000) for i in range(50)) + L4), "1000 fields": ok(b"X: y\r\n" * 1000 + L4),
    "101 unasked": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + EVIL, "101 bare": b"HTTP/1.1 101 X\r\n\r\n" + EVIL, "1xx without end": b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n" * 500, "1xx with a body": b"HTTP/1.1 103 X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + EVIL,
    "TE on 204": ok(CHUNKED, b"4\r\nEVIL\r\n0\r\n\r\n", b"HTTP/1.1 204 No"), "Connection names CL": ok(L4 + b"Connection: content-length\r\n"), "closed at once": lambda c, d: True, "half a head": lambda c, d: c.sendall(b"HTTP/1.1 200 OK\r\nContent-Le") or True,
}
# The head is fine, the body is not: cut, so that the client does not take it for whole.
CUT = {
    "to the close, without TLS's own end": lambda c, d: c.sendall(ok(b"", b"good")) or True,
    "short": lambda c, d: c.sendall(ok(b"Content-Length: 100\r\n")) or True, "chunk short": lambda c, d: c.sendall(ok(CHUNKED, b"64\r\ngood")) or True, "no last chunk": lambda c, d: c.sendall(ok(CHUNKED, b"4\r\ngood\r\n")) or True, "chunk size bad": ok(CHUNKED, b"4\r\ngood\r\nzz\r\n"),
    "chunk size 0x": ok(CHUNKED, b"0x4\r\ngood\r\n0\r\n\r\n"), "chunk end bad": ok(CHUNKED, b"4\r\ngoodEVIL\r\n0\r\n\r\n"), "chunk LF": ok(CHUNKED, b"4\ngood\r\n0\r\n\r\n"), "chunk 17 digits": ok(CHUNKED, b"00000000000000004\r\ngood\r\n0\r\n\r\n"), "chunk negative": ok(CHUNKED, b"-4\r\n"),
    "endless extension": lambda c, d: (c.sendall(ok(CHUNKED, b"4;")), [c.sendall(b"x" * 65536) for _ in range(200)], True)[-1], "trailer CL": ok(CHUNKED, b"4\r\ngood\r\n0\r\nContent-Length: 9\r\n\r\n"), "trailer TE": ok(CHUNKED, b"4\r\ngood\r\n0\r\nTransfer-Encoding: x\r\n\r\n"),
    "endless trailers": lambda c, d: (c.sendall(ok(CHUNKED, b"4\r\ngood\r\n0\r\n")), [c.sendall(b"X: y\r\n" * 10000) for _ in range(20)], True)[-1], "trailer folded": ok(CHUNKED, b"4\r\ngood\r\n0\r\nX: y\r\n z\r\n\r\n"),
}
# Whole answers; what comes after them, or where no body can be, is nobody's.
WHOLE = {
    "two answers": ok(L4) + EVIL, "204 with a body": ok(L4, b"EVIL", b"HTTP/1.1 204 No"), "304 with a body": ok(L4, b"EVIL", b"HTTP/1.1 304 No"), "HEAD with a body": ok(L4, b"EVIL"), "103 then 200": b"HTTP/1.1 103 X\r\nLink: <a>\r\n\r\n" + ok(L4), "100 then 200": b"HTTP/1.1 100 Continue\r\n\r\n" + ok(L4),
    "to the close": lambda c, d: c.sendall(ok(b"", b"good")) or c.unwrap() or True, "1.0": lambda c, d: c.sendall(ok(b"", b"good", b"HTTP/1.0 200 OK")) or c.unwrap() or True, "0 then EVIL": ok(b"Content-Length: 0\r\n", EVIL), "chunked then EVIL": ok(CHUNKED, b"4\r\ngood\r\n0\r\n\r\n" + EVIL),
}

ASK = r"""
def run(job):
    path, method = job
    one = talk("bad.example", 443, [("%s %s HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n" % (method, path)).encode()], use_tls=True, timeout=90)
    c = H2("bad.example")
    two = c.wait(c.get(path, method), timeout=90)
    c.close()
    return [path, one, two]
tell(each(run, JOBS))
"""


def ask(w, table, prefix):
    jobs, names = [], {}
    for i, (name, answer) in enumerate(table.items()):
        path = f"/{prefix}{i}"
        w.answers[path], names[path] = answer, name
        jobs.append([path, "HEAD" if name.startswith("HEAD") else "GET"])
    return [(names[p], a, b) for p, a, b in guest(w.b, ASK, JOBS=jobs)]


def test_answers_without_one_reading(w):
    problems = []
    for name, one, two in ask(w, BAD, "b"):
        if name in ("1xx without end",):  # interim answers before the limit are handed on
            if " 502 " not in one["data"] and one["end"] != "reset" or two["status"] == 200:
                problems.append((name, one["data"][-200:], one["end"], two))
        elif max(one["t"], 0) > 15 or not one["data"].startswith("HTTP/1.1 502") or one["end"] != "eof" or two["status"] != 502 or two["end"] != "end":
            problems.append((name, one, two))
        if "EVIL" in one["data"] or "EVIL" in two["data"]:
            problems.append((name, "EVIL came through"))
    check(problems)
    missing = rows_for(w.b, [{"host": "bad.example", "reason": "upstream-protocol"}] * 3, get=lambda b: b.trace())
    check(missing)


def test_bodies_that_break_off(w):
    problems = []
    for name, one, two in ask(w, CUT, "c"):
        head, _, body = one["data"].partition("\r\n\r\n")
        whole = one["end"] == "eof" and body.endswith("0\r\n\r\n") or "content-length" in head.lower() and body == "good" and "100" not in head
        if whole or one["end"] == "timeout":
            problems.append((name, "h1 whole", one))
        if two["end"] == "end" and two["status"] == 200 or two["end"] in ("timeout", "none"):
            problems.append((name, "h2 whole", two))
        if "EVIL" in one["data"] or "EVIL" in two["data"]:
            problems.append((name, "EVIL came through"))
    check(problems)
    # The record tells what broke off from what was wrong.
    check(rows_for(w.b, [{"host": "bad.example", "path": f"/c{i}", "reason": "upstream-closed" if name in ("short", "chunk short", "no last chunk") else "upstream-protocol"}
                         for i, name in enumerate(CUT) if name in ("short", "chunk short", "no last chunk", "chunk size bad", "chunk end bad", "trailer CL")], get=lambda b: b.trace()))


def test_surplus_is_nobodys(w):
    problems = []
    for name, one, two in ask(w, WHOLE, "w"):
        if one["end"] != "eof" or two["end"] != "end" or not one["data"].startswith("HTTP/1.1 "):
            problems.append((name, one, two))
        if "EVIL" in one["data"] or "EVIL" in two["data"]:
            problems.append((name, "EVIL came through", one, two))
    check(problems)
    # And no later request on a reused connection gets it.
    rows = guest(w.b, r"""
out = []
for i in range(40):
    out.append(talk("bad.example", 443, [b"%s /w%d HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n" % (b"HEAD" if i % 10 == 3 else b"GET", i % 10)], use_tls=True)["data"])
    out.append(talk("bad.example", 443, [b"GET /victim HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n"], use_tls=True)["data"])
tell(out)
""")
    assert not any("EVIL" in r for r in rows), [r for r in rows if "EVIL" in r]
    assert all(r.endswith("good") for r in rows[1::2]), rows[1::2]


def test_fields_of_the_way_back(w):
    """Hop-by-hop and nominated fields, our own prefix, and claims on the connection end at the door."""
    w.answers["/fields"] = ok(b"Connection: x-secret, keep-alive\r\nX-Secret: NOMINATED\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nBrome-Reason: rule-deny\r\nbrome-address: 127.0.0.1\r\nBROME-RULE: 0\r\nX-Kept: yes\r\nAlt-Svc: h3=\":443\"\r\nTrailer: x-sum\r\n" + CHUNKED,
                            b"4\r\ngood\r\n0\r\nX-Sum: 1\r\n\r\n")
    out = w.b.sh("s", "for v in --http1.1 --http2; do curl -sSi --raw $v https://bad.example/fields; done", check=0).stdout.lower()
    for gone in ("nominated", "x-secret", "proxy-", "brome-", "upgrade", "timeout=9"):
        assert gone not in out, (gone, out)
    assert out.count("x-kept: yes") == 2 and out.count("good") == 2 and out.count("x-sum: 1") == 2, out
    w.answers["/trailer"] = ok(CHUNKED, b"4\r\ngood\r\n0\r\nBrome-Trailer: 1\r\n\r\n")
    out = w.b.sh("s", "for v in --http1.1 --http2; do curl -sSi --raw $v https://bad.example/trailer; done", check=0).stdout.lower()
    assert "brome-trailer" not in out and out.count("good") == 2, out
    # A forged refusal by the origin is no refusal in the trace.
    assert not [r for r in w.b.trace() if r.get("path") == "/fields" and r.get("reason")]


def test_slow_and_endless_heads(w):
    """An origin that never ends its head, or drips it: bounded, and the neighbour is served."""
    stop = threading.Event()

    def drip(c, d):
        c.sendall(b"HTTP/1.1 200 OK\r\n")
        for i in range(10**6):
            if stop.is_set():
                break
            c.sendall(b"X-%d: y\r\n" % i)
        return True
    w.answers["/endless"] = drip
    r = guest(w.b, r"""
tell([talk("bad.example", 443, [b"GET /endless HTTP/1.1\r\nHost: bad.example\r\nConnection: close\r\n\r\n"], use_tls=True, timeout=90),
      talk("good.example", 443, [b"GET / HTTP/1.1\r\nHost: good.example\r\nConnection: close\r\n\r\n"], use_tls=True)])
""")
    stop.set()
    assert r[0]["data"].startswith("HTTP/1.1 502") and r[1]["data"].startswith("HTTP/1.1 200"), r


WS = r"""
import base64, os
def opening(path="/ok", host="ws.example", key=None, extra=b"", version=b"13"):
    return (b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: %s\r\n%s\r\n"
            % (path.encode(), host.encode(), key or base64.b64encode(os.urandom(16)), version, extra))
def fr(first, payload, mask=True, length=None):
    n = len(payload) if length is None else length
    head = bytes([first]) + (bytes([n | (128 if mask else 0)]) if n < 126 else bytes([126 | (128 if mask else 0)]) + struct.pack(">H", n) if n < 65536 else bytes([127 | (128 if mask else 0)]) + struct.pack(">Q", n))
    return head + (b"\0\0\0\0" if mask else b"") + payload
def open_ws(path="/ok", host="ws.example", **kw):
    s = tls(connect(host, 443), host)
    s.sendall(opening(path, host, **kw))
    d = b""
    while b"\r\n\r\n" not in d:
        x = s.recv(65536)
        if not x: break
        d += x
    return s, d
def open_two(path="/ok", host="ws.example"):
    c = H2(host)
    c.pump(lambda: False, 0.2)
    s = c.head([(":method","CONNECT"),(":protocol","websocket"),(":scheme","https"),(":authority",host),(":path",path),("sec-websocket-version","13")], flags=END_HEADERS)
    c.end = ""
    c.pump(lambda: c.state(s)["status"] or c.state(s)["end"])
    return c, s
"""


def test_websocket_frames_of_the_guest(w):
    """Each broken frame ends the connection before a byte of it is at the origin."""
    frames = {"unmasked": "fr(0x81, b'EVILFRAME', mask=False)", "rsv1": "fr(0xc1, b'EVILFRAME')", "rsv2": "fr(0xa1, b'EVILFRAME')", "rsv3": "fr(0x91, b'EVILFRAME')", "opcode 3": "fr(0x83, b'EVILFRAME')", "opcode 15": "fr(0x8f, b'EVILFRAME')",
              "long ping": "fr(0x89, b'EVILFRAME' * 20)", "cut ping": "fr(0x09, b'EVILFRAME')", "cut close": "fr(0x08, b'EVILFRAME')", "continuation first": "fr(0x80, b'EVILFRAME')", "text in text": "fr(0x01, b'a') + fr(0x81, b'EVILFRAME')",
              "after close": "fr(0x88, b'\\x03\\xe8') + fr(0x81, b'EVILFRAME')", "length not shortest": "b'\\x81\\xfe\\0\\x09\\0\\0\\0\\0EVILFRAME'", "length 64 not shortest": "b'\\x81\\xff\\0\\0\\0\\0\\0\\0\\0\\x09\\0\\0\\0\\0EVILFRAME'",
              "length beyond 63 bits": "b'\\x82\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\0\\0\\0\\0EVILFRAME'", "close of 1": "fr(0x88, b'E')", "no frame at all": "b'GET /EVILFRAME HTTP/1.1\\r\\nHost: ws.example\\r\\n\\r\\n'"}
    rows = guest(w.b, WS + "frames = {%s}\n" % ", ".join(f"{n!r}: {f}" for n, f in frames.items()) + r"""
def run(item):
    name, f = item
    s, d = open_ws("/echo")
    s.sendall(fr(0x81, b"before"))
    s.recv(100)
    try: s.sendall(f)
    except OSError: pass
    data, end = read_all(s)
    c, st = open_two("/echo")
    c.send(frame(DATA, 0, st, fr(0x81, b"before")))
    c.pump(lambda: c.state(st)["body"])
    c.send(frame(DATA, 0, st, f))
    c.pump(lambda: c.state(st)["end"])
    return [name, d[:12].decode(), end, c.state(st)["status"], c.result(st)["end"]]
tell(each(run, list(frames.items())))
""")
    problems = []
    for name, line, end, status, two in rows:
        if line != "HTTP/1.1 101" or status != 200 or end not in ("reset", "eof") or not two.startswith(("rst", "goaway", "eof", "end", "reset")):
            problems.append((name, line, end, status, two))
    check(problems)
    check(rows_for(w.b, [{"host": "ws.example", "reason": "ws-" + r} for r in ("mask", "rsv", "opcode", "control", "sequence", "length", "after-close")], get=lambda b: b.trace()))
    # Masked anew towards the origin: unmask what is there by its frames.
    clear, flows = b"", {}
    for who, x in w.seen:
        flows[who] = flows.get(who, b"") + x
    for seen in flows.values():
        at = 0
        while at + 6 <= len(seen):
            n, key = seen[at + 1] & 127, seen[at + 2:at + 6]
            clear += bytes(b ^ key[i % 4] for i, b in enumerate(seen[at + 6:at + 6 + n])) + b"|"
            at += 6 + n
    assert b"EVIL" not in clear and not any(b"EVIL" in f for f in flows.values()) and clear.count(b"before") >= 2 * len(frames), clear[-500:]


def test_websocket_answers_of_the_origin(w):
    """A 101 that is none, and frames that are none: the guest sees no upgrade, or its connection ends."""
    heads = ["/wrong-accept", "/no-accept", "/two-accepts", "/no-upgrade", "/other", "/no-connection", "/101-http10", "/unasked-extension"]
    frames = ["/masked", "/rsv", "/rsv1", "/opcode", "/control-opcode", "/long-ping", "/cut-ping", "/continuation", "/interleaved", "/length-16", "/length-64", "/length-63", "/close-1", "/after-close"]
    rows = guest(w.b, WS + r"""
def run(p):
    s, d = open_ws(p)
    rest, end = read_all(s, 20)
    c, st = open_two(p)
    c.pump(lambda: c.state(st)["end"])
    return [p, d.decode("latin-1"), rest.decode("latin-1"), end, c.result(st)]
tell(each(run, PATHS))
""", PATHS=heads + frames)
    problems = []
    for p, d, rest, end, two in rows:
        if p in heads and (not d.startswith("HTTP/1.1 502") or two["status"] != 502):
            problems.append((p, "upgraded", d, two))
        if p in frames and (end not in ("reset", "eof") or two["end"] in ("timeout", "none") or "AFTER" in rest or "AFTER" in two["data"] or "xyz" in rest):
            problems.append((p, "frames", d[:20], rest, end, two))
    check(problems)


def test_upgrades_to_something_else(w):
    """Upgrade to anything but a WebSocket is refused; a refused upgrade leaves no tunnel: what follows is read as HTTP, or not at all."""
    rows = guest(w.b, WS + r"""
up = lambda proto, more=b"": b"GET /UPGRADED HTTP/1.1\r\nHost: ws.example\r\nConnection: Upgrade%s\r\nUpgrade: %s\r\n\r\n" % (more, proto)
t = lambda *p: talk("ws.example", 443, list(p), use_tls=True, timeout=6)
out = {}
for proto in (b"foo", b"TLS/1.2", b"HTTP/2.0", b"connect-udp", b"websocket/13, foo", b"foo, websocket", b"irc/6.9, x"):
    out["upgrade " + proto.decode()] = t(up(proto))
out["bad key"] = t(opening("/UPGRADED", key=b"short"))
out["version 8"] = t(opening("/UPGRADED", version=b"8"))
out["two keys"] = t(opening("/UPGRADED", extra=b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"))
out["two upgrades"] = t(opening("/UPGRADED", extra=b"Upgrade: websocket\r\n"))
out["with a body"] = t(opening("/UPGRADED", extra=b"Content-Length: 3\r\n") + b"abc")
out["by POST"] = t(opening("/UPGRADED").replace(b"GET", b"POST"))
out["read-only"] = talk("shut.example", 443, [opening("/UPGRADED", "shut.example")], use_tls=True, timeout=6)
# Refused by the origin, with frames, or another request, sent ahead.
out["frames after a refusal"] = t(opening("/refuse") + fr(0x81, b"EVILAFTER"))
out["request after a refusal"] = t(opening("/refuse") + b"GET /EVILAFTER HTTP/1.1\r\nHost: evil.example\r\n\r\n")
out["frames after 200"] = t(opening("/plain") + fr(0x81, b"EVILAFTER"))
c = H2("shut.example")
out["read-only h2"] = c.wait(c.head([(":method","CONNECT"),(":protocol","websocket"),(":scheme","https"),(":authority","shut.example"),(":path","/UPGRADED"),("sec-websocket-version","13")], flags=END_HEADERS))
c, s = open_two("/refuse")
c.send(frame(DATA, 0, s, fr(0x81, b"EVILAFTER")))
out["frames after a refusal h2"] = c.wait(s)
tell(out)
""")
    problems = []
    for name, r in rows.items():
        status = r.get("status") or (int(r["data"][9:12]) if r["data"][9:12].isdigit() else None)
        # A refusal of a whole request keeps the connection; without an answer it may not hang.
        if r["end"] == "none" or (r["end"] == "timeout" and (not r["data"] or "EVIL" in name or "after" in name)) or status == 101 or (status == 200 and "after 200" not in name):
            problems.append((name, r))
        if name.startswith("request after") and "421" not in r["data"] and r["end"] not in ("reset", "eof"):
            problems.append((name, r))
    check(problems)
    seen = w.ws.everything() + b"".join(x for _, x in w.seen)
    assert b"EVILAFTER" not in seen and b"UPGRADED" not in seen, seen[-600:]
    check(rows_for(w.b, [{"host": "shut.example", "reason": "read-only-upgrade"}] * 2))


def test_a_rule_change_cuts_the_websocket(w):
    """C5, A6: over HTTP/1.1 and HTTP/2; the origin's end is closed too."""
    for version in ("one", "two"):
        w.cut.clear()
        p = w.b.popen("exec", "-T", "s", "--", "python3", "-u", "-c", (__import__("attack").WIRE + WS + ("""
s, d = open_ws()
print(d[:12].decode(), flush=True)
print(read_all(s)[1], flush=True)
""" if version == "one" else """
c, s = open_two()
print("HTTP/1.1 101" if c.state(s)["status"] == 200 else "no", flush=True)
c.pump(lambda: c.state(s)["end"])
print(c.result(s)["end"], flush=True)
""")))
        assert p.stdout.readline().strip() == b"HTTP/1.1 101"
        began = time.monotonic()
        w.b.rules("s", RULES.replace("ws.example, ", ""))
        out, err = p.communicate(timeout=60)
        assert out.strip().startswith((b"reset", b"eof", b"rst", b"goaway")), (version, out, err)
        assert w.cut.wait(20) and time.monotonic() - began < 15, version
        w.b.rules("s", RULES)


def test_expectations(w):
    """Expect is answered here: a refused request gets no 100, and its body is never asked for."""
    rows = guest(w.b, r"""
t = lambda *p: talk("bad.example", 443, list(p), use_tls=True, pause=.3)
head = b"POST /expect HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 4\r\nExpect: %s\r\n\r\n"
tell({"good": t(head % (b"bad.example", b"100-continue"), b"body"), "other host": t(head % (b"evil.example", b"100-continue")), "case": t(head % (b"bad.example", b"100-Continue"), b"body"), "unknown": t(head % (b"bad.example", b"x=y")),
      "read-only": talk("shut.example", 443, [head % (b"shut.example", b"100-continue")], use_tls=True)})
""")
    assert rows["good"]["data"].startswith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200") and rows["case"]["data"].startswith("HTTP/1.1 100"), rows
    assert rows["other host"]["data"].startswith("HTTP/1.1 421") and rows["unknown"]["data"].startswith("HTTP/1.1 417") and rows["read-only"]["data"].startswith("HTTP/1.1 403"), rows


def test_foreign_text_is_escaped(w):
    """What guest and origin wrote shows escaped in the listing, and the JSON is JSON: escape sequences, bidi, newlines, quotes."""
    import json
    w.answers["/text"] = ok(b"Content-Type: text/\x9b31m\r\n" + L4)
    guest(w.b, r"""
for p in (b"/\xe2\x80\xae\xd7\x90evil", b"/%1b%5b31m", b"/\xc2\x9b31m", b'/"quoted\'', b"/%e2%80%ae", b"/\xf0\x9f\x98\x80", b"/text", b"/?\x1b[31m", b"/\xe2\x80\x8b", b"/a?%0a%0dnewline"):
    talk("bad.example", 443, [b"GET " + p + b" HTTP/1.1\r\nHost: bad.example\r\nUser-Agent: x\xe2\x80\xaey\r\nConnection: close\r\n\r\n"], use_tls=True)
    talk("bad.example", 443, [b"\x1b[2J\xe2\x80\xae" + p + b" / HTTP/1.1\r\nHost: \x1b[31mbad.example\r\n\r\n"], use_tls=True)
    c = H2("bad.example")
    c.wait(c.get(p, method="G\x1bT"), c.get(p, host="x\x1b]0;evil\x07.example"))
tell(1)
""")
    for command in (("trace", "ls"), ("timeline",), ("trace", "hostnames"), ("trace", "summary")):
        text = w.b(*command, check=0, text=False).stdout
        for bad in (b"\x1b", b"\x07", b"\r", "\u202e".encode(), "\u200b".encode(), b"\xc2\x9b"):
            assert bad not in text, (command, bad, text[-600:])
        for line in w.b(*command, "--json", check=0, text=False).stdout.splitlines():
            row = json.loads(line)
            assert b"\x1b" not in line and isinstance(row, dict), line
