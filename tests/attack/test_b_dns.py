"""B4, B5: names. What no rule allows is answered without any upstream query; no record type, transport, spelling or resolver is a way
out; the address that a name leads to is judged at each dial. QUIC is refused at once, and ECH keys are never handed out."""
from attack import Origin, check, guest, rows_for
from world import Brome, Recorder, World, wait_for

RULES = """
        allow web { exact.example, moving.example, chain.example, two.example, v6.example }
        allow tcp moving.example:7000
        allow web .wide.example
        deny web 203.0.113.66
        allow web barred.example
        allow tls pass.example
        default deny
"""


def make_world():
    w = World()
    for n in ("exact.example", "pass.example", "shut.example", "x.wide.example"):
        w.dns.set(n, "203.0.113.20", "2001:db8::20")
    w.tls = Origin("203.0.113.20", 443, tls=w.server_tls("exact.example", "moving.example", "chain.example", "v6.example", "barred.example"))
    w.plain = Origin("203.0.113.20", 80)
    w.loop = [Origin("127.0.0.1", 80), Origin("127.0.0.1", 7000), Origin("::1", 80), Origin("::1", 7000)]
    w.b = Brome(w, "workspace s { rules { %s } }" % RULES)
    w.b("workspace", "start", "s", check=0)
    return w


DNS = r'''
A, NS, CNAME, SOA, NUL, PTR, MX, TXT, AAAA, SRV, NAPTR, OPT, DS, DNSKEY, SVCB, HTTPS, IXFR, AXFR, ANY, URI, CAA = 1, 2, 5, 6, 10, 12, 15, 16, 28, 33, 35, 41, 43, 48, 64, 65, 251, 252, 255, 256, 257
def wire(name):
    labels = name if isinstance(name, list) else name.encode("latin-1").split(b".") if name else []
    return b"".join(bytes([len(l) & 255]) + l for l in labels) + b"\0"
def query(name, qtype=A, qclass=1, flags=0x100, counts=(1, 0, 0, 0), rest=b"", raw=None):
    return struct.pack(">HHHHHH", 0x4242, flags, *counts) + (raw if raw is not None else wire(name)) + struct.pack(">HH", qtype, qclass) + rest
def parse(d):
    "rcode, truncated, answers, bytes"
    if d is None: return None
    flags, q, an = struct.unpack(">HHH", d[2:8])
    return {"rcode": flags & 15, "tc": bool(flags & 0x200), "answers": an, "n": len(d), "data": d.decode("latin-1"), "id": d[:2] == b"\x42\x42"}
def udp(q, server="10.88.0.1", port=53, timeout=8):
    s = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(timeout)
    s.connect((server, port))
    try:
        s.send(q)
        return parse(s.recv(65535))
    except OSError as e:
        return ending(e)
def tcp(q, server="10.88.0.1", port=53):
    r = talk(server, port, [struct.pack(">H", len(q)) + q], fin=True)
    d = r["data"].encode("latin-1")
    return parse(d[2:]) if len(d) > 14 else r["end"]
'''


def test_no_upstream_query_for_what_is_not_allowed(w):
    before = len(w.dns.queries)
    mark = w.sniffer.mark()
    names = ["shut.example", "data-1.exact.example", "aGVsbG8gd29ybGQ.exact.example", "a.b.c.d.e.f.exact.example", "evil-exact.example", "exact.example.evil.example", "xact.example", "exact",
             "exact.examplee", "wide.example.evil", "evilwide.example", "a" * 63 + "." + "b" * 63 + "." + "c" * 63 + ".exact.example", ".".join("d" * 40 for _ in range(5)) + ".shut.example",
             "moving.example.internal", "host", "metadata.internal", "exact.example.local", "_dns.resolver.arpa", "use-application-dns.net", "dns.google", "mask.icloud.com", "wpad", "_ldap._tcp.exact.example"]
    rows = guest(w.b, DNS + """
out = []
for n in NAMES:
    for t in (A, AAAA, TXT, NUL, CNAME, MX, SRV, HTTPS, SVCB, PTR, NS, SOA):
        out.append([n, t, udp(query(n, t))])
    out.append([n, "tcp", tcp(query(n))])
tell(out)
""", NAMES=names)
    check([r for r in rows if not isinstance(r[2], dict) or r[2]["rcode"] != 3 or r[2]["answers"]])
    assert len(w.dns.queries) == before, w.dns.queries[before:]
    assert not w.sniffer.since(mark, dst="203.0.113.53") and not w.sniffer.since(mark, proto=17)
    check(rows_for(w.b, [{"protocol": "dns", "host": n, "reason": "name-not-allowed"} for n in ("shut.example", "data-1.exact.example", "dns.google")]))


