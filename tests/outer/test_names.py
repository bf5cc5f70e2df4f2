#!/usr/bin/env python3
"""Names and addresses: a DNS server of our own behind a resolv.conf of our own, in mount and network namespaces of our own.
Usage: test_names.py DRIVER DOOR (as root; skips otherwise)"""
import ctypes, os, struct, sys

if os.environ.get("OUTER_NS") != "1":
    if os.geteuid() != 0:
        print("1..0 # SKIP needs root for namespaces of its own")
        sys.exit(0)
    os.environ["OUTER_NS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", "--propagation", "private", sys.executable] + sys.argv)

from outer import *

etc = tempfile.mkdtemp(prefix="outer-etc-")
os.chmod(etc, 0o755)
run("ip", "link", "set", "lo", "up")
for a in ("203.0.113.7/32", "203.0.113.8/32", "10.9.8.7/32"):
    run("ip", "addr", "add", a, "dev", "lo")
run("ip", "addr", "add", "2001:db8::7/128", "dev", "lo")


def write(name, text):
    path = os.path.join(etc, name)
    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


write("resolv.conf", "nameserver 127.0.0.1\nsearch corp.example\n")
write("hosts", "127.0.0.1 localhost\n203.0.113.7 hosted.t.example\n10.0.0.1 hosted-private.t.example\n")
# The whole folder is ours, so that a replaced file is seen; resolv.conf is a link into it, as resolved and NetworkManager have it.
base = "/run/outer-test-%d" % os.getpid()
os.mkdir(base)
run("mount", "--bind", etc, base)
for name in ("resolv.conf", "hosts"):
    target = os.path.join("/etc", name)
    upper = os.path.join(etc, "link-" + name)
work = tempfile.mkdtemp(prefix="outer-ovl-")
run("mount", "-t", "tmpfs", "tmpfs", work)
os.mkdir(work + "/u"), os.mkdir(work + "/w")
run("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/etc,upperdir=%s/u,workdir=%s/w" % (work, work), "/etc")
for name in ("resolv.conf", "hosts"):
    with contextlib.suppress(FileNotFoundError):
        os.unlink("/etc/" + name)
    os.symlink(os.path.join(base, name), "/etc/" + name)
os.unlink("/etc/hosts")
with open("/etc/hosts", "w") as f:
    f.write(open(os.path.join(etc, "hosts")).read())


class Dns:
    """Answers from a table: name → list of (type, value, ttl); records every question."""
    def __init__(self, host="127.0.0.1"):
        self.s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.s.bind((host, 53))
        self.table, self.asked, self.hook = {}, [], None
        threading.Thread(target=self.loop, daemon=True).start()

    @staticmethod
    def name(n):
        return b"".join(bytes([len(l)]) + l.encode() for l in n.split(".") if l) + b"\0"

    def loop(self):
        while True:
            q, a = self.s.recvfrom(4096)
            labels, i = [], 12
            while q[i]:
                labels.append(q[i + 1:i + 1 + q[i]].decode())
                i += q[i] + 1
            name, qtype = ".".join(labels).lower(), struct.unpack(">H", q[i + 1:i + 3])[0]
            self.asked.append((name, qtype))
            if self.hook:
                self.hook(name, qtype)
            question, answers, n, cur = q[12:i + 5], b"", 0, name
            entries = self.table.get(name)
            for _ in range(5):
                for t, v, ttl in self.table.get(cur) or []:
                    if t == "CNAME":
                        d = self.name(v)
                        answers += self.name(cur) + struct.pack(">HHIH", 5, 1, ttl, len(d)) + d
                        n += 1
                        nxt = v
                        break
                else:
                    break
                cur = nxt
            for t, v, ttl in self.table.get(cur) or []:
                want = {"A": 1, "AAAA": 28}[t]
                if want == qtype:
                    d = socket.inet_pton(socket.AF_INET if t == "A" else socket.AF_INET6, v)
                    answers += self.name(cur) + struct.pack(">HHIH", want, 1, ttl, len(d)) + d
                    n += 1
            rcode = 0 if entries is not None else 3
            self.s.sendto(q[:2] + struct.pack(">HHHHH", 0x8180 | rcode, 1, n, 0, 0) + question + answers, a)


dns = Dns()
tap = Tap()


def serve(c):
    while True:
        head, _ = read_head(c)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


class Listen80(Raw):
    def __init__(self, host):
        self.s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.s.bind((host, 80))
        self.s.listen(64)
        self.serve, self.tls, self.accepted, self.errors = serve, None, 0, []
        threading.Thread(target=self.loop, daemon=True).start()


