"""`as git` and `as npm` with real clients, and with requests that want to carry something out. The origins are recorders: whatever reached them is searched."""
import gzip
import http.server
import json
import os
import pathlib
import shutil
import socketserver
import subprocess
import threading
import base64
import hashlib
import io
import tarfile
import urllib.parse

from world import TOP, Brome, Skip, World, sh

BACKEND = "/usr/lib/git-core/git-http-backend"
RULES = """allow web forge.example path "/acme/**" as git
        allow web few.example path "/acme/**" as git misses 5/h
        allow web registry.example as npm
        allow web counted.example as npm misses 4/h
        allow web mirror.corp.example path "/api/npm/npm/**" as npm
        default deny"""


class Origin(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """HTTP/1.1 over TLS at one address, for one name; keeps every byte of every request."""
    daemon_threads = True

    def __init__(self, w, name, address, handle):
        self.raw, self.lock, self.handle = [], threading.Lock(), handle
        super().__init__((address, 443), Handler)
        self.socket = w.server_tls(name).wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        w.dns.set(name, address)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def mark(self):
        return len(self.raw)

    def since(self, mark):
        with self.lock:
            return b"\n".join(self.raw[mark:])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def body(self):
        if self.headers.get("transfer-encoding"):
            out = b""
            while (n := int(self.rfile.readline(), 16)):
                out += self.rfile.read(n)
                self.rfile.readline()
            self.rfile.readline()
            return out
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def serve(self):
        body = self.body()
        with self.server.lock:
            self.server.raw.append((self.requestline + "\n" + str(self.headers)).encode() + body)
        status, fields, out = self.server.handle(self, body)
        self.send_response(status)
        for f in fields:
            self.send_header(*f)
        self.send_header("content-length", str(len(out)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(out)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = serve

    def log_message(self, *_):
        pass


def git_backend(root, env):
    def handle(h, body):
        url = urllib.parse.urlsplit(h.path)
        out = subprocess.run([BACKEND], input=body, capture_output=True, env={
            **env, "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": url.path, "QUERY_STRING": url.query, "REQUEST_METHOD": h.command,
            "CONTENT_TYPE": h.headers.get("content-type", ""), "CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": h.headers.get("content-encoding", ""),
            "GIT_PROTOCOL": h.headers.get("git-protocol", ""), "REMOTE_ADDR": "203.0.113.1"}).stdout
        head, _, out = out.partition(b"\r\n\r\n")
        fields = [tuple(x.strip() for x in line.decode().split(":", 1)) for line in head.splitlines()]
        status = [int(v.split()[0]) for n, v in fields if n.lower() == "status"] or [200]
        return status[0], [f for f in fields if f[0].lower() not in ("status", "content-length")], out
    return handle


def tarball(name, version, text):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for path, data in (("package/package.json", json.dumps({"name": name, "version": version})), ("package/index.js", text)):
            i = tarfile.TarInfo(path)
            i.size = len(data)
            t.addfile(i, io.BytesIO(data.encode()))
    return out.getvalue()


def registry(name, prefix=""):
    """Packages a … (each needs the next one), @acme/top that needs them all; everything else is not there."""
    names = [f"part{k}" for k in range(40)] + ["@acme/top", "JSONStream"]
    files = {n: tarball(n, "1.0.0", f"module.exports = '{n}'\n") for n in names}

    def handle(h, body):
        path = urllib.parse.unquote(h.path)
        if not path.startswith(prefix + "/"):
            return 404, [], b"{}"
        path = path[len(prefix) + 1:]
        if path in files:
            needs = {n: "^1.0.0" for n in names if n.startswith("part")} if path == "@acme/top" else {}
            dist = {"tarball": f"https://{name}{prefix}/{path}/-/{path.split('/')[-1]}-1.0.0.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(files[path]).digest()).decode()}
            return 200, [("content-type", "application/json"), ("etag", '"e-%s"' % path.replace("/", "-"))], json.dumps({"name": path, "dist-tags": {"latest": "1.0.0"}, "versions": {
                "1.0.0": {"name": path, "version": "1.0.0", "dependencies": needs, "dist": dist}}}).encode()
        for n in names:
            if path == f"{n}/-/{n.split('/')[-1]}-1.0.0.tgz":
                return 200, [("content-type", "application/octet-stream")], files[n]
        return 404, [("content-type", "application/json")], b'{"error": "Not found"}'
    return handle


def make_world():
    w = World()
    w.home = w.dir / "git"
    w.env = {"PATH": os.environ["PATH"], "HOME": str(w.home), "GIT_CONFIG_NOSYSTEM": "1"}
    w.home.mkdir()
    (w.home / ".gitconfig").write_text("[user]\nname = t\nemail = t@t.example\n[init]\ndefaultBranch = main\n[safe]\ndirectory = *\n[uploadpack]\nallowFilter = true\nallowAnySHA1InWant = true\n[protocol \"file\"]\nallow = always\n")
    w.forge = w.few = None
    if shutil.which("git") and os.path.exists(BACKEND):
        make_repositories(w)
        w.forge = Origin(w, "forge.example", "203.0.113.10", git_backend(w.home / "srv", w.env))
        w.few = Origin(w, "few.example", "203.0.113.11", git_backend(w.home / "srv", w.env))
    w.npm = Origin(w, "registry.example", "203.0.113.20", registry("registry.example"))
    w.counted = Origin(w, "counted.example", "203.0.113.21", registry("counted.example"))
    w.mirror = Origin(w, "mirror.corp.example", "203.0.113.30", registry("mirror.corp.example", "/api/npm/npm"))
    w.bodies = w.dir / "bodies"
    w.bodies.mkdir()
    w.peers = {n: TOP / "build/npm" / n for n in ("pnpm", "yarn") if (TOP / "build/npm" / n / "done").exists()}
    shares = "\n".join(f'share "{f}" read-only' for f in [w.bodies, *w.peers.values()])
    w.b = Brome(w, f"workspace s {{ {shares}\n rules {{ {RULES} }} }}")
    w.b("workspace", "start", "s", check=0)
    return w


def git(w, *argv, cwd=None):
    return sh("git", *argv, cwd=cwd or w.work, env=w.env).stdout.decode().strip()


def make_repositories(w):
    """tool.git with two hundred commits, tags, a hidden commit that no ref names, and a submodule."""
    w.work = w.home / "work"
    git(w, "init", "-q", w.work, cwd=w.home)
    part = w.home / "part"
    git(w, "init", "-q", part, cwd=w.home)
    (part / "p").write_text("part\n")
    git(w, "add", ".", cwd=part)
    git(w, "commit", "-qm", "part", cwd=part)
    for k in range(40):
        (w.work / "file").write_text(f"line {k}\n" * 100)
        (w.work / f"other{k}").write_text(f"{k}\n")
        git(w, "add", ".")
        git(w, "commit", "-qm", f"number {k}")
        if k % 10 == 0:
            git(w, "tag", "-am", f"v{k}", f"v{k}")
    git(w, "checkout", "-qb", "hidden")
    git(w, "commit", "-q", "--allow-empty", "-m", "hidden")
    w.hidden = git(w, "rev-parse", "HEAD")
    git(w, "checkout", "-q", "main")
    git(w, "checkout", "-qb", "feature/x")
    git(w, "commit", "-q", "--allow-empty", "-m", "feature")
    git(w, "checkout", "-q", "main")
    srv = w.home / "srv/acme"
    srv.mkdir(parents=True)
    git(w, "clone", "-q", "--bare", part, srv / "part.git", cwd=w.home)
    (w.work / ".gitmodules").write_text('[submodule "part"]\n\tpath = part\n\turl = ../part.git\n')
    git(w, "update-index", "--add", "--cacheinfo", f"160000,{git(w, 'rev-parse', 'HEAD', cwd=part)},part")
    git(w, "add", ".gitmodules")
    git(w, "commit", "-qm", "submodule")
    git(w, "clone", "-q", "--bare", w.work, srv / "tool.git", cwd=w.home)
    git(w, "update-ref", "refs/pull/7/head", w.hidden, cwd=srv / "tool.git")
    git(w, "branch", "-D", "hidden", cwd=srv / "tool.git")
    w.srv = srv / "tool.git"


def need_git(w):
    if not w.forge:
        raise Skip("git or git http-backend is not installed")


def run(w, script, check=0):
    return w.b.sh("s", "export GIT_TERMINAL_PROMPT=0; " + script, check=check, timeout=180)


def refusals(w, reason):
    return [r for r in w.b.trace(reason=reason)]


# ---- git: real clients ------------------------------------------------------------------------------------------------------------------------

def test_git_clients(w):
    """Clone, fetch, a branch by its name, a pull request by its number, shallow clones that are deepened, submodules: all as ever."""
    need_git(w)
    out = run(w, """set -e; rm -rf ~/t; mkdir ~/t; cd ~/t; U=https://forge.example/acme/tool.git
        git clone -q --recurse-submodules $U a; cat a/part/p; git -C a rev-list --count HEAD
        git -C a fetch -q; git -C a fetch -q origin feature/x; git -C a rev-parse FETCH_HEAD
        git -C a fetch -q origin refs/pull/7/head; git -C a rev-parse FETCH_HEAD
        git ls-remote $U | wc -l; git ls-remote $U 'v1*' | wc -l
        git clone -q --depth 1 $U b; git -C b rev-list --count HEAD; git -C b fetch -q --depth 5; git -C b rev-list --count origin/main; git -C b fetch -q --unshallow; git -C b rev-list --count origin/main
        git clone -q --depth 3 --branch v10 $U c; git -C c rev-list --count HEAD; git -C c fetch -q --tags; git -C c fsck --no-dangling 2>&1 | grep -c missing || true
        git clone -q --shallow-since=2001-01-01 $U d; git -c protocol.version=2 -C d fetch -q""").stdout.split()
    refs = len(git(w, "show-ref", "-d", cwd=w.srv).splitlines()) + 1
    assert out == ["part", "41", git(w, "rev-parse", "feature/x"), w.hidden, str(refs), "2", "1", "5", "41", "3", "0"], out


def test_git_fetches_little(w):
    """What the client has and the server named it goes on; so a fetch of one commit is small. What only the guest has stays here, and the fetch is right all the same."""
    need_git(w)
    mark = w.forge.mark()
    run(w, """set -e; rm -rf ~/t; mkdir ~/t; cd ~/t; git clone -q https://forge.example/acme/tool.git a; cd a; git config user.name x; git config user.email x@x.example
        for k in $(seq 60); do git commit -q --allow-empty -m "own $k"; done""")
    own = run(w, "cd ~/t/a; git rev-list origin/main..HEAD").stdout.split()
    (w.work / "new").write_text("new\n")
    git(w, "add", ".")
    git(w, "commit", "-qm", "new")
    git(w, "push", "-q", w.srv, "main")
    out = run(w, "set -e; cd ~/t/a; git fetch 2>&1; git rev-parse origin/main; git fsck --no-dangling; git merge -q origin/main -m m; cat new").stdout.split()
    assert git(w, "rev-parse", "main") in out and out[-1] == "new", out
    came = w.forge.since(mark)
    assert len(own) == 60 and not [i for i in own if i.encode() in came], "commits of the guest's own at the server"
    assert came.count(b"have ") >= 1 and b"agent=git/2" in came and b"agent=git/2." not in came, came
    # Another history altogether: nothing of it is named, and the fetch ends.
    out = run(w, """set -e; rm -rf ~/u; git init -q ~/u; cd ~/u; git config user.name x; git config user.email x@x.example; for k in $(seq 300); do git commit -q --allow-empty -m "own $k"; done
        git fetch -q https://forge.example/acme/tool.git main; git rev-list --count FETCH_HEAD""").stdout.split()
    assert out == ["42"], out
    assert b"have 0000000000000000000000000000000000000000" in w.forge.since(mark)


def test_git_packed(w):
    """git packs a longer body: it goes on as it was read."""
    need_git(w)
    mark = w.forge.mark()
    out = run(w, """rm -rf ~/u; git init -q ~/u; cd ~/u; git config user.name x; git config user.email x@x.example; for k in $(seq 300); do git commit -q --allow-empty -m "own $k"; done
        GIT_TRACE_CURL=1 git fetch https://forge.example/acme/tool.git feature/x 2>&1 | grep -ci 'content-encoding: gzip'; git rev-parse FETCH_HEAD""").stdout.split()
    assert int(out[0]) >= 1 and out[1] == git(w, "rev-parse", "feature/x"), out
    assert b"gzip" not in w.forge.since(mark).lower().replace(b"accept-encoding: gzip", b"")


def test_git_objects_by_id(w):
    """An object that the server did not name: refused with the way out; with `misses` so many an hour may."""
    need_git(w)
    mark, few = w.forge.mark(), w.few.mark()
    secret = "c0ffee" * 6 + "abcd"
    for what in (w.hidden, secret):
        p = run(w, f"rm -rf ~/v; git init -q ~/v; cd ~/v; git fetch -q https://forge.example/acme/part.git {what}", check=None)
        assert p.returncode and "403" in p.stderr, p
    p = run(w, "cd; rm -rf ~/v; git clone -q --filter=blob:none https://forge.example/acme/tool.git v", check=None)
    assert p.returncode and "403" in p.stderr, p
    assert w.hidden.encode() not in w.forge.since(mark) and secret.encode() not in w.forge.since(mark)
    assert any("misses" in (r.get("detail") or r.get("why") or json.dumps(r)) for r in refusals(w, "profile")), refusals(w, "profile")[-1:]
    within = git(w, "rev-parse", "main~5", cwd=w.srv)
    out = run(w, f"set -e; rm -rf ~/v; git init -q ~/v; cd ~/v; git fetch -q --depth 1 https://few.example/acme/tool.git {within}; git rev-parse FETCH_HEAD").stdout.split()
    assert out == [within]
    tries = "".join(f"git fetch -q https://few.example/acme/tool.git {k:040x} || true\n" for k in range(0xabcdef00, 0xabcdef00 + 12))
    run(w, "cd ~/v\n" + tries)
    sent = [k for k in range(12) if f"{0xabcdef00 + k:040x}".encode() in w.few.since(few)]
    assert len(sent) == 4, sent


# ---- git: requests made by hand -----------------------------------------------------------------------------------------------------------------

def pkt(line):
    return b"%04x%s" % (len(line) + 4, line)


def post(w, body, path="/acme/tool.git/git-upload-pack", host="forge.example", fields=(), version="--http1.1"):
    (w.bodies / "body").write_bytes(body)
    more = " ".join(f"-H '{f}'" for f in fields)
    return run(w, f"curl -sS {version} -o /dev/null -w '%{{http_code}}' -X POST --data-binary @{w.bodies}/body -H 'Content-Type: application/x-git-upload-pack-request' -H 'Git-Protocol: version=2' {more} 'https://{host}{path}'").stdout


def test_git_carriers(w):
    """Everything in a git request that could carry something, over HTTP/1.1 and HTTP/2."""
    need_git(w)
    tip = git(w, "rev-parse", "main", cwd=w.srv).encode()
    run(w, "git ls-remote -q https://forge.example/acme/tool.git >/dev/null")
    word, digits = b"smuggledword", b"badc0de5" * 5
    fetch = lambda *lines: pkt(b"command=fetch") + b"0001" + b"".join(pkt(x) for x in lines) + b"0000"
    refs = lambda *lines: pkt(b"command=ls-refs") + b"".join(pkt(x) for x in lines[:1] if x) + b"0001" + b"".join(pkt(x) for x in lines[1:]) + b"0000"
    goes = [refs(b"agent=" + word), refs(b"session-id=" + word), refs(b"", *(b"ref-prefix " + x + word for x in (b"", b"refs/", b"refs/heads/", b"refs/tags/", b"refs/pull/", b"refs/x/"))),
            fetch(b"want " + tip, b"have " + digits, b"done"), fetch(b"want " + tip, b"have " + digits, b"have " + tip), fetch(b"want " + tip, *[b"have " + (b"%08x" % k) * 5 for k in range(1 << 12)], b"done"),
            gzip.compress(fetch(b"want " + tip, b"have " + digits, b"done"))]
    stays = [refs(b"server-option=" + word), refs(word), fetch(b"want " + digits, b"done"), fetch(b"want " + tip, b"want " + digits, b"done"), fetch(b"want " + tip, b"shallow " + digits, b"done"),
             fetch(b"want-ref refs/heads/" + word), fetch(b"want " + tip, b"deepen-not refs/heads/" + word), fetch(b"want " + tip, b"filter sparse:oid=" + digits, b"done"),
             fetch(b"want " + tip, b"filter combine:" + word), fetch(b"want " + tip, word), fetch(b"want " + tip) + word, fetch(b"want " + tip) + pkt(word), pkt(b"command=" + word) + b"0000",
             pkt(b"command=object-info") + b"0001" + pkt(b"oid " + digits) + b"0000", pkt(b"want " + digits + b" " + word) + b"0000" + pkt(b"done"), fetch(b"want " + tip)[:-4],
             gzip.compress(fetch(b"want " + digits)), gzip.compress(fetch(b"want " + tip)) + word, b"", word]
    mark = w.forge.mark()
    for version in ("--http1.1", "--http2"):
        for body in goes:
            packed = ["Content-Encoding: gzip"] if body[:2] == b"\x1f\x8b" else []
            assert post(w, body, version=version, fields=packed) == "200", body[:200]
        for body in stays:
            packed = ["Content-Encoding: gzip"] if body[:2] == b"\x1f\x8b" else []
            before = w.forge.mark()
            assert post(w, body, version=version, fields=packed) == "403" and w.forge.mark() == before, body[:200]
        for fields in (["Content-Encoding: " + word.decode()], ["Content-Encoding: br"], ["Content-Type: text/plain"]):
            assert post(w, refs(b"", b"peel"), version=version, fields=fields) == "403", fields
        for fields in (["X-Y: smuggledword"], ["Cookie: smuggledword"], ["User-Agent: smuggledword"], ["Accept-Language: smuggledword"], ["Referer: smuggledword"], ["Accept: smuggledword"],
                       ["If-None-Match: smuggledword"], ["Range: bytes=1-smuggledword"], ["traceparent: smuggledword"], ["Authorization: Bearer smuggledword"], ["Accept-Encoding: smuggledword, gzip"]):
            assert post(w, refs(b"", b"peel"), version=version, fields=fields) == "200", fields
        codes = run(w, "\n".join(f"curl -sS {version} -o /dev/null -w '%{{http_code}}\\n' -H 'Git-Protocol: version=2' {x}" for x in (
            "https://forge.example/acme/tool.git/info/refs?service=git-receive-pack", "-X POST -d smuggledword https://forge.example/acme/tool.git/git-receive-pack",
            "'https://forge.example/acme/tool.git/info/refs?service=git-upload-pack&x=smuggledword'", "https://forge.example/acme/tool.git/smuggledword", "https://forge.example/acme/tool.git/info/lfs/locks?path=smuggledword",
            "-X POST -d smuggledword https://forge.example/acme/tool.git/info/lfs/objects/batch", "-X POST -d smuggledword 'https://forge.example/acme/tool.git/git-upload-pack?smuggledword'",
            "-X GET -d smuggledword 'https://forge.example/acme/tool.git/info/refs?service=git-upload-pack'"))).stdout.split()
        assert codes == ["403"] * 8, codes
    came = w.forge.since(mark)
    assert len(came) > 1000 and word not in came and digits not in came and b"0000001f0000001f" not in came, came


def test_git_large_body(w):
    """Beyond what is held, as it comes: haves of a large repository, of which none is named, then one that wants too much."""
    need_git(w)
    tip = git(w, "rev-parse", "main", cwd=w.srv).encode()
    run(w, "git ls-remote -q https://forge.example/acme/tool.git >/dev/null")
    haves = b"".join(pkt(b"have %040x\n" % k) for k in range(100000))
    mark = w.forge.mark()
    assert post(w, pkt(b"command=fetch") + b"0001" + pkt(b"want " + tip) + haves + pkt(b"done") + b"0000") == "200"
    came = w.forge.since(mark)
    assert b"%040x" % 77777 not in came and len(came) < 2000
    mark = w.forge.mark()
    assert post(w, pkt(b"command=fetch") + b"0001" + pkt(b"want " + tip) + haves + pkt(b"want " + b"badc0de5" * 5) + b"0000") == "403"
    assert w.forge.mark() == mark


# ---- npm ----------------------------------------------------------------------------------------------------------------------------------------

def need_npm():
    for p in ("npm", "node"):
        if not shutil.which(p, path="/usr/local/bin:/usr/bin:/bin"):
            raise Skip(f"{p} is not installed")


def test_npm_install(w):
    """A real install, also behind a mirror's prefix; what npm adds to its requests stays here."""
    need_npm()
    for o, url in ((w.npm, "https://registry.example/"), (w.mirror, "https://mirror.corp.example/api/npm/npm/")):
        mark = o.mark()
        out = run(w, f"""set -e; rm -rf ~/m ~/.npm; mkdir ~/m; cd ~/m; printf 'registry={url}\\nfetch-retries=0\\n' >.npmrc; echo '{{}}' >package.json
            npm install --no-audit --no-fund @acme/top JSONStream >/dev/null; node -p 'require("@acme/top") + require("part39")'; rm -rf node_modules; npm ci --no-fund >/dev/null; ls node_modules | wc -l""").stdout.split()
        assert out == ["@acme/toppart39", "42"], out
        came = o.since(mark).lower()
        assert came.count(b"\nuser-agent: npm/10 (brome)") == came.count(b"\nhost:") and not [x for x in (b"npm-session", b"npm-command", b"pacote", b"npm-scope", b"node/v", b"cookie", b"post ") if x in came], came[:500]


def test_pnpm_yarn(w):
    """The other clients, each with its own spelling of a scope and its own haste."""
    need_npm()
    done = []
    for name, install in (("pnpm", "bin/pnpm.cjs install --store-dir ~/store"), ("yarn", "bin/yarn.js install --non-interactive")):
        if name not in w.peers:
            continue
        mark = w.npm.mark()
        out = run(w, f"""set -e; rm -rf ~/m ~/store ~/.cache; mkdir ~/m; cd ~/m; echo 'registry=https://registry.example/' >.npmrc; echo 'registry "https://registry.example/"' >.yarnrc
            echo '{{"dependencies": {{"@acme/top": "^1.0.0", "JSONStream": "1"}}}}' >package.json; node {w.peers[name]}/node_modules/{name}/{install} >/tmp/log 2>&1 || {{ cat /tmp/log; exit 1; }}; node -p 'require("@acme/top") + require("JSONStream")'""").stdout.split()
        assert out == ["@acme/topJSONStream"], out
        came = w.npm.since(mark).lower()
        assert came.count(b"\nuser-agent: npm/10 (brome)") == came.count(b"\nhost:") and not [x for x in came.splitlines() if name.encode() in x and not x.startswith(b"get /" + name.encode())], came
        done.append(name)
    if not done:
        raise Skip("pnpm and yarn are not installed: the npm registry was not reachable when tests/peers ran")


def codes(w, version, requests):
    return run(w, "\n".join(f"curl -sS --path-as-is {version} -o /dev/null -w '%{{http_code}}\\n' {r}" for r in requests)).stdout.split()


def test_npm_carriers(w):
    """Every write, and every field of a read that could carry something."""
    base = "https://registry.example"
    refused = [f"-X PUT -d smuggled {base}/part1", f"-X PUT {base}/part1/-rev/1-smuggled", f"-X DELETE {base}/part1/-rev/1-smuggled", f"-X DELETE {base}/part1/-/part1-1.0.0.tgz/-rev/1-smuggled",
               f"-X PUT -d smuggled {base}/-/package/part1/dist-tags/smuggled", f"-X POST -d smuggled {base}/-/package/part1/dist-tags", f"-X DELETE {base}/-/package/part1/dist-tags/smuggled",
               f"-X PUT -d smuggled {base}/-/user/org.couchdb.user:smuggled", f"-X POST -d smuggled {base}/-/v1/login", f"{base}/-/v1/done?authId=smuggled", f"-X POST -d smuggled {base}/-/npm/v1/tokens",
               f"{base}/-/npm/v1/tokens", f"-X DELETE {base}/-/npm/v1/tokens/token/smuggled", f"{base}/-/npm/v1/user", f"{base}/-/npm/v1/hooks", f"{base}/-/team/acme/smuggled", f"{base}/-/org/smuggled/user",
               f"{base}/-/package/part1/access", f"{base}/-/package/part1/collaborators", f"{base}/-/package/part1/visibility", f"-X POST -d smuggled {base}/-/npm/v1/oidc/token/exchange/package/part1",
               f"{base}/-/stage/smuggled", f"'{base}/-/v1/search?text=smuggled'", f"'{base}/part1?write=true'", f"'{base}/part1?smuggled'", f"-X POST -d smuggled {base}/-/npm/v1/security/advisories/bulk",
               f"-X POST -d smuggled {base}/-/npm/v1/security/audits/quick", f"-X GET -d smuggled {base}/part1", f"{base}/part1/smuggled", f"{base}/part1/-/part1-smuggled.tgz", f"{base}/part1/-/smuggled-1.0.0.tgz",
               f"{base}/@Smuggled/x", f"{base}/part1/../smuggled", f"{base}//smuggled", f"'{base}/part1;smuggled'", f"'{base}/%70art1/%2e%2e/smuggled'", f"-X OPTIONS {base}/smuggled", f"-X SMUGGLED {base}/part1",
               f"-H 'Upgrade: smuggled' -H 'Connection: upgrade' --http1.1 {base}/part1", f"-H 'X-HTTP-Method-Override: smuggled' {base}/part1", f"-H 'Transfer-Encoding: chunked' --http1.1 -X GET -d smuggled {base}/part1"]
    fields = ["Cookie: a=smuggled", "Referer: smuggled", "npm-session: smuggled", "npm-command: smuggled", "npm-scope: smuggled", "pacote-req-type: smuggled", "X-Y: smuggled", "Accept-Language: smuggled", "traceparent: smuggled",
              "Proxy-Authorization: smuggled", "User-Agent: smuggled", "If-None-Match: \"smuggled\"", "If-Modified-Since: smuggled", "Range: bytes=0-1,smuggled", "If-Range: \"smuggled\"", "Accept: smuggled", "Accept: application/json; q=smuggled",
              "Accept-Encoding: smuggled", "Accept-Encoding: gzip;q=smuggled", "Authorization: Bearer smuggled", "Via: smuggled", "Forwarded: for=smuggled", "X-Forwarded-For: smuggled", "Cache-Control: smuggled", "Pragma: smuggled", "TE: smuggled",
              "Trailer: smuggled", "From: smuggled", "DNT: smuggled", "Priority: smuggled", "Origin: smuggled", "Content-Type: smuggled", "Content-Language: smuggled"]
    for version in ("--http1.1", "--http2"):
        mark = w.npm.mark()
        got = codes(w, version, refused)
        assert len(got) == len(refused) and not [x for x in zip(got, refused) if x[0] not in ("403", "400", "501")], [x for x in zip(got, refused) if x[0] not in ("403", "400")]
        assert w.npm.mark() == mark, w.npm.since(mark)
        got = codes(w, version, [f"-H '{f}' {base}/part1" for f in fields])
        assert [x for x in zip(got, fields) if x[0] not in ("200", "400")] == [], list(zip(got, fields))
        assert got.count("200") > 25 and b"smuggled" not in w.npm.since(mark).lower() and w.npm.mark() - mark == got.count("200")


def test_npm_misses(w):
    """Names that are not there: so many an hour, whatever the protocol and however fast; what is there goes on being there."""
    base = "https://counted.example"
    mark = w.counted.mark()
    one = codes(w, "--http2", [f"{base}/part{k}" for k in range(12)])
    assert one == ["200"] * 12, one
    got = codes(w, "--http1.1", [f"{base}/carried-{k}" for k in range(3)]) + codes(w, "--http2", [f"{base}/@carried/{k}" for k in range(3)]) + codes(w, "--http2", [f"{base}/part0/-/part0-1.0.0-carried.{k}.tgz" for k in range(3)])
    assert got == ["404"] * 4 + ["403"] * 5, got
    assert w.counted.since(mark).count(b"carried") == 4
    assert codes(w, "--http1.1", [f"{base}/carried-0", f"{base}/part3", f"{base}/part20"]) == ["404", "200", "403"]
    page = run(w, f"curl -sS {base}/carried-9").stdout
    assert "misses" in page and "not there" in page, page
    assert refusals(w, "misses"), "told in the trace"
    # A guest that does not wait for the answer is counted too; the rules can be changed while it runs.
    w.b.rules("s", RULES.replace("misses 4/h", "misses 8/h"))
    mark = w.counted.mark()
    run(w, "\n".join(f"curl -sS -m 0.05 {base}/left-{k} >/dev/null 2>&1 &" for k in range(20)) + "\nwait", check=None)
    assert w.counted.since(mark).count(b"left-") <= 20
    assert codes(w, "--http2", [f"{base}/later-{k}" for k in range(8)]).count("404") <= 4
    w.b.rules("s", RULES)


def test_git_misses(w):
    """Repositories that are not there."""
    need_git(w)
    mark = w.few.mark()
    p = run(w, "\n".join(f"git ls-remote -q https://few.example/acme/carried{k}.git 2>&1" for k in range(12)), check=None)
    assert w.few.since(mark).count(b"carried") <= 5 and "403" in p.stdout, p
    assert run(w, "git ls-remote -q https://forge.example/acme/tool.git | wc -l").stdout.strip() != "0"