def test_an_allowed_name_is_not_asked_before_it_is_used(w):
    """A tunnel needs an upstream query per name: there is none even for allowed ones, and for other types never."""
    before = len(w.dns.queries)
    rows = guest(w.b, DNS + """
out = []
for n in ["exact.example", "EXACT.example", "eXaCt.ExAmPlE"] + ["t%d.wide.example" % i for i in range(200)]:
    out.append([n, A, udp(query(n))])
for t in (TXT, NUL, CNAME, MX, SRV, HTTPS, SVCB, NS, SOA, DS, DNSKEY, NAPTR, URI, CAA, 65535, 12345):
    out.append(["exact.example", t, udp(query("exact.example", t))])
for t in (ANY, AXFR, IXFR, OPT, 0):
    out.append(["exact.example", -t, udp(query("exact.example", t))])
    out.append(["exact.example", -t, tcp(query("exact.example", t))])
tell(out)
""")
    problems = []
    for n, t, r in rows:
        good = isinstance(r, dict) and r["id"] and ((r["rcode"] == 0 and r["answers"] == 1) if t == 1 else (r["rcode"] == 0 and not r["answers"]) if t > 1 else (r["rcode"] in (0, 1, 4, 5) and not r["answers"]))
        if not good:
            problems.append((n, t, r))
        if isinstance(r, dict) and "ech" in r["data"]:
            problems.append((n, t, "ECH", r))
    check(problems)
    assert len(w.dns.queries) == before, w.dns.queries[before:]


def test_malformed_and_odd_queries(w):
    before, mark = len(w.dns.queries), w.sniffer.mark()
    rows = guest(w.b, DNS + r"""
E = wire("exact.example")
q = {
 "empty": b"", "one byte": b"\x42", "header only": query("", raw=b"")[:12], "no question": struct.pack(">HHHHHH", 0x4242, 0x100, 0, 0, 0, 0),
 "two questions": query("exact.example", counts=(2, 0, 0, 0), rest=wire("shut.example") + b"\0\1\0\1"),
 "question says many": query("exact.example", counts=(65535, 0, 0, 0)),
 "compressed to itself": query("", raw=b"\xc0\x0c"), "compressed forward": query("", raw=b"\xc0\x40"), "compressed tail": query("", raw=b"\x05exact\xc0\x0c"),
 "label of 64": query("", raw=b"\x40" + b"a" * 64 + b"\0"), "reserved label": query("", raw=b"\x80a\0"), "no end": query("", raw=b"\x3fabc")[:-4],
 "name of 300": query(".".join(["a" * 60] * 5)), "answer set": query("exact.example", flags=0x8180), "opcode": query("exact.example", flags=0x2900), "update": query("exact.example", flags=0x2800),
 "class CH": query("version.bind", TXT, 3), "class ANY": query("exact.example", A, 255), "class 0": query("exact.example", A, 0),
 "answers in a query": query("exact.example", counts=(1, 1, 0, 0), rest=E + struct.pack(">HHIH", 1, 1, 60, 4) + b"\1\2\3\4"),
 "trailing": query("exact.example", rest=b"SMUGGLED" * 10), "EDNS version": query("exact.example", counts=(1, 0, 0, 1), rest=b"\0" + struct.pack(">HHIH", 41, 4096, 0x00010000, 0)),
 "two OPT": query("exact.example", counts=(1, 0, 0, 2), rest=(b"\0" + struct.pack(">HHIH", 41, 4096, 0, 0)) * 2), "OPT short": query("exact.example", counts=(1, 0, 0, 1), rest=b"\0\0\x29"),
 "label with a dot": query([b"exact.example"]), "label with NUL": query([b"exact\0", b"example"]), "NUL then more": query([b"exact", b"example\0.evil"]), "label with a space": query([b"exact ", b"example"]),
 "label with ESC": query([b"\x1b[31mexact", b"example"]), "label with newline": query([b"exact\n", b"example"]), "backslash": query([b"exact\\046example"]), "8 bits": query([b"ex\xe4ct", b"example"]),
 "empty label inside": query("", raw=b"\5exact\0\7example\0"), "underscore": query([b"_exact", b"example"]), "star": query([b"*", b"wide", b"example"]), "dash first": query([b"-x", b"wide", b"example"]),
}
tell({n: [udp(x) if x else "nothing", tcp(x)] for n, x in q.items()})
""")
    fine = {"class ANY"}
    problems = []
    for n, both in rows.items():
        for r in both:
            if r == "timeout" and n not in ("empty", "one byte", "header only", "answer set"):
                problems.append((n, "no answer", both))
            if isinstance(r, dict) and r["answers"] and n not in fine:
                problems.append((n, "answered", both))
    check(problems)
    assert len(w.dns.queries) == before and not w.sniffer.since(mark, proto=17)
    check(rows_for(w.b, [{"protocol": "dns", "reason": "dns-" + r} for r in ("short", "not-query", "questions", "name", "compressed", "class", "records", "trailing")]))
    assert w.b.sh("s", "dig +tries=1 +time=5 exact.example ANY | grep -c 'status: REFUSED'").stdout == "1\n"
    check(rows_for(w.b, [{"protocol": "dns", "host": "exact.example", "reason": "dns-any"}]))
    # Foreign text of names comes out escaped, in text and in JSON.
    text = w.b("trace", "ls", check=0).stdout
    assert "\x1b" not in text and "\x00" not in text


