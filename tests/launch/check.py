#!/usr/bin/env python3
"""Runs a workspace under brome-launch and attacks it from inside: what has to work, and what has to be refused, as root and as an ordinary user.

  check.py [USER]     USER: a user to run brome-launch as (needs root, else skipped); without it, as whoever runs this.
Prints one line a check; exit status 1 when one failed. Sockets of the gateway are served here as the inner door would."""
import fcntl, os, pwd, socket, struct, sys, tempfile, threading, time
from drive import STDIN, Launch, ca_pem

IPV6_ORIGDSTADDR, IP_ORIGDSTADDR, IP_PKTINFO = 74, 20, 8
failed = 0


def check(name, good, detail=""):
    global failed
    print(("ok    " if good else "FAIL  ") + name + ("" if good else ": " + str(detail).strip()[-600:]), flush=True)
    failed += not good


def checksum(data):
    if len(data) % 2: data += b"\0"
    s = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while s >> 16: s = (s & 0xffff) + (s >> 16)
    return ~s & 0xffff


class Door:
    """A stand-in for the inner door: TCP answers with the address the guest dialled, UDP and echo are answered from it."""
    def __init__(self, fds):
        self.tcp = socket.socket(fileno=fds["tcp"])
        self.udp = socket.socket(fileno=fds["udp"])
        self.raw = {4: socket.socket(fileno=fds["raw4"]), 6: socket.socket(fileno=fds["raw6"])}
        self.icmp = {4: socket.socket(fileno=fds["icmp4"]), 6: socket.socket(fileno=fds["icmp6"])}
        self.alive = True
        for s in [self.tcp, self.udp, *self.icmp.values()]: s.settimeout(0.2)
        self.seen, self.udp_seen = [], []
        for f in (self.serve_tcp, self.serve_udp, lambda: self.serve_icmp(4), lambda: self.serve_icmp(6)):
            threading.Thread(target=f, daemon=True).start()

    def loop(self, f, s):
        while self.alive:
            try: f(s)
            except (TimeoutError, socket.timeout): continue
            except OSError as e:
                if self.alive: print("door:", e, file=sys.stderr)
                return

    def serve_tcp(self):
        def one(s):
            c, peer = s.accept()
            name = c.getsockname()
            self.seen.append(name)
            c.settimeout(2)
            text = ("%s %d\n" % (name[0], name[1])).encode()
            try:
                head = c.recv(65536)
                c.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text if head.startswith(b"GET") else text)
            except OSError: pass
            c.close()
        self.loop(one, self.tcp)

    def serve_udp(self):
        def one(s):
            data, anc, _f, peer = s.recvmsg(65536, 512)
            dst = None
            for level, kind, p in anc:
                if kind == IP_ORIGDSTADDR and level == socket.IPPROTO_IP: dst = (4, socket.inet_ntop(socket.AF_INET, p[4:8]), struct.unpack("!H", p[2:4])[0])
                if kind == IPV6_ORIGDSTADDR and level == socket.IPPROTO_IPV6: dst = (6, socket.inet_ntop(socket.AF_INET6, p[8:24]), struct.unpack("!H", p[2:4])[0])
            self.udp_seen.append((dst, peer, data[:16]))
            if dst is None: raise OSError("no destination: %r" % anc)
            self.answer_udp(dst, peer, data + b" via %s %d" % (dst[1].encode(), dst[2]))
        self.loop(one, self.udp)

    def answer_udp(self, dst, peer, body):
        family, src, port = dst
        head = struct.pack("!HHHH", port, peer[1], 8 + len(body), 0)
        to = peer[0].removeprefix("::ffff:")
        if family == 4:
            a, b = socket.inet_aton(src), socket.inet_aton(to)
            sum_ = checksum(a + b + struct.pack("!BBH", 0, 17, 8 + len(body)) + head + body) or 0xffff
            self.raw[4].sendmsg([head[:6] + struct.pack("!H", sum_) + body], [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=i4s4s", 0, a, a))], 0, (to, 0))
        else:
            self.raw[6].sendmsg([head + body], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, socket.inet_pton(socket.AF_INET6, src) + struct.pack("=I", 0))], 0, (to, 0))

    def serve_icmp(self, family):
        def one(s):
            data, anc, _f, peer = s.recvmsg(65536, 512)
            for level, kind, p in anc:
                if family == 4 and kind == IP_PKTINFO:
                    _i, _spec, dst = struct.unpack("=i4s4s", p)
                    body = b"\0\0\0\0" + data[20:][4:]
                    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
                    s.sendmsg([body], [(socket.IPPROTO_IP, IP_PKTINFO, struct.pack("=i4s4s", 0, dst, dst))], 0, peer)
                if family == 6 and kind == socket.IPV6_PKTINFO:
                    s.sendmsg([b"\x81\0\0\0" + data[4:]], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, p[:16] + struct.pack("=I", 0))], 0, (peer[0], 0))
        self.loop(one, self.icmp[family])

    def close(self):
        self.alive = False
        time.sleep(0.3)
        for s in [self.tcp, self.udp, *self.raw.values(), *self.icmp.values()]: s.close()


def py(l, code, timeout=60):
    """Runs Python inside; returns what it printed."""
    s = l.run("/usr/bin/python3", "-c", "import socket,os,sys,errno,time,ctypes,struct\n" + code, timeout=timeout)
    return (s.out + s.err).decode(errors="replace").strip()


