#!/usr/bin/env python3
"""A request that an origin refused before it did anything with it goes out once more, and never twice to an origin that might have obeyed it.
Usage: test_again.py DRIVER DOOR"""
from outer import *
import collections, h2.config, h2.connection, h2.events, shutil

pki = Pki()
tap = Tap()
LEAF = pki.leaf("again", "again.example")
CA = {"ca.pem": pki.ca}


def rules(port, tls=True):
    return 'host again.example { address 127.0.0.1 port %d%s }\nrules {\nallow any again.example:*\ndefault deny\n}\n' % (port, '; ca file "ca.pem"' if tls else "")


def frame(kind, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + payload


class Frames(Raw):
    """HTTP/2 over TLS. `rule(origin, connection number, stream id, request)` says what becomes of a complete request: "ok", "refuse", "goaway", "leave" (GOAWAY that says it was taken, then it is refused), "cut" or None."""
    def __init__(self, rule, at_head=False):
        self.rule, self.at_head, self.got, self.done, self.lock = rule, at_head, [], [], threading.Lock()
        super().__init__(self.talk, tls_server(*LEAF, alpn=["h2"]))

    def talk(self, c):
        n = self.accepted
        conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="latin-1"))
        conn.initiate_connection()
        c.sendall(conn.data_to_send())
        heads, bodies = {}, collections.defaultdict(bytes)
        while (data := c.recv(65536)):
            for e in conn.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    heads[e.stream_id] = dict(e.headers)
                elif isinstance(e, h2.events.DataReceived):
                    bodies[e.stream_id] += e.data
                    conn.acknowledge_received_data(e.flow_controlled_length, e.stream_id)
                if not (isinstance(e, h2.events.StreamEnded) or (self.at_head and isinstance(e, h2.events.RequestReceived))):
                    continue
                what = (heads[e.stream_id][":method"], heads[e.stream_id][":path"], bodies[e.stream_id])
                with self.lock:
                    self.got.append(what)
                    say = self.rule(self, n, e.stream_id, what)
                if say == "ok":
                    with self.lock:
                        self.done.append(what)
                    conn.send_headers(e.stream_id, [(":status", "200")])
                    conn.send_data(e.stream_id, b"ok", end_stream=True)
                elif say == "refuse":
                    conn.reset_stream(e.stream_id, error_code=7)
                elif say == "leave":
                    c.sendall(conn.data_to_send() + frame(7, 0, e.stream_id.to_bytes(4, "big") + (0).to_bytes(4, "big")) + frame(3, e.stream_id, (7).to_bytes(4, "big")))
                    return
                elif say == "goaway":
                    # What came up to the stream before was taken, this one was not (RFC 9113 section 6.8).
                    c.sendall(conn.data_to_send() + frame(7, 0, max(e.stream_id - 2, 0).to_bytes(4, "big") + (0).to_bytes(4, "big")))
                    return
                elif say == "cut":
                    return
            c.sendall(conn.data_to_send())


@contextlib.contextmanager
def world(origin, tls=True):
    d = Door(rules(origin.port, tls), CA)
    try:
        yield d
        expect(d.p.poll() is None, "the door died")
    finally:
        d.close()
        origin.close()


def post(d, path, body="x", n=1):
    return [d.request("POST", "https", "again.example:443", "%s%d" % (path, k), body=body) for k in range(n)]


def t_goaway_on_a_kept_connection():
    """The second request of each connection meets GOAWAY: it was not taken, so a POST with its body goes to a new connection."""
    o = Frames(lambda o, n, stream, what: "ok" if stream == 1 else "goaway")
    with world(o) as d:
        for k in range(4):
            r = d.get("https", "again.example:443", "/%d" % k, method="POST", body="body of %d" % k)
            expect(r.status == 200 and r.body == "ok", r)
        expect(o.done == [("POST", "/%d" % k, b"body of %d" % k) for k in range(4)], o.done)
        expect(o.accepted == 4, o.accepted)


def t_refused_stream():
    o = Frames(lambda o, n, stream, what: "refuse" if stream == 3 else "ok")
    with world(o) as d:
        for k in range(3):
            r = d.get("https", "again.example:443", "/%d" % k, method="POST", body="hello")
            expect(r.status == 200, r)
        expect(o.done == [("POST", "/%d" % k, b"hello") for k in range(3)], o.done)


def t_refused_for_ever():
    """Who refuses everything is not asked for ever."""
    o = Frames(lambda o, n, stream, what: "refuse")
    with world(o) as d:
        r = d.get("https", "again.example:443", "/", method="POST", body="x")
        expect(r.status == 502 and r.reason == "upstream-closed", r)
        expect(len(o.got) == 3, o.got)
    o = Frames(lambda o, n, stream, what: "goaway")
    with world(o) as d:
        r = d.get("https", "again.example:443", "/")
        expect(r.status == 502 and len(o.got) == 3, (r, o.got))
    # As if it had taken others each time: so often as a server may refuse that ends its connections, and no more.
    o = Frames(lambda o, n, stream, what: "leave" if what[1] == "/" else "ok")
    with world(o) as d:
        r = d.get("https", "again.example:443", "/", method="POST", body="x")
        expect(r.status == 502 and r.reason == "upstream-closed" and len(o.got) == 65, (r, len(o.got)))
        expect(d.get("https", "again.example:443", "/other").status == 200, "it serves others")


