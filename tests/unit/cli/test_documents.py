#!/usr/bin/python3
"""The rules that documents print, tried: each block parses, and means what the text beside it says. usage: test_documents.py BROME"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

BROME = sys.argv[1]
DOCS = pathlib.Path(__file__).resolve().parents[3]
text = (DOCS / "docs/RULES.md").read_text()
blocks = [b for b in re.findall(r"^```\n(.*?)^```", text, re.M | re.S) if "│" not in b]
done = 0


def brome(*args, rules=""):
    return subprocess.run([BROME, *args], input=rules, capture_output=True, text=True)


def check(what, ok, said=""):
    global done
    done += 1
    print(("ok" if ok else "not ok"), done, what)
    if not ok:
        print("".join(f"# {line}\n" for line in str(said).splitlines()))
        sys.exit(1)


def block(start):
    return next(b for b in blocks if b.startswith(start))


def verdict(rules, url, method="GET"):
    r = brome("--json", "rules", "test", "-", method, url, rules=rules)
    if r.returncode not in (0, 1):
        return r.stderr.strip()
    answer = json.loads(r.stdout)
    return answer["reason"] if answer["verdict"] == "deny" else answer["verdict"]


for i, b in enumerate(blocks):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as f:
        f.write(b)
        f.flush()
        r = brome("--config", f.name, "check") if "workspace " in b else brome("rules", "check", f.name)
    check(f"block {i} of RULES.md is good and the linter is silent", r.returncode == 0 and not r.stderr, r.stdout + r.stderr)
git, push, profiles, packages, model = block("allow web forge"), block("ask   web forge"), block("allow web registry.example as npm\n"), block("allow web registry.example as npm   "), block("allow web api.model")
TRIES = [
    (block("deny log"), "GET", "https://x.ads.example/", "rule-deny"), (block("deny log"), "GET", "https://registry.example/pkg", "allow"),
    (block("deny log"), "POST", "https://registry.example/pkg", "read-only-method"), (block("deny log"), "GET", "tcp://db.corp.example:5432", "allow"),
    (block("deny web api"), "DELETE", "https://api.example/x", "rule-deny"), (block("deny web api"), "POST", "https://api.example/x", "allow"),
    (block("allow web api.example path \"/public"), "POST", "https://api.example/jobs", "allow"),
    (block("allow web api.example path \"/public"), "POST", "https://api.example/public/x", "read-only-method"),
    (packages, "GET", "https://registry.example/@scope%2Fname", "allow"), (packages, "GET", "http://deb.example/dists/x", "allow"),
    (packages, "POST", "https://registry.example/-/npm/v1/security/audits", "profile"), (packages, "POST", "https://index.example/x", "read-only-method"),
    (git, "GET", "https://forge.example/acme/tool.git/info/refs?service=git-upload-pack", "allow"),
    (git, "POST", "https://forge.example/acme/tool.git/git-upload-pack", "allow"),
    (git, "POST", "https://forge.example/acme/tool.git/git-receive-pack", "profile"),
    (push, "POST", "https://forge.example/acme/tool.git/git-receive-pack", "ask"), (push, "POST", "https://forge.example/acme/other.git/git-receive-pack", "profile"),
    (push, "GET", "https://forge.example/acme/tool.git/info/refs?service=git-receive-pack", "allow"), (push, "POST", "https://forge.example/acme/tool.git/git-upload-pack", "allow"),
    (profiles, "GET", "https://registry.example/-/package/@a%2Fb/dist-tags", "allow"), (profiles, "GET", "https://npm.corp.example/artifactory/api/npm/npm/left-pad", "allow"),
    (profiles, "GET", "https://npm.corp.example/artifactory/api/npm/npm/-/v1/search?text=x", "profile"), (profiles, "GET", "https://npm.corp.example/artifactory/", "default-deny"),
    ("ask web *.docs.example read-only anonymous", "GET", "https://a.docs.example/", "ask"), ("ask web *.docs.example read-only", "POST", "https://a.docs.example/", "read-only-method"),
    (model, "POST", "https://api.model.example/v1/messages", "allow"), (model, "POST", "https://api.model.example/v1/files", "default-deny"),
    ("allow web a.example GET", "HEAD", "https://a.example/", "method-not-allowed"), ("allow any any", "GET", "udp://example.org:443", "default-deny"),
    ("allow web r.example read-only\ndefault allow", "POST", "https://r.example/", "read-only-method"),
    ("allow web r.example read-only", "GET", "https://r.example/?_method=DELETE", "read-only-override"),
    ("allow web r.example path \"/a/*\"", "GET", "https://r.example/a/x%2Fy", "path-ambiguous"),
    ("allow web r.example path \"/a\"", "GET", "https://R.example.:443/%61", "allow"),
]
for rules, method, url, want in TRIES:
    got = verdict(rules, url, method)
    check(f"{method} {url}: {want}", got == want, got)
for bad in ("/a/../b", "/a//b", "/a\\b", "/a;b", "/%252F", "/%ff", "/%zz"):
    got = verdict("allow web r.example", "https://r.example" + bad)
    check(f"{bad} is refused", "the path is refused" in got, got)
r = brome("rules", "check", "-", rules="allow web .example.com\nallow web a.example.com read-only\n")
check("the linter names the line of the file", r.stderr.startswith("-:2:7: warning: this rule is never reached"), r.stderr)
r = brome("rules", "check", "-", rules="allow web a.example path \"/x/**\"\nallow tcp a.example:443\n")
check("an uninspected rule after a web rule with a path is an error", r.returncode == 65 and r.stderr.startswith("-:2:7:"), r.stderr)
print(f"1..{done}")
