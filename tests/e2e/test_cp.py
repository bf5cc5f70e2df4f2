"""brome cp: files and folders into and out of a running workspace, and what a hostile one cannot do with it."""
import io
import os
import pathlib
import shutil
import signal
import stat
import tarfile
import time

from ground import both, two
from world import World, wait_for

CONFIG = "workspace s { rules { default deny } }\nworkspace off { rules { default deny } }\n"


def make_world():
    w = World()
    two(w, CONFIG)
    for b in (w.root, w.plain):
        b("workspace", "start", "s", check=0)
    return w


def place(b, name):
    d = b.dir / name
    shutil.rmtree(d, ignore_errors=True)
    d.mkdir()
    if b.user:
        shutil.chown(d, b.user, b.user)
    return d


def write(b, path, data, mode=0o644):
    path.write_bytes(data)
    path.chmod(mode)
    if b.user:
        shutil.chown(path, b.user, b.user)


def temps(d):
    return [p for p in d.rglob("*") if p.name.startswith(".brome-cp")]


def tree(d):
    return {str(p.relative_to(d)): (os.readlink(p) if p.is_symlink() else "dir" if p.is_dir() else p.read_bytes()) for p in d.rglob("*")}


@both
def test_there_and_back(w, b):
    d = place(b, "src")
    (d / "sub").mkdir()
    big = os.urandom(3_000_000)
    for name, data, mode in (("a.txt", b"hello", 0o644), ("sub/run.sh", b"#!/bin/sh\n", 0o755), ("sub/big", big, 0o600), ("empty", b"", 0o644), ("-dash", b"d", 0o644), ("x" * 200, b"long", 0o644), ("ü \n n", b"odd", 0o644)):
        write(b, d / name, data, mode)
    os.symlink("sub/run.sh", d / "link")
    if b.user:
        shutil.chown(d / "sub", b.user, b.user)
    b.sh("s", "rm -rf /root/*", check=0)
    b("cp", d, "s:/root", check=0)  # a folder that is there: below it, by its name
    got = b.sh("s", "cd /root/src; cat a.txt; stat -c %u:%a a.txt sub/run.sh sub/big; readlink link; wc -c < sub/big", check=0).stdout
    assert got == "hello0:644\n0:755\n0:600\nsub/run.sh\n3000000\n", got
    b("cp", d / "a.txt", "s:new.txt", check=0)  # a new name; relative to the home
    assert b.sh("s", "cat /root/new.txt").stdout == "hello"
    out = place(b, "out")
    b("cp", "s:src", "s:/root/new.txt", out, check=0)
    assert tree(out / "src") == tree(d) and (out / "new.txt").read_bytes() == b"hello"
    assert stat.S_IMODE((out / "src/sub/run.sh").stat().st_mode) == 0o755 and stat.S_IMODE((out / "src/sub/big").stat().st_mode) == 0o600
    b("cp", "s:src", out / "again", check=0)  # another name
    assert tree(out / "again") == tree(d)
    assert not temps(out) and "brome-cp" not in b.sh("s", "find /root").stdout
    rows = [r for r in b.json("timeline") if r.get("subject") == "copied"]
    assert any("into it: 8 files" in r["detail"] for r in rows) and any("out of it: 9 files" in r["detail"] for r in rows), rows


@both
def test_what_is_there_already(w, b):
    b.sh("s", "mkdir -p /root/t/sub && echo new > /root/t/f && echo new > /root/t/l && echo new > /root/t/d && echo in > /root/t/sub/x", check=0)
    out = place(b, "have")
    (out / "t/sub").mkdir(parents=True)
    (out / "t/d").mkdir()
    outside = b.dir / "outside"
    write(b, outside, b"mine")
    write(b, out / "t/f", b"old", 0o640)
    write(b, out / "t/kept", b"kept")
    os.symlink(outside, out / "t/l")
    for p in (out / "t", out / "t/sub", out / "t/d"):
        if b.user:
            shutil.chown(p, b.user, b.user)
    p = b("cp", "s:t", out)
    assert p.returncode == 1 and "a link has its name here" in p.stderr and "no file has its name here" in p.stderr, p
    assert (out / "t/f").read_bytes() == b"new\n" and stat.S_IMODE((out / "t/f").stat().st_mode) == 0o640
    assert outside.read_bytes() == b"mine" and (out / "t/l").is_symlink() and (out / "t/kept").read_bytes() == b"kept" and (out / "t/sub/x").read_bytes() == b"in\n"
    # Through a link: named, not followed.
    os.symlink(out, b.dir / "way")
    p = b("cp", "s:t/f", f"{b.dir}/way")
    assert p.returncode == 1 and "leads through a link" in p.stderr and str(out) in p.stderr, p
    p = b("cp", f"{b.dir}/way/t/f", "s:/root")
    assert p.returncode == 1 and "leads through a link" in p.stderr, p
    os.unlink(b.dir / "way")


