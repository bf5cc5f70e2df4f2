"""A machine's kernel is the guest's: it sends any frame. Two machines, started once: one sends everything that Ethernet can carry, the other listens, and
the gateway's namespace, the kernel's log and the outside are watched. Only whole packets from the one MAC and the two addresses reach the door."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import select

from attack import check
from ground import alive, guest, netns, quiet, status, tree
from machines import BOOT_SECONDS, image, machines
from world import Brome, World, sh, wait_for

FLOOD_KIB = 96 * 1024  # what the processes of a gate may grow by, all together, while a machine floods it


def make_world():
    machines()
    w = World()
    w.nginx(("allowed.example",))
    w.image = image()
    w.before = digests(w.image)
    w.b = Brome(w)
    (w.b.dir / "mine").mkdir()
    (w.b.dir / "mine/secret").write_text("of machine s alone\n")
    rules = "rules { allow web allowed.example; default deny }"
    w.b.config.write_text(f'workspace s {{ isolation vm; image "{w.image}"; memory 512M; share "{w.b.dir}/mine"; {rules} }}\n'
                          f'workspace t {{ isolation vm; image "{w.image}"; memory 512M; {rules} }}\n')
    w.b("daemon", "start", check=0)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: w.b("workspace", "start", n, check=0, timeout=BOOT_SECONDS), "st"))
    return w


def digests(folder):
    """Of the image's files; holes are skipped."""
    found = {}
    for p in sorted(folder.iterdir()):
        h, at, size = hashlib.sha256(), 0, p.stat().st_size
        with open(p, "rb") as f:
            while at < size:
                try:
                    at = os.lseek(f.fileno(), at, os.SEEK_DATA)
                except OSError:
                    break
                end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
                while at < end:
                    piece = os.pread(f.fileno(), min(1 << 20, end - at), at)
                    if piece.strip(b"\0"):
                        h.update(at.to_bytes(8, "little") + piece)
                    at += len(piece)
        found[p.name] = h.hexdigest()
    return found


# Runs inside. A case is (name, number, frames); the number is in the destination's address, so that the door's journal tells whether it came through.
FRAMES = r'''
import json, os, socket, struct, sys, time
card = next(n for n in sorted(os.listdir("/sys/class/net")) if n != "lo")
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind((card, 0))
ME, GATE, ALL = bytes.fromhex("0262726f0002"), bytes.fromhex("0262726f0001"), b"\xff" * 6
OTHER = bytes.fromhex("0262726f0009")
G4, A4, G6, A6 = "10.88.0.2", "10.88.0.1", "fd62:726f:6d65::2", "fd62:726f:6d65::1"
p4, p6 = lambda a: socket.inet_pton(socket.AF_INET, a), lambda a: socket.inet_pton(socket.AF_INET6, a)
def csum(d):
    d += b"\0" * (len(d) & 1)
    n = sum(struct.unpack(">%dH" % (len(d) // 2), d))
    while n >> 16: n = (n & 0xffff) + (n >> 16)
    return ~n & 0xffff
def eth(payload, kind=0x800, src=ME, dst=GATE): return dst + src + struct.pack(">H", kind) + payload
def ip4(payload, dst, src=G4, proto=17, opts=b"", frag=0, ident=7, ttl=64, total=None, version=4, hl=None):
    opts += b"\0" * (-len(opts) % 4)
    h = struct.pack(">BBHHHBBH4s4s", version << 4 | (5 + len(opts) // 4 if hl is None else hl), 0, 20 + len(opts) + len(payload) if total is None else total, ident, frag, ttl, proto, 0, p4(src), p4(dst)) + opts
    return h[:10] + struct.pack(">H", csum(h)) + h[12:] + payload
def ip6(payload, dst, src=G6, nxt=17, hops=64, length=None):
    return struct.pack(">IHBB16s16s", 6 << 28, (len(payload) if length is None else length) & 0xffff, nxt, hops, p6(src), p6(dst)) + payload
def sum6(src, dst, nxt, d): return csum(p6(src) + p6(dst) + struct.pack(">II", len(d), nxt) + d)
def udp4(dst, src=G4, data=b"x", port=7):
    return struct.pack(">HHHH", 4000, port, 8 + len(data), 0) + data
def udp6(dst, src=G6, data=b"x", port=7):
    d = struct.pack(">HHHH", 4000, port, 8 + len(data), 0) + data
    return d[:6] + struct.pack(">H", sum6(src, dst, 17, d) or 0xffff) + d[8:]
def tcp4(dst, src=G4, flags=2, port=80, sport=4001):
    d = struct.pack(">HHIIBBHHH", sport, port, 1, 0, 0x50, flags, 65535, 0, 0)
    return d[:16] + struct.pack(">H", csum(p4(src) + p4(dst) + struct.pack(">HH", 6, len(d)) + d)) + d[18:]
def icmp6(kind, body, dst, src=G6, hops=255, code=0):
    d = struct.pack(">BBH", kind, code, 0) + body
    return ip6(d[:2] + struct.pack(">H", sum6(src, dst, 58, d)) + d[4:], dst, src, 58, hops)
def arp(op, sha, spa, tha, tpa, src=None, dst=ALL): return eth(struct.pack(">HHBBH6s4s6s4s", 1, 0x800, 6, 4, op, sha, p4(spa), tha, p4(tpa)), 0x806, src or sha, dst)
cases, n = [], 0
def four(): return "198.51.100.%d" % n
def six(): return "2001:db8:aa::%x" % n
def case(name, *frames): cases.append((name, n, frames))
def numbered(fn):
    global n
    n += 1
    fn()
    return fn
def send(frame):
    try: s.send(frame); return True
    except OSError: return False
'''

