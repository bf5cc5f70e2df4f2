# world: outside
"""With what this machine itself reaches: npm installs a package from the configured registry, apt-get updates, both through the gate.
Skipped where there is no such registry. The hosts come from the clients' own configuration, at run time."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.parse

from world import Brome, Skip


class Bare:
    """No closed world: the host's own network."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brome-outside-"))
        self.dir.chmod(0o755)
        self.children, self.bromes = [], []

    def close(self):
        for b in self.bromes:
            b.close()


def make_world():
    return Bare()


def reachable(url):
    return subprocess.run(["curl", "-sS", "-m", "20", "-o", "/dev/null", url], capture_output=True).returncode == 0


def host_rule(url, verb="read-only"):
    u = urllib.parse.urlsplit(url)
    port = f" :{u.port}" if u.port else ""
    return f"web {u.hostname}{port} {verb}"


def test_npm_install(w):
    if not shutil.which("npm"):
        raise Skip("npm is not installed")
    registry = subprocess.run(["npm", "config", "get", "registry"], capture_output=True, text=True).stdout.strip()
    if not registry.startswith("http") or not reachable(registry):
        raise Skip("no npm registry is reachable from this machine")
    b = Brome(w)
    name = urllib.parse.urlsplit(registry).hostname
    extra = f"\nhost {name} {{ private ok }}\n"
    b.config.write_text(extra)
    p = b.run(host_rule(registry), "sh", "-c", f"npm config set registry {registry} && mkdir p && cd p && npm install --no-audit is-number@7.0.0 && node -e 'console.log(require(\"is-number\")(7))'",
              timeout=180)
    assert p.returncode == 0 and "true" in p.stdout, (p.stdout, p.stderr)
    rows = b.trace(verdict="allow")
    asked = [r for r in rows if r.get("method") and r["protocol"] != "dns"]  # a question's method is its type
    assert asked and all(r["method"] in ("GET", "HEAD") for r in asked), rows


def test_apt_get_update(w):
    policy = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True).stdout.split()
    sites = sorted({s if "://" in s else f"http://{s}" for s in policy})
    if not sites or not all(reachable(s) for s in sites):
        raise Skip("no package source is reachable from this machine")
    b = Brome(w)
    b.config.write_text("".join(f"host {h} {{ private ok }}\n" for h in sorted({urllib.parse.urlsplit(s).hostname for s in sites})))
    p = b.run(sorted({host_rule(s) for s in sites}), "sh", "-c", "apt-get update && apt-cache policy hostname", timeout=300)
    assert p.returncode == 0 and "Candidate" in p.stdout, (p.stdout, p.stderr)
    assert not re.search(r"^(Err|W:|E:)", p.stdout + p.stderr, re.M), p.stdout + p.stderr
