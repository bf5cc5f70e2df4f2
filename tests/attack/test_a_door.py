"""Around the door (A1, A4): whatever the guest's root can put on a socket, to any address and port, and whatever a stronger guest could put on
the wire. Nothing is seen outside; what a sender could wait for is refused at once."""
import os
import signal
import socket
import struct
import time

from ground import GATE4, GATE6, GATE_MAC, GUEST4, GUEST6, GUEST_MAC, alive, both, guest, netns, quiet, tree, two
from world import World, wait_for

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\nworkspace bare { rules { default deny } }\n"

V4 = ["203.0.113.66", "203.0.113.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "198.18.7.7", "198.19.255.255", "8.8.8.8", "192.0.2.1",
      "10.88.0.3", GATE4, "240.0.0.1", "192.88.99.1"]
V6 = ["2001:db8::66", "2001:db8::1", "fd00::1", "64:ff9b::cb00:7142", "64:ff9b:1::cb00:7142", "2002:cb00:7142::1", "2001:0:cb00:7142::1", "::ffff:203.0.113.66",
      "::203.0.113.66", "fd62:726f:6d65:1::7777", "fd62:726f:6d65::3", GATE6, "2606:4700::1111", "fec0::1"]
GROUPS = ["255.255.255.255", "10.88.0.255", "224.0.0.1", "239.255.255.250", "ff02::1%eth0", "ff05::2%eth0", "ff02::fb%eth0"]


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    two(w, CONFIG)
    for b in (w.root, w.plain):
        b("workspace", "start", "s", check=0)
        alive(b)
    return w


TRY = r'''
import errno, json, select, socket, struct, time
def family(a): return socket.AF_INET6 if ":" in a else socket.AF_INET
def where(a, port): return socket.getaddrinfo(a, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0][4]
slow, odd = [], []
def told(what, fn, accept=()):
    """Runs fn; it has to fail, soon. What it returned instead of failing, or a wait, is told."""
    began = time.monotonic()
    try: r = fn()
    except OSError as e: r = errno.errorcode.get(e.errno, "timeout" if isinstance(e, TimeoutError) else repr(e))
    if time.monotonic() - began > 4 or r == "timeout": slow.append([what, r])
    elif not (isinstance(r, str) and r.startswith("E")) and r not in accept: odd.append([what, repr(r)])
def tcp(a, port, data=b"", options=()):
    s = socket.socket(family(a), socket.SOCK_STREAM); s.settimeout(5)
    try:
        for o in options: s.setsockopt(*o)
        s.connect(where(a, port))
        if data: s.sendall(data)
        return s.recv(100) or "EOF"
    finally: s.close()
def udp(a, port, data=b"x" * 32, options=()):
    s = socket.socket(family(a), socket.SOCK_DGRAM); s.settimeout(5)
    try:
        for o in options: s.setsockopt(*o)
        s.connect(where(a, port)); s.send(data)
        return s.recv(100)
    finally: s.close()
def echo(a):
    v6 = ":" in a
    s = socket.socket(family(a), socket.SOCK_DGRAM, 58 if v6 else 1); s.settimeout(5)
    try:
        s.setsockopt(socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP, 25 if v6 else 11, 1)
        s.connect(where(a, 0)); s.send(bytes([128 if v6 else 8, 0, 0, 0, 0, 1, 0, 1]) + b"ping")
        return s.recv(100)
    finally: s.close()
'''


@both
def test_every_address_is_refused_at_once(w, b):
    mark = w.sniffer.mark()
    out = guest(b, TRY + f'''
for a in {V4 + V6!r}:
    for port in (1, 22, 80, 443, 8080, 50880, 65535):
        told(["tcp", a, port], lambda: tcp(a, port))
    for port in (1, 67, 123, 443, 500, 4789, 5353, 50880):
        told(["udp", a, port], lambda: udp(a, port))
    told(["echo", a], lambda: echo(a))
print(json.dumps([slow, odd]))
''', timeout=300)
    assert not out[0], f"not refused but waited for: {out[0][:20]}"
    assert not out[1], out[1][:20]
    quiet(w, mark)
    alive(b)