SILENT = FRAMES + r'''
each = [
 ("another MAC", lambda: [eth(ip4(udp4(four()), four()), src=OTHER), eth(ip6(udp6(six()), six()), 0x86dd, src=OTHER)]),
 ("the gateway's own MAC", lambda: [eth(ip4(udp4(four()), four()), src=GATE)]),
 ("a group's MAC as source", lambda: [eth(ip4(udp4(four()), four()), src=ALL), eth(ip4(udp4(four()), four()), src=b"\x01\0\x5e\0\0\1")]),
 ("to another MAC", lambda: [eth(ip4(udp4(four()), four()), dst=OTHER), eth(ip6(udp6(six()), six()), 0x86dd, dst=OTHER)]),
 ("another source address", lambda: [eth(ip4(udp4(four(), a), four(), a)) for a in ("10.88.0.1", "10.88.0.3", "127.0.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "203.0.113.1", "203.0.113.10", "8.8.8.8", "169.254.1.1", four())]),
 ("another source address, IPv6", lambda: [eth(ip6(udp6(six(), a), six(), a), 0x86dd) for a in (A6, "::1", "::", "fe80::1", "ff02::1", "2001:db8::10", "fd62:726f:6d65::3", "::ffff:10.88.0.2", six())]),
 ("a VLAN", lambda: [eth(struct.pack(">HH", v, 0x800) + ip4(udp4(four()), four()), 0x8100) for v in (1, 5, 4095)] + [eth(struct.pack(">HH", 5, 0x86dd) + ip6(udp6(six()), six()), 0x8100)]),
 ("QinQ", lambda: [eth(struct.pack(">HHHH", 5, 0x8100, 6, 0x800) + ip4(udp4(four()), four()), 0x88a8), eth(struct.pack(">HHHH", 0, 0x8100, 6, 0x800) + ip4(udp4(four()), four()), 0x88a8)]),
 ("fragments", lambda: [eth(ip4(udp4(four()), four(), frag=0x2000)), eth(ip4(b"y" * 8, four(), frag=1)), eth(ip4(udp4(four())[:8], four(), frag=0x2000, ident=9)), eth(ip4(b"y" * 64, four(), frag=0x2000, ident=9)),
                        eth(ip4(b"y" * 64, four(), frag=1, ident=9)), eth(ip4(b"y" * 8, four(), frag=0x1fff, ident=10))]),
 ("fragments of TCP", lambda: [eth(ip4(tcp4(four())[:8], four(), proto=6, frag=0x2000, ident=11)), eth(ip4(tcp4(four())[8:], four(), proto=6, frag=1, ident=11)), eth(ip4(tcp4(four()), four(), proto=6, frag=0x2000, ident=12))]),
 ("fragments, IPv6", lambda: [eth(ip6(struct.pack(">BBHI", 17, 0, 1, 5) + udp6(six()), six(), nxt=44), 0x86dd), eth(ip6(struct.pack(">BBHI", 17, 0, 8, 5) + b"y" * 8, six(), nxt=44), 0x86dd),
                              eth(ip6(struct.pack(">BBHI", 17, 0, 0, 6) + udp6(six()), six(), nxt=44), 0x86dd), eth(ip6(struct.pack(">BBIBBHI", 44, 0, 0, 17, 0, 0, 6) + udp6(six()), six(), nxt=60), 0x86dd)]),
 ("source routes", lambda: [eth(ip4(udp4(four()), four(), opts=o)) for o in (b"\x83\x07\x04" + p4("203.0.113.10"), b"\x89\x07\x04" + p4("203.0.113.10"), b"\x01\x83\x0b\x04" + p4("203.0.113.10") * 2)]),
 ("broken headers", lambda: [eth(ip4(udp4(four()), four(), total=t)) for t in (0, 19, 9000, 65535)] + [eth(ip4(udp4(four()), four(), version=v)) for v in (0, 5, 6, 15)] + [eth(ip4(udp4(four()), four(), hl=v)) for v in (0, 4, 15)]
                            + [eth(ip4(udp4(four()), four())[:c]) for c in (0, 1, 19)] + [eth(ip6(udp6(six()), six())[:c], 0x86dd) for c in (0, 1, 39)] + [eth(ip6(udp6(six()), six(), length=v), 0x86dd) for v in (0, 9000, 65535)]),
 ("no IP at all", lambda: [eth(b"z" * 100, k) for k in (0, 1, 4, 0x5ff, 0x600, 0x803, 0x805, 0x807, 0x6558, 0x8035, 0x809b, 0x80f3, 0x8137, 0x8808, 0x8809, 0x8847, 0x8848, 0x8863, 0x8864, 0x888e, 0x88a2, 0x88b5, 0x88ca, 0x88cc, 0x88e1, 0x88e5, 0x88f7, 0x8906, 0x8915, 0x9000, 0x22f0, 0x22f3, 0xfb, 0xffff)]
                          + [eth(b"\xaa\xaa\x03\0\0\0\x08\0" + ip4(udp4(four()), four()), 100), eth(b"\x42\x42\x03" + b"\0" * 35, 38, dst=bytes.fromhex("0180c2000000")), eth(struct.pack(">HBBHH", 0x1100, 0, 0, 5, 0x21) + ip4(udp4(four()), four()), 0x8864),
                             eth(struct.pack(">I", 16 << 12 | 0x100 | 64) + ip4(udp4(four()), four()), 0x8847)]),
 ("IPv4 as IPv6 and back", lambda: [eth(ip4(udp4(four()), four()), 0x86dd), eth(ip6(udp6(six()), six()))]),
 ("ARP", lambda: [arp(1, ME, G4, b"\0" * 6, A4), arp(1, ME, G4, b"\0" * 6, "10.88.0.77"), arp(1, OTHER, A4, b"\0" * 6, A4), arp(2, OTHER, A4, OTHER, A4), arp(2, OTHER, G4, GATE, A4, dst=GATE), arp(1, OTHER, G4, b"\0" * 6, G4), arp(2, ME, "10.88.0.78", GATE, A4, dst=GATE),
                  arp(1, ME, "0.0.0.0", b"\0" * 6, A4), arp(1, ME, "127.0.0.1", b"\0" * 6, A4), arp(8, ME, G4, GATE, A4), arp(2, ME, "203.0.113.1", GATE, A4, dst=GATE), eth(b"\0\1\x08\0\6\4\0\1", 0x806, dst=ALL), eth(b"", 0x806, dst=ALL)] + [arp(1, ME, "10.88.0.%d" % i, b"\0" * 6, A4) for i in range(80, 120)]),
 ("neighbours and routers", lambda: [f for k, body in ((133, b"\0" * 4 + b"\1\1" + OTHER), (134, struct.pack(">BBHII", 64, 0, 1800, 0, 0) + b"\1\1" + OTHER + struct.pack(">BBBBIII16s", 3, 4, 64, 0xc0, 3600, 3600, 0, p6("2001:db8:bb::"))),
                  (135, b"\0" * 4 + p6(A6) + b"\1\1" + OTHER), (136, b"\xe0\0\0\0" + p6(A6) + b"\2\1" + OTHER), (136, b"\xe0\0\0\0" + p6(G6) + b"\2\1" + OTHER), (136, b"\x20\0\0\0" + p6("fd62:726f:6d65::99") + b"\2\1" + OTHER), (137, b"\0" * 4 + p6(G6) + p6("2001:db8::10") + b"\2\1" + OTHER))
                  for src in (G6, "fe80::2", "fe80::1", A6, "::") for dst in (A6, "ff02::1", "ff02::2", "ff02::1:ff00:1") for f in (eth(icmp6(k, body, dst, src), 0x86dd), eth(icmp6(k, body, dst, src), 0x86dd, dst=bytes.fromhex("3333ff000001")))]
                  + [eth(icmp6(135, b"\0" * 4 + p6(A6) + b"\1\1" + OTHER, A6, "fe80::%x" % i), 0x86dd) for i in range(300, 360)]),
 ("groups of listeners", lambda: [eth(icmp6(143, b"\0\0\0\1\4\0\0\0" + p6("ff02::5"), "ff02::16", "fe80::2", 1), 0x86dd), eth(ip4(struct.pack(">BBH4s", 0x16, 0, 0, p4("224.0.0.5")), "224.0.0.22", "10.88.0.9", proto=2, ttl=1))]),
 ("zero length", lambda: [GATE + ME + b"\x08\0", GATE + ME, GATE, b""]),
]
for name, make in each:
    n += 1
    case(name, *make())
time.sleep(0.3)
sent = {}
while True:  # what the gateway answered so far
    try: s.recv(65536, socket.MSG_DONTWAIT)
    except BlockingIOError: break
answers = []
for name, number, frames in cases:
    sent[name] = sum(send(f) for f in frames)
    time.sleep(0.05)
    while True:
        try: d, a = s.recvfrom(65536, socket.MSG_DONTWAIT)
        except BlockingIOError: break
        if a[2] != socket.PACKET_OUTGOING: answers.append((name, d[:80].hex()))
print(json.dumps([sent, answers]))
'''

