"""Shares and the terminal (F1, F5): nothing in a shared folder is obeyed, followed or run; what the guest leaves there for the host to run later is
held back or told; what it prints does not steer the terminal."""
import json
import os
import pathlib
import pty
import re
import select
import socket
import stat
import subprocess
import threading
import time

from ground import alive, both, guest, two
from world import TOP, Brome, World

CONFIG = "workspace s { rules { default deny } }\n"


def make_world():
    w = World()
    two(w, CONFIG)
    return w


def folder(b, name):
    d = b.dir / name
    d.mkdir(exist_ok=True)
    own(b, d)
    return d


def own(b, *paths):
    for p in paths:
        if b.user:
            subprocess.run(["chown", "-hR", f"{b.user}:{b.user}", str(p)], check=True)


def write(b, path, text="", mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    own(b, path)
    return path


@both
def test_places_that_are_never_shared(w, b):
    d = folder(b, "ok")
    inner = folder(b, "holds")
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(inner / "sock"))
    own(b, inner)
    links = folder(b, "links")
    for n, to in enumerate(("/", "/etc/..", str(b.home), str(b.dir / "state"), str(b.dir))):
        os.symlink(to, links / str(n)) if not os.path.lexists(links / str(n)) else None
    bad = ["/", "/..", "//", "/proc", "/proc/self/root", "/dev", "/run", "/sys", str(b.home), f"{b.home}/.", f"{d}/../home", str(b.dir), str(b.dir / "state"), str(b.dir / "run"), str(b.dir / "state/workspaces"),
           f"{b.dir}/state/workspaces/s/home", str(b.dir.parent), str(inner), *[str(links / str(n)) for n in range(5)], "/proc/1/root/etc", "/dev/shm", "/dev/fd", "/proc/self/cwd", "/nonexistent", str(b.config)]
    b("run", "s", "--", "true", check=0)
    for mode in ("", ":ro", ":overlay"):
        for path in bad:
            if path == str(inner) and mode == "never":
                continue
            p = b("run", "--share", path + mode, "--", "sh", "-c", "echo RAN")
            assert "RAN" not in p.stdout and p.returncode in (64, 65, 69, 125), (path + mode, p.returncode, p.stdout, p.stderr)
            assert "Traceback" not in p.stderr and p.stderr.strip(), path
    s.close()
    # The same from a file, where nothing resolves the path first.
    foreign = (str(b.dir), str(links))  # folders of this set-up are no other set-up's own
    for path in [p for p in bad if not p.startswith(foreign) or p in (str(b.home), str(inner))]:
        conf = write(b, b.dir / "other/brome.conf", f'workspace x {{ share "{path}"; rules {{ default deny }} }}\n')
        other = {"BROME_CONFIG": str(conf), "BROME_STATE": str(b.dir / "other-state"), "BROME_RUNTIME": str(b.dir / "other-run")}
        p = b("run", "x", "--", "sh", "-c", "echo RAN", env=other)
        assert "RAN" not in p.stdout and p.returncode, (path, p.stdout, p.stderr)
        b("daemon", "stop", env=other)


@both
def test_configuration_in_a_share_is_refused(w, b):
    d = folder(b, "conf")
    conf = write(b, d / "brome.conf", f'workspace x {{ share "{d}"; rules {{ default deny }} }}\n')
    env = {"BROME_CONFIG": str(conf), "BROME_STATE": str(b.dir / "st2"), "BROME_RUNTIME": str(b.dir / "rt2")}
    p = b("run", "x", "--", "sh", "-c", "echo RAN", env=env)
    assert "RAN" not in p.stdout and p.returncode, (p.stdout, p.stderr)
    b("daemon", "stop", env=env)
    # An included file, a CA file, one behind a link, one by a hard link.
    outside = folder(b, "outside")
    part, ca = write(b, d / "part.conf", "table <x> { 10.0.0.0/8 }\n"), write(b, d / "ca.pem", (w.dir / "ca.pem").read_text())
    link = outside / "link.conf"
    os.path.lexists(link) or os.symlink(part, link)
    hard = outside / "hard.conf"
    write(b, hard, "table <y> { 10.0.0.0/8 }\n")
    os.path.lexists(d / "hard.txt") or os.link(hard, d / "hard.txt")
    own(b, outside, d)
    for text in (f'include "{part}"\n', f'host x.example {{ ca file "{ca}" }}\n', f'include "{link}"\n', f'include "{hard}"\n', f'include "{d}/../conf/part.conf"\n'):
        conf = write(b, outside / "brome.conf", text + f'workspace x {{ share "{d}"; rules {{ default deny }} }}\n')
        env["BROME_CONFIG"] = str(conf)
        p = b("run", "x", "--", "sh", "-c", "echo RAN", env=env)
        assert "RAN" not in p.stdout and p.returncode, (text, p.stdout, p.stderr)
        b("daemon", "stop", env=env)
    # And files of that name inside a share mean nothing.
    for name in ("brome.conf", ".brome.conf", ".brome/brome.conf", ".config/brome/brome.conf", "bromerc"):
        write(b, d / name, "workspace evil { rules { default allow } }\nthis does not parse {{{\n")
    p = b("run", "--share", d, "--", "true", cwd=d)
    assert p.returncode == 0, p.stderr
    assert "evil" not in b("workspace", "ls", check=0, cwd=d).stdout