@both
def test_groups_and_broadcast_go_nowhere(w, b):
    mark = w.sniffer.mark()
    guest(b, TRY + f'''
for a in {GROUPS!r}:
    for port in (5353, 1900, 67, 5355, 9, 547):
        s = socket.socket(family(a), socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        try: s.sendto(b"hello", where(a, port))
        except OSError: pass
    told(["tcp", a], lambda: tcp(a, 80))
print(json.dumps([slow, odd]))
''')
    quiet(w, mark)
    alive(b)


@both
def test_every_port_of_the_gateway(w, b):
    mark = w.sniffer.mark()
    out = guest(b, TRY + f'''
open_ports = set()
for a in ({GATE4!r}, {GATE6!r}):
    for port in [*range(1, 1100), *range(1100, 65536, 97), 50880, 65535]:
        if port == 53: continue
        told(["tcp", a, port], lambda: tcp(a, port))
        told(["udp", a, port], lambda: udp(a, port))
print(json.dumps([slow, odd]))
''', timeout=300)
    assert out == [[], []], out
    quiet(w, mark)
    alive(b)


# A socket option that changes what goes on the wire. Without a capability; each must be refused, not ignored.
OPTIONS = r'''
IP, V6 = socket.IPPROTO_IP, socket.IPPROTO_IPV6
rows = {
    "record route": [(IP, 4, b"\x07\x07\x04\0\0\0\0\0")],
    "time stamp": [(IP, 4, b"\x44\x08\x05\0\0\0\0\0")],
    "loose source route": [(IP, 4, b"\x83\x0b\x04" + socket.inet_aton("10.88.0.1") + socket.inet_aton("203.0.113.66") + b"\0")],
    "strict source route": [(IP, 4, b"\x89\x0b\x04" + socket.inet_aton("10.88.0.1") + socket.inet_aton("203.0.113.66") + b"\0")],
    "router alert": [(IP, 4, b"\x94\x04\0\0")],
    "no-op": [(IP, 4, b"\x01\x01\x01\0")],
    "ttl 1": [(IP, 2, 1)], "tos": [(IP, 1, 0xff)], "freebind": [(IP, 15, 1)], "dont fragment off": [(IP, 10, 0)], "mtu probe": [(IP, 10, 3)],
    "small segments": [(socket.IPPROTO_TCP, 2, 88)], "one device": [(socket.SOL_SOCKET, 25, b"eth0\0")],
    "no checksum": [(socket.SOL_SOCKET, 11, 1)], "fast open": [(socket.IPPROTO_TCP, 30, 1)], "priority": [(socket.SOL_SOCKET, 12, 6)],
}
rows6 = {
    "routing header 2": [(V6, 57, struct.pack("BBBBI", 0, 2, 2, 1, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::66"))],
    "routing header 0": [(V6, 57, struct.pack("BBBBI", 0, 2, 0, 1, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::66"))],
    "segment routing": [(V6, 57, struct.pack("BBBBBBH", 0, 2, 4, 0, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::66"))],
    "hop options": [(V6, 54, b"\0\0\x01\x04\0\0\0\0")], "destination options": [(V6, 59, b"\0\0\x01\x04\0\0\0\0")],
    "hop limit 1": [(V6, 16, 1)], "class": [(V6, 67, 255)], "fragments": [(V6, 24, 1280)], "dont fragment off": [(V6, 23, 0)], "flow label": [(V6, 33, 1)],
}
def with_options(kind, a, row):
    def go():
        try:
            s = socket.socket(family(a), socket.SOCK_DGRAM)
            for o in row: s.setsockopt(*o)
        except OSError as e: return "E-option " + str(e)
        return kind(a, 7000, options=row)
    return go
'''