# What is whole and the guest's own: the door may see it, and says no. n starts where the silent ones end.
REFUSED = FRAMES + r'''
n = 100
def tagged(v, f): return f[:12] + struct.pack(">HH", 0x8100, v) + f[12:]
each = [
 ("control", lambda: [eth(ip4(udp4(four()), four())), eth(ip6(udp6(six()), six()), 0x86dd)]),
 ("VLAN 0 is no VLAN", lambda: [tagged(0, eth(ip4(udp4(four()), four())))]),
 ("a broadcast MAC", lambda: [eth(ip4(udp4(four()), four()), dst=ALL), eth(ip4(tcp4(four()), four(), proto=6), dst=ALL)]),
 ("options", lambda: [eth(ip4(udp4(four()), four(), opts=o)) for o in (b"\x07\x27\x04" + b"\0" * 36, b"\x44\x24\x05\0" + b"\0" * 32, b"\x94\4\0\0", b"\x82\x0b" + b"\0" * 9, b"\x86\x0a" + b"\0" * 8, b"\x01" * 40, b"\xff\xff\xff\xff", b"\x07\0\0\0")]),
 ("extension headers", lambda: [eth(ip6(struct.pack(">BBI2x", 17, 0, 0) + udp6(six()), six(), nxt=k), 0x86dd) for k in (0, 60, 43)] + [eth(ip6(struct.pack(">BBBB4x16s", 17, 2, 0, 1, p6("2001:db8::10")) + udp6(six()), six(), nxt=43), 0x86dd),
                                eth(ip6((struct.pack(">BBI2x", 60, 0, 0) * 100)[:-8] + struct.pack(">BBI2x", 17, 0, 0) + udp6(six()), six(), nxt=60), 0x86dd), eth(ip6(struct.pack(">BBBBI", 0, 0, 0xc2, 4, 70000) + udp6(six()), six(), nxt=0), 0x86dd), eth(ip6(b"", six(), nxt=59), 0x86dd)]),
 ("loopback over the wire", lambda: [eth(ip4(udp4(a, port=p), a)) for a in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "255.255.255.255", "240.0.0.1") for p in (7, 50880)] + [eth(ip4(tcp4(a, port=50880), a, proto=6)) for a in ("127.0.0.1", "0.0.0.0")]
                               + [eth(ip6(udp6(a, port=50880), a), 0x86dd) for a in ("::1", "::", "::ffff:127.0.0.1", "fe80::1", G6)]),
 ("the door's port", lambda: [eth(ip4(udp4(a, port=50880), a)) for a in (A4, G4, "10.88.0.255")] + [eth(ip4(tcp4(a, port=50880, flags=f), a, proto=6)) for a in (A4, G4) for f in (2, 4, 16, 18, 0, 63)] + [eth(ip6(udp6(A6, port=50880), A6), 0x86dd)]),
 ("metadata and groups", lambda: [eth(ip4(udp4(a), a, ttl=t), dst=d) for t in (0, 1, 64) for a, d in (("169.254.169.254", GATE), ("224.0.0.1", b"\x01\0\x5e\0\0\1"), ("224.0.0.251", b"\x01\0\x5e\0\0\xfb"), ("239.1.2.3", ALL), ("10.88.0.255", ALL))]
                              + [eth(ip6(udp6(a), a, hops=t), 0x86dd, dst=d) for t in (0, 1, 64) for a, d in (("ff02::1", b"\x33\x33\0\0\0\1"), ("ff02::fb", b"\x33\x33\0\0\0\xfb"), ("ff05::2", b"\x33\x33\0\0\0\2"), ("fd00:ec2::254", GATE))]),
 ("other protocols", lambda: [eth(ip4(b"q" * 40, four(), proto=k)) for k in range(256) if k not in (6, 17)] + [eth(ip6(b"q" * 40, six(), nxt=k), 0x86dd) for k in range(256) if k not in (0, 6, 17, 43, 44, 60)]),
 ("ICMP of all types", lambda: [eth(ip4(struct.pack(">BBHI", k, 0, csum(struct.pack(">BBHI", k, 0, 0, 0)), 0) + ip4(udp4(four()), four()), four(), proto=1)) for k in range(1, 50)] + [eth(ip4(struct.pack(">BBHI", 5, 1, csum(struct.pack(">BBH4s", 5, 1, 0, p4("10.88.0.77"))), 0)[:4] + p4("10.88.0.77") + ip4(udp4(A4), A4, src=A4), A4, proto=1))]),
 ("errors about the door's own packets", lambda: [eth(icmp6(k, struct.pack(">I", 1280) + ip6(udp6(G6, A6), G6, A6), A6), 0x86dd) for k in (1, 2, 3, 4)] + [eth(ip4(struct.pack(">BBHI", 3, 4, 0, 68) + ip4(udp4(G4, A4), G4, A4), A4, proto=1))]),
 ("TCP that fits nothing", lambda: [eth(ip4(tcp4(four(), flags=f), four(), proto=6)) for f in range(64)]),
 ("broken UDP", lambda: [eth(ip4(struct.pack(">HHHH", 1, 7, L, C) + b"x", four())) for L, C in ((0, 0), (7, 0), (65535, 0), (9, 1))] + [eth(ip6(struct.pack(">HHHH", 1, 7, 9, 0) + b"x", six()), 0x86dd), eth(ip4(b"", four())), eth(ip4(b"\0" * 7, four())), eth(ip4(b"\0" * 4, four(), proto=6))]),
 ("large ones", lambda: [eth(ip4(udp4(four(), data=b"x" * k), four())) for k in (1500, 9000, 60000, 65507)] + [eth(b"j" * k, 0x88b5) for k in (1514, 9000, 65000, 65535)]),
]
sent = {}
for name, make in each:
    n += 1
    sent[name] = sum(send(f) for f in make())
    time.sleep(0.05)
print(json.dumps(sent))
'''