TRY = '''
def attempt(f):
    t = time.time()
    try: r = f(); print("DONE", r)
    except Exception as e: print(type(e).__name__, errno.errorcode.get(getattr(e, "errno", None) or 0, ""), "%s" % ("slow" if time.time() - t > 3 else "prompt"))
'''


def network(l, door):
    for to, shown in (("http://203.0.113.7:8080/", "::ffff:203.0.113.7 8080"), ("http://[2001:db8::7]:81/", "2001:db8::7 81"), ("http://10.88.0.1/", "::ffff:10.88.0.1 80"),
                      ("http://169.254.169.254/", "::ffff:169.254.169.254 80")):
        out = l.sh("curl -s -m 5 '%s'" % to)
        check("tcp " + to, out.strip() == shown, out)
    udp = "s=socket.socket(socket.%s, socket.SOCK_DGRAM); s.settimeout(3); s.connect((%r, %d)); s.send(b'hi'); print(s.recv(200).decode())"
    check("udp v4 answered from a foreign source", "hi via 198.51.100.9 5353" in py(l, udp % ("AF_INET", "198.51.100.9", 5353)))
    out = py(l, udp % ("AF_INET6", "2001:db8::99", 443))
    check("udp v6 answered from a foreign source", "hi via 2001:db8::99 443" in out, out)
    out = py(l, udp % ("AF_INET", "10.88.0.1", 53))
    check("udp to the resolver's address", "hi via 10.88.0.1 53" in out, out)
    for to in ("192.0.2.55", "2001:db8::55", "10.88.0.1"):
        out = l.sh("ping -c 2 -i 0.2 -W 3 %s" % to)
        check("ping %s by the door" % to, " 0% packet loss" in out and "DUP" not in out, out)
    out = py(l, """s=socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(0, 15, 1); s.settimeout(1); s.bind(("192.0.2.7", 0)); s.sendto(b"spoof", ("198.51.100.9", 99)); s.recv(10)""")
    check("a source address of one's own choice goes nowhere", ("imeout" in out or "unreachable" in out) and not any(x[2].startswith(b"spoof") for x in door.udp_seen), out)
    t = time.monotonic()
    out = py(l, TRY + '''
def far():
    import socket
    for p in range(1000, 1300):
        s = socket.socket(); s.settimeout(3); s.connect(("198.18.7.7", p)); s.send(b"x"); assert s.recv(100); s.close()
    return 300
attempt(far)''')
    check("300 flows (%.0f ms)" % ((time.monotonic() - t) * 1000), "DONE 300" in out, out)


REFUSALS = TRY + '''
def tcp(f, a, p):
    s = socket.socket(f, socket.SOCK_STREAM); s.settimeout(5); s.connect((a, p))
def udp(f, a, p):
    s = socket.socket(f, socket.SOCK_DGRAM); s.settimeout(5); s.connect((a, p)); s.send(b"x"); s.recv(10)
for n in range(ROUNDS):
    for f, a in ((socket.AF_INET, "203.0.113.7"), (socket.AF_INET6, "2001:db8::7"), (socket.AF_INET, "10.88.0.1"), (socket.AF_INET6, "fd62:726f:6d65::1")):
        attempt(lambda: tcp(f, a, 443)); attempt(lambda: udp(f, a, 443))
'''


def refused(l, name):
    out = py(l, REFUSALS.replace("ROUNDS", "1"))
    want = ["ECONNREFUSED", "ECONNREFUSED"] * 4
    lines = out.splitlines()
    check("%s: tcp and udp, v4 and v6, refused at once" % name, len(lines) == 8 and all(w in x and "prompt" in x for w, x in zip(want, lines)), out)
    out = py(l, REFUSALS.replace("ROUNDS", "60"), timeout=120)
    check("%s: and also the 60th time" % name, out.count("prompt") == 480 and out.count("ECONNREFUSED") == 480, out)
    out = l.sh("ping -c 1 -W 3 192.0.2.1; ping -c 1 -W 3 2001:db8::1")
    check("%s: ping is told" % name, out.count("100% packet loss") == 2 and ("filtered" in out.lower() or "prohibited" in out.lower()), out)


def raw_sockets(l):
    out = py(l, TRY + '''
for f, t, p in ((socket.AF_INET, socket.SOCK_RAW, 47), (socket.AF_INET, socket.SOCK_RAW, 255), (socket.AF_INET6, socket.SOCK_RAW, 58), (17, socket.SOCK_RAW, 768), (40, socket.SOCK_STREAM, 0),
                (38, 5, 0), (16, socket.SOCK_RAW, 12), (16, socket.SOCK_RAW, 9), (16, socket.SOCK_RAW, 15), (socket.AF_INET, socket.SOCK_STREAM, 132), (socket.AF_INET, 6, 33),
                (socket.AF_INET, 10, 768), (44, socket.SOCK_RAW, 0), (31, 3, 1), (29, 3, 1), (21, 5, 0), (socket.AF_INET, socket.SOCK_DGRAM, 136), (socket.AF_INET, 2, 115)):
    attempt(lambda: socket.socket(f, t, p))
attempt(lambda: socket.socket(16, socket.SOCK_RAW, 0) and 1)
attempt(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM, 58) and 2)
''')
    lines = out.splitlines()
    check("raw, packet, vsock, alg, netfilter, audit, sctp, dccp, xdp, can, rds, udplite, l2tp sockets refused", len(lines) == 20 and not any("DONE" in x for x in lines[:18]), out)
    check("netlink for routes and ping sockets work", "DONE 1" in out and "DONE 2" in out, out)