@both
def test_links_in_a_share_lead_nowhere(w, b):
    d, secret = folder(b, "linked"), folder(b, "secret")
    write(b, secret / "key", "host secret\n")
    for n, to in enumerate((secret / "key", secret, "/etc/shadow", f"../{secret.name}/key", "/proc/1/root/etc/hostname", "/proc/self/root")):
        os.path.lexists(d / f"l{n}") or os.symlink(to, d / f"l{n}")
    own(b, d)
    p = b("run", "--share", d, "--", "sh", "-c", f"cd {d}; cat l*/key l* ../{secret.name}/key; ls ..; ls {b.dir}; ln {d}/l0 hard; cd ..; cat {secret}/key", cwd=d)
    assert "host secret" not in p.stdout and "root:" not in p.stdout and "state" not in p.stdout.split(), p.stdout
    # What the guest makes: links, FIFOs, set-user-ID files, devices. The host is left with none that has power.
    p = b("run", "--share", d, "--", "sh", "-c", "ln -s /etc/passwd passwd; ln -s ../secret/key up; mkfifo fifo; cp /bin/true suid; chmod 6755 suid; chmod u+s suid; mknod dev c 1 1; python3 -c \"import os; os.open('tmp-suid', os.O_CREAT|os.O_WRONLY, 0o4777)\"; "
          "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.bind('made.sock')\"; setcap cap_net_admin+ep suid; true", cwd=d)
    assert p.returncode == 0, p.stderr
    for f in d.iterdir():
        st = f.lstat()
        assert not st.st_mode & stat.S_ISUID and not stat.S_ISCHR(st.st_mode) and not stat.S_ISBLK(st.st_mode), f
        assert b"security.capability" not in str(os.listxattr(f, follow_symlinks=False)).encode(), f
    assert (secret / "key").read_text() == "host secret\n"


@both
def test_a_folder_that_changes_while_the_session_starts(w, b):
    """A loop swaps the share, and things in it, for links to what the guest must not see."""
    d, secret, other = folder(b, "race"), folder(b, "race-secret"), b.dir / "race-other"
    write(b, secret / "marker", "host secret\n")
    write(b, secret / "config", "[core]\n\tmarker = secret\n")
    repo = d / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    own(b, d)
    b("reload")
    b.config.write_text(CONFIG + f'workspace r {{ share "{repo}"; rules {{ default deny }} }}\n')
    own(b, b.config)
    b("reload", check=0)
    os.path.lexists(other) or os.symlink(secret, other)
    git_other = d / "git-other"
    os.path.lexists(git_other) or os.symlink(secret, git_other)
    stop, swaps = threading.Event(), [0]

    def swap(a, c):
        import ctypes
        libc = ctypes.CDLL(None)
        while not stop.is_set():
            libc.renameat2(-100, str(a).encode(), -100, str(c).encode(), 2)
            swaps[0] += 1
    threads = [threading.Thread(target=swap, args=x) for x in ((repo, other), (repo / ".git", git_other))]
    started = 0
    for t in threads:
        t.start()
    try:
        for _ in range(25):
            p = b("run", "r", "--", "sh", "-c", f"cd {repo} && cat marker .git/marker .git/config; cat {repo}/marker; echo ran; echo owned > marker; echo owned > .git/marker")
            started += "ran" in p.stdout
            assert "secret" not in p.stdout, p.stdout
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert swaps[0] > 100
    assert (secret / "marker").read_text() == "host secret\n" and sorted(p.name for p in secret.iterdir()) == ["config", "marker"], list(secret.iterdir())
    assert "secret" in (secret / "config").read_text()