def archive(*entries):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, kind, how in entries:
            i = tarfile.TarInfo(name)
            i.type = kind
            data = how.get("data", b"")
            i.size, i.mode, i.linkname = len(data), how.get("mode", 0o644), how.get("to", "")
            t.addfile(i, io.BytesIO(data))
    return raw.getvalue()


def hostile_tar(b, raw):
    """From now on the workspace's tar prints this."""
    b("exec", "-T", "s", "--", "sh", "-c", "mkdir -p /root/.local/bin; cat > /root/evil.tar; printf '#!/bin/sh\\nexec cat /root/evil.tar\\n' > /root/.local/bin/tar; chmod +x /root/.local/bin/tar", input=raw, check=0, text=False)


@both
def test_a_hostile_workspace(w, b):
    F, D, L = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE
    top = ("t", D, {"mode": 0o755})
    out = place(b, "hostile")
    try:
        for name in ("../up", "/abs", "t/../../up", "other", "t/./x", "t//x", "tt/x", "t/" + "d/" * 70 + "x"):
            hostile_tar(b, archive(top, (name, F, {"data": b"evil"})))
            p = b("cp", "s:t", out)
            assert p.returncode == 1, (name, p)
            assert set(tree(out)) <= {"t"} and not (b.dir / "up").exists(), (name, tree(out))
        # Bits and kinds that are not taken over; links that lead out, also one by way of another.
        hostile_tar(b, archive(top, ("t/suid", F, {"data": b"x", "mode": 0o6755}), ("t/null", tarfile.CHRTYPE, {}), ("t/pipe", tarfile.FIFOTYPE, {}), ("t/hard", tarfile.LNKTYPE, {"to": "/etc/shadow"}),
                               ("t/d", D, {"mode": 0o4777}), ("t/d/e", D, {"mode": 0o755}), ("t/abs", L, {"to": "/etc/passwd"}), ("t/up", L, {"to": "../outside"}), ("t/d/e/top", L, {"to": "../.."}),
                               ("t/d/by", L, {"to": "e/top/.."}), ("t/d/good", L, {"to": "../suid"}), ("t/dangling", L, {"to": "nothing"})))
        p = b("cp", "s:t", out)
        assert p.returncode == 1
        got = tree(out)
        assert set(got) == {"t", "t/suid", "t/d", "t/d/e", "t/d/e/top", "t/d/good", "t/dangling"}, got
        assert stat.S_IMODE((out / "t/suid").stat().st_mode) == 0o755 and not (out / "t/d").stat().st_mode & 0o7000
        for text in ("t/null", "t/pipe", "t/hard", "t/abs", "t/up", "t/d/by"):
            assert text + ": left out" in p.stderr, p.stderr
        # A link first, and then through it.
        shutil.rmtree(out / "t")
        hostile_tar(b, archive(top, ("t/x", L, {"to": "/tmp"}), ("t/x/evil-cp", F, {"data": b"evil"})))
        assert b("cp", "s:t", out).returncode == 1 and not os.path.exists("/tmp/evil-cp") and set(tree(out)) == {"t"}
        # A link of the user's that stood there before.
        os.symlink(b.dir, out / "t/mine")
        hostile_tar(b, archive(top, ("t/l", L, {"to": "mine/brome.conf"}), ("t/mine/evil", F, {"data": b"evil"})))
        p = b("cp", "s:t", out)
        assert p.returncode == 1 and not (out / "t/l").is_symlink() and not (b.dir / "evil").exists(), p
        # The whole name is a link; a name for a terminal; too much; cut off; nonsense.
        shutil.rmtree(out / "t")
        hostile_tar(b, archive(("t", L, {"to": "x"})))
        assert b("cp", "s:t", out).returncode == 1 and not tree(out)
        hostile_tar(b, archive(top, ("t/\x1b]0;x\x07", tarfile.FIFOTYPE, {})))
        p = b("cp", "s:t", out)
        assert p.returncode == 1 and "\x1b" not in p.stderr and "left out" in p.stderr
        hostile_tar(b, archive(top, ("t/f", F, {"data": b"y" * 3000})))
        p = b("cp", "--limit", "2K", "s:t", out)
        assert p.returncode == 1 and "--limit" in p.stderr and set(tree(out)) == {"t"}, p
        for cut in (0, 100, 511, 512, 700, 1024, 1500, 2048 + 600):
            hostile_tar(b, archive(top, ("t/f", F, {"data": b"y" * 3000}))[:cut])
            assert b("cp", "s:t", out).returncode == 1
            assert not (out / "t/f").exists(), cut
        hostile_tar(b, os.urandom(4096))
        assert b("cp", "s:t", out).returncode == 1
        assert not temps(out)
    finally:
        b.sh("s", "rm -f /root/.local/bin/tar", check=0)


