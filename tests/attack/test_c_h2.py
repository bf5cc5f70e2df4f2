"""C1 and F2 over HTTP/2: frames made by hand. What cannot stand in HTTP/1.1 never gets there, floods end the connection that made them,
the doors stay within their memory, and a neighbour is served."""
import os
import pathlib

from attack import Origin, check, guest, rows_for
from world import Brome, World, wait_for

DOORS_KB = 64 * 1024  # both doors under attack, private memory
DOOR_FDS = 1024


def make_world():
    w = World()
    w.dns.set("o.example", "203.0.113.20", "2001:db8::20")
    w.dns.set("second.example", "203.0.113.21")
    w.tls = Origin("203.0.113.20", 443, tls=w.server_tls("o.example"))
    w.plain = Origin("203.0.113.20", 80)
    w.second = Origin("203.0.113.21", 443, tls=w.server_tls("second.example"))
    w.b = Brome(w, """workspace s { rules {
        allow web o.example path "/ro/**" read-only
        allow web o.example path "/post/**" POST
        allow web o.example
        allow web second.example
        default deny } }""")
    w.b("workspace", "start", "s", check=0)
    return w


def doors(b):
    """Private memory of both doors in KB, and the most descriptors that one of them holds."""
    kb, fds = 0, 0
    for name in ("brome-inner", "brome-outer"):
        for pid in b.pids(name):
            for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Private_Dirty:", "Private_Clean:")):
                    kb += int(line.split()[1])
            fds = max(fds, len(os.listdir(f"/proc/{pid}/fd")))
    return kb, fds


def pseudo(**over):
    f = {":method": "GET", ":scheme": "https", ":authority": "o.example", ":path": "/%s/", **{":" + k: v for k, v in over.items()}}
    return [[k, v] for k, v in f.items() if v is not None]