def t_long_body():
    """A body that is not kept any more is not sent again, nor half of it."""
    o = Frames(lambda o, n, stream, what: "refuse")
    with world(o) as d:
        i = d.request("POST", "https", "again.example:443", "/", stream=True)
        d.say("fill", i, 100000)
        d.say("end", i)
        r = d.result(i)
        expect(r.status == 502 and r.reason == "upstream-closed", r)
        expect(len(o.got) == 1 and len(o.got[0][2]) == 100000, [(g[0], len(g[2])) for g in o.got])
    o = Frames(lambda o, n, stream, what: "refuse" if n == 1 else "ok")
    with world(o) as d:
        r = d.get("https", "again.example:443", "/", method="POST", body="y" * 60000)
        expect(r.status == 200 and o.done == [("POST", "/", b"y" * 60000)], r)


def t_body_still_coming():
    """Refused while the body comes: what came is sent again, then the rest."""
    o = Frames(lambda o, n, stream, what: "ok" if n > 1 and what[2] else "refuse" if n == 1 and not what[2] else None, at_head=True)
    with world(o) as d:
        i = d.request("POST", "https", "again.example:443", "/", ("content-length", "6"), stream=True)
        d.say("data", i, "abc")
        d.say("data", i, "def")
        d.say("end", i)
        r = d.result(i)
        expect(r.status == 200 and o.done == [("POST", "/", b"abcdef")], (r, o.done))


def t_cut_after_taking():
    """Closed without a word: nobody knows whether it was obeyed."""
    o = Frames(lambda o, n, stream, what: "ok" if what[1] == "/first" or n > 1 else "cut")
    with world(o) as d:
        expect(d.get("https", "again.example:443", "/first").status == 200, "first")
        r = d.get("https", "again.example:443", "/post", method="POST", body="x")
        expect(r.status == 502 and [g[1] for g in o.got] == ["/first", "/post"], (r, o.got))
    o = Frames(lambda o, n, stream, what: "ok" if what[1] == "/first" or n > 1 else "cut")
    with world(o) as d:
        expect(d.get("https", "again.example:443", "/first").status == 200, "first")
        r = d.get("https", "again.example:443", "/get")
        expect(r.status == 200 and o.accepted == 2, r)


def t_many_stale_connections():
    """All kept connections were closed at once (a restart of the origin): one stale one tells of all."""
    wait, seen, lock = threading.Barrier(6), [], threading.Lock()

    def serve(c):
        head, _ = read_head(c)
        if "/old" in head:
            wait.wait(DEADLINE)
        c.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        head, _ = read_head(c)
        with lock:
            seen.append(head.split("\r\n")[0])  # and closes without a word

    o = Raw(serve)
    with world(o, False) as d:
        old = [d.request("GET", "http", "again.example:80", "/old") for _ in range(6)]
        for i in old:
            expect(d.result(i).status == 200, "old")
        r = d.get("http", "again.example:80", "/put", method="PUT", body="hello")
        expect(r.status == 200, r)
        expect(seen.count("PUT /put HTTP/1.1") == 1, seen)


def t_nginx_ends_its_connections():
    """nginx that takes three requests of each connection, over HTTP/1.1 and HTTP/2, one after the other and all at once."""
    if not shutil.which("nginx"):
        print("# skipped: nginx is not installed")
        return
    folder = tempfile.mkdtemp(prefix="outer-again-")
    os.chmod(folder, 0o755)
    h1, two = free_port(), free_port()
    with open(folder + "/conf", "w") as f:
        f.write("""daemon off; worker_processes 1; pid %(d)s/pid; error_log %(d)s/error.log; user root;
events { worker_connections 1024; }
http { log_format f '$request_method $uri $request_body'; access_log %(d)s/access.log f; client_body_temp_path %(d)s/b; proxy_temp_path %(d)s/p; fastcgi_temp_path %(d)s/f;
 uwsgi_temp_path %(d)s/u; scgi_temp_path %(d)s/s; keepalive_requests 3; ssl_certificate %(c)s; ssl_certificate_key %(k)s;
 server { listen 127.0.0.1:%(h1)d ssl; listen 127.0.0.1:%(two)d ssl http2; location / { proxy_pass http://127.0.0.1:%(h1)d; proxy_ssl_verify off; return 200 "$request_method $uri"; } } }"""
                % dict(d=folder, c=LEAF[0], k=LEAF[1], h1=h1, two=two))
    p = subprocess.Popen(["nginx", "-c", folder + "/conf", "-e", folder + "/error.log"])
    try:
        for port in (h1, two):
            wait_port(port)
            d = Door(rules(port), CA)
            name = "/h%d-" % (1 if port == h1 else 2)
            for k in range(10):
                r = d.get("https", "again.example:443", "%s%d" % (name, k), method="POST", body="x%d" % k)
                expect(r.status == 200 and r.body == "POST %s%d" % (name, k), r)
            # All at once: GOAWAY comes while the rest of them is on its way.
            many = [d.request("POST", "https", "again.example:443", "%smany-%d" % (name, k), body="x" * 2000) for k in range(40)]
            for i in many:
                r = d.result(i)
                expect(r.status == 200, r)
            d.close()
    finally:
        p.terminate()
        p.wait(DEADLINE)
    lines = collections.Counter(l.split()[1] for l in open(folder + "/access.log") if l.startswith("POST"))
    for name in ("/h1-", "/h2-"):
        expect(all(lines["%s%d" % (name, k)] == 1 for k in range(10)), lines)
        expect(all(lines["%smany-%d" % (name, k)] == 1 for k in range(40)), lines)


for name, fn in sorted(((k, v) for k, v in globals().items() if k.startswith("t_")), key=lambda kv: kv[1].__code__.co_firstlineno):
    if len(sys.argv) > 4 and sys.argv[3] == "--only" and name != sys.argv[4]:
        continue
    tap(name[2:].replace("_", " "), fn)
sys.exit(tap.end())