@both
def test_interrupted(w, b):
    """Neither side keeps a half."""
    b.sh("s", "mkdir -p /root/.local/bin; printf '#!/usr/bin/python3\\nimport sys,time\\nsys.stdout.buffer.write(open(\"/root/part\",\"rb\").read()); sys.stdout.flush(); time.sleep(999)\\n' > /root/.local/bin/tar; chmod +x /root/.local/bin/tar", check=0)
    b("exec", "-T", "s", "--", "sh", "-c", "cat > /root/part", input=archive(("f", tarfile.REGTYPE, {"data": b"y" * 300000}))[:200000], check=0, text=False)
    out = place(b, "half")
    p = b.popen("cp", "s:f", out)
    wait_for("a file that is being written", lambda: temps(out))
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 130 and not list(out.iterdir())
    b.sh("s", "rm -f /root/.local/bin/tar", check=0)
    d = place(b, "bigsrc")
    with open(d / "big", "wb") as f:
        f.truncate(20 << 30)  # holes: it takes long enough
    p = b.popen("cp", d, "s:/root/landing")
    wait_for("the folder beside its place", lambda: ".brome-cp" in b.sh("s", "ls -A /root").stdout)
    p.send_signal(signal.SIGTERM)
    assert p.wait(30) == 143
    wait_for("it to be gone", lambda: ".brome-cp" not in b.sh("s", "ls -A /root").stdout)
    assert "landing" not in b.sh("s", "ls /root").stdout
    shutil.rmtree(d)


@both
def test_refusals(w, b):
    out = place(b, "no")
    for args, code, text in ((("s:x",), 64, "where to"), (("a", "b"), 64, "neither side"), (("s:a", "off:b"), 64, "one workspace into another"), (("s:..", str(out)), 64, "no name of its own"),
                             (("s:nothing-there", str(out)), 1, "No such file"), (("s:/etc/hostname", str(out / "a" / "b")), 1, "No such file"), ((str(out / "nothing"), "s:/root"), 1, "No such file"),
                             ((str(out), "s:/no/such/folder"), 1, "there is no folder"), (("off:/etc/passwd", str(out)), 1, "workspace start"), (("nosuch:/x", str(out)), 1, "no workspace nosuch"),
                             (("--limit", "x", "s:a", str(out)), 64, "--limit")):
        p = b("cp", *args)
        assert p.returncode == code and text in p.stderr, (args, p)
    assert not list(out.iterdir())
    b("workspace", "pause", "s", check=0)
    p = b("cp", "s:/etc/hostname", out)
    assert p.returncode == 1 and "resume" in p.stderr and not list(out.iterdir())
    b("workspace", "resume", "s", check=0)
    b("cp", "s:/etc/hostname", out, check=0)