# name: header list; the path says /hN/. Bytes are written as latin-1.
HEADS = {
    "CR LF in a value": pseudo() + [["x", "a\r\nTransfer-Encoding: chunked"]],
    "LF in a value": pseudo() + [["x", "a\nSMUGGLED: 1"]],
    "CR in a value": pseudo() + [["x", "a\rSMUGGLED: 1"]],
    "NUL in a value": pseudo() + [["x", "a\0SMUGGLED"]],
    "CR LF in the path": pseudo(path="/%s/ HTTP/1.1\r\nSMUGGLED: 1\r\n\r\n"),
    "space in the path": pseudo(path="/%s/ HTTP/1.1 SMUGGLED"),
    "LF in the path": pseudo(path="/%s/\nSMUGGLED"),
    "NUL in the path": pseudo(path="/%s/\0SMUGGLED"),
    "CR LF in the method": pseudo(method="GET /SMUGGLED HTTP/1.1\r\nx: y"),
    "space in the method": pseudo(method="GET /SMUGGLED"),
    "CR LF in the authority": pseudo(authority="o.example\r\nSMUGGLED: 1"),
    "space in the authority": pseudo(authority="o.example SMUGGLED"),
    "CR LF in a name": pseudo() + [["x\r\nSMUGGLED", "1"]],
    "colon in a name": pseudo() + [["x: SMUGGLED", "1"]],
    "space in a name": pseudo() + [["transfer-encoding ", "chunked"]],
    "NUL in a name": pseudo() + [["x\0y", "1"]],
    "empty name": pseudo() + [["", "SMUGGLED"]],
    "upper case": pseudo() + [["X-Upper", "1"]],
    "upper case TE": pseudo() + [["Transfer-Encoding", "chunked"]],
    "transfer-encoding": pseudo() + [["transfer-encoding", "chunked"]],
    "connection": pseudo() + [["connection", "close"]],
    "connection that nominates": pseudo() + [["connection", "host"]],
    "keep-alive": pseudo() + [["keep-alive", "timeout=1"]],
    "proxy-connection": pseudo() + [["proxy-connection", "close"]],
    "upgrade": pseudo() + [["upgrade", "websocket"]],
    "te gzip": pseudo() + [["te", "gzip"]],
    "te trailers, chunked": pseudo() + [["te", "trailers, chunked"]],
    "method twice": pseudo() + [[":method", "POST"]],
    "path twice": pseudo() + [[":path", "/SMUGGLED"]],
    "authority twice": pseudo() + [[":authority", "evil.example"]],
    "scheme twice": pseudo() + [[":scheme", "http"]],
    "pseudo after a field": [[":method", "GET"], [":scheme", "https"], [":authority", "o.example"], ["x", "1"], [":path", "/%s/"]],
    "unknown pseudo": pseudo() + [[":SMUGGLED", "1"]],
    "response pseudo": pseudo() + [[":status", "200"]],
    "protocol without CONNECT": pseudo(protocol="websocket"),
    "no method": pseudo(method=None),
    "no scheme": pseudo(scheme=None),
    "no path": pseudo(path=None),
    "empty path": pseudo(path=""),
    "path without a slash": pseudo(path="SMUGGLED"),
    "path is an URL": pseudo(path="https://o.example/SMUGGLED"),
    "path is another URL": pseudo(path="http://evil.example/SMUGGLED"),
    "asterisk with GET": pseudo(path="*"),
    "no authority, no host": pseudo(authority=None),
    "empty authority": pseudo(authority=""),
    "host disagrees": pseudo() + [["host", "evil.example"]],
    "host twice": pseudo() + [["host", "o.example"], ["host", "o.example"]],
    "host twice, one other": pseudo() + [["host", "o.example"], ["host", "evil.example"]],
    "host empty": pseudo() + [["host", ""]],
    "scheme http on TLS": pseudo(scheme="http"),
    "scheme invented": pseudo(scheme="SMUGGLED"),
    "scheme as prefix": pseudo(scheme="https://evil.example/SMUGGLED?"),
    "content-length twice": pseudo(method="POST") + [["content-length", "0"], ["content-length", "5"]],
    "content-length of two numbers": pseudo(method="POST") + [["content-length", "0, 0"]],
    "content-length signed": pseudo(method="POST") + [["content-length", "+0"]],
    "content-length without a body": pseudo(method="POST") + [["content-length", "5"]],
    "alias of content-length": pseudo(method="POST") + [["content_length", "5"]],
    "value with outer space": pseudo() + [["x", " SMUGGLED"]],
    "value with DEL": pseudo() + [["x", "a\x7f"]],
    "value with ESC": pseudo() + [["x", "a\x1b]0;SMUGGLED\x07"]],
    "unknown expectation": pseudo(method="POST") + [["expect", "SMUGGLED"]],
    "CONNECT": [[":method", "CONNECT"], [":authority", "o.example:443"]],
    "CONNECT elsewhere": [[":method", "CONNECT"], [":authority", "evil.example:443"]],
    "CONNECT with a path": pseudo(method="CONNECT"),
    "extended CONNECT of another protocol": pseudo(method="CONNECT", protocol="SMUGGLED") + [["sec-websocket-version", "13"]],
    "extended CONNECT connect-udp": pseudo(method="CONNECT", protocol="connect-udp", path="/.well-known/masque/udp/evil.example/443/") + [["capsule-protocol", "?1"]],
    "extended CONNECT connect-ip": pseudo(method="CONNECT", protocol="connect-ip"),
    "extended CONNECT brome-icmp": pseudo(method="CONNECT", protocol="brome-icmp"),
    "extended CONNECT under read-only": pseudo(method="CONNECT", protocol="websocket", path="/ro/SMUGGLED") + [["sec-websocket-version", "13"]],
    "extended CONNECT under POST": pseudo(method="CONNECT", protocol="websocket", path="/post/SMUGGLED") + [["sec-websocket-version", "13"]],
    "TRACE under read-only": pseudo(method="TRACE", path="/ro/SMUGGLED"),
    "get in lower case under read-only": pseudo(method="get", path="/ro/SMUGGLED"),
    "override header under read-only": pseudo(path="/ro/SMUGGLED") + [["x-http-method-override", "DELETE"]],
    "override query under read-only": pseudo(path="/ro/SMUGGLED?_method=DELETE"),
    "content-length on GET under read-only": pseudo(path="/ro/SMUGGLED") + [["content-length", "3"]],
}