@both
def test_options_that_change_the_packet(w, b):
    mark = w.sniffer.mark()
    out = guest(b, TRY + OPTIONS + '''
for a, table in (("203.0.113.66", rows), ("2001:db8::66", rows6)):
    for name, row in table.items():
        told(["tcp", name], with_options(tcp, a, row))
        told(["udp", name], with_options(udp, a, row))
for a in ("203.0.113.66", "2001:db8::66"):
    for size in (0, 1, 1472, 9000, 60000, 65470):
        told(["udp of", size, a], lambda: udp(a, 7000, b"x" * size))
# sources that are not the guest's: whoever sends so cannot be answered, and is not forwarded
for a, src, level, name in (("203.0.113.66", "203.0.113.9", IP, 15), ("203.0.113.66", "127.0.0.1", IP, 15), ("2001:db8::66", "2001:db8::9", V6, 78)):
    for port in (53, 7000):
        s = socket.socket(family(a), socket.SOCK_DGRAM); s.setsockopt(level, name, 1)
        try: s.bind((src, 0)); s.sendto(b"spoof", (a, port))
        except OSError: pass
print(json.dumps([slow, odd]))
''', timeout=300)
    assert not out[0], f"not refused but waited for: {out[0]}"
    assert not out[1], out[1]
    quiet(w, mark)
    alive(b)


@both
def test_sockets_that_do_not_exist_here(w, b):
    out = guest(b, '''
import json, socket
made = []
for family in range(0, 50):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        for proto in (0, 1, 2, 4, 6, 12, 16, 17, 33, 41, 46, 47, 50, 58, 89, 103, 115, 132, 136, 137, 253, 255, 256, 262, 768):
            try: s = socket.socket(family, kind, proto)
            except OSError: continue
            made.append((family, kind, proto)); s.close()
print(json.dumps(made))
''')
    allowed = {(1, k, p) for k in (1, 2, 3, 5) for p in (0, 1)} | {(f, 1, p) for f in (2, 10) for p in (0, 6)}
    allowed |= {(f, 2, p) for f in (2, 10) for p in (0, 17)} | {(2, 2, 1), (10, 2, 58)} | {(16, k, 0) for k in (2, 3)}
    assert {tuple(m) for m in out} <= allowed, {tuple(m) for m in out} - allowed


@both
def test_names_outside_the_rules(w, b):
    mark, before = w.sniffer.mark(), len(w.dns.queries)
    hosts = ["evil.example", "xn--evil-abc.example", "a.allowed.example", "allowed.example.evil.example", "localhost", "localhost.localdomain", "_dns.resolver.arpa", "0", "0x7f.1", "2130706433",
             "017700000001", "127.1", "0.0.0.0", "3405803842", "0xcb007142", "[::ffff:203.0.113.66]", "[64:ff9b::cb00:7142]", "[::]", "203.0.113.66.", "cb007142.nip.io", "metadata.google.internal"]
    for host in hosts:
        for scheme in ("http", "https"):
            began = time.monotonic()
            p = b.sh("s", f"curl -sS -k -m 30 '{scheme}://{host}/' && echo REACHED")
            assert p.returncode and "REACHED" not in p.stdout, (host, p.stdout)
            assert time.monotonic() - began < 15 and p.returncode != 28, f"{scheme}://{host}: not refused but waited for"
    quiet(w, mark)
    assert len(w.dns.queries) == before, w.dns.queries[before:]


# --- on the wire: what no guest of this kind can send, but a stronger one could ---

def checksum(data):
    data += b"\0" * (len(data) % 2)
    s = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while s >> 16:
        s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