public, public6, private, loop4 = Listen80("203.0.113.7"), Listen80("2001:db8::7"), Listen80("10.9.8.7"), Listen80("127.0.0.1")
dns.table = {
    "pub.t.example": [("A", "203.0.113.7", 1)],
    "pub6.t.example": [("AAAA", "2001:db8::7", 60)],
    "both.t.example": [("A", "203.0.113.7", 60), ("AAAA", "2001:db8::7", 60)],
    "half.t.example": [("A", "203.0.113.7", 60), ("AAAA", "2001:db8:dead::1", 60)],
    "priv.t.example": [("A", "10.9.8.7", 60)],
    "privok.t.example": [("A", "10.9.8.7", 60)],
    "loopok.t.example": [("A", "127.0.0.1", 60)],
    "cname.t.example": [("CNAME", "deep.t.example", 60)],
    "deep.t.example": [("CNAME", "priv.t.example", 60)],
    "cpub.t.example": [("CNAME", "pub.t.example", 60)],
    "empty.t.example": [],
    "mixed.t.example": [("A", "10.9.8.7", 60), ("A", "203.0.113.7", 60)],
    "denied.t.example": [("A", "203.0.113.8", 60)],
    "swap.t.example": [("A", "203.0.113.7", 60)],
}
BAD = {"loop": "127.0.0.1", "any": "0.0.0.0", "meta": "169.254.169.254", "cgnat": "100.64.1.1", "mcast": "224.0.0.1", "bcast": "255.255.255.255", "res": "240.0.0.1",
       "mapped": "::ffff:127.0.0.1", "six": "::1", "ula": "fd00:ec2::254", "nat64": "64:ff9b::7f00:1", "nat64p": "64:ff9b::a09:807", "sixto4": "2002:7f00:1::", "teredo": "2001:0:7f00:1::", "ll": "fe80::1",
       "compat": "::127.0.0.1", "isatap": "2001:db8::5efe:7f00:1"}
for k, v in BAD.items():
    dns.table["bad-%s.t.example" % k] = [("AAAA" if ":" in v else "A", v, 60)]

RULES = """table <evil> { 203.0.113.8 }
host privok.t.example { private ok }
host loopok.t.example { private ok }
rules {
 deny web <evil>
 allow web *.t.example
 allow tcp *.t.example:7000
 deny any corp.internal
 default deny
}"""
door = Door(RULES)
get = lambda n, path="/": door.get("http", n + ":80", path)


def t_public():
    for n, a in [("pub.t.example", "203.0.113.7"), ("pub6.t.example", "2001:db8::7"), ("cpub.t.example", "203.0.113.7"), ("half.t.example", "203.0.113.7"), ("hosted.t.example", "203.0.113.7")]:
        r = get(n)
        expect(r.status == 200 and r.head["brome-address"] == a, (n, r))
    expect(get("both.t.example").head["brome-address"] in ("2001:db8::7", "203.0.113.7"), "both")


def t_no_query_for_refused():
    dns.asked.clear()
    for i in [door.request("GET", "http", "secret-data.corp.internal:80", "/"), door.request("GET", "https", "x.refused.test:443", "/"),
              door.open((":method", "CONNECT"), (":authority", "tunnel.test:443"), ("brome-kind", "tcp")),
              door.open((":method", "CONNECT"), (":protocol", "connect-udp"), (":scheme", "https"), (":authority", "pub.t.example:53"), (":path", "/"))]:
        expect(door.result(i).status == 403, "refused")
    expect(get("pub6.t.example").status == 200, "sync")
    expect(dns.asked == [], dns.asked)


def t_no_search_domain():
    dns.asked.clear()
    r = get("nothere.t.example")
    expect(r.status == 502 and r.reason == "upstream-dns", r)
    expect({n for n, _ in dns.asked} == {"nothere.t.example"}, dns.asked)
    n = len(dns.asked)
    expect(get("nothere.t.example").reason == "upstream-dns" and len(dns.asked) == n, "negative answers are kept")
    expect(get("empty.t.example").reason == "upstream-dns", "no address")


def t_private():
    before = private.accepted, loop4.accepted
    for n in ("priv.t.example", "cname.t.example", "hosted-private.t.example"):
        r = get(n)
        expect(r.status == 403 and r.reason == "address-private" and "host %s { private ok }" % n in r.detail, (n, r))
        rec = door.wait(lambda e: e["ev"] == "record" and e["host"] == n)
        expect(rec["reason"] == "address-private" and rec["door"] == "outer", rec)
    expect(get("privok.t.example").status == 200, "private ok")
    r = get("loopok.t.example")
    expect(r.status == 403 and r.reason == "address-forbidden" and "address 127.0.0.1" in r.detail, r)
    expect((private.accepted, loop4.accepted) == (before[0] + 1, before[1]), "somebody was dialled")
    r = get("localhost")
    expect(r.status == 403, r)


def t_bad_addresses():
    before = private.accepted, loop4.accepted
    for k in BAD:
        r = get("bad-%s.t.example" % k)
        expect(r.status == 403 and r.reason in ("address-private", "address-forbidden"), (k, r))
        r = door.result(door.open((":method", "CONNECT"), (":authority", "bad-%s.t.example:7000" % k), ("brome-kind", "tcp")))
        expect(r.status == 403 and r.reason.startswith("address-"), (k, r))
    expect((private.accepted, loop4.accepted) == before, "somebody was dialled")


def t_mixed_dials_only_public():
    before = private.accepted
    r = get("mixed.t.example")
    expect(r.status == 200 and r.head["brome-address"] == "203.0.113.7" and private.accepted == before, r)