def test_other_resolvers_and_other_transports(w):
    """Port 53 of any address is the gate; DoT, DoQ, mDNS, LLMNR, NetBIOS and DoH to unnamed places are refused at once."""
    before, mark = len(w.dns.queries), w.sniffer.mark()
    rows = guest(w.b, DNS + """
out = {}
for s in ("203.0.113.53", "203.0.113.1", "2001:db8::53", "192.0.2.1", "127.0.0.53", "fd62:726f:6d65::1"):
    out["udp " + s] = udp(query("exact.example"), s)
    out["udp shut " + s] = udp(query("shut.example"), s)
    out["tcp " + s] = tcp(query("exact.example"), s)
for s, p in (("203.0.113.53", 853), ("203.0.113.53", 5353), ("203.0.113.53", 5355), ("203.0.113.53", 137), ("203.0.113.53", 8853), ("203.0.113.53", 784), ("203.0.113.53", 443), ("10.88.0.1", 853), ("10.88.0.1", 443)):
    out["closed udp %s %d" % (s, p)] = udp(query("exact.example"), s, p)
    out["closed tcp %s %d" % (s, p)] = tcp(query("exact.example"), s, p)
for g in (("224.0.0.251", 5353), ("224.0.0.252", 5355), ("239.255.255.250", 1900), ("255.255.255.255", 53), ("10.88.0.255", 137)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    try: s.sendto(query("shut.example"), g)
    except OSError: pass
tell(out)
""")
    problems = []
    for n, r in rows.items():
        if n.startswith("closed"):
            if r not in ("refused", "reset"):
                problems.append((n, r))
        elif "127.0.0.53" in n:
            if r not in ("refused", "reset") and not isinstance(r, dict):
                problems.append((n, r))
        elif not isinstance(r, dict) or (r["answers"] != 1 if "shut" not in n else r["rcode"] != 3):
            problems.append((n, r))
    check(problems)
    assert len(w.dns.queries) == before, w.dns.queries[before:]
    out = [p for p in w.sniffer.since(mark) if p["src"] != "127.0.0.1"]  # the sniffer's own marker
    assert not out, out[:5]


def test_quic_is_refused_at_once(w):
    """B4: a connected UDP socket sees the ICMP error, for allowed names too, over IPv4 and IPv6; nothing leaves."""
    mark = w.sniffer.mark()
    rows = guest(w.b, """
out = []
for host in ("exact.example", "pass.example", "x.wide.example", "203.0.113.20", "2001:db8::20"):
    for info in socket.getaddrinfo(host, 443, type=socket.SOCK_DGRAM):
        for port in (443, 80, 8443):
            s = socket.socket(info[0], socket.SOCK_DGRAM)
            s.settimeout(8)
            s.connect((info[4][0], port))
            t = time.monotonic()
            try:
                s.send(b"\\xc0\\0\\0\\0\\1" + b"\\0" * 1200)
                s.recv(10)
                r = "answered"
            except OSError as e:
                r = ending(e)
            out.append([host, info[4][0], port, r, time.monotonic() - t])
tell(out)
""")
    check([r for r in rows if r[3] != "refused" or r[4] > 5])
    assert {":" in r[1] for r in rows} == {True, False}
    assert not w.sniffer.since(mark, proto=17)
    check(rows_for(w.b, [{"protocol": "udp", "reason": "udp-443"}]))


FORBIDDEN = ["127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "169.254.169.254", "169.254.1.1", "169.254.170.2", "168.63.129.16", "100.100.100.200",
             "192.0.0.192", "198.18.1.0", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255", "10.88.0.1", "::1", "::", "::ffff:127.0.0.1", "::ffff:10.1.2.3", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1",
             "64:ff9b::a01:203", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a01:203", "2002:7f00:1::1", "2002:a01:203::1", "2002:a9fe:a9fe::1", "2001:0:a01:203::1", "fe80::1", "fc00::1", "fd00:ec2::254", "fd62:726f:6d65::1", "ff02::1",
             "fec0::1", "::ffff:0:a01:203", "100::1", "2001:db8::200:5efe:a01:203"]