FLOOD = FRAMES + r'''
n = 200
frames = [eth(ip4(udp4(four()), four(), src="10.88.%d.%d" % (i >> 8, i & 255))) for i in range(64)] + [eth(ip4(tcp4("198.51.100.200", sport=1024 + i, port=i + 1), "198.51.100.200", proto=6)) for i in range(512)]
frames += [eth(ip4(udp4("198.51.100.201", port=i + 1), "198.51.100.201")) for i in range(512)] + [eth(icmp6(135, b"\0" * 4 + p6(A6) + b"\1\1" + OTHER, A6, "fe80::%x" % i), 0x86dd) for i in range(1, 512)] + [arp(1, ME, "10.88.0.%d" % (i & 255), b"\0" * 6, A4) for i in range(256)]
frames += [eth(ip4(b"f" * 1400, "198.51.100.202", frag=0x2000 | i, ident=i)) for i in range(256)]
end, count = time.monotonic() + 2, 0
while time.monotonic() < end:
    for f in frames: send(f)
    count += len(frames)
print(json.dumps(count))
'''

LISTEN = r'''
import json, os, select, socket, sys
card = next(n for n in sorted(os.listdir("/sys/class/net")) if n != "lo")
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); s.bind((card, 0))
s.setsockopt(263, 1, __import__("struct").pack("iHH8s", socket.if_nametoindex(card), 1, 0, b""))  # promiscuous
o = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0); o.bind((card, 0))
o.send(bytes.fromhex("0262726f00010262726f000288b5") + b"control of the listener" + b"\0" * 40)
print("listening", flush=True)
seen = []
while not (select.select([s, sys.stdin], [], [])[0] == [sys.stdin] and not sys.stdin.buffer.raw.read(1)):
    if select.select([s], [], [], 0)[0]: seen.append(s.recv(200))
print(json.dumps([sum(b"control of the listener" in f for f in seen), [f[:80].hex() for f in seen if f[6:12] == bytes.fromhex("0262726f0002") and b"control of" not in f or b"of machine s" in f]]))
'''