def t_deny_by_address():
    r = get("denied.t.example")
    expect(r.status == 403 and r.reason == "rule-deny", r)


def t_rebinding():
    """The address that was checked is the one that is dialled, also when the name moves between."""
    before = private.accepted
    dns.table["rebind.t.example"] = [("A", "203.0.113.7", 0)]
    r = get("rebind.t.example")
    expect(r.status == 200, r)
    dns.table["rebind.t.example"] = [("A", "10.9.8.7", 0)]
    for k in range(5):
        r = get("rebind.t.example", "/%d" % k)
        expect(r.status == 200 and r.head["brome-address"] == "203.0.113.7", r)
    d = Door(RULES)
    r = d.get("http", "rebind.t.example:80", "/")
    expect(r.status == 403 and r.reason == "address-private", r)
    d.close()
    expect(private.accepted == before, "rebound")


def t_follow_resolv_conf():
    second = Dns("127.0.0.2")
    second.table = {"moved.t.example": [("A", "203.0.113.7", 60)]}
    expect(get("moved.t.example").reason == "upstream-dns", "before")
    write("resolv.conf", "nameserver 127.0.0.2\n")
    r = get("moved.t.example")
    expect(r.status == 200, r)
    write("resolv.conf", "nameserver 127.0.0.1\n")
    expect(get("pub.t.example").status == 200, "back")


def t_literals():
    d = Door("rules { allow web 203.0.113.7; allow web 127.0.0.1; allow web 10.9.8.0/24; allow tcp any:7000; default deny }")
    for a, status in [("203.0.113.7", 200), ("127.0.0.1", 200), ("10.9.8.7", 200), ("203.0.113.8", 403)]:
        r = d.get("http", a + ":80", "/")
        expect(r.status == status, (a, r))
    for a in ("10.9.8.7", "127.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.9.8.7]"):
        r = d.result(d.open((":method", "CONNECT"), (":authority", a + ":7000"), ("brome-kind", "tcp")))
        expect(r.status == 403 or r.code, (a, r))
    d.close()


def t_ping():
    d = Door("rules { allow icmp pub.t.example; default deny }")
    i = d.open((":method", "CONNECT"), (":protocol", "brome-icmp"), (":scheme", "https"), (":authority", "pub.t.example:1"), (":path", "/"))
    h = d.head(i)
    if h[":status"] != "200":
        expect("ping_group_range" in h["brome-detail"], h)
        with open("/proc/sys/net/ipv4/ping_group_range", "w") as f:
            f.write("0 2147483647")
        d.result(i)
        i = d.open((":method", "CONNECT"), (":protocol", "brome-icmp"), (":scheme", "https"), (":authority", "pub.t.example:1"), (":path", "/"))
        h = d.head(i)
    expect(h[":status"] == "200", h)
    d.say("data", i, "%00%09%00%12%34%00%07ping")
    got = ""
    while len(got) < 11:
        e = d.wait(lambda e: e["ev"] == "data" and e["id"] == i)
        got += e["text"] if not e["text"].startswith("hex:") else bytes.fromhex(e["text"][4:]).decode("latin-1")
    expect(got == "\0\x09\0\x12\x34\0\x07ping", repr(got))
    d.close()


def t_proxy():
    seen = []

    def proxy(c):
        head, rest = read_head(c)
        seen.append(head)
        if "secret.t.example" in head.split("\r\n")[0]:
            c.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        host, port = head.split()[1].rsplit(":", 1)
        up = socket.create_connection(("203.0.113.7", 80))
        c.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")

        def pump(a, b):
            with contextlib.suppress(OSError):
                while True:
                    x = a.recv(65536)
                    if not x:
                        break
                    b.sendall(x)
        t = threading.Thread(target=pump, args=(up, c), daemon=True)
        t.start()
        pump(c, up)
    o = Raw(proxy)
    dns.asked.clear()
    d = Door(RULES, proxy="http://user:pa%%73s@127.0.0.1:%d/" % o.port, no_proxy="pub6.t.example,.direct.t.example, 10.0.0.0/8")
    r = d.get("http", "anything.t.example:80", "/x")
    expect(r.status == 200 and r.head["brome-address"] == "unchecked", r)
    import base64
    expect("CONNECT anything.t.example:80 HTTP/1.1" in seen[0] and base64.b64encode(b"user:pass").decode() in seen[0], seen)
    expect(dns.asked == [], dns.asked)
    r = d.get("http", "secret.t.example:80", "/")
    expect(r.status == 502 and r.reason == "upstream-proxy" and "407" in r.detail and "pass" not in r.detail, r)
    expect(d.get("http", "pub6.t.example:80", "/").head["brome-address"] == "2001:db8::7", "no_proxy")
    d.close()


for name, fn in sorted(((k, v) for k, v in globals().items() if k.startswith("t_")), key=lambda kv: kv[1].__code__.co_firstlineno):
    tap(name[2:].replace("_", " "), fn)
door.close()
sys.exit(tap.end())
