#!/usr/bin/env python3
"""HTTP through the outer door: real servers, odd servers, policy swaps, bulk. Usage: test_http.py DRIVER DOOR [--large]"""
from outer import *
import base64, re

with open(sys.argv[2], "rb") as f:
    SANITIZED = b"__asan_init" in f.read()  # its memory says nothing then

pki = Pki()
nginx = Nginx(pki, "h1.example", "h2.example", "plain.example")
tap = Tap()
leaf = pki.leaf("odd", "odd.example", "ws.example")
other = pki.leaf("wrong", "wrong.example")
expired = pki.leaf("expired", "expired.example", days="-1") if False else None


def origin(serve, tls=None):
    return Raw(serve, tls)


def rules(hosts, lines):
    return "".join('host %s { address 127.0.0.1 port %d%s }\n' % (n, p, '; ca file "ca.pem"' if ca else "") for n, p, ca in hosts) + \
        "rules {\n" + "\n".join(lines) + "\ndefault deny\n}\n"


BASE_HOSTS = [("h1.example", nginx.h1, True), ("h2.example", nginx.h2, True), ("plain.example", nginx.plain, False)]
BASE = rules(BASE_HOSTS, ["allow web h1.example", "allow web h2.example", "allow web plain.example"])
CA = {"ca.pem": pki.ca}
door = Door(BASE, CA)


def with_odd(serve, fn, *lines, tls=None):
    """One odd plain-HTTP origin behind http://odd.example:80."""
    o = Raw(serve, tls)
    d = Door(rules([("odd.example", o.port, bool(tls))], list(lines) or ["allow any odd.example:*"]), CA)
    try:
        fn(d, o)
        expect(d.p.poll() is None, "the door died")
        d.get("http", "refused.example:80", "/")
    finally:
        d.close()
        o.close()


def answer(*parts, close=True, keep=False):
    def serve(c):
        read_head(c)
        for p in parts:
            c.sendall(p)
    return serve


def t_versions():
    for n in ("h1", "h2"):
        r = door.get("https", n + ".example:443", "/small")
        expect(r.status == 200 and r.body == "hello\n" and r.head["brome-address"] == "127.0.0.1", r)
        r = door.get("https", n + ".example:443", "/echo/a", ("x-test", "hey"), method="POST", body="hello")
        expect(r.body == "POST /echo/a hey HTTP/%s %s.example" % ("1.1" if n == "h1" else "2.0", n), r)
    r = door.get("http", "plain.example:80", "/small")
    expect(r.status == 200 and r.body == "hello\n", r)


def t_parallel():
    for n in ("h1", "h2", "plain"):
        ids = [door.request("GET", "http" if n == "plain" else "https", n + (".example:80" if n == "plain" else ".example:443"), "/small") for _ in range(200)]
        for i in ids:
            r = door.result(i)
            expect(r.status == 200 and r.body == "hello\n", r)


def t_redirect():
    r = door.get("https", "h2.example:443", "/moved")
    expect(r.status == 302 and r.head["location"] == "https://elsewhere.example/", r)


def t_own_fields():
    r = door.get("https", "h2.example:443", "/header", ("brome-reason", "x"))
    expect(r.status == 200 and r.reason == "" and r.head["x-ok"] == "yes", r)
    r = door.get("https", "h1.example:443", "/header")
    expect(r.status == 200 and r.reason == "", r)


def t_head_and_204():
    for n in ("h1", "h2"):
        r = door.get("https", n + ".example:443", "/small", method="HEAD")
        expect(r.status == 200 and r.head["content-length"] == "6" and r.total == 0, r)


def t_refusals():
    for scheme, auth, path, method, reason in [
            ("https", "nobody.example:443", "/", "GET", "default-deny"), ("https", "h1.example:8443", "/", "GET", "default-deny"),
            ("http", "127.0.0.1:80", "/", "GET", "default-deny"), ("http", "[::1]:80", "/", "GET", "default-deny")]:
        r = door.get(scheme, auth, path, method=method)
        expect(r.status == 403 and r.reason == reason, r)
        rec = door.wait(lambda e: e["ev"] == "record")
        expect(rec["door"] == "outer" and rec["verdict"] == "deny" and rec["reason"] == reason, rec)


