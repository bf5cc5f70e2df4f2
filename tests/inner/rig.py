"""A rig for the inner door: a gateway namespace (this process's own), a guest namespace behind a veth pair, the door itself on real
transparent sockets, a stand-in for the outer door, and this process in bromed's place. Run through `unshare -n` as root.

Nothing here sleeps for readiness: the door says `ready`, and everything else is a socket that answers or closes."""
import array, fcntl, json, os, queue, re, socket, struct, subprocess, sys, tempfile, threading, time

IP_TRANSPARENT, IPV6_TRANSPARENT, IP_RECVORIGDSTADDR, IPV6_RECVORIGDSTADDR = 19, 75, 20, 74
PORT = 4000
FIELDS = {}


def load_fields(root):
    for line in open(os.path.join(root, "src/journal/events.tbl")):
        m = re.match(r'FIELD\((\w+),\s*(\d+),\s*(\w+),\s*"([^"]+)"', line)
        if m:
            FIELDS[int(m[2])] = (m[4], m[3])


def sh(*argv):
    subprocess.run(argv, check=True)


def memfd(data):
    fd = os.memfd_create("rig", 0)
    os.write(fd, data)
    os.lseek(fd, 0, 0)
    return fd


class Rig:
    def __init__(self, inner, outer, rules, root, before=""):
        load_fields(root)
        self.outer_exe, self.doors, self.trips, self.answers = outer, {}, queue.Queue(), queue.Queue()
        self.no_link = {}  # account: reason; or None, and nothing is said
        self.asked = queue.Queue()
        self.ns = "bi%d" % os.getpid()
        self.dir = tempfile.mkdtemp()
        self.events, self.lock, self.generation = [], threading.Condition(), 0
        self.reading = threading.Event()  # cleared: records are left in the socket
        self.reading.set()
        self.network()
        self.make_ca()
        self.start(inner, outer, rules, before)

    def network(self):
        sh("ip", "netns", "add", self.ns)
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "g0", "mtu", "65520", "type", "veth", "peer", "name", "e0", "mtu", "65520", "netns", self.ns)
        for args in (["addr", "add", "10.88.0.1/24", "dev", "g0"], ["addr", "add", "fd62:726f:6d65::1/64", "dev", "g0", "nodad"], ["link", "set", "g0", "up"],
                     ["rule", "add", "fwmark", "1", "lookup", "100"], ["route", "add", "local", "default", "dev", "lo", "table", "100"],
                     ["-6", "rule", "add", "fwmark", "1", "lookup", "100"], ["-6", "route", "add", "local", "default", "dev", "lo", "table", "100"]):
            sh("ip", *args)
        for args in (["addr", "add", "10.88.0.2/24", "dev", "e0"], ["addr", "add", "fd62:726f:6d65::2/64", "dev", "e0", "nodad"], ["link", "set", "lo", "up"],
                     ["link", "set", "e0", "up"], ["route", "add", "default", "via", "10.88.0.1"], ["-6", "route", "add", "default", "via", "fd62:726f:6d65::1"]):
            sh("ip", "-n", self.ns, *args)
        for path in ("net/ipv4/icmp_echo_ignore_all", "net/ipv6/icmp/echo_ignore_all"):
            with open("/proc/sys/" + path, "w") as f:
                f.write("1")
        rules = """table inet rig {
  chain pre {
    type filter hook prerouting priority mangle; policy accept;
    iifname "g0" meta l4proto tcp meta mark set 1 tproxy to :%d accept
    iifname "g0" meta l4proto udp meta mark set 1 tproxy to :%d accept
    iifname "g0" icmp type echo-request meta mark set 1 accept
    iifname "g0" icmpv6 type echo-request meta mark set 1 accept
  }
}
""" % (PORT, PORT)
        subprocess.run(["nft", "-f", "-"], input=rules.encode(), check=True)

    def make_ca(self):
        key, cert = os.path.join(self.dir, "ca.key"), os.path.join(self.dir, "ca.pem")
        sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "30", "-subj",
           "/CN=rig CA", "-addext", "keyUsage=critical,keyCertSign")
        self.ca_key, self.ca_cert = key, cert

    def sockets(self):
        def transparent(kind):
            s = socket.socket(socket.AF_INET6, kind)
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
            s.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
            return s
        tcp, udp = transparent(socket.SOCK_STREAM), transparent(socket.SOCK_DGRAM)
        tcp.bind(("::", PORT))
        tcp.listen(1024)
        udp.setsockopt(socket.IPPROTO_IP, IP_RECVORIGDSTADDR, 1)
        udp.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)  # as the launcher: told twice, the original destination counts
        udp.setsockopt(socket.IPPROTO_IP, 8, 1)
        udp.bind(("::", PORT))
        raw = []
        for family, proto, level, opt in ((socket.AF_INET, socket.IPPROTO_UDP, socket.IPPROTO_IP, IP_TRANSPARENT),
                                          (socket.AF_INET6, socket.IPPROTO_UDP, socket.IPPROTO_IPV6, IPV6_TRANSPARENT),
                                          (socket.AF_INET, socket.IPPROTO_ICMP, socket.IPPROTO_IP, IP_TRANSPARENT),
                                          (socket.AF_INET6, socket.IPPROTO_ICMPV6, socket.IPPROTO_IPV6, IPV6_TRANSPARENT)):
            s = socket.socket(family, socket.SOCK_RAW, proto)
            s.setsockopt(level, opt, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
                if proto == socket.IPPROTO_UDP:
                    s.setsockopt(socket.IPPROTO_IPV6, 7, 6)  # IPV6_CHECKSUM: the kernel fills the UDP checksum
            raw.append(s)
        return [tcp, udp] + raw

    def start(self, inner, outer, rules, before):
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link_a, link_b = socket.socketpair()
        for s in (link_a, link_b):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ours, events = socket.socketpair()
        socks = self.sockets()
        names = os.open(os.path.join(self.dir, "names"), os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        key, cert = os.open(self.ca_key, os.O_RDONLY), os.open(self.ca_cert, os.O_RDONLY)

        def child():
            os.dup2(theirs.fileno(), 3)
            os.set_inheritable(3, True)
        self.start_outer(outer, link_b)
        self.inner = subprocess.Popen([inner], preexec_fn=child, pass_fds=[3], close_fds=True, env={"BROME_DEBUG": os.environ.get("BROME_DEBUG", ""), "PATH": ""} if os.environ.get("BROME_DEBUG") else {})
        self.control = control
        self.send({"op": "start", "workspace": "rig", "session": 1, "dns": "synthetic", "trace": True,
                   "fds": ["events", "tcp", "udp", "raw4", "raw6", "icmp4", "icmp6", "names", "ca_key", "ca_cert", "link"]},
                  [events.fileno()] + [s.fileno() for s in socks] + [names, key, cert, link_a.fileno()])
        for s in [theirs, link_a, link_b, events] + socks:
            s.close()
        self.event_socket = ours
        threading.Thread(target=self.read_events, daemon=True).start()
        threading.Thread(target=self.read_control, daemon=True).start()
        self.policy(rules, before)
        assert self.recv()["op"] == "ready"

    def start_outer(self, outer, link):
        self.outer = subprocess.Popen([outer, str(link.fileno()), self.came_path("")], pass_fds=[link.fileno()])

    def send(self, body, fds=()):
        socket.send_fds(self.control, [json.dumps(body).encode()], list(fds))

    def read_control(self):
        """Answers go to whoever asked; what the door says by itself is heard here, as bromed does."""
        while True:
            data = self.control.recv(65536)
            msg = json.loads(data) if data else None
            if msg and msg["op"] == "account":
                self.asked.put(msg["account"])
                if msg["account"] not in self.no_link:
                    self.link(msg["account"])
                elif self.no_link[msg["account"]]:
                    self.send({"op": "no-link", "account": msg["account"], "reason": self.no_link[msg["account"]]})
            elif msg and msg["op"] == "trip":
                self.trips.put(msg)
            else:
                self.answers.put(msg)
            if not msg:
                return

    def recv(self):
        msg = self.answers.get(timeout=20)
        if not msg:
            raise RuntimeError("the door is gone: %s" % self.inner.wait())
        return msg

    # accounts: one stand-in for the outer door of each

    def came_path(self, account):
        return os.path.join(self.dir, "came-" + account)

    def link(self, account):
        a, b = socket.socketpair()
        for s in (a, b):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self.doors[account] = subprocess.Popen([self.outer_exe, str(b.fileno()), self.came_path(account)], pass_fds=[b.fileno()])
        self.send({"op": "link", "account": account, "fds": ["link"]}, [a.fileno()])
        a.close()
        b.close()

    def came(self, account=""):
        """Everything that ever reached a stand-in."""
        try:
            with open(self.came_path(account), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    def forget(self):
        """What came so far no longer counts."""
        for f in os.listdir(self.dir):
            if f.startswith("came-"):
                os.truncate(os.path.join(self.dir, f), 0)

    def all_came(self):
        return b"".join(self.came(f[5:]) for f in os.listdir(self.dir) if f.startswith("came-"))

    def policy(self, rules, before=""):
        self.generation += 1
        fd = memfd(json.dumps({"rules": "%s\nrules {\n%s\n}\n" % (before, rules), "cas": {}}).encode())
        self.send({"op": "policy", "generation": self.generation, "fds": ["policy"]}, [fd])
        os.close(fd)
        answer = self.recv()
        assert answer["op"] == "policy" and answer["generation"] == self.generation, answer
        return answer["cut"]

    def ask(self, body):
        self.send(body)
        return self.recv()

    def read_events(self):
        data = b""
        while True:
            self.reading.wait()
            got = self.event_socket.recv(65536)
            if not got:
                return
            data += got
            while len(data) >= 4 and len(data) >= 4 + struct.unpack("<I", data[:4])[0]:
                n = 4 + struct.unpack("<I", data[:4])[0]
                with self.lock:
                    self.events.append(self.decode(data[4:n]))
                    del self.events[:-2000]
                    self.lock.notify_all()
                data = data[n:]

    @staticmethod
    def decode(rec):
        ev, at = {"type": {1: "verdict", 2: "end", 3: "note"}[rec[1]]}, 4
        for _ in range(rec[3]):
            tag, n = rec[at], struct.unpack("<I", rec[at + 1:at + 5])[0]
            name, kind = FIELDS[tag]
            value = rec[at + 5:at + 5 + n]
            ev[name] = struct.unpack("<Q", value)[0] if kind == "NUM" else value.decode("utf-8", "replace")
            at += 5 + n
        return ev

    def event(self, timeout=5, **want):
        """Waits for a record with these fields and takes it."""
        end = time.monotonic() + timeout
        with self.lock:
            while True:
                for i, ev in enumerate(self.events):
                    if all(ev.get(k) == v for k, v in want.items()):
                        return self.events.pop(i)
                left = end - time.monotonic()
                if left <= 0:
                    raise AssertionError("no record %s in %s" % (want, self.events[-8:]))
                self.lock.wait(left)

    def guest(self, *argv, **kw):
        return subprocess.run(["ip", "netns", "exec", self.ns, *argv], capture_output=True, timeout=kw.pop("timeout", 120), **kw)

    def close(self):
        self.control.shutdown(socket.SHUT_RDWR)  # a thread reads there
        self.control.close()
        self.inner.wait(10)
        for p in [self.outer, *self.doors.values()]:
            p.wait(10)
        subprocess.run(["ip", "netns", "del", self.ns])


def in_guest(ns, fn):
    """Runs fn in a thread that lives in the guest's network namespace; sockets made there stay there."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    out = {}

    def run():
        fd = os.open("/run/netns/" + ns, os.O_RDONLY)
        try:
            if libc.setns(fd, 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            out["value"] = fn()
        except BaseException as e:
            out["error"] = e
        finally:
            os.close(fd)
    t = threading.Thread(target=run)
    t.start()
    t.join()
    if "error" in out:
        raise out["error"]
    return out.get("value")