def kernel(l):
    tries = {
        "mount": "mount -t tmpfs x /mnt", "bind mount": "mount --bind /tmp /mnt", "remount /proc/sys": "mount -o remount,rw /proc/sys", "umount": "umount /proc/kcore /proc/sys",
        "unshare user": "unshare -U true", "unshare mount": "unshare -m true", "unshare net": "unshare -n true", "nsenter": "nsenter -t 1 -m true", "set core_pattern": "echo x > /proc/sys/kernel/core_pattern",
        "sysrq": "echo h > /proc/sysrq-trigger", "read kcore": "test -s /proc/kcore && head -c 1 /proc/kcore | grep -q .", "kmsg": "head -c 1 /dev/kmsg", "dmesg": "dmesg", "add link": "ip link add x type dummy", "route": "ip route add 1.2.3.4/32 dev eth0",
        "address": "ip addr add 10.88.0.77/24 dev eth0", "link down": "ip link set eth0 down", "neighbour": "ip neigh replace 10.88.0.1 lladdr 02:00:00:00:00:09 dev eth0", "nft": "nft list ruleset", "iptables": "iptables -L",
        "modprobe": "modprobe dummy", "mknod": "mknod /tmp/sda b 8 0", "hostname": "hostname other", "date": "date -s '2001-01-01'", "sysctl": "sysctl -w net.ipv4.ip_forward=1", "swapon": "swapon /tmp/x",
        "file capabilities": "cp /bin/true /tmp/c; setcap cap_net_raw+ep /tmp/c", "chmod u+s": "cp /bin/true /tmp/t; chmod 4755 /tmp/t", "keyctl": "keyctl show", "sys": "test -e /sys/kernel", "disk": "test -e /dev/vda", "shadow": "test -e /etc/shadow", "ssh keys": "test -e /etc/ssh", "auth.conf": "ls /etc/apt/auth.conf*",
        "mtrr": "echo x > /proc/mtrr", "uid_map": "unshare -Ur id", "chroot pivot": "pivot_root /mnt /mnt", "losetup": "losetup -f", "nice oom": "echo -1000 > /proc/1/oom_score_adj",
    }
    for name, cmd in tries.items():
        s = l.run("/bin/sh", "-c", cmd)
        check("refused: " + name, s.status not in (0, None), "%r %r" % (s.out, s.err))
    out = py(l, TRY + '''
libc = ctypes.CDLL(None, use_errno=True)
def call(name, nr, *a):
    r = libc.syscall(nr, *a)
    print(name, r, errno.errorcode.get(ctypes.get_errno(), ""))
call("keyctl", 250, 0, -3, 0); call("add_key", 248, b"user", b"x", b"y", 1, -3); call("request_key", 249, b"user", b"x", 0, 0)
call("bpf", 321, 0, 0, 0); call("perf", 298, 0, 0, 0, 0, 0); call("userfaultfd", 323, 0); call("io_uring", 425, 1, 0); call("clone3", 435, 0, 0)
call("fsopen", 430, b"tmpfs", 0); call("open_tree", 428, -100, b"/", 1); call("move_mount", 429, -100, b"/", -100, b"/mnt", 0); call("mount_setattr", 442, -100, b"/", 0, 0, 0)
call("setns", 308, 0, 0); call("clone newuser", 56, 0x10000000 | 17, 0, 0, 0, 0); call("unshare time", 272, 0x80); call("kexec", 246, 0, 0, 0, 0); call("handle", 304, 0, 0, 0)
call("personality", 135, 0x400000); call("openat2", 437, -100, b"/", 0, 24); call("mknodat suid", 259, -100, b"/tmp/s", 0o104755, 0); call("open suid", 257, -100, b"/tmp/s2", 0o101, 0o4755)
call("fsmount", 432, 0, 0, 0); call("syslog", 103, 3, 0, 0); call("future", 600); call("fchmodat2", 452, -100, b"/tmp/t", 0o4755, 0); call("fchmod", 91, 0, 0o4755); call("memfd suid", 268, -100, b"/tmp/t", 0o4755)
''')
    check("forbidden calls fail", all(x.split()[-2] == "-1" and x.split()[-1] in ("EPERM", "ENOSYS") for x in out.splitlines()) and len(out.splitlines()) == 27, out)
    s = l.run("/usr/bin/python3", "-c", "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39); print('alive')")
    check("x32 calls kill or fail", b"alive" not in s.out or s.status, s.out)
    out = py(l, TRY + '''
import fcntl, termios
attempt(lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
attempt(lambda: fcntl.ioctl(0, 0x100005412, b"x"))
''')
    check("TIOCSTI refused", out.count("EPERM") >= 1 and "DONE" not in out, out)
    out = l.sh("cat /proc/self/status")
    want = {"CapInh:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"}
    check("no new privileges, filters, empty inheritable set", want <= set(out.splitlines()), out)
    out = l.sh("cat /proc/1/maps; ls -l /proc/1/fd; ls /proc | grep -c '^[0-9]'")
    check("only the guest's processes", int(out.splitlines()[-1]) < 12, out)
    check("a session keyring of its own is empty", "root" not in l.sh("cat /proc/keys"), "")


