"""Real services that want an account, behind one real nginx that ends TLS for all of them: git over https, npm (Verdaccio), a container registry
(docker-registry), a package index for pip, an MCP server. Stand-ins of our own are only the token server of the container registry and cargo's
sparse index (files); they say so. What came, with its Authorization, is nginx's own log."""
import base64
import hashlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socketserver
import subprocess
import tarfile
import threading
import time
import urllib.parse
import zipfile

from world import TOP, Skip, sh, wait_for

FRONT = ("203.0.113.10", "2001:db8::10")


class Looker(threading.Thread):
    """nginx asks it before each request where a site says so: while it thinks, the client waits and the test can look at everything. Always says yes."""

    def __init__(self, port=8099):
        super().__init__(daemon=True)
        self.before, self.errors, outer = None, [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    if outer.before:
                        outer.before(self)
                except Exception as e:
                    outer.errors.append(repr(e))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
        self.server, self.port = Server(("127.0.0.1", port), Handler), port
        self.start()

    def run(self):
        self.server.serve_forever()


class Front:
    """The real nginx: TLS (HTTP/1.1 and HTTP/2) for any number of names."""

    def __init__(self, w):
        if not shutil.which("nginx"):
            raise Skip("nginx is not installed")
        self.w, self.sites, self.looker, self.names = w, [], Looker(), []

    def site(self, name, body):
        chain, key = self.w.cert(name)
        self.names.append(name)
        self.w.dns.set(name, *FRONT)
        self.sites.append(f"""
            server {{ listen {FRONT[0]}:443 ssl http2; listen [{FRONT[1]}]:443 ssl http2; server_name {name}; ssl_certificate {chain}; ssl_certificate_key {key};
                location = /brome-look {{ internal; proxy_pass http://127.0.0.1:{self.looker.port}/; proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header X-Uri $host$request_uri; }}
                {body}
            }}""")

    def start(self):
        d = self.w.dir / "front"
        d.mkdir()
        d.chmod(0o777)
        temp = "".join(f"{x}_temp_path {d}/{x}; " for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (d / "nginx.conf").write_text(f"""
            user root; worker_processes 1; daemon off; pid {d}/pid; error_log {d}/error.log;
            events {{ worker_connections 2048; }}
            http {{
                log_format seen escape=json '{{"host":"$host","method":"$request_method","uri":"$request_uri","status":$status,"authorization":"$http_authorization","length":$request_length,'
                    '"query":"$args","cookie":"$http_cookie","agent":"$http_user_agent","smuggled":"$http_x_smuggled","http":"$server_protocol","te":"$http_transfer_encoding"}}';
                access_log {d}/access.log seen; {temp} client_max_body_size 0; default_type text/plain; keepalive_requests 1000000; server_names_hash_bucket_size 128;
                {''.join(self.sites)}
            }}""")
        self.log = d / "access.log"
        self.w.start("nginx", "-c", d / "nginx.conf", "-e", d / "error.log")
        self.w.listening(FRONT[0], 443)

    def mark(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def seen(self, mark=0, **want):
        """What nginx answered since then; it writes the line when the answer is out, which may be after the client read it."""
        with open(self.log, "rb") as f:
            f.seek(mark)
            rows = [json.loads(line) for line in f.read().splitlines()]
        return [r for r in rows if all(r[k] == v for k, v in want.items())]

    def some(self, mark=0, least=1, **want):
        wait_for(f"{least} requests like {want} at the origin; there were {self.seen(mark)}", lambda: len(self.seen(mark, **want)) >= least, 20)
        return self.seen(mark, **want)


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def htpasswd(path, user, password):
    """nginx's {SHA}: base64 of a SHA-1 (openssl passwd -apr1 takes no password of 40 characters from a file)."""
    path.write_text(f"{user}:{{SHA}}{base64.b64encode(hashlib.sha1(password.encode()).digest()).decode()}\n")
    path.chmod(0o644)


# ---- git ------------------------------------------------------------------------------------------------------------------------------------

class Git:
    """git http-backend behind nginx; one bare repository for each host, /acme/tool.git, that takes pushes."""
    BACKEND = "/usr/lib/git-core/git-http-backend"

    def __init__(self, front):
        if not (os.path.exists(self.BACKEND) and shutil.which("fcgiwrap")):
            raise Skip("git http-backend or fcgiwrap is not installed")
        self.front, self.w = front, front.w
        self.home = self.w.dir / "git"
        self.home.mkdir()
        (self.home / ".gitconfig").write_text("[user]\nname = t\nemail = t@t.example\n[init]\ndefaultBranch = main\n[safe]\ndirectory = *\n[http]\nreceivepack = true\n")
        self.env = {**os.environ, "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        work = self.home / "work"
        sh("git", "init", "-q", work, env=self.env)
        (work / "README").write_text("a repository\n")
        sh("git", "-C", work, "add", ".", env=self.env)
        sh("git", "-C", work, "commit", "-qm", "one", env=self.env)
        self.w.start("fcgiwrap", "-s", f"unix:{self.home}/fcgi.sock", env=self.env)

    def site(self, name, user, password):
        d = self.home / name
        (d / "acme").mkdir(parents=True)
        sh("git", "clone", "-q", "--bare", self.home / "work", d / "acme/tool.git", env=self.env)
        htpasswd(self.home / f"{name}.htpasswd", user, password)
        self.front.site(name, f"""
            location / {{
                auth_basic "{name}"; auth_basic_user_file {self.home}/{name}.htpasswd; auth_request /brome-look;
                fastcgi_pass unix:{self.home}/fcgi.sock; include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {self.BACKEND}; fastcgi_param REMOTE_USER $remote_user;
                fastcgi_param GIT_HTTP_EXPORT_ALL ""; fastcgi_param GIT_PROJECT_ROOT {d}; fastcgi_param PATH_INFO $uri; fastcgi_param HOME {self.home};
            }}""")

    def head(self, name, ref="main"):
        return sh("git", "-C", self.home / name / "acme/tool.git", "rev-parse", ref, env=self.env).stdout.decode().strip()


# ---- npm ------------------------------------------------------------------------------------------------------------------------------------

class Npm:
    """The real Verdaccio on the loopback; reading needs its token. `direct` is its public name; `mirror` the same below a prefix, where nginx wants a key."""
    PREFIX = "/api/npm/npm/"

    def __init__(self, front, direct, mirror, key, port=4873):
        folder = TOP / "build/npm/verdaccio"
        if not (folder / "done").exists():
            raise Skip("Verdaccio is not installed: the npm registry was not reachable when tests/peers ran")
        w = self.w = front.w
        d = w.dir / "verdaccio"
        d.mkdir()
        (d / "htpasswd").write_text("")
        (d / "config.yaml").write_text(f"""
storage: {d}/storage
auth: {{ htpasswd: {{ file: {d}/htpasswd, max_users: 10 }} }}
uplinks: {{}}
packages: {{ '**': {{ access: $authenticated, publish: $authenticated }} }}
log: {{ type: stdout, format: pretty, level: warn }}
web: {{ enable: false }}
""")
        w.start("node", folder / "node_modules/verdaccio/bin/verdaccio", "--config", d / "config.yaml", "--listen", f"http://127.0.0.1:{port}",
                env={**os.environ, "HOME": str(d)}, stdout=open(d / "log", "w"), stderr=subprocess.STDOUT)
        w.listening("127.0.0.1", port)
        self.url, self.dir = f"http://127.0.0.1:{port}", d
        out = sh("curl", "-sS", "-X", "PUT", f"{self.url}/-/user/org.couchdb.user:reader", "-H", "content-type: application/json", "-d", json.dumps({"name": "reader", "password": "a-password-1"})).stdout
        self.token = json.loads(out)["token"]
        (d / "npmrc").write_text(f"registry={self.url}/\n//127.0.0.1:{port}/:_authToken={self.token}\n")
        self.publish("left-thing", "module.exports = 41\n")
        self.publish("@acme/thing", "module.exports = require('left-thing') + 1\n", {"left-thing": "^1.0.0"})
        to = f"""proxy_pass {self.url}/; proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto https; proxy_set_header Accept-Encoding "";"""
        front.site(direct, f"location / {{ auth_request /brome-look; {to} }}")
        front.site(mirror, f"""
            location {self.PREFIX} {{
                if ($http_authorization != "Bearer {key}") {{ return 401; }}
                auth_request /brome-look; {to} proxy_set_header Authorization "Bearer {self.token}";
                sub_filter_types application/json application/vnd.npm.install-v1+json; sub_filter_once off; sub_filter "https://{mirror}/" "https://{mirror}{self.PREFIX}";
            }}""")

    def publish(self, name, text, dependencies=None):
        p = self.dir / "pkg" / name
        p.mkdir(parents=True)
        (p / "package.json").write_text(json.dumps({"name": name, "version": "1.0.0", "description": "for tests", "dependencies": dependencies or {}}))
        (p / "index.js").write_text(text)
        sh("npm", "publish", "--userconfig", self.dir / "npmrc", cwd=p, env={**os.environ, "HOME": str(self.dir)})

    def document(self, name):
        return json.loads(sh("curl", "-sS", "-H", f"authorization: Bearer {self.token}", f"{self.url}/{name}").stdout)


# ---- container registry -----------------------------------------------------------------------------------------------------------------------

def b64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenServer(threading.Thread):
    """A stand-in of a registry's token server (the auth server of the distribution specification): Basic credentials in, RS256 tokens out, as
    docker-registry checks them. Everything it gave out is in `issued`."""

    def __init__(self, d, user, password, service, port=5001):
        super().__init__(daemon=True)
        self.dir, self.user, self.password, self.service, self.issued, self.asked, outer = d, user, password, service, [], [], self
        sh("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", d / "token.key", "-out", d / "token.pem", "-days", "2", "-subj", "/CN=token server")
        self.x5c = base64.b64encode(sh("openssl", "x509", "-in", d / "token.pem", "-outform", "DER").stdout).decode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                q = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                outer.asked.append((self.headers.get("authorization"), q))
                if self.headers.get("authorization") != basic(outer.user, outer.password):
                    body = b'{"errors": [{"code": "UNAUTHORIZED"}]}'
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="tokens"')
                else:
                    body = json.dumps(outer.answer(q.get("scope", []))).encode()
                    self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
            daemon_threads = True
        self.server = Server(("127.0.0.1", port), Handler)
        self.start()

    def run(self):
        self.server.serve_forever()

    def answer(self, scopes):
        now = int(time.time())
        access = [{"type": t, "name": n, "actions": a.split(",")} for t, n, a in (s.split(":") for s in " ".join(scopes).split())]
        claims = {"iss": "brome test", "sub": self.user, "aud": self.service, "exp": now + 300, "nbf": now - 5, "iat": now, "jti": os.urandom(8).hex(), "access": access}
        text = b64url(json.dumps({"typ": "JWT", "alg": "RS256", "x5c": [self.x5c]}).encode()) + "." + b64url(json.dumps(claims).encode())
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(self.dir / "token.key")], input=text.encode(), capture_output=True, check=True)
        token = text + "." + b64url(signed.stdout)
        self.issued.append(token)
        return {"token": token, "access_token": token, "expires_in": 300, "issued_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))}


class Registry:
    """The real docker-registry behind nginx: with tokens (name, auth host), or with htpasswd."""

    def __init__(self, front, name, user, password, auth_host=None, port=5000):
        if not shutil.which("docker-registry"):
            raise Skip("docker-registry is not installed")
        w = self.w = front.w
        d = w.dir / f"registry-{name}"
        (d / "storage").mkdir(parents=True)
        self.name, self.tokens = name, None
        if auth_host:
            self.tokens = TokenServer(d, user, password, name, port + 1000)
            auth = f"auth: {{ token: {{ realm: 'https://{auth_host}/token', service: {name}, issuer: 'brome test', rootcertbundle: {d}/token.pem }} }}"
            front.site(auth_host, f"location /token {{ auth_request /brome-look; proxy_pass http://127.0.0.1:{port + 1000}/token; }}")
        else:
            line = subprocess.run(["htpasswd", "-nbB", "-C", "4", user, password], capture_output=True, check=True).stdout if shutil.which("htpasswd") else None
            if not line:
                raise Skip("htpasswd (apache2-utils) is not installed")
            (d / "htpasswd").write_bytes(line)
            auth = f"auth: {{ htpasswd: {{ realm: registry, path: {d}/htpasswd }} }}"
        (d / "config.yml").write_text(f"""
version: 0.1
log: {{ level: warn, accesslog: {{ disabled: true }} }}
storage: {{ filesystem: {{ rootdirectory: {d}/storage }} }}
http: {{ addr: '127.0.0.1:{port}', host: 'https://{name}', secret: not-a-secret }}
{auth}
""")
        w.start("docker-registry", "serve", d / "config.yml", stdout=open(d / "log", "w"), stderr=subprocess.STDOUT)
        w.listening("127.0.0.1", port)
        front.site(name, f"""
            location /v2/ {{ auth_request /brome-look; proxy_pass http://127.0.0.1:{port}; proxy_set_header Host $http_host; proxy_set_header X-Forwarded-Proto https; proxy_request_buffering off; }}""")


def oci_image(folder):
    """The smallest image: one layer with one file, as an OCI layout for skopeo (oci:FOLDER:tag)."""
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}
    layer = folder / "layer.tar"
    (folder / "hello").write_bytes(os.urandom(200_000))
    with tarfile.open(layer, "w") as t:
        t.add(folder / "hello", "hello")
    data = layer.read_bytes()
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}).encode())
    manifest = blob(json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                                "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", **blob(data)}]}).encode())
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", **manifest, "annotations": {"org.opencontainers.image.ref.name": "one"}}]}))
    return folder


