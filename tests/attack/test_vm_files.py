"""The file service of a machine: its root does to a share whatever its own kernel lets it, by 9p, and the host's folder stays what it may be: nothing outside
it is read or written, nothing in it runs on the host with more rights, protected files stay, and a full disk is said."""
import os
import pathlib
import stat
import threading

from attack import check
from ground import guest, status, tree
from machines import BOOT_SECONDS, image, machines
from world import Brome, World, sh

FULL_BYTES = 2 << 20


def make_world():
    machines()
    w = World(sniff=False)
    w.image = image()
    b = w.b = Brome(w)
    for name in ("rw", "ro", "outside", "small"):
        (b.dir / name).mkdir()
    (b.dir / "outside/secret").write_text("outside\n")
    (b.dir / "outside").chmod(0o777)
    (b.dir / "outside/secret").chmod(0o666)
    (b.dir / "ro/f").write_text("ro\n")
    (b.dir / "rw/f").write_text("rw\n")
    (b.dir / "rw/.envrc").write_text("of the host\n")
    sh("git", "init", "-q", b.dir / "rw")
    sh("mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES},mode=777", "small", b.dir / "small")
    (b.dir / "small/kept").write_text("kept\n" * 1000)
    (b.dir / "rw/to-outside").symlink_to(b.dir / "outside")
    (b.dir / "rw/up").symlink_to("../outside")
    b.config.write_text(f'workspace s {{ isolation vm; image "{w.image}"; memory 512M; share "{b.dir}/rw"; share "{b.dir}/ro" read-only; share "{b.dir}/small"; rules {{ default deny }} }}\n')
    b("workspace", "start", "s", check=0, timeout=BOOT_SECONDS)
    return w


def untouched(w):
    o = w.b.dir / "outside"
    assert sorted(p.name for p in o.iterdir()) == ["secret"] and (o / "secret").read_text() == "outside\n"
    assert (w.b.dir / "ro/f").read_text() == "ro\n" and sorted(p.name for p in (w.b.dir / "ro").iterdir()) == ["f"]


def test_links_do_not_lead_out(w):
    b, d = w.b, w.b.dir
    out = guest(b, f'''
import json, os
os.chdir("{d}/rw")
bad = []
for n, t in (("a", "{d}/outside"), ("b", "../outside"), ("c", "/proc/self/root{d}/outside"), ("d", "/"), ("e", "../../../../../../../.."), ("g", "/proc/1/root"), ("h", "/dev/fd")): os.symlink(t, n)
for n in ("a", "b", "c", "to-outside", "up"):
    for op in (lambda: open(n + "/secret").read(), lambda: open(n + "/made", "w"), lambda: os.listdir(n), lambda: os.link(n + "/secret", "linked"), lambda: os.unlink(n + "/secret"), lambda: os.chmod(n + "/secret", 0)):
        try: op(); bad.append((n, "worked"))
        except OSError: pass
for p in ("..", "../outside/secret", "f/..", ".//..//outside"):
    try: open(os.path.join("{d}/rw", p, "secret" if p == ".." else "")).read(); bad.append(p)
    except OSError: pass
print(json.dumps(bad))
''')
    assert not out, out
    untouched(w)
    assert os.readlink(d / "rw/d") == "/", "a link is a text"


def test_the_tag_again(w):
    b, d = w.b, w.b.dir
    b.sh("s", "mkdir -p /mnt/again")
    for options in ("trans=virtio", "trans=virtio,version=9p2000.L,cache=none,access=any", "trans=virtio,version=9p2000,uname=root,access=any", "trans=virtio,version=9p2000.u,aname=/", f"trans=virtio,aname={d}/outside", "trans=virtio,aname=../..,dfltuid=0,debug=1", "trans=virtio,posixacl,msize=1000000000", "trans=virtio,access=client"):
        for tag in ("share0", "share1"):
            p = b.sh("s", f"mount -t 9p -o {options} {tag} /mnt/again && {{ ls -a /mnt/again /mnt/again/.. ; cat /mnt/again/secret /mnt/again/outside/secret; echo x > /mnt/again/f; echo MOUNTED; }}; umount /mnt/again")
            assert "outside\n" not in p.stdout, (options, p)
    # Unmounted first, the device is free: another version of the protocol is spoken, and reaches no further.
    reached = []
    for options in ("version=9p2000.u,access=any", "version=9p2000,access=any", f"version=9p2000.L,aname={d}/outside", "version=9p2000.u,aname=/"):
        p = b.sh("s", f"umount {d}/ro && mount -t 9p -o trans=virtio,{options} share1 {d}/ro && {{ cat {d}/ro/f; echo evil > {d}/ro/f; echo evil > {d}/ro/new; cat {d}/ro/secret {d}/ro/../outside/secret; }}; umount {d}/ro; mount -t 9p -o trans=virtio,version=9p2000.L share1 {d}/ro", timeout=120)
        assert "outside\n" not in p.stdout, (options, p)
        reached += ["ro" in p.stdout.split()]
        untouched(w)
    assert any(reached), "none of these mounts came about, so nothing was tried"


