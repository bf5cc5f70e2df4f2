"""The shared clipboard: two workspaces, one real registry (Verdaccio), one token that can write. Without a method limit a dist-tag carries a
message from one to the other; with `read-only` it does not, npm install still works, and the timeline shows the refusals."""
import json
import os
import pathlib
import shutil
import socket
import subprocess

from world import Brome, Skip, World, sh, wait_for

TOP = pathlib.Path(__file__).resolve().parents[2]
CACHE = TOP / "build/npm/verdaccio"


def verdaccio_folder():
    """Installed once, outside of the closed world, by tests/peers (tests/run.py has no network in here)."""
    if not (CACHE / "node_modules/verdaccio/bin/verdaccio").exists():
        raise Skip("Verdaccio is not installed: the npm registry was not reachable when tests/peers ran")
    return CACHE


def make_world():
    w = World()
    folder = verdaccio_folder()
    d = w.dir / "verdaccio"
    d.mkdir()
    (d / "htpasswd").write_text("")
    (d / "config.yaml").write_text(f"""
storage: {d}/storage
auth: {{ htpasswd: {{ file: {d}/htpasswd, max_users: 10 }} }}
uplinks: {{}}
packages: {{ '**': {{ access: $authenticated, publish: $authenticated }} }}
log: {{ type: stdout, format: pretty, level: warn }}
listen: 203.0.113.40:443
https: {{ key: {w.cert('registry.example')[1]}, cert: {w.cert('registry.example')[0]}, ca: {w.dir}/ca.pem }}
web: {{ enable: false }}
""")
    w.start("node", folder / "node_modules/verdaccio/bin/verdaccio", "--config", d / "config.yaml", "--listen", "https://203.0.113.40:443",
            env={**os.environ, "HOME": str(d)}, stdout=open(d / "log", "w"), stderr=subprocess.STDOUT)
    w.listening("203.0.113.40", 443)
    w.dns.set("registry.example", "203.0.113.40")
    curl = ("curl", "-sS", "--cacert", w.dir / "ca.pem", "--resolve", "registry.example:443:203.0.113.40")
    out = sh(*curl, "-X", "PUT", "https://registry.example/-/user/org.couchdb.user:reader", "-H", "content-type: application/json", "-d",
             json.dumps({"name": "reader", "password": "a-password-1"})).stdout
    w.token = json.loads(out)["token"]
    pkg = w.dir / "pkg"
    pkg.mkdir()
    (pkg / "package.json").write_text(json.dumps({"name": "shared-thing", "version": "1.0.0", "description": "a package both install"}))
    (pkg / "index.js").write_text("module.exports = 42\n")
    (w.dir / "npmrc").write_text(f"registry=https://registry.example/\n//registry.example/:_authToken={w.token}\ncafile={w.dir}/ca.pem\n")
    hosts = pathlib.Path(os.path.realpath("/etc/hosts"))
    hosts.write_text(hosts.read_text() + "203.0.113.40 registry.example\n")
    sh("npm", "publish", "--userconfig", w.dir / "npmrc", cwd=pkg, env={**os.environ, "HOME": str(d)})
    return w


def two(w, rules):
    b = Brome(w, f"workspace left {{ rules {{ {rules}; default deny }} }}\nworkspace right {{ rules {{ {rules}; default deny }} }}\n")
    for name in ("left", "right"):
        b("workspace", "start", name, check=0)
        b.sh(name, f"printf 'registry=https://registry.example/\\n//registry.example/:_authToken={w.token}\\n' > ~/.npmrc", check=0)
    return b


SEND = "npm dist-tag add shared-thing@1.0.0 msg-hello-from-the-left"
READ = "npm dist-tag ls shared-thing"


def test_without_a_method_limit_the_mailbox_is_open(w):
    b = two(w, "allow web registry.example")
    b.sh("left", SEND, check=0)
    assert "msg-hello-from-the-left" in b.sh("right", READ, check=0).stdout


def test_read_only_closes_it(w):
    b = two(w, "allow web registry.example read-only")
    before = b.sh("right", READ, check=0).stdout
    p = b.sh("left", SEND.replace("hello", "second"))
    assert p.returncode != 0, p.stdout
    assert b.sh("right", READ, check=0).stdout == before
    assert "second" not in b.sh("right", READ, check=0).stdout
    refused = [r for r in b.timeline(workspace="left", verdict="deny") if r.get("method") == "PUT"]
    assert refused and refused[0]["host"] == "registry.example" and "read-only" in refused[0]["rule"], refused
    out = b.sh("right", "mkdir -p p && cd p && npm install shared-thing && node -e 'console.log(require(\"shared-thing\"))'", check=0, timeout=120).stdout
    assert "42" in out
    for verb in ("publish", "deprecate shared-thing mail", "unpublish shared-thing --force", "star shared-thing"):
        b.sh("left", "mkdir -p q && cd q && echo '{\"name\":\"q\",\"version\":\"1.0.0\"}' > package.json; npm " + verb + "; true", check=0)
    raw = sh("curl", "-sS", "--cacert", w.dir / "ca.pem", "-H", f"authorization: Bearer {w.token}", "https://registry.example/shared-thing").stdout.decode()
    assert "mail" not in raw.replace("msg-hello", "")
    assert sh("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", w.dir / "ca.pem", "-H", f"authorization: Bearer {w.token}", "https://registry.example/q").stdout == b"404"