def test_heads_that_cannot_be(w):
    before = {o: len(o.everything()) for o in (w.tls, w.plain)}
    jobs = [[n, [[k, v.replace("%s", "h%d" % i)] for k, v in fields]] for i, (n, fields) in enumerate(HEADS.items())]
    rows = guest(w.b, """
def run(job):
    c = H2("o.example")
    s = c.head(job[1])
    r = c.wait(s)
    # A neighbour on the same connection goes on, where the connection was not to blame.
    after = c.wait(c.get("/after/")) if not c.end and c.goaway is None else None
    c.close()
    return [job[0], r, after]
tell(each(run, JOBS))
""", JOBS=jobs)
    problems = []
    for name, r, after in rows:
        if r["end"] in ("none", "timeout"):
            problems.append((name, "hangs", r))
        elif r["status"] is not None and not 400 <= r["status"] < 506:
            problems.append((name, "not refused", r))
        elif r["status"] is None and not r["end"].startswith(("rst", "goaway")):
            problems.append((name, "not refused in HTTP/2's way", r))
        elif after and after["status"] != 200:
            problems.append((name, "the connection's other requests suffer", r, after))
    check(problems)
    for o in (w.tls, w.plain):
        new = o.everything()[before[o]:]
        assert b"SMUGGLED" not in new and b"evil" not in new and b"/h" not in new, new[-1500:]
    assert not w.dns.asked("evil")
    # Each refusal left a line: as many as cases, at least.
    check(rows_for(w.b, [{"protocol": "h2", "host": "o.example"}] * len(HEADS)))


def test_odd_but_plain_heads_pass(w):
    rows = guest(w.b, """
cases = {
  "host instead of :authority": [(":method","GET"),(":scheme","https"),(":path","/ok/1"),("host","o.example")],
  "both, with port and case": [(":method","GET"),(":scheme","https"),(":authority","O.Example:443"),(":path","/ok/2"),("host","o.example.")],
  "te trailers": [(":method","GET"),(":scheme","https"),(":authority","o.example"),(":path","/ok/3"),("te","trailers")],
  "cookie crumbs": [(":method","GET"),(":scheme","https"),(":authority","o.example"),(":path","/ok/4"),("cookie","a=1"),("cookie","b=2")],
  "OPTIONS *": [(":method","OPTIONS"),(":scheme","https"),(":authority","o.example"),(":path","*")],
  "our own fields": [(":method","GET"),(":scheme","https"),(":authority","o.example"),(":path","/ok/6"),("brome-flow","1"),("brome-kind","tcp"),("brome-rule","SMUGGLED"),("proxy-authorization","SMUGGLED")],
}
c = H2("o.example")
tell([[n, c.wait(c.head(f))] for n, f in cases.items()])
""")
    check([r for r in rows if r[1]["status"] != 200])
    data = w.tls.everything()
    assert b"cookie: a=1; b=2\r\n" in data.lower() and b"SMUGGLED" not in data and b"brome-" not in data and b"OPTIONS * HTTP/1.1" in data, data[-2000:]
    assert b"transfer-encoding" not in data.split(b"/ok/1", 1)[1].split(b"\r\n\r\n", 1)[0].lower()