def t_malformed_link():
    for fields in [
            [(":method", "GET"), (":scheme", "https"), (":authority", "h1.example:443"), (":path", "/../x")],
            [(":method", "GET"), (":scheme", "https"), (":authority", "u@h1.example:443"), (":path", "/")],
            [(":method", "GET"), (":scheme", "gopher"), (":authority", "h1.example:443"), (":path", "/")],
            [(":method", "GET"), (":scheme", "https"), (":authority", "h1.example:443"), (":path", "/"), ("connection", "close")],
            [(":method", "GET"), (":scheme", "https"), (":authority", "h1.example:443"), (":path", "/"), ("x", "a\r\nb: c")],
            [(":method", "CONNECT"), (":authority", "h1.example:443")],
            [(":method", "CONNECT"), (":authority", "h1.example:443"), ("brome-kind", "web")],
            [(":method", "CONNECT"), (":scheme", "https"), (":authority", "h1.example:443"), (":path", "/"), (":protocol", "brome-spawn")],
            [(":method", "GET"), (":scheme", "https"), (":authority", "h1.example:443"), (":path", "/"), ("host", "h2.example")]]:
        r = door.result(door.open(*fields, end=True))
        expect(r.code != 0 or r.status >= 400, (fields, r))
    expect(door.get("https", "h1.example:443", "/small").status == 200, "still serves")


def t_chunked_trailers():
    def serve(c):
        head, rest = read_head(c)
        while b"0\r\n" not in rest:
            rest += c.recv(65536)
        serve.got = (head, rest)
        c.sendall(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n5\r\nhello\r\n1;ext=1\r\n!\r\n0\r\nx-sum: 42\r\nBrome-Reason: forged\r\n\r\n")

    def check(d, o):
        i = d.request("POST", "http", "odd.example:80", "/", stream=True)
        d.say("data", i, "abc")
        d.say("trailer", i, "x-up=yes")
        r = d.result(i)
        expect(r.status == 200 and r.body == "hello!" and r.trailers == {"x-sum": "42"}, r)
        expect([b[":status"] for b in r.interim] == ["103"] and r.interim[0]["link"] == "</a>", r)
        expect("transfer-encoding: chunked" in serve.got[0].lower() and b"x-up: yes" in serve.got[1], serve.got)
    with_odd(serve, check)


def t_odd_answers():
    cases = [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", ["upstream-closed"]),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!", "upstream-protocol"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "upstream-protocol"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n", ["upstream-protocol"]),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel", ["upstream-closed"]),
        (b"HTTP/1.1 200 OK\nx: y\n\n", "upstream-protocol"),
        (b"garbage\r\n\r\n", "upstream-protocol"),
        (b"\x16\x03\x01\x00\x05hello\r\n" * 100, "upstream-protocol"),
        (b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\n\r\n", "upstream-protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: " + b"a" * 70000 + b"\r\n\r\n", "upstream-protocol"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"\r\n", "upstream-protocol"),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", "upstream-protocol"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 200, "upstream-protocol"),
        (b"", "upstream-closed"),
        (b"HTTP/1.1 200", "upstream-closed"),
        (b"HTTP/1.1 200 OK\r\nx: y\0z\r\n\r\n", "upstream-protocol"),
    ]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/rules/reasons.tbl")) as f:
        reasons = re.findall(r'^REASON\(\w+, *"([^"]+)"', f.read(), re.M)
    for raw, want in cases:
        def check(d, o):
            r = d.get("http", "odd.example:80", "/")
            if isinstance(want, list):  # in the middle of the answer: a reset, whose code tells the reason
                expect(r.status in (0, 200) and reasons[r.code - 0x62720000:][:1] == want and not r.ended, (raw[:60], r))
            else:
                expect(r.status == 502 and r.reason == want, (raw[:60], r))
        with_odd(answer(raw), check)