def test_names_that_lead_inside(w):
    """Each forbidden address as what an allowed name resolves to, alone and beside a good one: never dialled, a clear answer, a line."""
    problems, mark = [], w.sniffer.mark()
    for i, a in enumerate(FORBIDDEN):
        w.dns.set(f"in{i}.wide.example", a)
        w.dns.set(f"cn{i}.wide.example", cname=f"target{i}.internal.example")
        w.dns.set(f"target{i}.internal.example", a)
    rows = guest(w.b, """
def run(i):
    get = lambda h: b"GET /INSIDE HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % h.encode()
    out = [i]
    for h in ("in%d.wide.example" % i, "cn%d.wide.example" % i):
        out.append(talk(h, 80, [get(h)], timeout=60))
    c = H2("in%d.wide.example" % i)
    out.append(c.wait(c.get("/INSIDE"), timeout=60))
    c.close()
    return out
tell(each(run, range(COUNT)))
""", COUNT=len(FORBIDDEN))
    for i, direct, via_cname, h2 in rows:
        for r in (direct, via_cname):
            if not r["data"].startswith("HTTP/1.1 403") or "(address-" not in r["data"]:
                problems.append((FORBIDDEN[i], r))
        if h2["status"] != 403:
            problems.append((FORBIDDEN[i], "h2", h2))
    check(problems)
    inside = [p for p in w.sniffer.since(mark) if p["dst"] not in ("203.0.113.53",) and p["src"] != "203.0.113.53" and p["proto"] in (6, 17) and p["dport"] in (80, 443)]
    assert not inside, inside[:5]
    check(rows_for(w.b, [{"host": "in0.wide.example", "reason": "address-forbidden"}, {"host": "in4.wide.example", "reason": "address-private"}], get=lambda b: b.trace()))


def test_rebinding(w):
    """The name's address changes to the loopback between two requests: what is dialled is judged each time."""
    count, flip = [0], [False]

    def answer():
        count[0] += 1
        return ("127.0.0.1", "::1") if flip[0] else ("203.0.113.20", "2001:db8::20")
    w.dns.table["moving.example"] = ((answer,), None)
    raw = Recorder("203.0.113.20", 7000, answer=lambda c, d: c.sendall(b"raw\n") and False)
    script = """
g = b"GET /%s HTTP/1.1\\r\\nHost: moving.example\\r\\nConnection: close\\r\\n\\r\\n"
tell([talk("moving.example", 80, [g % WORD]), talk("moving.example", 7000, [WORD], until=b"raw")])
"""
    first = guest(w.b, script, WORD=b"first")
    assert first[0]["data"].startswith("HTTP/1.1 200") and first[1]["data"] == "raw\n", first
    flip[0], asked = True, count[0]
    wait_for("the name to be asked again", lambda: guest(w.b, script, WORD=b"REBOUND") and count[0] > asked)
    seen, before = guest(w.b, script, WORD=b"REBOUND"), raw.connections
    # Over HTTP a kept connection to the address that was judged may still serve; a new dial may not.
    assert seen[0]["data"].startswith(("HTTP/1.1 403", "HTTP/1.1 200")) and not seen[1]["data"] and seen[1]["end"] in ("reset", "eof"), seen
    assert raw.connections == before
    assert not any(o.connections for o in w.loop), "reached the loopback"
    check(rows_for(w.b, [{"host": "moving.example", "reason": "address-forbidden"}], get=lambda b: b.trace()))


def test_mixed_answers_and_denied_addresses(w):
    """One good and one bad address: the good one serves, the bad one sees nothing. A deny by address wins over an allowed name."""
    w.dns.set("two.example", "127.0.0.1", "203.0.113.20", "10.0.0.1")
    w.dns.set("v6.example", "::1", "2001:db8::20")
    w.dns.set("barred.example", "203.0.113.66")
    w.dns.set("chain.example", cname="link.example")
    w.dns.set("link.example", "203.0.113.20")
    barred = Origin("203.0.113.66", 80)
    w.plain6 = Origin("2001:db8::20", 80)
    mark = w.sniffer.mark()
    rows = guest(w.b, """
g = lambda h: b"GET /mixed HTTP/1.1\\r\\nHost: %s\\r\\nConnection: close\\r\\n\\r\\n" % h.encode()
tell({h: talk(h, 80, [g(h)]) for h in ("two.example", "v6.example", "barred.example", "chain.example")})
""")
    assert rows["chain.example"]["data"].startswith("HTTP/1.1 200"), rows
    for h in ("two.example", "v6.example"):
        assert rows[h]["data"][9:12] in ("200", "403"), rows[h]
    assert rows["barred.example"]["data"].startswith("HTTP/1.1 403"), rows["barred.example"]
    assert not w.sniffer.since(mark, dst="203.0.113.66") and not w.sniffer.since(mark, dst="10.0.0.1")
    assert not barred.connections and not any(o.connections for o in w.loop)