def test_bodies_that_lie(w):
    """A content-length that says more or less than comes, DATA after the end, trailers that are none: never whole at the origin."""
    rows = guest(w.b, """
def case(name, fields, frames):
    c = H2("o.example")
    s = c.head([(":method","POST"),(":scheme","https"),(":authority","o.example"),(":path","/lie/" + name)] + fields, flags=END_HEADERS)
    for kind, flags, payload in frames:
        c.send(frame(kind, flags, s, payload))
    r = c.wait(s, timeout=15)
    c.close()
    return [name, r]
T = hpack([("x-sum", "1")])
tell([
  case("more", [("content-length", "3")], [(DATA, END_STREAM, b"abcSMUGGLED")]),
  case("more-later", [("content-length", "3")], [(DATA, 0, b"abc"), (DATA, END_STREAM, b"SMUGGLED")]),
  case("less", [("content-length", "30")], [(DATA, END_STREAM, b"abc")]),
  case("less-with-trailers", [("content-length", "30")], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, T)]),
  case("zero", [("content-length", "0")], [(DATA, END_STREAM, b"SMUGGLED")]),
  case("data-after-end", [], [(DATA, END_STREAM, b"abc"), (DATA, END_STREAM, b"SMUGGLED")]),
  case("head-after-end", [], [(DATA, END_STREAM, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("x-smuggled", "SMUGGLED")]))]),
  case("trailer-pseudo", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([(":path", "/SMUGGLED")]))]),
  case("trailer-upper", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("X-SMUGGLED", "1")]))]),
  case("trailer-length", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("content-length", "9")]))]),
  case("trailer-host", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("host", "SMUGGLED")]))]),
  case("trailer-crlf", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("x", "a\\r\\nSMUGGLED: 1")]))]),
  case("trailer-auth", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS | END_STREAM, hpack([("authorization", "SMUGGLED")]))]),
  case("trailer-without-end", [], [(DATA, 0, b"abc"), (HEADERS, END_HEADERS, hpack([("x-smuggled", "SMUGGLED")]))]),
  case("padding-too-long", [], [(DATA, 8 | END_STREAM, b"\\xffabc")]),
  case("priority-on-itself", [], [(PRIORITY, 0, b"\\0\\0\\0\\1\\x10"), (DATA, END_STREAM, b"abc")]),
  case("short-window-update", [], [(WINDOW, 0, b"\\0\\0"), (DATA, END_STREAM, b"abc")]),
  case("zero-window-update", [], [(WINDOW, 0, b"\\0\\0\\0\\0"), (DATA, END_STREAM, b"abc")]),
  case("unknown-frame", [], [(77, 255, b"SMUGGLED"), (DATA, END_STREAM, b"abc")]),
])
""")
    # may be answered: the request itself was whole (of "more-later" when its three bytes were passed on before the rest came)
    fine = {"more-later", "zero", "data-after-end", "head-after-end", "priority-on-itself", "zero-window-update", "unknown-frame"}
    problems = []
    for name, r in rows:
        if r["end"] in ("none", "timeout"):
            problems.append((name, "hangs", r))
        if r["status"] == 200 and name not in fine:
            problems.append((name, "answered", r))
    check(problems)
    data = w.tls.everything()
    assert b"SMUGGLED" not in data.upper(), data[-2000:]