def table(name):
    text = (TOP / "src/share" / name).read_text()
    return re.findall(r'^PROTECTED\((\w+),\s*"([^"]+)"', text, re.M)


@both
def test_what_host_tools_run_cannot_be_changed(w, b):
    d = folder(b, "tools")
    files = []
    for sub in ("", "deep/er/"):
        for kind, path in table("protected.tbl"):
            if kind in ("GITFILE", "CONFIG") or path == ".git/commondir":
                continue
            p = d / (sub + path.replace("*", "x"))
            p = p / "inside" if kind == "DIRECTORY" else p
            files.append(write(b, p, "original\n", 0o755))
    write(b, d / ".git/HEAD", "ref: refs/heads/main\n")
    write(b, d / "deep/er/.git/HEAD", "ref: refs/heads/main\n")
    own(b, d)
    names = [str(f) for f in files]
    out = guest_share(b, d, f"names = {names!r}\n" + r'''
import os, shutil, subprocess
def quietly(fn, *a):
    try: fn(*a); return True
    except OSError: return False
worked = []
for n in names:
    up, two_up = os.path.dirname(n), os.path.dirname(os.path.dirname(n))
    def put(p): open(p, "w").write("evil\n")
    def replace(p): open(up + "/.new", "w").write("evil\n"); os.rename(up + "/.new", p)
    def symlink(p): os.symlink("/tmp/evil", up + "/.ln"); os.rename(up + "/.ln", p)
    for what, fn in (("write", put), ("append", lambda p: open(p, "a").write("evil")), ("truncate", lambda p: os.truncate(p, 0)), ("replace", replace), ("unlink", os.unlink), ("rename", lambda p: os.rename(p, p + ".old")),
                     ("link over", symlink), ("hard link", lambda p: (os.link(p, up + "/.hard"), put(up + "/.hard"))), ("chmod", lambda p: os.chmod(p, 0o777) or open(p, "w").write("evil")), ("mmap", lambda p: os.open(p, os.O_RDWR)),
                     ("rename the folder", lambda p: (os.rename(up, up + ".away"), os.makedirs(up), put(p))), ("rename the folder above", lambda p: two_up.startswith(ROOT + "/") and (os.rename(two_up, two_up + ".away"), os.makedirs(up), put(p)) or os.open("/x/y", 0))):
        if quietly(fn, n): worked.append([what, n])
    if os.path.exists(n.swapcase()) and quietly(put, n.swapcase()): worked.append(["case", n])
print(json.dumps(worked))
''')
    changed = [str(f.relative_to(d)) for f in files if not f.exists() or f.read_text() != "original\n"]
    assert not changed, f"changed: {changed}\n{out}"


def guest_share(b, d, script):
    p = b("run", "--share", d, "--", "python3", "-", input=f"import json, os\nROOT = {str(d)!r}\n" + script, cwd=d, timeout=120)
    assert p.returncode == 0 and p.stdout.strip(), p.stderr
    b.last = p
    return json.loads(p.stdout.splitlines()[-1])


@both
def test_what_is_new_is_told(w, b):
    d = folder(b, "fresh")
    for f in d.iterdir():
        subprocess.run(["rm", "-rf", str(f)])
    write(b, d / "Makefile", "all:\n")
    guest_share(b, d, r'''
for p in (".envrc", ".vscode/tasks.json", "Makefile", "package.json", "sub/.git/hooks/post-checkout", ".git/hooks/pre-commit", "build.sh", "evil\x1b]52;c;aGk=\x07.sh", ".husky/pre-push"):
    try:
        os.makedirs(os.path.dirname(p) or ".", exist_ok=True); open(p, "w").write("#!/bin/sh\n"); os.chmod(p, 0o755)
    except OSError: pass
print(json.dumps(1))
''')
    err = b.last.stderr
    for name in (".envrc", ".vscode/tasks.json", "Makefile", "package.json", "sub/.git/hooks/post-checkout"):
        if (d / name).exists():
            assert name in err, f"{name} is new and not told:\n{err}"
    assert "\x1b]52" not in err, "a name is printed raw"


