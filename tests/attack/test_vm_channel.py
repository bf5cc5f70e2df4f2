# long: a machine is started for each way
"""A machine whose first process is hostile: what it says on its port is all that the host's launcher ever hears of it. Whatever it says ends its session
with one readable line; nothing of it reaches the terminal raw, nothing grows, and nothing is left."""
import os
import pathlib
import re
import shutil
import subprocess
import time

from attack import check
from ground import gone, lives, status, tree
from machines import BOOT_SECONDS, image, machines
from world import TOP, Brome, Skip, World, sh, wait_for

GROWTH_KIB = 48 * 1024  # of a launcher, over what it has when nothing was said: MUX_GUEST_OUT_BYTES and the client's buffers
VERSION = re.search(r"PROTO_VERSION = (\d+)", (TOP / "src/guest/proto.h").read_text())[1]
RAW = ("\x1b", "\x07", "\r", "\x9b", "‮", "\0")


def cpio(path, mode, data):
    head = "070701" + "".join(f"{v:08x}" for v in (7, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path) + 1, 0))
    out = head.encode() + path.encode() + b"\0"
    out += b"\0" * (-len(out) % 4) + data
    return out + b"\0" * (-len(out) % 4)


def hostile(w, number):
    """An image whose initrd has another /init: a second archive behind the first takes its place."""
    folder = w.dir / f"image-{number}"
    folder.mkdir()
    sh("cc", "-O1", "-static", f"-DATTACK={number}", f"-DVERSION={VERSION}", "-o", folder / "init", TOP / "tests/vm/hostile/init.c")
    for name in ("vmlinuz", "accel"):
        if (w.image / name).exists():
            shutil.copyfile(w.image / name, folder / name)
    for name in ("base.ext4", "home.ext4"):
        sh("truncate", "-s", "64M", folder / name)  # nobody mounts them
    first = (w.image / "initrd").read_bytes()
    more = cpio("init", 0o100755, (folder / "init").read_bytes()) + cpio("TRAILER!!!", 0, b"")
    (folder / "initrd").write_bytes(first + b"\0" * (-len(first) % 4) + more)
    for p in (folder, *folder.iterdir()):
        p.chmod(0o755)
    return folder


ATTACKS = range(11)


def make_world():
    machines()
    if not shutil.which("cc") or os.uname().machine != "x86_64":
        raise Skip("needs x86-64 and a C compiler")
    w = World(sniff=False)
    w.image = image()
    w.b = Brome(w)
    w.b.config.write_text("".join(f'workspace w{n} {{ isolation vm; image "{hostile(w, n)}"; memory 256M; rules {{ default deny }} }}\n' for n in ATTACKS))
    w.b("daemon", "start", check=0)
    return w


def plain(p):
    """What a person saw: one line of ours, printable."""
    text = p.stdout + p.stderr
    bad = [repr(r) for r in RAW if r in text] + [f"{len(line)} bytes a line" for line in text.splitlines() if len(line) > 1000]
    assert not bad, (bad, text)
    return text


def state(b, n):
    return b.json("workspace", "describe", f"w{n}")[0]


def ended(w, n, *signs):
    b = w.b
    wait_for("the end", lambda: state(b, n)["state"] in ("stopped", "failed"), 60)
    row = state(b, n)
    for text in (b("workspace", "describe", f"w{n}"), b("workspace", "ls"), b("timeline")):
        plain(text)
    assert any(s in row["reason"] for s in signs) and "\n" not in row["reason"], row
    wait_for("the end of QEMU", lambda: not b.pids("qemu-system-x86"))
    assert (b.dir / f"state/workspaces/w{n}/console.log").stat().st_size < 300 * 1024


def start(w, n, code=0):
    p = w.b("workspace", "start", f"w{n}", timeout=BOOT_SECONDS)
    text = plain(p)
    assert (p.returncode == 0) == (code == 0), p
    return text


def refused(n, sign):
    def test(w):
        text = start(w, n, 1)
        assert sign in text and len(text.splitlines()) <= 4, text
        ended(w, n, sign)
    return test


test_garbage = refused(0, "broke its protocol")
test_another_version = refused(1, "speaks version 4294967295 of its protocol")
test_set_up_fails_in_colours = refused(2, "could not be set up inside")
test_silence = refused(10, "said nothing for 120 s")