def gateways(w):
    return tree(w.b)["brome-launch"]


def neighbours(pid):
    with netns(pid):
        lines = sh("ip", "neigh", "show", "nud", "all", "dev", "gate0").stdout.decode().splitlines()
    return sorted(line.strip() for line in lines if "NOARP" not in line)  # groups, which the gateway's own kernel speaks to


class Klog:
    """Lines of the host's kernel that came since."""

    def __init__(self):
        self.fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.fd, 0, os.SEEK_END)

    def lines(self):
        out = []
        while True:
            try:
                out.append(os.read(self.fd, 8192).decode(errors="replace"))
            except BlockingIOError:
                return out
            except OSError:  # overwritten meanwhile
                continue


def seen_by_the_door(w, number):
    names = (f"198.51.100.{number}", f"2001:db8:aa::{number:x}")
    return [r for r in w.b.trace() + w.b.timeline() if any(re.search(re.escape(n) + r"(?![0-9a-f])", json.dumps(r)) for n in names)]


def rss(w):
    return sum(int(status(p)["VmRSS"].split()[0]) for name in ("brome-inner", "brome-outer", "brome-launch", "bromed") for p in tree(w.b)[name])


def test_settings_of_the_gateway(w):
    """What a new namespace inherits from the host's own settings counts as much as what is said for the link."""
    want = {"log_martians": "0", "arp_accept": "0", "route_localnet": "0", "src_valid_mark": "0", "accept_source_route": "0", "accept_redirects": "0", "send_redirects": "0", "proxy_arp": "0", "accept_local": "0", "forwarding": "0", "rp_filter": "1"}
    for pid in gateways(w):
        with netns(pid):
            found = {f"{where}/{k}": pathlib.Path(f"/proc/sys/net/ipv4/conf/{where}/{k}").read_text().strip() for where in ("all", "default", "gate0") for k in want}
        check([f"{k} is {v}" for k, v in found.items() if v != want[k.split("/")[1]]])