@both
def test_git_configuration_is_carried_back_clean(w, b):
    d = folder(b, "repo")
    subprocess.run(["git", "init", "-q", "-b", "main", str(d)], check=True)
    own(b, d)
    p = b("run", "--share", d, "--", "sh", "-c", """
        git config --global --add safe.directory '*'
        git remote add up https://allowed.example/up.git && git config branch.main.remote up && git config branch.main.merge refs/heads/main
        for k in core.fsmonitor core.sshCommand core.editor core.pager core.hooksPath core.askPass core.gitProxy core.attributesFile core.worktree credential.helper alias.st filter.x.clean filter.x.smudge diff.x.textconv diff.external \\
                 merge.x.driver gpg.program uploadpack.packObjectsHook include.path includeIf.gitdir:/.path sequence.editor remote.up.uploadpack remote.up.vcs remote.up.proxy protocol.ext.allow url.ext::sh.insteadOf http.proxy \\
                 pager.log init.templateDir submodule.x.update browser.x.cmd man.x.cmd interactive.diffFilter trailer.x.command remote.evil.url; do git config "$k" "!touch /tmp/owned-by-git"; done
        git config remote.ext.url 'ext::sh -c touch% /tmp/owned'
        printf '[core]\\n\\tfsmonitor = "!x"\\n' > .git/config.worktree; printf '[x' >> .git/config
        printf '#!/bin/sh\\ntouch /tmp/owned-by-hook\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout; true""", cwd=d)
    assert p.returncode == 0, p.stderr
    text = (d / ".git/config").read_text()
    for word in ("fsmonitor", "sshCommand", "hooksPath", "helper", "textconv", "clean", "packObjectsHook", "includeIf", "[include", "alias", "touch", "ext::", "insteadOf", "vcs", "uploadpack =", "worktree"):
        assert word.lower() not in text.lower(), f"{word} came back:\n{text}"
    assert not (d / ".git/hooks/post-checkout").exists()
    # Files that lead git to another configuration: whatever of them can be made, git of the host runs nothing.
    b("run", "--share", d, "--", "sh", "-c", """mkdir -p evil/objects evil/refs evil/hooks; printf '[core]\n\tfsmonitor = "touch /tmp/owned-by-git"\n\tbare = false\n[extensions]\n\tworktreeConfig = true\n' > evil/config
        cp evil/config .git/config.worktree; echo ../evil > .git/commondir; mkdir -p .git/worktrees/x; cp evil/config .git/worktrees/x/config.worktree; echo "gitdir: ../evil" > sub.git; true""", cwd=d, check=0)
    subprocess.run(["git", "-C", str(d), "-c", "safe.directory=*", "status"], check=True, capture_output=True)
    assert not os.path.lexists(d / ".git/commondir") and not os.path.lexists(d / ".git/config.worktree"), "what only held a place stayed"
    assert not os.path.exists("/tmp/owned-by-git") and not os.path.exists("/tmp/owned-by-hook")
    # What is harmless does come back, and what does not is named: once for all, nothing of it as it would act on a terminal.
    assert "repo/.git/config stays as it was before: " in p.stderr, p.stderr
    p = b("run", "--share", d, "--", "sh", "-c", "git config --global --add safe.directory '*'; git remote add origin https://allowed.example/x.git; git config branch.main.remote origin", cwd=d, check=0)
    assert "not carried back" not in p.stderr, p.stderr
    p = b("run", "--share", d, "--", "sh", "-c", r"""printf '[alias]\n\tst = !evil\n[x "\033]52;c;aGk=\007"]\n\ty = 1\n[remote "up2"]\n\turl = ext::x\n\turl = https://allowed.example/u\n' >> .git/config""", cwd=d, check=0)
    told = [line for line in p.stderr.splitlines() if "not carried back" in line]
    assert len(told) == 1 and "repo/.git/config: 3 git settings of the workspace were not carried back: alias.st, x." in told[0] and "\x1b" not in p.stderr and "remote.up2.url" in told[0], p.stderr
    p = b("run", "--share", d, "--", "git", "-c", "safe.directory=*", "config", "--unset", "core.bare", cwd=d, check=0)
    assert "1 git setting of the workspace was not carried back: core.bare" in p.stderr, p.stderr
    # Long names and many of them: the end of the session is told all the same.
    p = b("run", "--share", d, "--", "sh", "-c", """mkdir -p deep && cd deep; n=$(printf '%0200d' 1); for i in 1 2 3 4 5 6 7 8 9 10; do mkdir $n && cd $n; done; for i in $(seq 150); do echo '#!/bin/sh' > $i.sh; chmod +x $i.sh; done""", cwd=d)
    assert p.returncode == 0 and "your host may execute" in p.stderr and "more files that your host may execute" in p.stderr and p.stderr.count("\n  /") >= 8, p.stderr[-600:]
    assert 'allowed.example/x.git' in (d / ".git/config").read_text(), (d / ".git/config").read_text()