def ip4(proto, body, src=GUEST4, dst="203.0.113.66", frag=0, options=b"", ttl=64, ident=77):
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | (5 + len(options) // 4), 0, 20 + len(options) + len(body), ident, frag, ttl, proto, 0, socket.inet_aton(src), socket.inet_aton(dst)) + options
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def ip6(proto, body, src=GUEST6, dst="2001:db8::66", hops=64):
    return struct.pack("!IHBB", 0x60000000, len(body), proto, hops) + socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + body


def summed(proto, body, src, dst, at):
    family = socket.AF_INET6 if ":" in dst else socket.AF_INET
    pseudo = socket.inet_pton(family, src) + socket.inet_pton(family, dst) + (struct.pack("!II", len(body), proto) if family == socket.AF_INET6 else struct.pack("!BBH", 0, proto, len(body)))
    return body[:at] + struct.pack("!H", checksum(pseudo + body)) + body[at + 2:]


def syn(src=GUEST4, dst="203.0.113.66", sport=40000, dport=80, flags=2, data=b""):
    return summed(6, struct.pack("!HHIIBBHHH", sport, dport, 1000, 0, 0x50, flags, 65535, 0, 0) + data, src, dst, 16)


def datagram(src=GUEST4, dst="203.0.113.66", dport=7000, data=b"evil", sport=40000):
    return summed(17, struct.pack("!HHHH", sport, dport, 8 + len(data), 0) + data, src, dst, 6)


def icmp6(kind, body, src, dst):
    return summed(58, struct.pack("!BBH", kind, 0, 0) + body, src, dst, 2)


class Wire:
    """Packet and error sockets in the guest's network namespace."""

    def __init__(self, pid):
        with netns(pid):
            self.frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self.frames.bind(("eth0", 3))

    def frame(self, payload, src=GUEST_MAC, dst=GATE_MAC, kind=None):
        kind = kind or (0x86dd if payload[:1] and payload[0] >> 4 == 6 else 0x800)
        try:
            self.frames.send(dst + src + struct.pack("!H", kind) + payload)
        except OSError:
            pass  # larger than the link takes, or the link is gone: it did not leave

    def answers(self, payload, seconds=1.0, **kw):
        """Sends and returns what the gateway put on the wire towards us: [(protocol, first bytes of its body)]."""
        self.drain()
        self.frame(payload, **kw)
        got, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            self.frames.settimeout(max(0.01, end - time.monotonic()))
            try:
                d, meta = self.frames.recvfrom(70000)
            except (TimeoutError, socket.timeout):
                break
            if meta[2] == socket.PACKET_OUTGOING:
                continue
            d = d[14:]
            if d[0] >> 4 == 4:
                got.append((d[9], d[(d[0] & 15) * 4:]))
            elif d[6] != 58 or d[40] not in (135, 136):
                got.append((d[6], d[40:]))
            if got:
                break
        return got

    def drain(self):
        self.frames.setblocking(False)
        try:
            while True:
                self.frames.recv(70000)
        except OSError:
            pass

    def close(self):
        self.frames.close()


def hostile_frames():
    """Spoofed, cut, routed, wrapped and forged: (name, frame, keyword arguments). None may reach anybody."""
    udp4, udp6 = datagram(), datagram(GUEST6, "2001:db8::66")
    for src in ("10.88.0.1", "10.88.0.9", "127.0.0.1", "203.0.113.66", "203.0.113.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "169.254.1.1"):
        for dst in ("203.0.113.66", "127.0.0.1", GATE4, "10.88.0.2", "203.0.113.1"):
            yield f"source {src} to {dst}", ip4(17, datagram(src, dst), src, dst), {}
            yield f"SYN from {src} to {dst}", ip4(6, syn(src, dst), src, dst), {}
    for src in ("::1", "::", "fe80::1", "2001:db8::66", GATE6, "ff02::1", "::ffff:10.88.0.2", "fd62:726f:6d65::9"):
        for dst in ("2001:db8::66", "::1", GATE6, "2001:db8::1", "fe80::1"):
            yield f"source {src} to {dst}", ip6(17, datagram(src, dst), src, dst), {}
            yield f"SYN from {src} to {dst}", ip6(6, syn(src, dst), src, dst), {}
    for dst in ("127.0.0.1", "127.255.255.254", "0.0.0.0", "255.255.255.255", "10.88.0.255", "224.0.0.251"):
        yield f"to {dst}", ip4(17, datagram(dst=dst), dst=dst), {}
        yield f"SYN to {dst}", ip4(6, syn(dst=dst), dst=dst), {}
    for dst in ("::1", "::", "ff02::1", "ff02::fb", "::ffff:127.0.0.1", "::ffff:203.0.113.66"):
        yield f"to {dst}", ip6(17, datagram(GUEST6, dst), dst=dst), {}
        yield f"SYN to {dst}", ip6(6, syn(GUEST6, dst), dst=dst), {}
    for frag in (0x2000, 0x0001, 0x2001, 0x1fff, 0x3fff):
        yield f"fragment {frag:#x}", ip4(17, udp4, frag=frag), {}
        yield f"fragment of a SYN {frag:#x}", ip4(6, syn(), frag=frag), {}
    yield "tiny first fragment", ip4(6, syn()[:8], frag=0x2000), {}
    yield "overlapping second fragment", ip4(6, syn()[8:], frag=0x0001), {}
    for h, name in ((0, "hop by hop"), (43, "routing"), (60, "destination"), (44, "fragment"), (51, "authentication"), (135, "mobility"), (139, "HIP"), (140, "shim6"), (59, "nothing")):
        ext = struct.pack("!BBHI", 17, 0, 0, 9) if h == 44 else b"\x11\0\x01\x04\0\0\0\0"
        yield f"{name} header", ip6(h, ext + udp6), {}
        yield f"{name} header twice", ip6(h, bytes([h]) + ext[1:] + ext + udp6), {}
    yield "routing header to a second address", ip6(43, struct.pack("!BBBBI", 17, 2, 0, 1, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::66") + udp6, dst=GATE6), {}
    yield "segment routing", ip6(43, struct.pack("!BBBBBBH", 17, 2, 4, 0, 0, 0, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8::66") + udp6, dst=GATE6), {}
    yield "jumbogram", ip6(0, b"\x11\0\xc2\x04\0\1\0\0" + udp6), {}
    for mac in (b"\x02\0\0\0\0\5", GATE_MAC, b"\xff" * 6, b"\1\0\x5e\0\0\1"):
        yield f"from MAC {mac.hex()}", ip4(17, udp4), {"src": mac}
        yield f"to MAC {mac.hex()}", ip4(17, datagram(dst="203.0.113.67"), dst="203.0.113.67"), {"dst": mac, "src": b"\x02\0\0\0\0\5"}
    inner4, inner6 = ip4(17, udp4), ip6(17, udp6)
    for proto, name in ((4, "IP in IP"), (41, "6in4"), (47, "GRE"), (132, "SCTP"), (50, "ESP"), (51, "AH"), (2, "IGMP"), (103, "PIM"), (112, "VRRP"), (115, "L2TP"), (137, "MPLS"), (89, "OSPF"), (136, "UDP-Lite"), (33, "DCCP")):
        for payload in (inner4, inner6, b"\0\0\x08\0" + inner4, b"\0\0\x86\xdd" + inner6):
            yield f"{name} to the gateway", ip4(proto, payload, dst=GATE4), {}
            yield f"{name} over v6 to the gateway", ip6(proto, payload, dst=GATE6), {}
            yield f"{name} to the world", ip4(proto, payload), {}
    for port in (4789, 6081, 8472, 3544, 1701, 500, 4500, 68, 546, 5353, 137):
        yield f"UDP tunnel on {port}", ip4(17, datagram(dport=port, data=b"\x08\0\0\0\0\0\0\0" + GATE_MAC + GUEST_MAC + b"\x08\0" + inner4, dst=GATE4), dst=GATE4), {}
    for kind in range(0, 256):
        if kind != 8:
            yield f"ICMP {kind}", ip4(1, summed(1, struct.pack("!BBHI", kind, 1, 0, 0x0a580009) + inner4[:28], "0.0.0.0", "0.0.0.0", 2), dst=GATE4), {}
        if kind not in (128, 135, 136):
            yield f"ICMPv6 {kind}", ip6(58, icmp6(kind, b"\0" * 4 + inner6, GUEST6, GATE6), dst=GATE6, hops=255), {}
    # neighbours and routers: the gateway's own are fixed
    ra = b"\x40\xc0\x07\x08" + b"\0" * 8 + struct.pack("!BBBBIII", 3, 4, 64, 0xc0, 9999, 9999, 0) + socket.inet_pton(socket.AF_INET6, "2001:db8:6::")
    for src in ("fe80::bad", GUEST6):
        yield f"router advertisement from {src}", ip6(58, icmp6(134, ra, src, "ff02::1"), src, "ff02::1", 255), {"dst": b"\x33\x33\0\0\0\1"}
        na = b"\x60\0\0\0" + socket.inet_pton(socket.AF_INET6, GUEST6) + b"\2\1\2\0\0\0\0\x66"
        yield f"neighbour advertisement from {src}", ip6(58, icmp6(136, na, src, GATE6), src, GATE6, 255), {}
        na = b"\xe0\0\0\0" + socket.inet_pton(socket.AF_INET6, GATE6) + b"\2\1\2\0\0\0\0\x66"
        yield f"neighbour advertisement for the gateway from {src}", ip6(58, icmp6(136, na, src, GATE6), src, GATE6, 255), {}
    for op in (1, 2):
        for who in (GUEST4, GATE4):
            yield f"ARP {op} for {who}", struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, op, b"\2\0\0\0\0\x66", socket.inet_aton(who), GATE_MAC, socket.inet_aton(GATE4)), {"kind": 0x806}
    bootp = b"\1\1\6\0" + b"\0" * 232 + b"\x63\x82\x53\x63\x35\1\1\xff"
    yield "DHCP", ip4(17, datagram("0.0.0.0", "255.255.255.255", 67, bootp, 68), "0.0.0.0", "255.255.255.255"), {"dst": b"\xff" * 6}
    for kind in (0x8100, 0x88a8, 0x8847, 0x8863, 0x8864, 0x88cc, 0x888e, 0x22f3, 0x0, 0xffff, 0x0801, 0x6558, 0x8906):
        yield f"ethertype {kind:#x}", struct.pack("!HH", 1, 0x800) + inner4, {"kind": kind}
    # broken in themselves
    yield "version 5", b"\x55" + inner4[1:], {"kind": 0x800}
    yield "v6 as v4", inner6, {"kind": 0x800}
    yield "v4 as v6", inner4, {"kind": 0x86dd}
    yield "header longer than the packet", b"\x4f" + inner4[1:24], {}
    yield "length beyond the frame", inner4[:2] + b"\xff\xff" + inner4[4:], {}
    yield "length shorter than the header", inner4[:2] + b"\0\x05" + inner4[4:], {}
    yield "empty", b"", {"kind": 0x800}
    yield "one byte", b"\x45", {"kind": 0x800}
    yield "wrong header checksum", inner4[:10] + b"\xde\xad" + inner4[12:], {}
    yield "v6 length beyond the frame", inner6[:4] + b"\xff\xff" + inner6[6:], {}
    for cut in (1, 7, 19):
        yield f"TCP cut to {cut}", ip4(6, syn()[:cut]), {}
        yield f"UDP cut to {cut}", ip4(17, udp4[:cut]), {}
        yield f"TCP over v6 cut to {cut}", ip6(6, syn(GUEST6, "2001:db8::66")[:cut]), {}
    for flags in (0, 0x29, 0x3f, 0xff, 3, 6, 0x10, 0x11):
        yield f"TCP flags {flags:#x}", ip4(6, syn(flags=flags)), {}


@both
def test_hostile_frames_reach_nobody(w, b):
    wire, mark = Wire(tree(b)["guest"][0]), w.sniffer.mark()
    count = 0
    for _, payload, kw in hostile_frames():
        wire.frame(payload, **kw)
        count += 1
    assert count > 700, count
    alive(b)  # and the gateway has not learned a wrong neighbour or route
    wire.close()
    nginx = [p for p in w.sniffer.since(mark) if "203.0.113.10" not in (p["src"], p["dst"]) and "2001:db8::10" not in (p["src"], p["dst"])]
    bad = [p for p in nginx if p["dst"] not in ("127.0.0.1", "::1", "203.0.113.53") and p["src"] != "203.0.113.53"]
    assert not bad, [{k: v for k, v in p.items() if k != "data"} for p in bad[:10]]
    assert not [r for r in b.trace(verdict="allow") if r.get("host") != "allowed.example"]


# What a sender could wait for: refused in every state of the gate.
# With the inner door dead and bromed held still, nobody is left to answer an echo; TCP and UDP are refused by the rules alone.
def refused_everywhere(wire, state):
    heard = lambda got: unreachable(got) or (state == "doorless" and not got)  # noqa: E731
    rst4 = lambda got: any(p == 6 and d[13] & 4 for p, d in got)  # noqa: E731
    unreachable = lambda got: any((p == 1 and d[0] == 3) or (p == 58 and d[0] == 1) for p, d in got)  # noqa: E731
    for n, dst in enumerate(("203.0.113.66", GATE4, "169.254.169.254", "198.18.1.0")):
        for port in (22, 80, 443, 50880):
            got = wire.answers(ip4(6, syn(dst=dst, dport=port, sport=41000 + n), dst=dst))
            # An open gate accepts the connection in order to reset it.
            assert rst4(got) or (state == "open" and any(p == 6 for p, _ in got)), f"{state}: TCP to {dst}:{port} got {got}"
        got = wire.answers(ip4(17, datagram(dst=dst, dport=7000 + n), dst=dst))
        assert unreachable(got), f"{state}: UDP to {dst} got {got}"
        got = wire.answers(ip4(1, summed(1, b"\x08\0\0\0\0\1\0\1ping", "0.0.0.0", "0.0.0.0", 2)[:0] + struct.pack("!BBHHH", 8, 0, checksum(b"\x08\0\0\0\0\1\0\1ping"), 1, 1) + b"ping", dst=dst))
        assert heard(got), f"{state}: echo to {dst} got {got}"
        for proto in (132, 47, 41, 4, 50, 253):
            got = wire.answers(ip4(proto, b"\0" * 24, dst=dst))
            assert unreachable(got), f"{state}: protocol {proto} to {dst} got {got}"
    for n, dst in enumerate(("2001:db8::66", GATE6, "fd62:726f:6d65:1::100")):
        for port in (22, 80, 443, 50880):
            got = wire.answers(ip6(6, syn(GUEST6, dst, 42000 + n, port), dst=dst))
            assert rst4(got) or (state == "open" and any(p == 6 for p, _ in got)), f"{state}: TCP to {dst}:{port} got {got}"
        got = wire.answers(ip6(17, datagram(GUEST6, dst, 7000 + n), dst=dst))
        assert unreachable(got), f"{state}: UDP to {dst} got {got}"
        got = wire.answers(ip6(58, icmp6(128, b"\0\1\0\1ping", GUEST6, dst), dst=dst))
        assert heard(got), f"{state}: echo to {dst} got {got}"


@both
def test_refused_while_open(w, b):
    wire, mark = Wire(tree(b)["guest"][0]), w.sniffer.mark()
    refused_everywhere(wire, "open")
    quiet(w, mark)
    wire.close()


@both
def test_refused_while_frozen(w, b):
    b("workspace", "freeze", "s", check=0)
    wire, mark = Wire(tree(b)["guest"][0]), w.sniffer.mark()
    refused_everywhere(wire, "frozen")
    for _, payload, kw in hostile_frames():
        wire.frame(payload, **kw)
    quiet(w, mark)
    wire.close()
    b("workspace", "thaw", "s", check=0)
    alive(b)


@both
def test_refused_after_the_inner_door_died(w, b):
    """bromed is held still, so that nobody shuts the gate: the rules alone must refuse."""
    b("workspace", "start", "bare", check=0)
    pids = tree(b)
    bare = [p for p in pids["guest"] if p not in (pids["guest"][:1])][-1]
    ours = [p for p in pids["brome-inner"] if p != pids["brome-inner"][0]][-1]
    wire = Wire(bare)
    os.kill(pids["bromed"][0], signal.SIGSTOP)
    try:
        mark = w.sniffer.mark()
        os.kill(ours, signal.SIGKILL)
        wait_for("the inner door's end", lambda: not os.path.exists(f"/proc/{ours}") or open(f"/proc/{ours}/stat").read().split(")")[1].split()[0] == "Z")
        refused_everywhere(wire, "doorless")
        quiet(w, mark)
    finally:
        os.kill(pids["bromed"][0], signal.SIGCONT)
    wait_for("the workspace to be closed", lambda: [r for r in b.json("workspace", "ls") if r["name"] == "bare" and r["state"] in ("failed", "stopped")])
    wire.close()
    alive(b)
