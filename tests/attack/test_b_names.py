"""B1–B3, B6, B7: one story about whose name it is. Flow, SNI, Host, :authority, target and the dialled address agree, or the request is
refused with 421 and journaled, and the world sees nothing of it."""
from attack import Origin, check, guest, rows_for
from world import Brome, Recorder, World

NAMES = ("one.example", "two.example", "shut.example", "xn--bcher-kva.example", "slow.example")
RULES = """
        allow web { one.example, two.example, xn--bcher-kva.example }
        allow web odd.example:8443
        allow tls pass.example
        allow tcp raw.example:7000
        allow web 203.0.113.40
        allow web [2001:db8::40]
        default deny
"""


def make_world():
    w = World()
    # Every name, allowed or not, leads to one address: a CDN. What an origin there gets is kept.
    for n in NAMES + ("odd.example", "evil.example", "pass.example", "other.example", "raw.example", "raw2.example"):
        w.dns.set(n, "203.0.113.20", "2001:db8::20")
    tls = w.server_tls(*NAMES, "odd.example", "evil.example", "pass.example", "other.example")
    w.tls, w.plain, w.odd = Origin("203.0.113.20", 443, tls=tls), Origin("203.0.113.20", 80), Origin("203.0.113.20", 8443, tls=tls)
    w.raw = Recorder("203.0.113.20", 7000, answer=lambda c, d: c.sendall(b"raw\n") and False)
    w.lit, w.lit_tls = Origin("203.0.113.40", 80), Origin("203.0.113.40", 443, tls=w.server_tls("203.0.113.40"))
    w.lit6 = Origin("2001:db8::40", 80)
    w.b = Brome(w, "workspace s { rules { %s } }" % RULES)
    w.b("workspace", "start", "s", check=0)
    return w


def origins(w):
    return (w.tls, w.plain, w.odd, w.lit, w.lit_tls, w.lit6)


def untouched(w, text):
    for o in origins(w):
        assert not o.saw(text), o.everything()[-1500:]


# Host values of a request that goes to one.example. None: no Host at all.
DIFFERENT = ["two.example", "evil.example", "shut.example", "one.example.evil.example", "evil.example.one.example", "sub.one.example", "example", "ne.example",
             "one.example:444", "one.example:80443", "one.example:0", "one.example:443:443", "one.example:", "one.example:0443", "one.example:+443", 
             "one.example, evil.example", "one.example evil.example", "evil.example, one.example", "evil.example@one.example", "one.example@evil.example", "user:pw@one.example",
             "[one.example]", "one.example]", "[::1]", "[2001:db8::20]", "203.0.113.20", "0xcb007114", "3405803796", "0313.0.0161.024", "203.113.20", "127.0.0.1", "localhost",
             "one.example/", "one.example/evil", "one.example?evil", "one.example#@evil.example", "one.example\\evil.example", "one.example%2eevil.example", "one%2eexample", "//one.example",
             "http://one.example", "one..example", ".one.example", "one.example..", "-one.example", "one_example", "\u00f6ne.example", "one\u3002example\u3002evil", "xn--bcher-kva.example",
             "*", "*.example", "a" * 64 + ".example", "a." * 130 + "example", "", " ", "one.example\t.evil.example"]
SAME = {80: ["one.example", "one.example\u3002", "\uff4fne.example", "ONE.EXAMPLE", "One.Example.", "one.example:80", "one.example.:80"], 443: ["one.example", "ONE.example", "one.example.", "one.example:443"]}

TALK = """
def run(job):
    label, port, secure, raw, sni = job
    return [label, talk("one.example", port, [raw.encode("utf-8") if isinstance(raw, str) else raw], use_tls=secure, sni=sni, verify=sni == "")]
tell(each(run, JOBS))
"""