def test_files_that_are_more(w):
    b, d = w.b, w.b.dir
    out = guest(b, f'''
import errno, json, os, socket, stat
os.chdir("{d}/rw")
r = {{}}
def attempt(name, fn):
    try: fn(); r[name] = "done"
    except OSError as e: r[name] = errno.errorcode[e.errno]
attempt("block", lambda: os.mknod("block", 0o666 | stat.S_IFBLK, os.makedev(8, 0)))
attempt("char", lambda: os.mknod("char", 0o666 | stat.S_IFCHR, os.makedev(1, 1)))
open("suid", "w").write("#!/bin/sh")
attempt("chmod suid", lambda: os.chmod("suid", 0o4755))
attempt("chmod sgid", lambda: os.chmod("suid", 0o2755))
attempt("open suid", lambda: os.open("suid2", os.O_CREAT | os.O_WRONLY, 0o4755))
attempt("mknod suid", lambda: os.mknod("suid3", 0o4755 | stat.S_IFREG))
attempt("mkdir suid", lambda: os.mkdir("suid4", 0o4755))
attempt("chown", lambda: os.chown("suid", 0, 0))
attempt("capability", lambda: os.setxattr("suid", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")))
attempt("trusted", lambda: os.setxattr("suid", "trusted.overlay.opaque", b"y"))
attempt("fifo", lambda: os.mkfifo("fifo"))
attempt("socket", lambda: socket.socket(socket.AF_UNIX).bind("sock"))
attempt("newline", lambda: open("a\\nb\\x1b[2J", "w").write("x"))
attempt("latin", lambda: open(b"\\xff\\xfe", "w").write("x"))
attempt("long", lambda: open("n" * 255, "w"))
attempt("longer", lambda: open("n" * 256, "w"))
attempt("hard link", lambda: os.link("f", "f-again"))
attempt("fallocate", lambda: os.truncate("f-big", 1 << 62) if open("f-big", "w") else 0)
print(json.dumps(r))
''')
    for p in (d / "rw").iterdir():
        st = p.lstat()
        assert not st.st_mode & stat.S_ISUID and not stat.S_ISBLK(st.st_mode) and not stat.S_ISCHR(st.st_mode), (p, oct(st.st_mode), out)
        if stat.S_ISREG(st.st_mode):
            assert not [x for x in os.listxattr(p) if x.startswith(("security.cap", "trusted."))], (p, os.listxattr(p))
    assert out["newline"] == out["long"] == "done" and out["longer"] == "ENAMETOOLONG", out
    text = b("workspace", "describe", "s").stdout
    assert "\x1b[2J" not in text
    sh("find", d / "rw", "-maxdepth", "1", "-name", "*big*", "-delete")


def test_protected_files_stay(w):
    b, d = w.b, w.b.dir
    b.sh("s", f"cd {d}/rw; rm -rf .git/hooks .git .envrc; mv .git .git2; mv .envrc e; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; ln -s /tmp .git/hooks/x; echo evil > .envrc; cp /bin/true .envrc; ln f .git/hooks/y; umount .git/hooks; umount .git; rmdir .git/hooks; ln -sfn /tmp .git")
    for protected in (".git/hooks/pre-commit", ".git/hooks/x", ".git/hooks/y"):
        assert not os.path.lexists(d / "rw" / protected), protected
    assert (d / "rw/.envrc").read_text() == "of the host\n"
    assert not (d / "rw/.git").is_symlink()


def test_races_by_renaming(w):
    """The host's side walks a name while a folder becomes a link and back: it never comes out elsewhere."""
    b, d = w.b, w.b.dir
    out = guest(b, f'''
import json, os, threading, time
os.chdir("{d}/rw")
os.makedirs("real/in", exist_ok=True); open("real/secret", "w").write("mine\\n"); open("real/in/secret", "w").write("mine\\n")
os.symlink("{d}/outside", "evil"); os.symlink("../outside", "evil2")
stop, leaked, made = time.monotonic() + 8, [], [0]
def swap():
    while time.monotonic() < stop:
        for e in ("evil", "evil2"):
            try:
                os.rename("real", "aside"); os.rename(e, "real"); os.rename("real", e); os.rename("aside", "real")
            except OSError: pass
def use():
    while time.monotonic() < stop:
        for op in (lambda: leaked.append(1) if open("real/secret").read() == "outside\\n" else 0, lambda: open("real/made", "w").write("x"), lambda: os.unlink("real/made"), lambda: os.chmod("real/secret", 0o644), lambda: os.listdir("real"), lambda: os.truncate("real/secret", 5)):
            try: op(); made[0] += 1
            except OSError: pass
t = [threading.Thread(target=f) for f in (swap, use, use)]
[x.start() for x in t]; [x.join() for x in t]
print(json.dumps([len(leaked), made[0]]))
''', timeout=200)
    assert out[0] == 0 and out[1] > 20, out
    untouched(w)
    assert stat.S_IMODE((d / "outside/secret").stat().st_mode) == 0o666