def test_nothing_strange_is_answered_or_learnt(w):
    b, mark, log = w.b, w.sniffer.mark(), Klog()
    before = [neighbours(p) for p in gateways(w)]
    assert before[0] and all("PERMANENT" in n for n in before[0]), before
    sent, answers = guest(b, SILENT)
    assert all(sent[k] for k in sent), sent
    check([f"answered: {a}" for a in answers])
    after = [neighbours(p) for p in gateways(w)]
    assert after == before, (before, after)
    guest(b, FRAMES + "n = 99\nprint(json.dumps(send(eth(ip4(udp4(four()), four())))))")
    wait_for("the control", lambda: seen_by_the_door(w, 99))
    check([f"{name} reached the door: {rows[0]}" for i, name in enumerate(sent, 1) if (rows := seen_by_the_door(w, i))])
    check([line for line in log.lines() if re.search(r"gate0|martian|10\.88\.|IPv[46]|ICMP|TCP|UDP|neigh|arp", line, re.I)])
    quiet(w, mark)
    alive(b)


def test_what_reaches_the_door_is_refused(w):
    b, mark, log = w.b, w.sniffer.mark(), Klog()
    before = [neighbours(p) for p in gateways(w)]
    sent = guest(b, REFUSED)
    assert all(sent[k] for k in sent), sent
    wait_for("the control", lambda: seen_by_the_door(w, 101))
    assert [neighbours(p) for p in gateways(w)] == before
    rows = b.trace()
    assert not [r for r in rows if r.get("verdict") == "allow" and r.get("host") != "allowed.example"], rows
    check([line for line in log.lines() if re.search(r"gate0|martian|10\.88\.|IPv[46]|ICMP|TCP|UDP|neigh|arp", line, re.I)])
    quiet(w, mark)
    alive(b)