def launcher(w):
    (pid,) = tree(w.b)["brome-launch"]
    return pid


def memory(pid, field="VmHWM"):
    return int(status(pid)[field].split()[0])


def during(n, *signs):
    """Says its piece when a program is started in it; the client ends, and so does the session."""
    def test(w):
        b = w.b
        start(w, n)
        pid = launcher(w)
        before, began = memory(pid), time.monotonic()
        p = b.popen("exec", "-T", f"w{n}", "--", "true")
        high = before
        while p.poll() is None and time.monotonic() - began < 60:
            if lives(pid):
                try:
                    high = max(high, memory(pid))
                except (OSError, KeyError):
                    pass
            time.sleep(0.02)  # a measurement's pace
        p.kill()
        out, errors = (x.decode(errors="replace") for x in p.communicate())
        assert p.returncode not in (0, -9) and len(errors.splitlines()) == 1 and len(out) < 1 << 20, (p.returncode, out[:200], errors[:2000])
        plain(subprocess.CompletedProcess([], 0, out.replace("x", ""), errors.replace("x", "")))
        assert high - before < GROWTH_KIB, (before, high)
        ended(w, n, *signs)
    return test


test_bytes_given_back_that_nobody_sent = during(4, "broke its protocol")
test_started_for_ever = during(5, "broke its protocol")
test_nothing_given_back_for_ever = during(6, "broke its protocol")
test_hello_again = during(9, "broke its protocol")


def test_frames_of_others(w):
    b = w.b
    start(w, 3)
    p = b("exec", "-T", "w3", "--", "true", timeout=60)
    text = plain(p)
    assert p.returncode == 127 and len(text.splitlines()) == 1 and "all is well" in text, p
    # One that has ended is nobody's: what is said for it is ignored, and the next is served.
    p = b("exec", "-T", "w3", "--", "true", timeout=60)
    assert p.returncode == 3 and p.stdout == "here\n" and not p.stderr, p
    p = b("exec", "-T", "w3", "--", "true", timeout=60)
    assert p.returncode not in (0, 3, 7) and len(plain(p).splitlines()) == 1, p
    ended(w, 3, "broke its protocol")


def test_more_than_the_window(w):
    """The client that does not read is not drowned: what waits for it is one window."""
    b = w.b
    start(w, 7)
    pid = launcher(w)
    before = memory(pid)
    p = b.popen("exec", "-T", "w7", "--", "true")
    wait_for("the end", lambda: state(b, 7)["state"] in ("stopped", "failed") or memory(pid, "VmRSS") - before > GROWTH_KIB, 60)
    assert state(b, 7)["state"] in ("stopped", "failed")
    p.kill()
    p.communicate()
    ended(w, 7, "broke its protocol")


def test_one_that_hears_nothing(w):
    b = w.b
    start(w, 8)
    pid = launcher(w)
    before = memory(pid)
    p = b.popen("exec", "-T", "w8", "--", "cat", stdin=subprocess.PIPE)
    os.set_blocking(p.stdin.fileno(), False)
    for _ in range(1000):
        try:
            os.write(p.stdin.fileno(), b"y" * 65536)
        except BlockingIOError:
            time.sleep(0.002)
    assert memory(pid) - before < GROWTH_KIB, (before, memory(pid))
    assert (b.dir / "state/workspaces/w8/console.log").stat().st_size < 300 * 1024
    began = time.monotonic()
    b("workspace", "freeze", "w8", check=0)
    b("workspace", "thaw", "w8", check=0)
    b("workspace", "stop", "w8", check=0, timeout=60)
    assert time.monotonic() - began < 40
    p.kill()
    p.communicate()
    gone(pid)
    ended(w, 8, "stopped")


def test_the_journal(w):
    assert "0 findings" in w.b("trace", "verify", check=0).stdout
    for n in ATTACKS:
        log = pathlib.Path(w.b.dir / f"state/workspaces/w{n}/console.log")
        check([] if log.exists() else [f"w{n} never ran"])
    assert [p for p in w.b.dir.glob("state/workspaces/w8/console.log") if b"all is well" in p.read_bytes()]