def files(l, state):
    out = l.sh("stat -f -c %T /usr; stat -c %i /usr/bin/env; echo; cat /proc/mounts | grep -vc nosuid; cat /proc/mounts | grep -v nodev | grep -vE ' (/dev|/proc)(/| )'")
    check("every mount is nosuid, every one nodev outside /dev", out.splitlines()[-1] == "0", out)
    host = os.open("/usr/bin/env", os.O_RDONLY)
    fcntl.flock(host, fcntl.LOCK_EX | fcntl.LOCK_NB)
    out = py(l, "import fcntl\nf=open('/usr/bin/env'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked')")
    check("no lock is shared with the host's /usr", "locked" in out, out)
    fcntl.flock(host, fcntl.LOCK_UN); os.close(host)
    s = l.run("/bin/sh", "-c", "echo hi > /root/f && echo hi > /tmp/f && echo hi > /usr/local/bin/f && echo hi > /etc/f && echo hi > /var/f && echo hi > /run/f && echo hi >/dev/shm/f && df / >/dev/null")
    check("the workspace's own places are writable", s.status == 0, s.err)
    check("nothing of that is in the host's", not any(os.path.exists(p) for p in ("/usr/local/bin/f", "/etc/f", "/var/f", "/run/f", "/dev/shm/f", "/tmp/f", "/root/f")))
    out = l.sh("cat /etc/passwd /etc/group; ls /home /var/log /var/cache; cat /etc/machine-id; hostname")
    host_id = open("/etc/machine-id").read().strip() if os.path.exists("/etc/machine-id") else "none"
    check("nothing of the host's users, logs, machine id", "brometest" not in out and "postgres" not in out and (not host_id or host_id not in out) and out.rstrip().endswith("test"), out)
    s = l.run("/bin/sh", "-c", "for p in bash git node python3 perl java gcc apt-get dpkg curl; do command -v $p >/dev/null && { case $p in java) $p -version;; *) $p --version;; esac; } >/dev/null 2>&1 || echo $p; done")
    check("common programs start", s.out.strip() == b"", s.out)
    out = l.sh("openssl verify /etc/ssl/certs/brome.pem; openssl crl2pkcs7 -nocrl -certfile $SSL_CERT_FILE | openssl pkcs7 -print_certs -noout | grep -c 'subject.*brome workspace'; env -u SSL_CERT_FILE openssl verify -CApath /etc/ssl/certs /etc/ssl/certs/brome.pem")
    check("the workspace's CA is trusted by file and by folder", out.count("brome.pem: OK") == 2 and "\n1\n" in out, out)
    if os.path.exists("/usr/bin/keytool"):
        out = l.sh("keytool -list -cacerts -storepass changeit 2>&1 | tail -3; keytool -list -cacerts -storepass changeit 2>&1 | grep -c trustedCertEntry")
        check("the Java trust store opens", int(out.split()[-1]) > 100, out)
    out = l.sh("dpkg -l | tail -1; apt-get check; id; tty; python3 -c 'import os; print(os.openpty())'; python3 -c 'print(len(__import__(\"os\").listdir(\"/dev/pts\")))'")
    check("dpkg, apt, ptys", "E:" not in out and "(" in out, out)
    check("nothing mounted on the host", state not in open("/proc/self/mounts").read())