@both
def test_overlay_shown_and_taken_over(w, b):
    plain, one, two_ = folder(b, "a-plain-one-with-a-long-name"), folder(b, "layered-with-a-much-longer-name-than-that"), folder(b, "layer2")
    for d, text in ((one, "one\n"), (two_, "two\n")):
        write(b, d / "file", text)
        write(b, d / "gone", text)
    secret = folder(b, "ov-secret")
    write(b, secret / "key", "host secret\n")
    b.config.write_text(CONFIG + f'workspace o {{ share "{plain}"\n share "{one}" overlay\n share "{two_}" overlay\n rules {{ default deny }} }}\n')
    own(b, b.config, plain, one, two_)
    b("reload", check=0)
    b("run", "o", "--", "sh", "-c", f"cd {one} && echo changed-in-one > file && rm gone && echo new > new && ln -s {secret}/key link && ln -s {secret} dirlink && mkfifo fifo && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && echo e > .envrc; cp /bin/true suid; chmod g+s suid; "
      f"cd {two_} && echo changed-in-two > file; echo hi > {plain}/p", check=0)
    assert (one / "file").read_text() == "one\n" and (one / "gone").exists() and not (one / "new").exists() and (plain / "p").read_text() == "hi\n"
    rows = b.json("share", "diff", "o")
    seen = {(os.path.basename(r["share"]), r["path"]): r["change"] for r in rows}
    assert seen.get((one.name, "file")) == "changed" and seen.get((one.name, "gone")) == "deleted" and seen.get((one.name, "new")) == "added" and seen.get((two_.name, "file")) == "changed", seen
    # Between the look and the taking over, the folder changes: a link stands where a file is to be written.
    (one / "file").unlink()
    os.symlink(secret / "key", one / "file")
    own(b, one)
    b("share", "apply", "o", "--all")
    assert (secret / "key").read_text() == "host secret\n", "written through a link"
    assert not (one / "file").is_symlink() and (one / "file").read_text() == "changed-in-one\n" and (two_ / "file").read_text() == "changed-in-two\n" and not (one / "gone").exists()
    for name in ("fifo", ".git/hooks/pre-commit", ".envrc", "suid", "link", "dirlink"):
        assert not os.path.lexists(one / name), f"{name} was taken over unasked"
    # Links in the folder of the host never lead a write elsewhere.
    b("run", "o", "--", "sh", "-c", f"cd {one} && mkdir -p d/e && echo x > d/e/f", check=0)
    os.symlink(secret, one / "d")
    own(b, one)
    b("share", "apply", "o", "--all")
    assert sorted(p.name for p in secret.iterdir()) == ["key"], list(secret.iterdir())
    b("share", "apply", "o", "../ov-secret/key", "/etc/passwd")
    assert (secret / "key").read_text() == "host secret\n"


@both
def test_read_only_means_read_only(w, b):
    d = folder(b, "ro")
    write(b, d / "f", "original\n", 0o666)
    p = b("run", "--share", f"{d}:ro", "--", "sh", "-c", f"cd {d}; echo x > f; echo x > g; rm f; mkdir d; mv f h; chmod 777 f; touch f; mount -o remount,rw .; ln f k; truncate -s0 f; true")
    assert p.returncode == 0 and [q.name for q in d.iterdir()] == ["f"] and (d / "f").read_text() == "original\n"