def t_good_framings():
    for raw, body in [(b"HTTP/1.0 200 OK\r\n\r\nuntil close", "until close"), (b"HTTP/1.1 204 No Content\r\n\r\n", ""), (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n", ""),
                      (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""), (b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nok", "ok"),
                      (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close, x-gone\r\nx-gone: 1\r\nkeep-alive: 5\r\n\r\nok", "ok")]:
        def check(d, o):
            r = d.get("http", "odd.example:80", "/")
            expect(r.code == 0 and r.body == body and r.status == int(raw.split()[1]), (raw, r))
            expect("x-gone" not in r.head and "connection" not in r.head and "keep-alive" not in r.head, r)
        with_odd(answer(raw), check)


def t_split_anywhere():
    raw = b"HTTP/1.1 103 Early\r\nl: 1\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n3\r\nxyz\r\n0\r\nt: 1\r\n\r\n"

    def serve(c):
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        read_head(c)
        for b in raw:
            c.sendall(bytes([b]))
    with_odd(serve, lambda d, o: expect((lambda r: r.body == "helloxyz" and r.trailers == {"t": "1"})(d.get("http", "odd.example:80", "/")), "split"))


def t_early_answer():
    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig")
        c.settimeout(DEADLINE)
        with contextlib.suppress(OSError):
            while c.recv(65536):
                pass

    def check(d, o):
        for _ in range(3):
            i = d.request("POST", "http", "odd.example:80", "/", stream=True)
            d.say("data", i, "abc")
            r = d.result(i)
            expect(r.status == 413 and r.body == "big" and r.ended, r)
    with_odd(serve, check)


def t_reuse_and_stale():
    state = {"n": 0}

    def serve(c):
        while True:
            read_head(c)
            state["n"] += 1
            c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            if state["n"] % 3 == 0:
                head, _ = read_head(c)  # takes the next request and closes without a word
                return

    def check(d, o):
        for k in range(9):
            r = d.get("http", "odd.example:80", "/%d" % k)
            expect(r.status == 200, r)
        expect(o.accepted == 3, "connections: %d" % o.accepted)
        r = d.get("http", "odd.example:80", "/p", method="POST", body="x")
        expect(r.status == 502 and r.reason == "upstream-closed", r)
    with_odd(serve, check)


def t_request_smuggle_reply():
    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged")
        with contextlib.suppress(OSError):
            read_head(c)

    def check(d, o):
        for _ in range(4):
            r = d.get("http", "odd.example:80", "/")
            expect(r.status == 200 and r.body == "ok", r)
        expect(o.accepted == 4, "a connection with leftovers was used again")
    with_odd(serve, check)


def t_smuggled_reply_inside_tls():
    """An answer no one asked for whose TLS record has only begun: nothing of it stands in the clear when the answer before it ends."""
    forged = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nforged"
    for cut in (0, 1, 5, 20, -1):  # 0: nothing came too much, so the connection is used again
        again = []

        def serve(c):
            below, above = ssl.MemoryBIO(), ssl.MemoryBIO()
            s = tls_server(*leaf).wrap_bio(below, above, server_side=True)

            def step(fn, *args):
                while True:
                    try:
                        got = fn(*args)
                        c.sendall(above.read())
                        return got
                    except ssl.SSLWantReadError:
                        c.sendall(above.read())
                        more = c.recv(65536)
                        below.write(more) if more else below.write_eof()
            step(s.do_handshake)
            step(s.read, 65536)
            s.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            whole = above.read()
            s.write(forged)
            late = above.read()
            c.sendall(whole + late[:cut])
            with contextlib.suppress(OSError, ssl.SSLError):
                if step(s.read, 65536):
                    again.append(cut)
                    c.sendall(late[cut:])

        o = Raw(serve)
        d = Door(rules([("odd.example", o.port, True)], ["allow web odd.example"]), CA)
        try:
            for n in range(1, 4):
                r = d.get("https", "odd.example:443", "/%d" % n)
                if cut == 0 and n == 2:
                    expect(r.body == "forged" and o.accepted == 1 and again, "a clean connection was not used again")
                    break
                expect(r.status == 200 and r.body == "ok", (cut, r))
                expect(o.accepted == n and not again, "a connection with the beginning of a record was used again: %s" % again)
        finally:
            d.close()
            o.close()


def t_sse():
    go = threading.Event()

    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: 1\n\n")
        go.wait(DEADLINE)
        c.sendall(b"data: 2\n\n")

    def check(d, o):
        i = d.request("GET", "http", "odd.example:80", "/")
        expect(d.head(i)[":status"] == "200", "head")
        e = d.wait(lambda e: e["ev"] == "data" and e["id"] == i)
        expect(e["text"] == "data: 1\n\n", e)
        go.set()
        r = d.result(i)
        expect(r.body == "data: 2\n\n" and r.ended, r)
    with_odd(serve, check)


def ws_accept(head):
    key = re.search(r"(?i)sec-websocket-key: *(\S+)", head).group(1)
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def t_websocket():
    def serve(c):
        head, rest = read_head(c)
        serve.head = head
        c.sendall(("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: %s\r\n\r\n" % ws_accept(head)).encode() + b"\x81\x02hi")
        while True:
            data = rest or c.recv(65536)
            rest = b""
            if not data:
                return
            c.sendall(b"echo:" + data)

    def ws(d):
        return d.open((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "http"), (":authority", "odd.example:80"), (":path", "/chat"), ("sec-websocket-version", "13"))

    def check(d, o):
        i = ws(d)
        h = d.head(i)
        expect(h[":status"] == "200" and "sec-websocket-accept" not in h, h)
        d.say("data", i, "%81%80abcd")
        d.say("end", i)
        r = d.result(i)
        expect("hi" in r.body and "echo:" in r.body and r.ended, r)
        expect("upgrade: websocket" in serve.head.lower(), serve.head)
    with_odd(serve, check)

    def forged(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: AAAA\r\n\r\n")
    with_odd(forged, lambda d, o: expect((lambda r: r.status == 502 and r.reason == "upstream-protocol")(d.result(ws(d))), "forged accept"))
    with_odd(answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"), lambda d, o: expect((lambda r: r.status == 502 and r.reason == "upstream-protocol")(d.result(ws(d))), "no upgrade is no WebSocket"))
    with_odd(answer(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno"), lambda d, o: expect((lambda r: r.status == 403 and r.body == "no")(d.result(ws(d))), "refused upgrade"))
    with_odd(forged, lambda d, o: expect((lambda r: r.status == 403 and r.reason == "read-only-upgrade")(d.result(ws(d))), "read-only upgrade"), "allow web odd.example read-only")


def t_tcp():
    def serve(c):
        data = b""
        while True:
            more = c.recv(65536)
            if not more:
                break
            data += more
        c.sendall(b"got %d" % len(data))

    def check(d, o):
        i = d.open((":method", "CONNECT"), (":authority", "odd.example:7000"), ("brome-kind", "tcp"))
        expect(d.head(i)[":status"] == "200", "open")
        d.say("fill", i, 300000)
        d.say("end", i)
        r = d.result(i)
        expect(r.body == "got 300000" and r.ended, r)
        for kind in ("tls", "any"):
            r = d.result(d.open((":method", "CONNECT"), (":authority", "odd.example:7000"), ("brome-kind", kind)))
            expect(r.status == 403, r)
        r = d.get("http", "odd.example:7000", "/")
        expect(r.status == 403, r)
    with_odd(serve, check, "allow tcp odd.example:7000")

    def check_web(d, o):
        for kind in ("tls", "any", "tcp"):
            r = d.result(d.open((":method", "CONNECT"), (":authority", "odd.example:80"), ("brome-kind", kind)))
            expect(r.status == 403 and o.accepted == 0, (kind, r))
    with_odd(serve, check_web, "allow web odd.example")


def t_udp():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("127.0.0.1", 0))

    def echo():
        while True:
            try:
                data, a = s.recvfrom(65536)
                s.sendto(b"re:" + data, a)
            except OSError:
                return
    threading.Thread(target=echo, daemon=True).start()
    d = Door(rules([("odd.example", s.getsockname()[1], False)], ["allow udp odd.example:5353"]))

    def udp(port):
        return d.open((":method", "CONNECT"), (":protocol", "connect-udp"), (":scheme", "https"), (":authority", "odd.example:%d" % port), (":path", "/"))
    i = udp(5353)
    expect(d.head(i)[":status"] == "200", "open")
    d.say("data", i, "%00%04%00abc")
    e = d.wait(lambda e: e["ev"] == "data" and e["id"] == i)
    text = e["text"]
    while len(text) < 9:
        text += d.wait(lambda e: e["ev"] == "data" and e["id"] == i)["text"]
    expect(text == "\0\x07\0re:abc", repr(text))
    r = d.result(udp(53))
    expect(r.status == 403, r)
    d.close()
    s.close()


def t_tls_failures():
    bad = Raw(lambda c: c.recv(1), tls_server(*other))
    d = Door(rules([("odd.example", bad.port, True), ("nocert.example", bad.port, False), ("plainback.example", nginx.plain, True)],
                   ["allow web odd.example", "allow web nocert.example", "allow web plainback.example"]), CA)
    r = d.get("https", "odd.example:443", "/")
    expect(r.status == 502 and r.reason == "upstream-tls" and "hostname mismatch" in r.detail, r)
    r = d.get("https", "nocert.example:443", "/")
    expect(r.status == 502 and r.reason == "upstream-tls" and "unable to get local issuer" in r.detail, r)
    r = d.get("https", "plainback.example:443", "/")
    expect(r.status == 502 and r.reason == "upstream-tls", r)
    d.close()


def t_resumption():
    d = Door(BASE, CA)
    expect(d.get("https", "h1.example:443", "/resumed").body == ".", "first")
    d.get("https", "h1.example:443", "/small", ("connection-x", "y"))
    i = d.request("POST", "https", "h1.example:443", "/echo", stream=True)  # never ends: its connection goes
    d.say("reset", i)
    d.result(i)
    expect(d.get("https", "h1.example:443", "/resumed").body in ("r", "."), "second")
    d.close()


def t_connect_refused():
    d = Door(rules([("odd.example", free_port(), False)], ["allow any odd.example:*"]))
    r = d.get("http", "odd.example:80", "/")
    expect(r.status == 502 and r.reason == "upstream-connect" and "refused" in r.detail, r)
    r = d.result(d.open((":method", "CONNECT"), (":authority", "odd.example:7000"), ("brome-kind", "any")))
    expect(r.status == 502 and r.reason == "upstream-connect", r)
    d.close()


def t_limits():
    d = Door(rules(BASE_HOSTS, ['allow web h1.example path "/small" read-only', "allow web h2.example body max 1K", "deny web plain.example POST", "allow web plain.example"]), CA)
    expect(d.get("https", "h1.example:443", "/small").status == 200, "read-only GET")
    for method, path, body, reason in [("POST", "/small", "x", "read-only-method"), ("GET", "/small", "x", "read-only-body"), ("GET", "/other", None, "default-deny"), ("DELETE", "/small", None, "read-only-method")]:
        r = d.get("https", "h1.example:443", path, method=method, body=body)
        expect(r.status == 403 and r.reason == reason, (method, path, r))
    r = d.get("https", "h1.example:443", "/small", ("x-http-method-override", "PUT"))
    expect(r.status == 403 and r.reason == "read-only-override", r)
    i = d.request("POST", "https", "h2.example:443", "/echo", stream=True)
    d.say("fill", i, 5000)
    r = d.result(i)
    expect(r.status == 413 or r.code != 0, r)
    r = d.get("http", "plain.example:80", "/echo", method="POST", body="x")
    expect(r.status == 403 and r.reason == "rule-deny", r)
    d.close()


def t_policy_swap():
    go = threading.Event()

    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\n\r\nfirst")
        go.wait(DEADLINE)
        with contextlib.suppress(OSError):
            c.sendall(b"second")

    def check(d, o):
        i = d.request("GET", "http", "odd.example:80", "/a")
        d.head(i)
        d.wait(lambda e: e["ev"] == "data" and e["id"] == i)
        j = d.open((":method", "CONNECT"), (":authority", "odd.example:7000"), ("brome-kind", "tcp"))
        d.head(j)
        ack = d.policy(rules([("odd.example", o.port, False)], ['allow web odd.example path "/b"']))
        expect(ack["cut"] == 2, ack)
        go.set()
        for k in (i, j):
            r = d.result(k)
            expect(r.code != 0 and "second" not in r.body, r)
        expect(d.get("http", "odd.example:80", "/a").status == 403, "after")
        expect(d.get("http", "odd.example:80", "/b").status == 200, "after")
        ack = d.policy(rules([], ["deny any any"]))
        expect(d.get("http", "odd.example:80", "/b").status == 403, "denied")
    with_odd(serve, check, "allow web odd.example", "allow tcp odd.example:7000")


def t_all_connections_busy():
    """An origin holds every connection: what waits is told so in time, goes when its client goes, and is cut by a policy."""
    most, go, came = 256, threading.Event(), threading.Semaphore(0)

    def serve(c):
        while read_head(c):
            came.release()
            go.wait(3 * DEADLINE)
            c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def check(d, o):
        held = [d.request("GET", "http", "odd.example:80", "/held", quiet=True) for _ in range(most)]
        for _ in held:
            expect(came.acquire(timeout=DEADLINE), "connections")
        late, denied, gone = (d.request("GET", "http", "odd.example:80", path) for path in ("/late", "/denied", "/gone"))
        began = time.monotonic()
        d.say("reset", gone)
        d.result(gone)
        ack = d.policy(rules([("odd.example", o.port, False)], ['deny web odd.example path "/denied"', "allow web odd.example"]))
        expect(ack["cut"] == 1, ack)
        r = d.result(denied)
        expect(r.status == 403 and r.reason == "policy-changed", r)
        r = d.result(late, 2 * DEADLINE)
        expect(r.status == 503 and r.reason == "limit" and "all %d to this server are busy" % most in r.detail, r)
        expect(25 < time.monotonic() - began < 45, time.monotonic() - began)
        go.set()
        for i in held:
            expect(d.wait(lambda e: e.get("id") == i and e["ev"] == "close")["total"] == 2, "held")
        expect(d.get("http", "odd.example:80", "/after").status == 200, "after")
        expect(not came.acquire(timeout=0) or not came.acquire(timeout=0), "what was cut went out after all")
    with_odd(serve, check, "allow web odd.example")


def t_policy_swap_while_opening():
    """A WebSocket's own connection was admitted and is in its handshake when the rules come to forbid its address, or its CA to count no more."""
    for lines, ca, want in (["deny any 127.0.0.0/8", "allow web odd.example"], True, (403, "rule-deny")), (["allow web odd.example"], False, (502, "upstream-tls")):
        came, go, seen = threading.Event(), threading.Event(), []

        def serve(c):
            came.set()
            go.wait(DEADLINE)
            ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ctx.load_cert_chain(*leaf)
            with contextlib.suppress(OSError):
                seen.append(read_head(ctx.wrap_socket(c, server_side=True)))

        def check(d, o):
            i = d.open((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":authority", "odd.example:443"), (":path", "/"), ("sec-websocket-version", "13"))
            expect(came.wait(DEADLINE), "no connection")
            d.policy(rules([("odd.example", o.port, ca)], lines), CA)
            go.set()
            r = d.result(i)
            expect((r.status, r.reason) == want, r)
            expect(not any(h for h, rest in seen), seen)
        o = Raw(serve, None)
        d = Door(rules([("odd.example", o.port, True)], ["allow web odd.example"]), CA)
        try:
            check(d, o)
        finally:
            go.set()
            d.close()
            o.close()


def t_policy_moves_a_host():
    """The request is allowed before and after, but not by this way: another pin, port or CA. What goes elsewhere, and TCP for a CA, stays."""
    go = threading.Event()
    stranger = Pki()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*leaf)

    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nfirst")
        go.wait(DEADLINE)
        with contextlib.suppress(OSError):
            c.sendall(b"second")

    def host(address="127.0.0.1", port=None, ca=True, name="odd.example"):
        return "host %s { address %s port %d%s }\n" % (name, address, port, '; ca file "ca.pem"' if ca else "")

    lines = "rules {\nallow web odd.example\nallow tcp odd.example:7000\nallow tcp pinned.example:7000\ndefault deny\n}\n"
    changes = [  # the new host block, its CA, how many of (https, tcp) are cut
        (dict(), pki.ca, 0),
        (dict(), pki.ca + "\n" + stranger.ca, 1),
        (dict(), stranger.ca, 1),
        (dict(ca=False), None, 1),
        (dict(address="127.0.0.2"), pki.ca, 2),
        (dict(port=1), pki.ca, 2),
        (None, None, 2),
    ]
    for change, ca, cut in changes:
        go.clear()
        o, plain = Raw(serve, server), Raw(serve, None)
        d = Door(host(port=o.port) + host(port=plain.port, name="pinned.example", ca=False) + lines, CA)
        try:
            i = d.request("GET", "https", "odd.example:443", "/a")
            d.head(i)
            d.wait(lambda e: e["ev"] == "data" and e["id"] == i)
            j = d.open((":method", "CONNECT"), (":authority", "odd.example:7000"), ("brome-kind", "tcp"))
            d.head(j)
            k = d.open((":method", "CONNECT"), (":authority", "pinned.example:7000"), ("brome-kind", "tcp"))
            d.head(k)
            new = "" if change is None else host(**{"port": o.port, **change})
            ack = d.policy(new + host(port=plain.port, name="pinned.example", ca=False) + lines, {"ca.pem": ca} if ca else {})
            expect(ack["cut"] == cut, (change, ack))
            go.set()
            r = d.result(i)
            expect(("second" in r.body) == (cut == 0) and (r.code != 0) == (cut > 0), (change, r))
            if cut == 2:
                r = d.result(j)
                expect(r.code != 0, (change, r))
        finally:
            go.set()
            d.close()
            o.close()
            plain.close()


def t_policy_lowers_a_limit():
    """More of a body came than the new rules let pass: cut at once, not with the next bytes."""
    came = threading.Event()

    def serve(c):
        head, got = read_head(c)
        while got.count(b"z") < 5000:
            got += c.recv(65536)
        came.set()
        c.recv(1)

    def check(d, o):
        i = d.open((":method", "POST"), (":scheme", "http"), (":authority", "odd.example:80"), (":path", "/"))
        d.say("data", i, "z" * 5000)
        expect(came.wait(DEADLINE), "no body")
        ack = d.policy(rules([("odd.example", o.port, False)], ["allow web odd.example body max 1K"]))
        expect(ack["cut"] == 1, ack)
        r = d.result(i)
        expect(r.status == 403 and r.reason == "policy-changed", r)
    with_odd(serve, check, "allow web odd.example")


def t_policy_bad_ends():
    d = Door(BASE, CA)
    d.say("policy", d.policy_file("rules { allow nonsense }"))
    d.wait(lambda e: e["ev"] in ("gone", "link-broken"))
    d.close()


def t_backpressure():
    sent = {"n": 0}

    def serve(c):
        read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        c.settimeout(1)
        with contextlib.suppress(OSError):
            while True:
                sent["n"] += c.send(b"y" * 65536)

    def check(d, o):
        i = d.request("GET", "http", "odd.example:80", "/a")
        d.say("hold", i)
        d.head(i)
        end = time.monotonic() + DEADLINE
        last = -1
        while time.monotonic() < end and last != sent["n"]:
            last = sent["n"]
            o.errors or time.sleep(0.3)
        expect(sent["n"] < 16 << 20, "the origin was drained of %d bytes" % sent["n"])
        expect(SANITIZED or d.rss_kb("Rss") < 64000, "memory %d kB" % d.rss_kb("Rss"))
        # neighbours go on
        expect(d.get("http", "refused.example:80", "/").status == 403, "neighbour")
        d.say("reset", i)
        d.result(i)
    with_odd(serve, check)


def t_origins_that_do_not_read():
    """More uploads are stuck than the link's window holds; another one goes on."""
    done = threading.Event()

    def serve(c):
        read_head(c)
        done.wait(DEADLINE)

    o = Raw(serve)
    d = Door(rules(BASE_HOSTS + [("odd.example", o.port, False)], ["allow any odd.example:*", "allow web plain.example"]), CA)
    try:
        stuck = [d.request("POST", "http", "odd.example:80", "/", stream=True) for _ in range(24)]
        for i in stuck:
            d.say("fill", i, 16 << 20)
        i = d.request("POST", "http", "plain.example:80", "/upload", stream=True)
        d.say("fill", i, 40 << 20)
        d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and r.body.startswith("%d " % (40 << 20)), r)
        expect(SANITIZED or d.rss_kb() < 64 << 10, "memory: %d kB" % d.rss_kb())
        done.set()
        for i in stuck:
            d.say("reset", i)
            d.result(i)
        expect(d.get("http", "plain.example:80", "/small").status == 200, "serves on")
    finally:
        done.set()
        d.close()
        o.close()


def t_bulk(size=64 << 20):
    path = os.path.join(nginx.www, "big")
    h = hashlib.sha256()
    with open(path, "wb") as f:
        for k in range(size >> 20):
            block = hashlib.sha256(b"%d" % k).digest() * 32768
            h.update(block)
            f.write(block)
    for n in ("h1", "h2", "plain"):
        auth = n + (".example:80" if n == "plain" else ".example:443")
        scheme = "http" if n == "plain" else "https"
        t = time.monotonic()
        r = door.get(scheme, auth, "/big", deadline=300)
        took = time.monotonic() - t
        expect(r.total == size and r.sha256 == h.hexdigest(), "download %s: %s" % (n, r.total))
        t = time.monotonic()
        i = door.request("POST", scheme, auth, "/upload", stream=True)
        door.say("fill", i, size)
        door.say("end", i)
        r = door.result(i, 300)
        want = hashlib.sha256()
        for _ in range(size >> 20):
            want.update(b"x" * (1 << 20))
        expect(r.status == 200 and r.body == "%d %s" % (size, want.hexdigest()), r)
        print("# %s: down %.0f MB/s, up %.0f MB/s, private dirty %d kB" % (n, size / 1e6 / took, size / 1e6 / (time.monotonic() - t), door.rss_kb()))
        expect(SANITIZED or door.rss_kb() < 32 * 1024, "memory: %d kB" % door.rss_kb())
    os.unlink(path)


def t_sealed():
    with open("/proc/%d/status" % door.pid) as f:
        st = dict(l.split(":", 1) for l in f.read().splitlines() if ":" in l)
    expect(st["Seccomp"].strip() == "2" and st["NoNewPrivs"].strip() == "1" and int(st["CapEff"], 16) == 0 and int(st["CapBnd"], 16) == 0, st)
    if os.geteuid() == 0:
        expect(st["Uid"].split()[1] == "65534", st["Uid"])


def t_memory_at_rest():
    d = Door(BASE, CA)
    kb = d.rss_kb()
    print("# private dirty at rest: %d kB" % kb)
    expect(SANITIZED or kb < 3 * 1024, "%d kB" % kb)
    d.close()


for name, fn in sorted(((k, v) for k, v in globals().items() if k.startswith("t_")), key=lambda kv: kv[1].__code__.co_firstlineno):
    if len(sys.argv) > 3 and sys.argv[3] == "--large" and name == "t_bulk":
        tap(name[2:], lambda: t_bulk(2 << 30))
    elif len(sys.argv) > 4 and sys.argv[3] == "--only" and name != sys.argv[4]:
        continue
    else:
        tap(name[2:].replace("_", " "), fn)
door.close()
nginx.close()
sys.exit(tap.end())