FLOODS = {
    "rapid reset": "for i in range(100000):\n    s = c.next\n    c.next += 2\n    if not c.send(frame(HEADERS, 5, s, H) + frame(RST, 0, s, b'\\0\\0\\0\\x08')): break\n    c.sent = i",
    "reset by bad windows": "for i in range(100000):\n    s = c.next\n    c.next += 2\n    if not c.send(frame(HEADERS, 4, s, H) + frame(WINDOW, 0, s, b'\\x7f\\xff\\xff\\xff')): break\n    c.sent = i",
    "CONTINUATION": "c.send(frame(HEADERS, 0, 1, H))\nfor i in range(100000):\n    if not c.send(frame(CONTINUATION, 0, 1, hpack([('x', 'y' * 100)]))): break\n    c.sent = i",
    "empty CONTINUATION": "c.send(frame(HEADERS, 0, 1, H))\nfor i in range(100000):\n    if not c.send(frame(CONTINUATION, 0, 1)): break\n    c.sent = i",
    "SETTINGS": "for i in range(100000):\n    if not c.send(frame(SETTINGS, 0, 0, struct.pack('>HI', 4, i))): break\n    c.sent = i",
    "PING": "for i in range(100000):\n    if not c.send(frame(PING, 0, 0, b'12345678')): break\n    c.sent = i",
    "PRIORITY": "for i in range(100000):\n    if not c.send(frame(PRIORITY, 0, 3 + 2 * (i % 1000), b'\\0\\0\\0\\0\\x10')): break\n    c.sent = i",
    "empty DATA": "c.send(frame(HEADERS, 4, 1, H))\nfor i in range(100000):\n    if not c.send(frame(DATA, 0, 1)): break\n    c.sent = i",
    "WINDOW_UPDATE": "for i in range(100000):\n    if not c.send(frame(WINDOW, 0, 0, b'\\0\\0\\0\\x01')): break\n    c.sent = i",
    "huge windows": "c.send(frame(WINDOW, 0, 0, b'\\x7f\\xff\\xff\\xff'))\nfor i in range(10):\n    if not c.send(frame(WINDOW, 0, 0, b'\\x7f\\xff\\xff\\xff')): break\n    time.sleep(.05)",
    "unknown frames": "for i in range(100000):\n    if not c.send(frame(99, 0, 0, b'x')): break\n    c.sent = i",
    "frames too large": "c.send(frame(DATA, 0, 1, b'x' * 40000))",
    "HPACK bomb": "c.send(frame(HEADERS, 0, 1, H + b'\\x40\\x01x' + integer(4000, 7) + b'y' * 4000))\nfor i in range(300):\n    if not c.send(frame(CONTINUATION, 0, 1, b'\\xbe' * 4000)): break",
    "table size bomb": "c.send(frame(HEADERS, 5, 1, b'\\x3f\\xe1\\xff\\xff\\xff\\x0f' + H))",
    "stream ids backwards": "c.send(frame(HEADERS, 5, 101, H) + frame(HEADERS, 5, 3, H))",
    "even stream id": "c.send(frame(HEADERS, 5, 2, H))",
    "stream id 0": "c.send(frame(HEADERS, 5, 0, H))",
    "PUSH_PROMISE": "c.send(frame(PUSH, 4, 1, b'\\0\\0\\0\\2' + H))",
    "HEADERS between CONTINUATION": "c.send(frame(HEADERS, 1, 1, H) + frame(HEADERS, 5, 3, H))",
}


def test_floods_end_their_connection(w):
    """F2: each flood on a connection of its own; meanwhile a neighbour asks. Bounded memory, bounded descriptors."""
    idle = doors(w.b)
    for name, script in FLOODS.items():
        out = guest(w.b, f"""
import threading
H = hpack([(":method","POST"),(":scheme","https"),(":authority","o.example"),(":path","/flood/")])
c = H2("o.example")
c.sent = 0
seen, stop, slow = [], threading.Event(), [0]
def neighbour():
    n = H2("second.example")
    while not stop.is_set() or len(seen) < 5:
        t = time.monotonic()
        r = n.wait(n.get("/neighbour/"))
        slow[0] = max(slow[0], time.monotonic() - t)
        seen.append(r["status"])
t = threading.Thread(target=neighbour)
t.start()
def attack():
{chr(10).join("    " + line for line in script.split(chr(10)))}
end = time.monotonic() + 10
try:
    attack()
except Exception as e:
    c.end = c.end or repr(e)
c.pump(lambda: c.goaway is not None or c.streams.get(1, {{}}).get("end"), 5)
stop.set()
t.join()
tell([c.sent, c.end, c.goaway, c.streams.get(1, {{}}).get("status"), len(seen), sorted(set(seen), key=str), slow[0], c.streams.get(1, {{}}).get("end")])
""")
        kb, fds = doors(w.b)
        print(f"# {name}: {out}, {kb} KB, {fds} fds")
        assert out[5] == [200] and out[6] < 5, (name, "the neighbour", out)
        assert kb < DOORS_KB and fds < DOOR_FDS, (name, kb, fds, idle)
        if name in ("rapid reset", "reset by bad windows", "empty DATA", "CONTINUATION", "empty CONTINUATION", "SETTINGS", "PING", "PRIORITY", "huge windows", "stream id 0", "even stream id", "PUSH_PROMISE", "HEADERS between CONTINUATION", "frames too large"):
            assert out[1] or out[2] is not None or (out[7] or "").startswith("rst"), (name, "was taken", out)