def on_terminal(b, *args, typed=b"", before=b""):
    """Runs brome on a terminal of its own: what reached the terminal, the exit status, what was left in the input."""
    master, slave = pty.openpty()
    p = subprocess.Popen(b.argv(*args), env={**b.env, "TERM": "xterm"}, cwd=b.home, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                         preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
    out, end, sent = b"", time.monotonic() + 60, False
    while time.monotonic() < end:
        if select.select([master], [], [], 0.05)[0]:
            out += os.read(master, 65536)
        elif p.poll() is not None:
            break
        if typed and not sent and (not before or before in out):
            os.write(master, typed)
            sent = True
    assert p.poll() is not None, out
    os.set_blocking(slave, False)
    try:
        left = os.read(slave, 4096)
    except OSError:
        left = b""
    os.close(slave)
    os.close(master)
    return out, p.returncode, left


ESCAPES = {
    "clipboard": rb"\033]52;c;aGVsbG8=\007", "clipboard, ST": rb"\033]52;c;aGVsbG8=\033\\", "clipboard, 8 bit": rb"\302\23552;c;aGVsbG8=\302\234", "title": rb"\033]0;owned\007", "title report": rb"\033[21t", "icon report": rb"\033[20t",
    "DECRQSS": rb"\033P$q\"p\033\\", "device attributes": rb"\033[c", "secondary attributes": rb"\033[>c", "tertiary": rb"\033[=c", "status": rb"\033[5n", "cursor report": rb"\033[6n", "DECID": rb"\033Z", "answerback": rb"\005", "terminfo query": rb"\033P+q544e\033\\",
    "colour query": rb"\033]4;1;?\007", "foreground query": rb"\033]10;?\007", "mode query": rb"\033[?2004$p", "checksum": rb"\033[1;1;1;1;1;1*y", "window move": rb"\033[3;0;0t", "window query": rb"\033[18t", "iTerm file": rb"\033]1337;File=inline=1:aGk=\007",
    "sixel": rb"\033Pq#0;2;0;0;0\033\\", "program keys": rb"\033P1;1|17/6f776e6564\033\\", "media copy": rb"\033[5i", "APC": rb"\033_Gi=1,a=q;AAAA\033\\", "PM": rb"\033^evil\033\\", "xtversion": rb"\033[>q", "kitty keyboard": rb"\033[?u",
    "hyperlink of a command": rb"\033]8;;command:evil\007x\033]8;;\007", "notification": rb"\033]9;evil\007", "notification 777": rb"\033]777;notify;a;b\007", "current directory": rb"\033]7;file:///evil\007", "prompt mark": rb"\033]133;A\007",
}


@both
def test_the_terminal_is_not_steered(w, b):
    bad = []
    script = "; ".join(f"printf 'from-{n}:'; printf '{e.decode()}'; printf ':to-{n}\\n'" for n, (_, e) in enumerate(ESCAPES.items()))
    # Each also cut into single bytes, and by a pause between two writes.
    out, code, _ = on_terminal(b, "run", "--", "sh", "-c", script + "; echo; echo the end")
    assert code == 0 and b"the end" in out, out
    for n, (name, _) in enumerate(ESCAPES.items()):
        m = re.search(rb"from-%d:(.*?):to-%d" % (n, n), out, re.S)
        if not m:
            bad.append(f"{name}: the text around it is gone: {out[-300:]}")
        elif b"\x1b" in m[1] or b"\x05" in m[1] or b"\xc2\x9d" in m[1]:
            # termfilter.h: titles pass, and so do questions that a terminal answers with numbers only; the answers are drained at the end.
            if name == "hyperlink of a command" and b"command" not in m[1]:
                continue  # the end of a link that never began
            if name not in ("title", "device attributes", "secondary attributes", "status", "cursor report", "mode query", "kitty keyboard"):
                bad.append(f"{name} reached the terminal: {m[1]!r}")
    assert not bad, "\n".join(bad)
    slow = "import os,sys,time\nfor c in b'\\033]52;c;aGVsbG8=\\007\\033[c\\033[21t\\033[6nend':\n  os.write(1, bytes([c])); time.sleep(0.005)\n"
    out, _, _ = on_terminal(b, "run", "--", "python3", "-c", slow)
    assert b"end" in out and b"\x1b]52" not in out and b"\x1b[21t" not in out, out
    # Colours and cursor movement do pass: it is a terminal.
    out, _, _ = on_terminal(b, "run", "--", "printf", r"\033[31mred\033[0m\033[2J\033[10;10H")
    assert b"\x1b[31mred" in out, out


@both
def test_modes_are_reset_and_input_drained(w, b):
    out, code, left = on_terminal(b, "run", "--", "sh", "-c", r"printf '\033[?1049h\033[?1000h\033[?1006h\033[?2004h\033[?25l\033[?1h\033=\033(0'; stty -echo raw; echo ready; sleep 0.5; kill -9 $$", typed=b"rm -rf /\nyes\n", before=b"ready")
    assert code == 137, (code, out)
    assert left == b"", f"typed ahead and left to the shell: {left!r}"
    tail = out[out.index(b"ready"):]
    for mode in (b"1049l", b"1000l", b"1006l", b"2004l", b"?25h"):
        assert mode in tail, f"{mode} is not reset: {tail!r}"