# ---- pip, cargo -------------------------------------------------------------------------------------------------------------------------------

def python_index(front, name, user, password):
    """A simple index (PEP 503) of files with one wheel, behind Basic authentication."""
    d = front.w.dir / "pypi"
    (d / "simple/tiny-thing").mkdir(parents=True)
    (d / "files").mkdir()
    wheel = d / "files/tiny_thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("tiny_thing.py", "answer = 42\n")
        z.writestr("tiny_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n")
        z.writestr("tiny_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("tiny_thing-1.0.dist-info/RECORD", "tiny_thing.py,,\ntiny_thing-1.0.dist-info/METADATA,,\ntiny_thing-1.0.dist-info/WHEEL,,\ntiny_thing-1.0.dist-info/RECORD,,\n")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (d / "simple/tiny-thing/index.html").write_text(f'<!DOCTYPE html><html><body><a href="../../files/{wheel.name}#sha256={digest}">{wheel.name}</a></body></html>\n')
    htpasswd(d / "htpasswd", user, password)
    front.site(name, f"""
        root {d}; index index.html; types {{ text/html html; application/octet-stream whl; }}
        location / {{ auth_basic "index"; auth_basic_user_file {d}/htpasswd; auth_request /brome-look; }}""")


def cargo_index(front, name, token):
    """A stand-in of a cargo registry: the files of a sparse index with `auth-required` and of one crate, for who brings the token."""
    d = front.w.dir / "crates"
    (d / "index/ti/ny").mkdir(parents=True)
    (d / "dl/tiny-crate").mkdir(parents=True)
    src = d / "src/tiny-crate-1.0.0"
    (src / "src").mkdir(parents=True)
    (src / "Cargo.toml").write_text('[package]\nname = "tiny-crate"\nversion = "1.0.0"\nedition = "2021"\n')
    (src / "src/lib.rs").write_text("pub fn answer() -> u32 { 42 }\n")
    crate = d / "dl/tiny-crate/1.0.0"
    with tarfile.open(crate, "w:gz") as t:
        t.add(src, "tiny-crate-1.0.0")
    row = {"name": "tiny-crate", "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate.read_bytes()).hexdigest(), "features": {}, "yanked": False}
    (d / "index/ti/ny/tiny-crate").write_text(json.dumps(row) + "\n")
    (d / "index/config.json").write_text(json.dumps({"dl": f"https://{name}/dl/{{crate}}/{{version}}", "auth-required": True}))
    front.site(name, f"""
        root {d}; default_type application/octet-stream;
        location / {{ if ($http_authorization != "{token}") {{ return 401; }} auth_request /brome-look; }}""")


# ---- MCP --------------------------------------------------------------------------------------------------------------------------------------

class Mcp:
    """The real @modelcontextprotocol/server-everything over streamable HTTP, behind nginx that wants a bearer."""
    FOLDER = TOP / "build/npm/mcp"

    def __init__(self, front, name, token, port=3901):
        if not (self.FOLDER / "done").exists():
            raise Skip("the MCP server is not installed: the npm registry was not reachable when tests/peers ran")
        d = front.w.dir / "mcp"
        d.mkdir()
        front.w.start("node", self.FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp",
                      env={**os.environ, "HOME": str(d), "PORT": str(port)}, stdout=open(d / "log", "w"), stderr=subprocess.STDOUT)
        front.w.listening("127.0.0.1", port)
        front.site(name, f"""
            location /mcp {{ if ($http_authorization != "Bearer {token}") {{ return 401; }} auth_request /brome-look;
                proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; proxy_buffering off; proxy_set_header Connection ""; proxy_read_timeout 300; }}""")


def cargo_home():
    """A cargo that knows sparse registries with tokens (1.74), wherever the host has it: its prefix, to be shared read-only; None."""
    for rustc in ("/usr/bin/rustc", shutil.which("rustc") or ""):
        if not os.path.exists(rustc):
            continue
        prefix = pathlib.Path(sh(rustc, "--print", "sysroot").stdout.decode().strip())
        out = sh(prefix / "bin/cargo", "--version", check=False).stdout.decode() if (prefix / "bin/cargo").exists() else ""
        version = re.search(r"cargo (\d+)\.(\d+)", out)
        if version and (int(version[1]), int(version[2])) >= (1, 74):
            return prefix
    return None
