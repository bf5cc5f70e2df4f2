"""Clients in the guest's network namespace: what a workspace would run."""
import socket, ssl


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