def packets(l, door):
    """As root of the host, inside the guest's network namespace: what no guest of this kind can send, but a virtual machine's kernel could."""
    pid = guests(l)[0]
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)
    libc = __import__("ctypes").CDLL(None, use_errno=True)
    there = os.open("/proc/%s/ns/net" % pid, os.O_RDONLY)
    assert libc.setns(there, 0x40000000) == 0
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP); icmp.settimeout(1)
    icmp6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6); icmp6.settimeout(1)
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); packet.bind(("eth0", 0x800)); packet.settimeout(0.5)
    assert libc.setns(ours, 0x40000000) == 0

    def ip(proto, body, src="10.88.0.2", dst="203.0.113.5", frag=0, options=b""):
        head = struct.pack("!BBHHHBBH4s4s", 0x40 | (5 + len(options) // 4), 0, 20 + len(options) + len(body), 77, frag, 64, proto, 0, socket.inet_aton(src), socket.inet_aton(dst)) + options
        return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body

    def told(s, off, kinds):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try: d = s.recv(2000)
            except (TimeoutError, socket.timeout): return False
            if (d[off], d[off + 1]) in kinds: return True
        return False

    def drain():
        for s in (icmp, icmp6, packet):
            s.setblocking(False)
            try:
                while s.recv(65536): pass
            except OSError: pass
            s.settimeout(0.6)

    # The kernel's reject answers only what carries a right Internet checksum over v6 pseudo header and body, for protocols that it does not know better.
    def sound(proto):
        pseudo = socket.inet_pton(socket.AF_INET6, "fd62:726f:6d65::2") + socket.inet_pton(socket.AF_INET6, "2001:db8::5") + struct.pack("!II", 24, proto)
        return struct.pack("!H", checksum(pseudo + b"\0" * 24)) + b"\0" * 22

    for name, proto in (("SCTP", 132), ("GRE", 47), ("6in4", 41), ("DCCP", 33), ("ESP", 50), ("unknown", 253)):
        drain(); raw.sendto(ip(proto, b"\0" * 24), ("203.0.113.5", 0))
        check("%s is answered with ICMP admin-prohibited" % name, told(icmp, 20, {(3, 13)}))
        drain(); raw6.sendto(struct.pack("!IHBB", 0x60000000, 24, proto, 64) + socket.inet_pton(socket.AF_INET6, "fd62:726f:6d65::2") + socket.inet_pton(socket.AF_INET6, "2001:db8::5") + sound(proto), ("2001:db8::5", 0, 0, 0))
        check("%s over v6 too" % name, told(icmp6, 0, {(1, 1)}))
    udp = struct.pack("!HHHH", 4000, 5000, 12, 0) + b"evil"
    before = len(door.udp_seen)
    mac = b"\x02\x62\x72\x6f\0\x01", b"\x02\x62\x72\x6f\0\x02"
    def frame(data, src=mac[1], kind=b"\x08\0"): packet.send(mac[0] + src + kind + data)
    drain()
    frame(ip(17, udp, frag=0x2000)); frame(ip(17, udp, frag=0x0001)); frame(ip(17, udp, src="10.88.0.9")); frame(ip(17, udp, src="127.0.0.1")); frame(ip(17, udp, src="10.88.0.1"))
    frame(ip(17, udp, options=b"\x83\x07\x04\x0a\x58\0\x01\0")); frame(ip(17, udp), src=b"\x02\0\0\0\0\x05")
    v6 = lambda src, nh, body: struct.pack("!IHBB", 0x60000000, len(body), nh, 64) + socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, "2001:db8::5") + body
    g = "fd62:726f:6d65::2"
    for p in (v6("fe80::1", 17, udp), v6("2001:db8::1", 17, udp), v6(g, 44, struct.pack("!BBHI", 17, 0, 1, 9) + udp), v6(g, 43, b"\x11\0\0\0\0\0\0\0" + udp), v6(g, 60, b"\x11\0\x01\x04\0\0\0\0" + udp), v6(g, 0, b"\x11\0\x01\x04\0\0\0\0" + udp)):
        frame(p, kind=b"\x86\xdd")
    time.sleep(0.3)
    check("fragments, source routes, foreign sources and MACs are dropped", len(door.udp_seen) == before and not told(icmp, 20, {(3, 3), (3, 13)}), door.udp_seen[before:])
    drain(); frame(ip(17, udp, options=b"\x01\x01\x01\0"))
    check("other options are refused at once", told(icmp, 20, {(3, 3)}), door.udp_seen[before:])
    check("and not let in", len(door.udp_seen) == before, door.udp_seen[before:])
    frame(ip(17, udp))
    for _ in range(100):
        if len(door.udp_seen) == before: time.sleep(0.03)
    check("(the same without them arrives)", len(door.udp_seen) == before + 1, door.udp_seen)
    packet.send(b"\xff" * 6 + mac[1] + b"\x08\x06" + struct.pack("!HHBBH6s4s6s4s", 1, 0x800, 6, 4, 2, b"\x02\0\0\0\0\x66", socket.inet_aton("10.88.0.2"), mac[0], socket.inet_aton("10.88.0.1")))
    out = l.sh("curl -s -m 5 http://203.0.113.7/")
    check("a forged ARP answer changes nothing", "203.0.113.7" in out, out)
    for s in (raw, raw6, icmp, icmp6, packet): s.close()
    os.close(ours); os.close(there)


def guests(l):
    """Processes in the pid namespace of the launcher's guest, which this remembers for when the launcher is gone."""
    if not hasattr(l, "namespace"):
        for p in open("/proc/%d/task/%d/children" % (l.proc.pid, l.proc.pid)).read().split():
            try: ns = os.readlink("/proc/%s/ns/pid" % p)
            except OSError: continue
            if ns != os.readlink("/proc/self/ns/pid"): l.namespace = ns
    found = []
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                if os.readlink("/proc/%s/ns/pid" % p) == l.namespace: found.append(p)
            except OSError: pass
    return found


def sealed(l, user):
    """What brome-launch and its keeper still hold while the guest runs."""
    status = lambda p: dict(x.split(":\t", 1) for x in open("/proc/%s/status" % p).read().splitlines() if ":\t" in x)
    launch = status(l.proc.pid)
    check("brome-launch: no capability, no new privileges, filtered", int(launch["CapEff"], 16) == 0 and int(launch["CapPrm"], 16) == 0 and launch["NoNewPrivs"] == "1" and launch["Seccomp"] == "2", launch)
    inside = set(guests(l))
    for p in open("/proc/%d/task/%d/children" % (l.proc.pid, l.proc.pid)).read().split():
        if p in inside: continue
        k = status(p)
        check("the keeper: four capabilities, filtered", bin(int(k["CapEff"], 16)).count("1") == 4 and k["NoNewPrivs"] == "1" and k["Seccomp"] == "2", k)
        fds = [os.readlink("/proc/%s/fd/%s" % (p, f)) for f in os.listdir("/proc/%s/fd" % p)]
        check("the keeper's descriptors are few", len(fds) < 25 and sum(f.startswith("socket") for f in fds) == 2, fds)
    ns = lambda p, kind: os.readlink("/proc/%s/ns/%s" % (p, kind))
    first = min(inside, key=int)
    check("every namespace is the guest's own", all(ns(first, k) not in (ns("self", k), ns(l.proc.pid, k)) for k in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")))
    check("guest root is not root", open("/proc/%s/uid_map" % first).read().split()[1] != "0" and (user is not None or status(first)["Uid"].split()[0] not in ("0", "1000")), "")
    check("no uplink, no forwarding", l.proc and os.path.exists("/proc/%d/net/dev" % l.proc.pid) and sorted(x.split(":")[0].strip() for x in open("/proc/%d/net/dev" % l.proc.pid) if ":" in x and not any(t in x for t in ("sit0", "tunl0", "gre", "ip6tnl", "ip_vti", "ip6_vti"))) == ["gate0", "lo"])


def life(l, make):
    s = l.exec(["/bin/sh", "-c", "sleep 1000 & sleep 1001 & bash -c \"exec -a '\x1b[2J x' sleep 1002\" & while :; do :; done"])
    while not any(b"1002" in open("/proc/%s/cmdline" % p, "rb").read() and b"bash" not in open("/proc/%s/cmdline" % p, "rb").read() for p in guests(l)): pass
    l.send({"op": "freeze"}); msg, _ = l.expect("freeze")
    check("freeze", msg["ok"], msg)
    lines = l.expect("processes")[0]["list"]
    check("what is frozen is listed, printable", sum("user 0: sleep 100" in x for x in lines) >= 2 and any("\\x1b[2J x" in x for x in lines) and not any("\x1b" in x for x in lines), lines)
    busy = lambda: sum(int(open("/proc/%s/stat" % p).read().rsplit(")", 1)[1].split()[11]) for p in guests(l))
    a = busy(); time.sleep(0.3); b = busy()
    check("frozen means no tick", a == b, (a, b))
    try: l.run("/bin/true"); check("exec in a frozen workspace is refused", False)
    except RuntimeError as e: check("exec in a frozen workspace is refused", "frozen" in str(e), e)
    l.send({"op": "thaw"}); msg, _ = l.expect("thaw")
    a = busy(); time.sleep(0.3); b = busy()
    check("thaw", msg["ok"] and b > a, (msg, a, b))
    s.sock.close()
    t = time.monotonic()
    check("a closed client hangs its program up", l.expect("exec-end", timeout=10)[0]["status"] in (129, 137), "")
    msg = l.stop()
    check("stop (%.0f ms)" % ((time.monotonic() - t) * 1000), msg["op"] == "exit" and msg["reason"] == "stopped", msg)
    check("nothing left behind", not guests(l), guests(l))
    check("no message in the log", l.text().strip() == "", l.text())

    l = make(); l.start()
    s = l.exec(["/bin/sh", "-c", "sleep 1000"]); guests(l)
    l.proc.kill(); l.proc.wait()
    end = time.monotonic() + 5
    while guests(l) and time.monotonic() < end: time.sleep(0.01)
    check("kill -9 of brome-launch takes the guest along", not guests(l), guests(l))
    l = make(); l.start(); s = l.exec(["/bin/sh", "-c", "sleep 1000"]); guests(l)
    l.ctl.close(); l.proc.wait(10)
    end = time.monotonic() + 5
    while guests(l) and time.monotonic() < end: time.sleep(0.01)
    check("so does the end of bromed's channel", not guests(l), guests(l))
    l = make(); l.start()
    out = l.sh(":(){ :|:& };: ; sleep 1; echo over", timeout=60) if False else py(l, '''
n = 0
try:
    while n < 9000:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except OSError as e: print("stopped at", n, e.errno)
os.system("true") if False else None
''', timeout=60)
    check("a fork bomb ends at the limit", "stopped at" in out and int(out.split()[2]) < 4200, out)
    guests(l)
    t = time.monotonic(); l.stop(0); check("and is killed at once (%.0f ms)" % ((time.monotonic() - t) * 1000), not guests(l), len(guests(l)))


def limits(make):
    l = make(memory_bytes=200 << 20, processes=50, cpu_percent=50)
    l.start()
    if l.ready["isolation"]["limits"]["memory"] == "cgroup":
        s = l.run("/usr/bin/python3", "-c", "x = bytearray(400 << 20); print('had it')")
        check("the memory limit holds", s.status == 9 and b"had it" not in s.out, (s.status, s.out, s.err))
        t = os.times(); s = l.run("/usr/bin/python3", "-c", "import time,os\nt=time.time()\nwhile time.time()-t<1.5: pass\nprint(os.times().user)")
        check("the CPU limit holds", float(s.out) < 1.2, s.out)
    else:
        check("limits that do not hold are told", len(l.ready["isolation"]["warnings"]) == 2, l.ready)
    out = py(l, "n = 0\ntry:\n    while n < 200:\n        if os.fork() == 0: time.sleep(5); os._exit(0)\n        n += 1\nexcept OSError: pass\nprint(n)")
    check("the process limit holds", 5 < int(out.split()[-1]) < 50, out)
    l.stop(0)
    l = make(nested=True); l.start()
    out = l.sh("unshare -Urm sh -c 'mount -t tmpfs x /mnt && echo nested'; unshare -Urpf --mount-proc true; echo 1 > /proc/sys/kernel/core_pattern; umount /proc/sys; cat /proc/kcore | head -c1")
    check("nested yes allows namespaces inside", "nested" in out, out)
    l.stop(0)


def shares(base, user, make):
    import subprocess
    top = os.path.join(base, "src"); os.mkdir(top)
    rw, ro, over, link = (os.path.join(top, n) for n in ("rw", "ro", "over", "link"))
    for d in (rw, ro, over):
        os.mkdir(d); open(d + "/old", "w").write("old\n")
    subprocess.run(["git", "init", "-q", rw], check=True)
    open(rw + "/.envrc", "w").write("true\n")
    os.symlink("/etc", link)
    if user is not None: subprocess.run(["chown", "-R", str(user), top], check=True)
    l = make(shares=[dict(path=rw, mode="rw"), dict(path=ro, mode="ro"), dict(path=over, mode="overlay")])
    l.start()
    s = l.run("/bin/sh", "-c", "echo new > %s/new && cat %s/old %s/old && echo new > %s/new && rm %s/old && stat -c %%u %s %s %s" % (rw, rw, ro, over, over, rw, ro, over))
    check("shares: read-write, read-only, overlay", s.status == 0 and s.out.split() == [b"old", b"old", b"0", b"0", b"0"], (s.out, s.err))
    check("read-only is", l.run("/bin/sh", "-c", "echo x > %s/x" % ro).status != 0)
    st = os.stat(rw + "/new")
    check("new files belong to the host's owner", st.st_uid == os.stat(rw).st_uid, st)
    check("the overlay's folder is as it was", sorted(os.listdir(over)) == ["old"], os.listdir(over))
    for cmd in ("echo x > .git/hooks/pre-commit", "echo x >> .envrc", "rm .envrc", "mv .envrc e", "mv .git g", "mv .git/hooks h", "rm -r .git/hooks", "rm .git/config", "ln -sf /tmp .git/hooks"):
        check("protected: " + cmd, l.run("/bin/sh", "-c", cmd, cwd=rw).status != 0)
    out = l.sh("git remote add up https://git.example/x.git && git config core.fsmonitor /tmp/evil && git config core.hooksPath /tmp && git checkout -q -b work && git add new && git -c user.name=a -c user.email=b commit -qm x && git log --oneline; printf '#!/bin/sh\n' > run.sh; chmod +x run.sh", cwd=rw)
    check("git works in a share", " x" in out, out)
    msg = l.stop()
    config = open(rw + "/.git/config").read()
    check("remote carried back, nothing dangerous", "git.example" in config and "fsmonitor" not in config and "hooksPath" not in config, config)
    check("changed files that may run are named", any(p.endswith("/run.sh") for p in msg["changed"]), msg)
    check("nothing in the log but what was not carried", len(l.text().splitlines()) <= 1, l.text())
    for path, mode in ((link, "rw"), (os.path.join(base, "workspaces"), "ro"), ("/", "ro"), ("/proc", "ro"), (os.path.expanduser("~" + (sys.argv[1] if user is not None else "")), "rw"), ("/etc", "rw"), (base, "rw"), ("/nowhere", "ro")):
        l = make(shares=[dict(path=path, mode=mode)], protect=[os.path.join(base, "workspaces")])
        try: l.gateway(); check("share refused: " + path, False); l.stop(0)
        except RuntimeError as e: check("share refused: %s (%s)" % (path.replace(base, "BASE"), str(e).replace(base, "BASE")[:90]), True)
    l = make(shares=[dict(path=over, mode="overlay")]); l.start()
    check("the overlay is kept for the next session", l.sh("ls " + over).split() == ["new"])
    l.stop()


def etc_layers(home, cache, user, pem):
    """What all workspaces share of /etc is nobody's way to another, is removed when nobody uses it, and can be done without."""
    def start(name, **kw):
        path = os.path.join(home, name)
        if not os.path.isdir(path): os.mkdir(path)
        if user is not None: os.chown(path, user, -1)
        l = Launch(path, user=user, ca=pem, **kw)
        l.start()
        return l
    layers = lambda: sorted(os.listdir(cache))
    look = "cd /etc; find . | sort | grep -v '^./ssl/certs/.*[.][0-9]$' | md5sum; find . -not -user 0 | head; cat passwd hosts | md5sum; openssl verify -CApath /etc/ssl/certs /etc/ssl/certs/brome.pem"
    one, two = start("one", cache=cache), start("two", cache=cache)
    check("one layer for all", len(layers()) == 1 and layers()[0].startswith("etc-"), layers())
    hold = "import fcntl\nf=open('/etc/passwd'); fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print('locked', flush=True)\nimport sys; sys.stdin.read()"
    s = one.exec(["python3", "-c", hold])
    out = py(two, hold.split("import sys")[0])
    check("no lock on a shared file passes between neighbours", "locked" in out, out)
    s.send(STDIN); s.pump(20)
    check("the first one had it", b"locked" in s.out, s.out)
    one.sh("echo mine >> /etc/passwd; rm /etc/protocols; chmod 000 /etc/services")
    out = two.sh("grep -c mine /etc/passwd; cat /etc/protocols /etc/services | wc -l")
    check("what one writes the other does not see", out.split()[0] == "0" and int(out.split()[1]) > 100, out)
    ids = [l.sh("cat /etc/machine-id") for l in (one, two)]
    check("each has a machine id of its own", ids[0] != ids[1], ids)
    want = two.sh(look)
    check("its files are the guest's, its CA is found", "brome.pem: OK" in want and len(want.split("\n")) == 4, want)
    old = os.path.join(cache, layers()[0])
    renamed = os.path.join(cache, "etc-" + "0" * 64)
    os.rename(old, renamed)  # as if the host's /etc had changed: another name is wanted now
    one.stop()
    three = start("one", cache=cache)
    check("a layer in use stays", len(layers()) == 2, layers())
    check("the machine id is kept", three.sh("cat /etc/machine-id") == ids[0])
    two.stop(); three.stop()
    os.rename(os.path.join(cache, [n for n in layers() if "0" * 64 not in n][0]), os.path.join(cache, "etc-" + "1" * 64))
    start("two", cache=cache).stop()
    check("layers that nobody uses are removed", len(layers()) == 1 and "0000" not in layers()[0], layers())
    alone = start("three")
    out = alone.sh(look)
    check("without a cache a workspace has all of it", out == want, out + want)
    alone.stop()


def accounts(base, user, make):
    """Placeholders in variables and files, tools read-only where they lie, and a home that a guest has prepared."""
    import zlib
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    core = "brm" + "a" * 27
    crc, text = zlib.crc32(core.encode()), ""
    for _ in range(6): crc, text = crc // 62, digits[crc % 62] + text
    held = "ghp_" + core + text
    account = {"name": "forge", "kind": "github", "hosts": [{"name": "forge.example", "port": 443}], "placeholder": held, "env": "CI_TOKEN"}
    tool = os.path.join(base, "opt", "agent")
    os.makedirs(tool + "/bin")
    with open(tool + "/bin/agent", "w") as f: f.write("#!/bin/sh\necho agent runs\n")
    os.chmod(tool + "/bin/agent", 0o755)
    if user is not None:
        for d, _s, files in os.walk(os.path.join(base, "opt")):
            for n in [d] + [os.path.join(d, f) for f in files]: os.chown(n, user, -1)
    outside = os.path.join(base, "outside"); os.mkdir(outside); os.chmod(outside, 0o777)
    gone = os.path.join(base, "nowhere")
    project = os.path.join(base, "project"); modules = os.path.join(project, "node_modules")
    os.makedirs(modules + "/.bin")
    with open(modules + "/.bin/own-tool", "w") as f: f.write("#!/bin/sh\necho local runs\n")
    os.chmod(modules + "/.bin/own-tool", 0o755)
    if user is not None:
        for d in (project, modules, modules + "/.bin", modules + "/.bin/own-tool"): os.chown(d, user, -1)
    l = make(accounts=[account], tools=[tool, gone, "/usr/lib", modules], shares=[dict(path=project, mode="rw")]); l.gateway(); l.open()
    out = l.sh("echo $GITHUB_TOKEN $CI_TOKEN; cat ~/.git-credentials ~/.config/gh/hosts.yml; stat -c %U:%a ~/.git-credentials")
    check("placeholders in variables and files, the guest's own", out.startswith("%s %s\n" % (held, held)) and out.count(held) >= 4 and "root:600" in out, out)
    out = l.sh("agent; echo x > %s/bin/agent; rm %s/bin/agent; mkdir %s/new; ls -l %s/bin" % (tool, tool, tool, tool))
    check("a tool runs where it lies and cannot be changed", out.startswith("agent runs") and out.count("Read-only file system") >= 3 and "root" in out, out)
    out = l.sh("own-tool; touch %s/new && echo written" % modules)
    check("a tool in a share runs there, and the share stays what it is", out == "local runs\nwritten\n", out)
    check("what cannot be shown is a warning", any("nowhere" in w for w in l.ready["isolation"]["warnings"]), l.ready["isolation"]["warnings"])
    l.sh("cd; rm -rf .config .git-credentials .gitconfig; ln -s %s .config; ln -s /etc/passwd .gitconfig; ln -s ../../../../../../../../..%s/x .git-credentials; mkdir -p .brome; printf '%%s\n' own > .netrc" % (outside, outside))
    l.stop()
    l = make(accounts=[account]); l.gateway(); l.open()
    out = l.sh("cat ~/.netrc; tail -1 /etc/passwd; echo $GITHUB_TOKEN")
    check("links in the home lead nowhere", os.listdir(outside) == [] and held in out and out.startswith("own\n") and sum("left alone" in w for w in l.ready["isolation"]["warnings"]) == 3, str(l.ready["isolation"]["warnings"]) + out)
    l.stop()


def main():
    user = pwd.getpwnam(sys.argv[1]).pw_uid if len(sys.argv) > 1 else None
    if user is not None and os.geteuid() != 0:
        print("skipped: only root can become", sys.argv[1])
        return 77
    base = tempfile.mkdtemp(prefix="brome-launch-", dir="/var/tmp")
    os.chmod(base, 0o755)
    home = os.path.join(base, "workspaces"); os.mkdir(home)
    state = os.path.join(home, "test"); os.mkdir(state)
    if user is not None: os.chown(state, user, -1); os.chown(home, user, -1)
    pem = ca_pem(base)
    cache = os.path.join(base, "cache"); os.mkdir(cache, 0o700)
    if user is not None: os.chown(cache, user, -1)
    make = lambda **kw: Launch(state, user=user, ca=pem, **{"cache": cache, **kw})

    l = make()
    fds = l.gateway()
    l.open()
    l.send({"op": "shut"})
    refused(l, "shut")
    door = Door(fds)
    l.send({"op": "open"})
    network(l, door)
    if os.geteuid() == 0: packets(l, door)
    if os.geteuid() == 0: sealed(l, user)
    raw_sockets(l)
    kernel(l)
    files(l, base)
    l.send({"op": "shut"}); refused(l, "shut again"); l.send({"op": "open"})
    out = l.sh("curl -s -m 5 http://203.0.113.9/")
    check("open again", "203.0.113.9" in out, out)
    door.close()
    out = py(l, REFUSALS.replace("ROUNDS", "1"))
    check("the inner door is dead: everything refused at once", out.count("ECONNREFUSED prompt") == 8, out)
    life(l, make)
    limits(make)
    etc_layers(home, cache, user, pem)
    shares(base, user, make)
    accounts(base, user, make)
    print("%d failed" % failed)
    return failed != 0


sys.exit(main())
