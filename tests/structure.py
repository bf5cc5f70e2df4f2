#!/usr/bin/python3
"""What the tree promises about itself: who includes whom, what is banned, which documents keep up with the code. Prints ok/not ok lines."""
import pathlib
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TOP = pathlib.Path(__file__).resolve().parents[1]
SRC = TOP / "src"
# folder: what it may include besides itself and base
MAY = {"base": set(), "account": {"wire"}, "vault": set(), "rules": {"account"}, "files": {"rules"}, "wire": set(), "journal": set(), "control": {"journal"}, "share": set(), "guest": {"account", "vm"}, "attach": {"guest"}, "vm": set(),
       "launch": {"account", "share", "guest", "vm"}, "inner": {"account", "rules", "wire", "journal", "link", "tls"}, "outer": {"account", "rules", "wire", "journal", "link", "tls"},
       "daemon": {"account", "vault", "rules", "files", "journal", "control", "share"}, "cli": {"account", "vault", "rules", "files", "wire", "journal", "control", "share", "attach", "vm"}, "link": {"wire"}, "tls": set()}
PURE = {"account", "rules", "wire"}
PURE_FORBIDS = ("unistd.h", "base/log.h", "event2/", "sys/socket.h\"", "fcntl.h", "sqlite3.h")
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|scanf|sscanf|fscanf|alloca|system|popen|signal|select|gethostbyname|getaddrinfo|tmpnam|mktemp)\s*\(")
failed = 0


def check(name, problems):
    global failed
    problems = list(problems)
    for p in problems[:20]:
        print("  " + p)
    print(("ok " if not problems else "not ok ") + "structure:" + name)
    failed += bool(problems)


def sources():
    return sorted(p for p in SRC.rglob("*.[ch]"))


def strip(text):
    """Without comments and string literals."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)


def includes():
    for p in sources():
        folder = p.relative_to(SRC).parts[0]
        for n, line in enumerate(p.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([a-z]+)/', line)
            if m and m.group(1) not in MAY.get(folder, set()) | {folder, "base"}:
                yield f"{p.relative_to(TOP)}:{n}: {folder} may not include {m.group(1)}"
            if folder in PURE and any(f in line for f in PURE_FORBIDS) and "#include" in line:
                yield f"{p.relative_to(TOP)}:{n}: a pure folder includes {line.strip()}"


def banned():
    for p in sources():
        for n, line in enumerate(strip(p.read_text()).splitlines(), 1):
            m = BANNED.search(line)
            if m and not line.lstrip().startswith("SEAL_CALL"):
                yield f"{p.relative_to(TOP)}:{n}: {m.group(1)}"


def heads():
    for p in sources():
        if not p.read_text().startswith("/*"):
            yield f"{p.relative_to(TOP)}: no head comment"


def headers_alone():
    flags = subprocess.run(["pkg-config", "--cflags", "libevent_core", "libnghttp2", "jansson", "openssl", "sqlite3"], capture_output=True, text=True).stdout.split()

    def one(p):
        r = subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-fsyntax-only", "-x", "c", "-include", str(p), "-I", str(SRC), *flags, "/dev/null"], capture_output=True, text=True)
        return f"{p.relative_to(TOP)}: {r.stderr.splitlines()[0]}" if r.returncode else None
    with ThreadPoolExecutor(2) as pool:
        return [r for r in pool.map(one, sorted(SRC.rglob("*.h"))) if r]


def tour():
    text = (TOP / "docs/TOUR.md").read_text()
    found = re.findall(r"`(src/[\w/]+\.[ch]):(\w+)`", text)
    if len(found) < 10:
        yield "docs/TOUR.md names too few functions"
    for path, name in found:
        f = TOP / path
        if not f.exists():
            yield f"docs/TOUR.md: {path} does not exist"
        elif not re.search(rf"\b{name}\(", f.read_text()):
            yield f"docs/TOUR.md: {path} has no {name}"


def manual():
    page = (TOP / "man/brome.1").read_text()
    plain = re.sub(r"^\.\w+ (?:Ic )?|Ar |Op |Fl |Oo |Oc |Cm |Ic |\\&", "", page, flags=re.M)
    for name in re.findall(r'^COMMAND\("([^"]+)"', (SRC / "cli/commands.tbl").read_text(), re.M):
        if name not in plain:
            yield f"man/brome.1 does not have `{name}`"
    for name in re.findall(r'^\s*OPTION\("([a-z-]+)"', (SRC / "cli/commands.tbl").read_text(), re.M):
        if not re.search(rf"-{name}\b", page):
            yield f"man/brome.1 does not have --{name}"
    for page in ("brome.1", "brome.conf.5", "bromed.8"):
        r = subprocess.run(["mandoc", "-Tlint", "-W", "warning", str(TOP / "man" / page)], capture_output=True, text=True)
        yield from (line for line in r.stdout.splitlines() if "not found" not in line)


def documents():
    tracked = subprocess.run(["git", "-C", str(TOP), "ls-files"], capture_output=True, text=True).stdout.split("\n")
    for name in tracked:
        p = TOP / name
        if p.suffix in (".md", ".1", ".5", ".8") and p.exists():
            text = p.read_text()
            if "shared/" in text:
                yield f"{name}: points outside of the project"
            for link in re.findall(r"\]\(([^)#]+)", text):
                if "://" not in link and not (p.parent / link).exists():
                    yield f"{name}: {link} does not exist"
    deps = (TOP / "docs/DEPENDENCIES.md").read_text().lower()
    for lib in re.findall(r"dependency\('([\w-]+)'", (TOP / "meson.build").read_text()):
        word = {"libevent_core": "libevent", "libssl": "openssl", "libcrypto": "openssl", "sqlite3": "sqlite", "libcares": "c-ares"}.get(lib, lib)
        if word not in deps:
            yield f"docs/DEPENDENCIES.md does not have {lib}"


for fn in (includes, banned, heads, headers_alone, tour, manual, documents):
    try:
        check(fn.__name__, fn())
    except OSError as e:
        check(fn.__name__, [str(e)])
print(f"{7 - failed} passed, {failed} failed")
sys.exit(1 if failed else 0)