def test_many_streams_and_stuck_readers(w):
    """More streams than offered are refused; a peer that reads nothing, or gives no window, costs what it may cost and no more."""
    out = guest(w.b, """
H = lambda path: hpack([(":method","GET"),(":scheme","https"),(":authority","o.example"),(":path",path)])
c = H2("o.example", window=0)
ids = []
for i in range(600):
    ids.append(c.next)
    c.send(frame(HEADERS, 5, c.next, H("/stuck/")))
    c.next += 2
def more(n):
    for _ in range(n):
        k = H2("o.example", window=0)
        stuck.append(k)
        for i in range(100):
            k.get("/stuck/")
        k.send(frame(PING, 0, 0, b"12345678"))
        k.pump(lambda: k.pings or k.goaway is not None)
stuck = []
more(20)
n = H2("second.example")
t = time.monotonic()
r = n.wait(n.get("/neighbour/"))
took = time.monotonic() - t
more(30)  # beyond what the workspace may have at once: refused at once, and it says so
t = time.monotonic()
full = [n.wait(n.get("/neighbour/")), talk("second.example", 443, [b"GET /n HTTP/1.1\\r\\nHost: second.example\\r\\nConnection: close\\r\\n\\r\\n"], use_tls=True), time.monotonic() - t]
for k in stuck:
    k.close()
# The other streams of the first connection: once their window opens they end.
c.send(b"".join(frame(WINDOW, 0, s, struct.pack(">I", 65535)) for s in ids))
c.pump(lambda: all(c.streams.get(s, {}).get("end") for s in ids) or c.goaway is not None, 15)
ends = {}
for s in ids:
    e = str(c.streams.get(s, {}).get("status")) + " " + c.streams.get(s, {}).get("end", "none")
    ends[e] = ends.get(e, 0) + 1
c.close()
tell([r, took, ends, c.goaway, c.end, full])
""")
    kb, fds = doors(w.b)
    print("#", out, kb, fds)
    assert out[0]["status"] == 200 and out[1] < 10, out
    assert not any("none" in e for e in out[2]) or out[3] is not None, out
    assert kb < DOORS_KB and fds < DOOR_FDS, (kb, fds)
    full = out[5]
    assert full[0]["end"] == "rst:7" and full[1]["end"] in ("reset", "eof") and full[2] < 10, full
    check(rows_for(w.b, [{"reason": "too-many-streams", "host": "second.example"}] * 2))
    r = guest(w.b, 'n = H2("second.example")\ntell(n.wait(n.get("/neighbour/")))')
    assert r["status"] == 200, r


def test_idle_connections(w):
    """F2: a thousand idle TLS connections and as many that say nothing: the neighbour is served, memory is bounded."""
    out = guest(w.b, """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = []
def one(i):
    try:
        s = connect("o.example", 443, 60)
        if i % 4 == 0:
            s = tls(s, "o.example", ["h2" if i % 8 else "http/1.1"])
        held.append(s)
    except OSError as e:
        held.append(e)
each(one, range(1200), 32)
t = time.monotonic()
r = talk("second.example", 443, [b"GET /n HTTP/1.1\\r\\nHost: second.example\\r\\nConnection: close\\r\\n\\r\\n"], use_tls=True)
took = time.monotonic() - t
tell([r["data"][:15], took, sum(isinstance(h, OSError) and not isinstance(h, socket.socket) for h in held)])
""")
    kb, fds = doors(w.b)
    print("#", out, kb, fds)
    assert out[0].startswith("HTTP/1.1 200") and out[1] < 10, out
    assert kb < DOORS_KB, (kb, fds)
    wait_for("the connections to be gone", lambda: doors(w.b)[1] < 400)
