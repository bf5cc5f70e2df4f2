"""Clients in the guest's network namespace: what a workspace would run."""
import socket, ssl, struct


class Client:
    def __init__(self, rig):
        self.rig = rig

    def dig(self, name, kind="A", *more):
        p = self.rig.guest("dig", "+tries=1", "+time=3", *more, "@10.88.0.1", name, kind)
        return p.stdout.decode()

    def addr(self, name, kind="A"):
        p = self.rig.guest("dig", "+short", "+tries=4", "+time=2", "@10.88.0.1", name, kind)
        # dig reports a try that had no answer (datagrams are dropped while records pile up) on a line of its own.
        return "".join(line for line in p.stdout.decode().splitlines()[-1:] if not line.startswith(";"))

    def curl(self, url, *more, name=None, **kw):
        host = url.split("//")[1].split("/")[0].split(":")[0]
        port = 443 if url.startswith("https") else 80
        if "://%s:" % host in url:
            port = int(url.split(host + ":")[1].split("/")[0])
        args = ["curl", "-sS", "-m", "60", "--cacert", self.rig.ca_cert, "--resolve", "%s:%d:%s" % (host, port, kw.pop("ip", None) or self.addr(name or host))]
        return self.rig.guest(*args, *more, url, **kw)

    def connect(self, ip, port, timeout=8):
        from rig import in_guest

        def go():
            s = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET)
            s.settimeout(timeout)
            s.connect((ip, port))
            return s
        return in_guest(self.rig.ns, go)

    def tls(self, name, port=443, alpn=None, sni=True, ip=None, session=None, ctx=None):
        s = self.connect(ip or self.addr(name), port)
        if ctx is None:
            ctx = ssl.create_default_context(cafile=self.rig.ca_cert)
        if alpn:
            ctx.set_alpn_protocols(alpn)
        if not sni:
            ctx.check_hostname = False
        return ctx.wrap_socket(s, server_hostname=name if sni else None, session=session)


def read_all(s, limit=1 << 20):
    data = b""
    try:
        while len(data) < limit:
            got = s.recv(65536)
            if not got:
                break
            data += got
    except (ConnectionResetError, ssl.SSLError, BrokenPipeError):
        data += b"<reset>"
    return data


def closed(s):
    """The connection ends at once, by a reset or its end; never a hang."""
    try:
        return s.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True


# --- HTTP/2 frames by hand ---

def h2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def hpack(*fields):
    out = b""
    for name, value in fields:
        for part in ((b"\x00", name), (b"", value)):
            text = part[1] if isinstance(part[1], bytes) else part[1].encode()
            n = bytes([len(text)]) if len(text) < 127 else b"\x7f" + bytes([(len(text) - 127) % 128 | 128, (len(text) - 127) // 128])
            out += part[0] + n + text
    return out


class H2:
    def __init__(self, c, name="example.org"):
        self.s = c.tls(name, alpn=["h2"])
        assert self.s.selected_alpn_protocol() == "h2"
        self.s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0))
        self.data = b""

    def send(self, *frames):
        try:
            self.s.sendall(b"".join(frames))
        except OSError:
            pass

    def frames(self):
        """Frames until the connection ends or nothing came for a while."""
        self.s.settimeout(3)
        while True:
            while len(self.data) >= 9 and len(self.data) >= 9 + int.from_bytes(self.data[:3], "big"):
                n = int.from_bytes(self.data[:3], "big")
                f, self.data = self.data[:9 + n], self.data[9 + n:]
                yield f[3], f[4], int.from_bytes(f[5:9], "big"), f[9:]
            try:
                got = self.s.recv(65536)
            except (TimeoutError, socket.timeout):
                return
            except OSError:
                got = b""
            if not got:
                yield "closed", 0, 0, b""
                return
            self.data += got

    def outcome(self, stream):
        """"answer", "reset", "goaway" or "closed", whichever comes first for the stream."""
        for kind, flags, sid, payload in self.frames():
            if kind == 1 and sid == stream:
                return "answer", payload
            if kind == 3 and sid == stream:
                return "reset", payload
            if kind == 7:
                return "goaway", payload
            if kind == "closed":
                return "closed", b""
        return "hang", b""