def test_host_must_be_the_flows(w):
    jobs = []
    for port, secure in ((80, False), (443, True)):
        for h in DIFFERENT:
            if port == 80 and h == "one.example:":
                continue
            jobs.append((f"Host {h!r} {port}", port, secure, f"GET /H1-OTHER HTTP/1.1\r\nHost: {h}\r\n\r\n", ""))
            absolute = h.strip()
            if absolute and "/" not in absolute and " " not in absolute and "\t" not in absolute and "?" not in absolute:
                scheme = "https" if secure else "http"
                jobs.append((f"absolute {h!r} {port}", port, secure, f"GET {scheme}://{absolute}/H1-OTHER HTTP/1.1\r\nHost: one.example\r\n\r\n", ""))
                jobs.append((f"absolute one, Host {h!r} {port}", port, secure, f"GET {scheme}://one.example/H1-OTHER HTTP/1.1\r\nHost: {h}\r\n\r\n", ""))
                jobs.append((f"CONNECT {h!r} {port}", port, secure, f"CONNECT {absolute}:443 HTTP/1.1\r\nHost: {h}\r\n\r\nH1-OTHER", ""))
                jobs.append((f"1.0 absolute {h!r} {port}", port, secure, f"GET {scheme}://{absolute}/H1-OTHER HTTP/1.0\r\n\r\n", ""))
        other = "http" if secure else "https"
        jobs += [(f"absolute, other scheme {port}", port, secure, f"GET {other}://one.example/H1-OTHER HTTP/1.1\r\nHost: one.example\r\n\r\n", ""),
                 (f"absolute, ftp {port}", port, secure, "GET ftp://one.example/H1-OTHER HTTP/1.1\r\nHost: one.example\r\n\r\n", ""),
                 (f"absolute, no host {port}", port, secure, "GET http:///H1-OTHER HTTP/1.1\r\nHost: one.example\r\n\r\n", ""),
                 (f"absolute, file {port}", port, secure, "GET file:///etc/passwd HTTP/1.1\r\nHost: one.example\r\n\r\n", ""),
                 (f"network path {port}", port, secure, "GET //evil.example/H1-OTHER HTTP/1.1\r\nHost: one.example\r\n\r\n", ""),
                 (f"CONNECT its own {port}", port, secure, f"CONNECT one.example:{port} HTTP/1.1\r\nHost: one.example:{port}\r\n\r\nH1-OTHER", ""),
                 (f"1.0 without Host {port}", port, secure, "GET /H1-OTHER HTTP/1.0\r\n\r\n", ""),
                 (f"X-Forwarded-Host decides nothing {port}", port, secure, "GET /fine HTTP/1.1\r\nHost: one.example\r\nX-Forwarded-Host: evil.example\r\nX-Host: evil.example\r\nForwarded: host=evil.example\r\nConnection: close\r\n\r\n", "")]
    rows = guest(w.b, TALK, JOBS=jobs)
    problems, mismatch = [], 0
    for label, r in rows:
        if "decides nothing" in label:
            if not r["data"].startswith("HTTP/1.1 200"):
                problems.append((label, r))
            continue
        code = r["data"][9:12]
        if r["end"] != "eof" and not (r["end"] == "reset" and code):
            problems.append((label, "not closed", r))
        if code not in ("400", "421", "403", "414", "431"):
            problems.append((label, "not refused", r))
        mismatch += code == "421"
        # A well-formed other name is 421, not something else.
        if label.split(" ")[0] == "Host" and any(f"'{n}'" in label for n in ("two.example", "evil.example", "shut.example", "sub.one.example", "203.0.113.20", "[::1]", "one.example:444", "localhost")) and code != "421":
            problems.append((label, "not 421", r))
    check(problems)
    untouched(w, "H1-OTHER")
    assert not w.dns.asked("evil") and not w.dns.asked("shut") and not w.dns.asked("two.example")
    check(rows_for(w.b, [{"host": "one.example", "reason": "host-disagrees"}] * (mismatch // 4)))


def test_the_same_name_spelled_otherwise(w):
    jobs = [(f"{h} {port}", port, port == 443, f"GET /SAME HTTP/1.1\r\nHost: {h}\r\nConnection: close\r\n\r\n", "") for port, hosts in SAME.items() for h in hosts]
    jobs += [(f"absolute {h} {port}", port, port == 443, f"GET {'https' if port == 443 else 'http'}://{h}/SAME HTTP/1.1\r\nHost: one.example\r\nConnection: close\r\n\r\n", "") for port, hosts in SAME.items() for h in hosts]
    check([r for r in guest(w.b, TALK, JOBS=jobs) if not r[1]["data"].startswith("HTTP/1.1 200")])
    for o in (w.tls, w.plain):  # one spelling leaves, in origin form
        data = o.everything()
        assert b"GET /SAME HTTP/1.1" in data and b"\r\nhost: one.example\r\n" in data.lower() and b"ONE" not in data and b"example." not in data.replace(b"example.\r", b"?"), data[-900:]
        assert b"://" not in data


def test_authority_over_http2(w):
    values = [h for h in DIFFERENT if h.isascii()]
    rows = guest(w.b, """
def run(job):
    kind, value = job
    t = time.monotonic()
    c = H2("one.example")
    f = [(":method","GET"),(":scheme","https"),(":authority", value if kind == "authority" else "one.example"),(":path","/H2-OTHER")]
    if kind == "host":
        f.append(("host", value))
    if kind == "host only":
        f = f[:2] + f[3:] + [("host", value)]
    if kind == "CONNECT":
        f = [(":method","CONNECT"),(":authority", value + ":443")]
    r = c.wait(c.head(f))
    c.close()
    return [kind, value, r, time.monotonic() - t]
tell(each(run, [[k, v] for v in VALUES for k in ("authority", "host", "host only", "CONNECT")]))
""", VALUES=values)
    problems = [(k, v, r, t) for k, v, r, t in rows if t > 15 or r["status"] not in (400, 421, 403) and not (r["status"] is None and r["end"].startswith(("rst", "goaway")))]
    problems += [(k, v, "not 421", r) for k, v, r, t in rows if k != "CONNECT" and v in ("two.example", "evil.example", "shut.example", "203.0.113.20") and r["status"] != 421]
    check(problems)
    untouched(w, "H2-OTHER")


def test_coalescing(w):
    """B3: a connection opened for one name asks for another, allowed or not, at the same address: 421, so that the client opens its own."""
    rows = guest(w.b, """
out = []
for host in ("one.example", "xn--bcher-kva.example"):
    c = H2(host)
    for other in ("two.example", "evil.example", "shut.example", "one.example:8443", host):
        out.append([host, other, c.wait(c.get("/COALESCED" if other != host else "/own", host=other))])
    c.close()
tell(out)
""")
    for host, other, r in rows:
        assert r["status"] == (200 if host == other else 421) and r["end"] == "end", (host, other, r)
    untouched(w, "COALESCED")
    assert not w.dns.asked("evil") and not w.dns.asked("shut")


def test_sni(w):
    """B1, B2: no SNI, another's SNI, an address as SNI: refused before any handshake, and nothing is dialled."""
    before = w.tls.connections
    rows = guest(w.b, """
out = []
for sni in (None, "two.example", "evil.example", "shut.example", "sub.one.example", "xn--bcher-kva.example", "203.0.113.20", "localhost", "pass.example"):
    for alpn in (["h2"], ["http/1.1"], None):
        out.append([sni, talk("one.example", 443, [b"GET /SNI HTTP/1.1\\r\\nHost: one.example\\r\\n\\r\\n"], use_tls=True, sni=sni, alpn=alpn, verify=False)])
for sni in ("ONE.EXAMPLE", "One.example"):
    out.append([sni, talk("one.example", 443, [b"GET /fine HTTP/1.1\\r\\nHost: one.example\\r\\nConnection: close\\r\\n\\r\\n"], use_tls=True, sni=sni, verify=False)])
tell(out)
""")
    problems = []
    for sni, r in rows:
        good = sni in ("ONE.EXAMPLE", "One.example")
        if good != r["data"].startswith("HTTP/1.1 200") or (not good and r["end"] not in ("alert", "reset", "eof")):
            problems.append((sni, r))
    check(problems)
    untouched(w, "/SNI")
    assert w.tls.connections <= before + 1
    check(rows_for(w.b, [{"host": "one.example", "reason": "sni-missing"}, {"host": "one.example", "reason": "authority-mismatch"}]))


HELLO = """
def hello(sni, pad=0, extra=b"", alpn=()):
    import os
    def ext(n, b): return struct.pack(">HH", n, len(b)) + b
    e = b""
    if sni is not None:
        names = sni if isinstance(sni, list) else [sni]
        entries = b"".join(b"\\0" + struct.pack(">H", len(n)) + n.encode("latin-1") for n in names)
        e += ext(0, struct.pack(">H", len(entries)) + entries)
    e += ext(10, b"\\0\\x02\\0\\x17") + ext(11, b"\\1\\0") + ext(13, b"\\0\\4\\4\\3\\x08\\4")
    if pad:
        e += ext(21, b"\\0" * pad)
    e += extra
    body = b"\\3\\3" + os.urandom(32) + b"\\0" + b"\\0\\4\\xc0\\x2b\\xc0\\x2f" + b"\\1\\0" + struct.pack(">H", len(e)) + e
    return b"\\1" + struct.pack(">I", len(body))[1:] + body
def record(b): return b"\\x16\\3\\1" + struct.pack(">H", len(b)) + b
def records(b, n): return b"".join(record(b[i:i + n]) for i in range(0, len(b), n))
def cut(b, n): return [b[i:i + n] for i in range(0, len(b), n)]
def served(r):
    "The server's hello came back: a handshake record, not an alert."
    return r["data"][:1] == "\\x16"
def first(host, pieces, port=443, **kw):
    "What comes first back: the whole hello was accepted when it is a handshake record."
    try:
        s = connect(host, port)
        for p in pieces:
            s.sendall(p)
            if kw.get("pause"): time.sleep(kw["pause"])
        s.settimeout(PATIENCE)
        d = s.recv(5)
        return ["served" if d[:1] == b"\\x16" else "alert" if d[:1] == b"\\x15" else "eof" if not d else repr(d)]
    except OSError as e:
        return [ending(e)]
"""


def test_hellos_cut_padded_and_delayed(w):
    before = w.tls.connections
    rows = guest(w.b, HELLO + """
one, bad = hello("one.example"), hello("evil.example")
out = {}
for name, h in (("one", one), ("bad", bad)):
    out[name + " in segments of 1"] = first("one.example", cut(record(h), 1))
    out[name + " in segments of 7, slowly"] = first("one.example", cut(record(h), 7), pause=.01)
    out[name + " in records of 1"] = first("one.example", [records(h, 1)])
    out[name + " in records of 3, in segments of 2"] = first("one.example", cut(records(h, 3), 2))
    out[name + " record header apart"] = first("one.example", [record(h)[:5], record(h)[5:]], pause=.2)
pad = lambda n: hello("one.example", pad=n)
out["one padded 17 KB in records"] = first("one.example", [records(pad(17000), 16000)])
out["one padded 17 KB in small records"] = first("one.example", cut(records(pad(17000), 4000), 100))
out["bad padded 17 KB"] = first("one.example", [records(hello("evil.example", pad=17000), 16000)])
# The name behind the padding: nothing is decided before it was read.
late = lambda n: hello(None, pad=20000, extra=struct.pack(">HHHBH", 0, len(n) + 5, len(n) + 3, 0, len(n)) + n)
out["one behind the padding"] = first("one.example", [records(late(b"one.example"), 16000)])
out["bad behind the padding"] = first("one.example", [records(late(b"evil.example"), 16000)])
out["bad two names"] = first("one.example", [record(hello(["one.example", "evil.example"]))])
out["bad two names, other order"] = first("one.example", [record(hello(["evil.example", "one.example"]))])
out["bad two extensions"] = first("one.example", [record(hello("one.example", extra=struct.pack(">HHHBH", 0, 17, 15, 0, 12) + b"evil.example"))])
out["bad name with NUL"] = first("one.example", [record(hello("one.example\\0.evil.example"))])
out["bad name with a space"] = first("one.example", [record(hello("one.example "))])
out["bad name with a slash"] = first("one.example", [record(hello("one.example/"))])
out["bad empty name"] = first("one.example", [record(hello(""))])
out["bad underline"] = first("one.example", [record(hello("one.example\\n"))])
out["bad none"] = first("one.example", [record(hello(None))])
out["bad record of 20000"] = first("one.example", [b"\\x16\\3\\1" + struct.pack(">H", 20000) + b"\\1" + b"a" * 20000])
out["bad length beyond"] = first("one.example", [record(one[:1] + b"\\xff\\xff\\xff" + one[4:] + b"a" * 9000)] + [record(b"a" * 16000)] * 5)
out["bad empty records"] = first("one.example", [record(b"") * 5000])
out["bad alert first"] = first("one.example", [b"\\x15\\3\\1\\0\\2\\1\\0"])
out["bad application data first"] = first("one.example", [b"\\x17\\3\\3\\0\\5hello"])
out["bad SSLv2"] = first("one.example", [b"\\x80\\x2e\\1\\0\\2\\0\\x15\\0\\0\\0\\x10" + b"\\1\\0\\x80" * 7 + b"c" * 16])
out["bad SSLv3"] = first("one.example", [b"\\x16\\3\\0" + struct.pack(">H", len(one)) + one[:4] + b"\\3\\0" + one[6:]])
# TLS on port 80 of a web rule is TLS all the same; the name decides.
out["one on 80"] = first("one.example", [record(one)], port=80)
out["bad on 80"] = first("one.example", [record(bad)], port=80)
out["bad half a hello, then gone"] = ["eof"]
tell(out)
""")
    problems = []
    for name, r in rows.items():
        if name.startswith("one") and r != ["served"] or name.startswith("bad") and r[0] not in ("alert", "eof", "reset"):
            problems.append((name, r))
    check(problems)
    assert w.tls.connections == before, "a hello alone made the gate dial"
    assert not w.dns.asked("evil")


def test_silence_and_delay(w):
    """A client that says nothing, or stops in the hello, on a web rule: told within the classification's deadline, nothing dialled."""
    mark = w.tls.connections, w.plain.connections
    rows = guest(w.b, HELLO + """
jobs = [(443, []), (80, []), (443, [record(hello("one.example"))[:60]]), (443, [b"\\x16"]), (80, [b"P"]), (443, [b"PRI * HTTP/2.0\\r\\n"])]
tell(each(lambda j: [j[0], repr(j[1])[:40], talk("one.example", j[0], j[1], timeout=90)], jobs, 8))
""")
    check([r for r in rows if r[2]["end"] not in ("eof", "reset")])
    assert (w.tls.connections, w.plain.connections) == mark
    check(rows_for(w.b, [{"host": "one.example", "reason": "classify-timeout"}] * 3))


def test_plain_http_on_443_and_tls_on_80(w):
    """B2: each is what it is; the scheme of a rule's port does not turn it into the other."""
    rows = guest(w.b, """
get = b"GET /CROSSED HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n"
tell([talk("one.example", 443, [get % b"one.example"]), talk("one.example", 443, [get % b"one.example:443"]), talk("one.example", 443, [get % b"evil.example"]),
      talk("one.example", 80, [get % b"one.example"], use_tls=True), talk("one.example", 80, [get % b"one.example:80"], use_tls=True)])
""")
    # Nothing answers TLS on the stand-in's port 80 nor plain HTTP on 443, so the best that can come is 502; a plain request never comes out encrypted nor the reverse.
    for r in rows:
        assert r["end"] in ("eof", "reset") and r["data"][9:12] in ("400", "421", "502"), r
    assert not w.plain.saw("CROSSED") and not w.tls.saw("CROSSED")


def test_two_names_on_one_address(w):
    """B6: an allowed name's neighbour on the same address stays shut: by TLS, by HTTP, by raw TCP."""
    before = (w.tls.connections, w.plain.connections, w.raw.connections)
    rows = guest(w.b, """
out = []
def at(name, port):
    try:
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][4][0]
    except OSError as e:
        return "no name"
out.append(["names", [at(n, 443) for n in ("shut.example", "other.example", "evil.example", "raw2.example")]])
for name, port in (("one.example", 7000), ("one.example", 8443), ("raw.example", 443), ("raw.example", 80), ("raw.example", 7001), ("odd.example", 443), ("pass.example", 80), ("pass.example", 7000)):
    out.append([name + ":%d" % port, talk(name, port, [b"GET /NEIGHBOUR HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % name.encode()])])
# The real address itself, which the guest may know from elsewhere.
for a in ("203.0.113.20", "2001:db8::20"):
    for port in (80, 443, 7000):
        out.append([a + " %d" % port, talk(a, port, [b"GET /NEIGHBOUR HTTP/1.1\\r\\nHost: one.example\\r\\n\\r\\n"])])
    out.append([a + " tls", talk(a, 443, [b"GET /NEIGHBOUR HTTP/1.1\\r\\nHost: one.example\\r\\n\\r\\n"], use_tls=True, sni="one.example", verify=False)])
tell(out)
""")
    problems = []
    for label, r in rows:
        if label == "names":
            if set(r) != {"no name"}:
                problems.append((label, r))
        elif r["end"] not in ("reset", "refused", "eof") or r["data"]:
            problems.append((label, r))
    check(problems)
    assert (w.tls.connections, w.plain.connections, w.raw.connections) == before
    assert guest(w.b, 'tell(talk("raw.example", 7000, [b"hi"], until=b"raw"))')["data"] == "raw\n"


def test_synthetic_addresses_are_names(w):
    """An address of the workspace's own that belongs to another name, or to none, is that name and no other."""
    rows = guest(w.b, """
one, two = (socket.getaddrinfo(n, 443, socket.AF_INET, socket.SOCK_STREAM)[0][4][0] for n in ("one.example", "two.example"))
get = b"GET /SWAPPED HTTP/1.1\\r\\nHost: one.example\\r\\nConnection: close\\r\\n\\r\\n"
tell([talk(two, 80, [get]), talk(two, 443, [get], use_tls=True, sni="one.example", verify=False), talk(two, 443, [get], use_tls=True, sni="two.example", verify=False),
      talk("198.18.200.200", 80, [get]), talk("198.19.255.255", 443, [get]), talk("fd62:726f:6d65:1::ffff", 80, [get]), talk("198.18.0.1", 80, [get])])
""")
    assert rows[0]["data"][9:12] == "421" and rows[1]["end"] == "alert" and rows[2]["data"][9:12] == "421", rows
    assert all(r["end"] in ("reset", "refused") and not r["data"] for r in rows[3:]), rows
    untouched(w, "SWAPPED")
    check(rows_for(w.b, [{"reason": "address-unknown"}] * 4))


def test_tls_rules(w):
    """B7: uninspected TLS: the SNI is the allowed name, the gate resolves it, ECH is refused, and nothing else is spliced."""
    before, mark = w.tls.connections, w.sniffer.mark()
    rows = guest(w.b, HELLO + """
out = {}
ech = struct.pack(">HH", 0xfe0d, 10) + b"\\0" * 10
for name, h in {"other name": hello("other.example"), "allowed elsewhere": hello("one.example"), "no name": hello(None), "ECH": hello("pass.example", extra=ech), "below": hello("a.pass.example"),
                "two names": hello(["pass.example", "other.example"])}.items():
    out[name] = first("pass.example", [record(h)])
    out[name + " cut"] = first("pass.example", cut(records(h, 5), 3))
out["http"] = first("pass.example", [b"GET /PASSED HTTP/1.1\\r\\nHost: pass.example\\r\\n\\r\\n"])
out["h2c"] = first("pass.example", [PREFACE + frame(SETTINGS, 0, 0)])
out["ssh"] = first("pass.example", [b"SSH-2.0-PASSED\\r\\n"])
out["garbage"] = first("pass.example", [b"\\0\\1\\2PASSED"])
tell(out)
""")
    check([(n, r) for n, r in rows.items() if r[0] not in ("alert", "eof", "reset")])
    assert w.tls.connections == before and not w.sniffer.since(mark, dst="203.0.113.20")
    assert not w.tls.saw("PASSED")
    # The right name passes, unseen: the origin's own certificate arrives.
    r = guest(w.b, 'tell(talk("pass.example", 443, [b"GET /through HTTP/1.1\\r\\nHost: pass.example\\r\\n\\r\\n"], use_tls=True, verify=False, until=b"/through"))')
    assert "200 OK" in r["data"] and w.tls.connections == before + 1, r
    check(rows_for(w.b, [{"host": "pass.example", "reason": r} for r in ("authority-mismatch", "sni-missing", "ech", "not-http-or-tls")]))


def test_server_first_on_a_web_rule(w):
    """B2: nobody waits for a server's greeting on a web rule; under a tcp rule the server may begin."""
    w.dns.set("greet.example", "203.0.113.30")
    greet = Recorder("203.0.113.30", 25, answer=lambda c, d: c.sendall(b"ok\n") and False)
    w.b.rules("s", "allow web greet.example:25\ndefault deny\n")
    try:
        r = guest(w.b, 'tell(each(lambda p: talk("greet.example", 25, p, timeout=60), [[], [b"EHLO x\\r\\n"], [b"\\r\\n"]]))')
        assert all(x["end"] in ("reset", "eof") and not x["data"] for x in r) and greet.connections == 0, r
    finally:
        w.b.rules("s", RULES)


def test_literal_addresses(w):
    """Literal flows: Host is that address and nothing else, TLS carries no name."""
    rows = guest(w.b, """
def go(a, host, port=80, **kw): return talk(a, port, [b"GET /LITERAL HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % host], verify=False, **kw)
tell({"good": go("203.0.113.40", b"203.0.113.40"), "good port": go("203.0.113.40", b"203.0.113.40:80"), "good 6": go("2001:db8::40", b"[2001:db8::40]"), "good 6 long": go("2001:db8::40", b"[2001:0DB8:0:0::40]:80"),
      "good tls": go("203.0.113.40", b"203.0.113.40", 443, use_tls=True, sni=None),
      "bad name": go("203.0.113.40", b"one.example"), "bad other": go("203.0.113.40", b"203.0.113.20"), "bad decimal": go("203.0.113.40", b"3405803816"), "bad octal": go("203.0.113.40", b"0313.0.0161.050"),
      "bad hex": go("203.0.113.40", b"0xcb.0.0x71.0x28"), "bad short": go("203.0.113.40", b"203.0.28968"), "bad dot": go("203.0.113.40", b"203.0.113.40.:81"), "bad mapped": go("203.0.113.40", b"[::ffff:203.0.113.20]"),
      "bad zone": go("2001:db8::40", b"[2001:db8::40%25eth0]"), "bad bare 6": go("2001:db8::40", b"2001:db8::40"), "bad sni": go("203.0.113.40", b"203.0.113.40", 443, use_tls=True, sni="one.example"),
      "bad sni address": go("203.0.113.40", b"one.example", 443, use_tls=True, sni="203.0.113.40")})
""")
    problems = [(n, r) for n, r in rows.items() if n.startswith("good") != r["data"].startswith("HTTP/1.1 200") or r["end"] not in ("eof", "alert", "reset")]
    check(problems)
    for o, n in ((w.lit, 2), (w.lit6, 2), (w.lit_tls, 1)):
        assert o.everything().count(b"GET /LITERAL") == n, o.everything()
    assert not w.plain.saw("LITERAL") and not w.tls.saw("LITERAL")