def test_the_host_changes_it_meanwhile(w):
    """The same, with the host's side swapping: a person's own program makes a folder a link while the guest holds it."""
    b, d = w.b, w.b.dir
    (d / "rw/moved").mkdir()
    (d / "rw/moved/secret").write_text("mine\n")
    end = threading.Event()

    def swap():
        while not end.is_set():
            os.rename(d / "rw/moved", d / "rw/moved2")
            os.symlink(d / "outside", d / "rw/moved")
            os.unlink(d / "rw/moved")
            os.rename(d / "rw/moved2", d / "rw/moved")
    t = threading.Thread(target=swap)
    t.start()
    try:
        out = guest(b, f'''
import json, os, time
os.chdir("{d}/rw"); stop, leaked, n = time.monotonic() + 5, 0, 0
f = os.open("moved", os.O_RDONLY)
while time.monotonic() < stop:
    for op in (lambda: open("moved/secret").read(), lambda: open("secret", opener=lambda p, fl: os.open(p, fl, dir_fd=f)).read()):
        try: leaked += op() == "outside\\n"; n += 1
        except OSError: pass
print(json.dumps([leaked, n]))
''', timeout=200)
    finally:
        end.set()
        t.join()
    assert out[0] == 0 and out[1] > 5, out
    untouched(w)


def test_many_of_everything(w):
    b, d = w.b, w.b.dir
    (q,) = b.pids("qemu-system-x86")
    before = len(os.listdir(f"/proc/{q}/fd"))
    out = guest(b, f'''
import errno, fcntl, json, os, resource
os.chdir("{d}/rw"); os.mkdir("many"); resource.setrlimit(resource.RLIMIT_NOFILE, (70000, 70000))
for i in range(3000): os.close(os.open("many/%d" % i, os.O_CREAT | os.O_WRONLY))
held, why = [], ""
try:
    for k in range(10):
        for i in range(1500): held.append(os.open("many/%d" % i, os.O_RDWR))
except OSError as e: why = errno.errorcode[e.errno]
deep = os.getcwd()
try:
    for i in range(200): os.mkdir("d" * 60); os.chdir("d" * 60)
except OSError: pass
os.chdir("{d}/rw")
fcntl.lockf(held[0], fcntl.LOCK_EX)
print(json.dumps([len(held), why, len(os.listdir("many"))]))
''', timeout=400)
    assert out[0] >= 1000 and out[2] == 3000, out
    assert b.sh("s", f"cat {d}/rw/f", check=0).stdout == "rw\n"
    assert len(os.listdir(d / "rw/many")) == 3000
    assert len(os.listdir(f"/proc/{q}/fd")) < before + 2000, "descriptors come back"
    # A lock of the guest's is none of the host's: what a host's program locks is not held up.
    import fcntl
    with open(d / "rw/many/0", "r+") as f:
        fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert int(status(tree(b)["brome-launch"][0])["VmRSS"].split()[0]) < 64 * 1024


def test_a_full_disk(w):
    b, d = w.b, w.b.dir
    p = b.sh("s", f"dd if=/dev/zero of={d}/small/fill bs=64k count=200", timeout=120)
    assert p.returncode and "No space left" in p.stderr, p
    p = b.sh("s", f"dd if=/dev/zero of={d}/small/more bs=64k count=1", timeout=120)
    assert p.returncode and "No space left" in p.stderr, p
    assert (d / "small/kept").read_text() == "kept\n" * 1000
    assert b.sh("s", f"rm -f {d}/small/fill; echo more > {d}/small/more; cat {d}/small/more", check=0).stdout == "more\n"
    # The machine's own disk: the guest's own file system, and its own error.
    p = b.sh("s", "mount -t tmpfs -o size=1m full /mnt; dd if=/dev/zero of=/mnt/x bs=64k count=100; umount /mnt; echo on")
    assert "No space left" in p.stderr and p.stdout == "on\n", p


def test_the_end(w):
    b, d = w.b, w.b.dir
    p = b("workspace", "stop", "s", timeout=120)
    assert "\x1b[2J" not in p.stdout + p.stderr and not b.pids("qemu-system-x86")
    for words in (("timeline",), ("workspace", "describe", "s")):
        assert "\x1b[2J" not in b(*words).stdout
    untouched(w)
    check([] if pathlib.Path(d / "rw/f").read_text() == "rw\n" else ["a file of the share changed"])
    assert "0 findings" in b("trace", "verify", check=0).stdout
    sh("umount", d / "small")