def test_a_flood_is_bounded(w):
    b, mark, log, before, known = w.b, w.sniffer.mark(), Klog(), rss(w), [neighbours(p) for p in gateways(w)]
    count = guest(b, FLOOD)
    assert count > 2000, count
    for name in "ts":  # the machine's own clock may have run ahead while it had no turn
        wait_for(f"the way of {name}", lambda: b.sh(name, "curl -sS -m 100 https://allowed.example/").stdout == "hello from nginx\n", 120)
    assert rss(w) - before < FLOOD_KIB, (before, rss(w))
    assert [neighbours(p) for p in gateways(w)] == known
    check([line for line in log.lines() if re.search(r"gate0|martian|10\.88\.|neigh|arp", line, re.I)])
    quiet(w, mark)


def test_two_machines_never_meet(w):
    b = w.b
    p = b.popen("exec", "-T", "t", "--", "python3", "-uc", LISTEN, stdin=-1)
    assert select.select([p.stdout], [], [], 120)[0] and p.stdout.readline() == b"listening\n", p.stderr.read()
    guest(b, FRAMES + r'''
token = b"of machine s alone"
for dst in (GATE, ME, ALL, OTHER, b"\x01\0\x5e\0\0\1", b"\x33\x33\0\0\0\1", bytes.fromhex("0180c2000000")):
    for a in ("10.88.0.1", "10.88.0.2", "10.88.0.3", "10.88.0.255", "255.255.255.255", "224.0.0.1", "239.9.9.9"): send(eth(ip4(udp4(a, data=token), a), dst=dst))
    for a in (G6, A6, "fd62:726f:6d65::3", "ff02::1", "ff05::1"): send(eth(ip6(udp6(a, data=token), a), 0x86dd, dst=dst))
    send(eth(token, 0x88b5, dst=dst))
for a in ("10.88.0.1", "10.88.0.3", "10.88.0.255", "203.0.113.1"):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    try: u.sendto(token, (a, 9999))
    except OSError: pass
print(json.dumps(1))
''')
    out = p.communicate(timeout=120)[0]
    control, met = json.loads(out.splitlines()[-1])
    assert control and not met, (control, met)
    # Shares: t has none, by whatever name.
    for tag in ("share0", "share1", "system", "home"):
        assert b.sh("t", f"mount -t 9p -o trans=virtio {tag} /mnt").returncode != 0, tag
    assert "of machine s" in b.sh("s", f"cat {b.dir}/mine/secret", check=0).stdout
    assert b.sh("t", f"cat {b.dir}/mine/secret; find / -xdev -name secret -path '*mine*' | grep -q .").returncode != 0
    # The disks: what s writes on its raw disk is not on t's, nor in the image.
    for disk in ("vda", "vdb"):
        code = f"import os; f = os.open('/dev/{disk}', os.O_RDWR); os.lseek(f, -1048576, 2); "
        b.sh("s", f'python3 -c "{code} os.write(f, b\'of machine s alone\' * 1000); os.fsync(f)"', check=0)
        assert b.sh("t", f'python3 -c "{code} print(os.read(f, 18))"', check=0).stdout == repr(b"\0" * 18) + "\n", disk
    b.sh("s", "echo of-s > /opt/of-s; sync", check=0)
    assert b.sh("t", "cat /opt/of-s").returncode != 0
    pids = [dict(line.split("\t", 1) for line in pathlib.Path(f"/proc/{p}/status").read_text().splitlines() if "\t" in line)["Uid:"].split()[0] for p in b.pids("qemu-system-x86")]
    assert len(set(pids)) == 2, "both machines' QEMU run as the same user"
    assert digests(w.image) == w.before


def test_the_journal(w):
    for name in "st":
        w.b("workspace", "stop", name, timeout=120)
    assert not w.b.pids("qemu-system-x86")
    assert "0 findings" in w.b("trace", "verify", check=0).stdout
    assert digests(w.image) == w.before
