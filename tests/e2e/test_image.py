# world: outside
"""brome image: what is refused with which way out, what an interrupted or failed build leaves behind (nothing), what ls and rm say of images that are there.
Building a whole one is test_image_build.py."""
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from image import Bare, a_user, have_mmdebstrap
from world import Brome, Skip, wait_for


def make_world():
    return Bare()


def manifest(suite="bookworm"):
    def f(i, disk):
        return {"bytes": i, "sha256_blocks" if disk else "sha256": "%064x" % i}
    return json.dumps({"format": 1, "suite": suite, "kernel": "6.1.0-1-amd64", "architecture": "amd64", "init": "brome-guest-vm", "owners": "root", "made_us": 1700000000000000,
                       "files": {"vmlinuz": f(1, 0), "initrd": f(2, 0), "base.ext4": f(3, 1), "home.ext4": f(4, 1)}, "packages": {"libc6": "2.36"}})


def an_image(b, text):
    images = b.dir / "state/images"
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    (images / name).mkdir(parents=True)
    (images / name / "manifest.json").write_text(text)
    (images / name / "base.ext4").write_bytes(b"x" * 8192)
    return name


def listed(b):
    return {o["image"]: o for o in map(json.loads, b("image", "ls", "--json", check=0).stdout.splitlines())}


def test_none(w):
    b = Brome(w)
    p = b("image", "ls", check=0)
    assert p.stdout == "" and "brome image build" in p.stderr, p
    for name in ("0123456789abcdef", "../../etc", "current", ""):
        p = b("image", "rm", name, check=1)
        assert "there is no image" in p.stderr and "brome image ls" in p.stderr, p
    b("image", "rm", check=64), b("image", "build", "x", check=64), b("image", "ls", "x", check=64)


def test_list_and_remove(w):
    b = Brome(w)
    one, two = an_image(b, manifest()), an_image(b, manifest("trixie"))
    images = b.dir / "state/images"
    (images / "current").symlink_to(two)
    (images / ("f" * 16)).mkdir()
    (images / ".new-1").mkdir()
    (images / "notes").mkdir()
    for name, image in (("api", one), ("web", one), ("old", "0" * 16), ("odd", "../..")):
        folder = b.dir / "state/workspaces" / name / "vm"
        folder.mkdir(parents=True)
        (folder / "image").write_text(image + "\n")
    found = listed(b)
    assert set(found) == {one, two, "f" * 16}, found
    assert sorted(found[one]["workspaces"]) == ["api", "web"] and found[one]["current"] is False and found[one]["kernel"] == "6.1.0-1-amd64", found
    assert found[two]["current"] is True and found[two]["workspaces"] == [] and found[two]["suite"] == "trixie" and found[two]["disk_bytes"] >= 8192, found
    assert "broken" in found["f" * 16], found
    text = b("image", "ls", check=0).stdout
    assert f"{two} * trixie" in text and "api" in text and "broken" in text, text

    p = b("image", "rm", one, check=1)
    assert "2" not in p.stdout and "1 more" in p.stderr and one in p.stderr and (images / one / "base.ext4").exists(), p
    shutil.rmtree(b.dir / "state/workspaces/web")
    p = b("image", "rm", "--json", one, check=1)
    record = b.dir / "state/workspaces/odd/vm/image"
    record.unlink(), record.mkdir()
    p = b("image", "rm", two, check=1)
    assert "is not known" in p.stderr and (images / two / "base.ext4").exists(), p
    record.rmdir(), record.write_text("/" + "long/" * 100 + "\n")
    p = b("image", "rm", "--json", one, check=1)
    assert json.loads(p.stderr)["error"] == f"the disk of workspace api stands on image {one}" and "brome workspace wipe api" in json.loads(p.stderr)["hint"], p
    b("image", "rm", two, "f" * 16, check=0)
    assert set(listed(b)) == {one} and not os.path.lexists(images / "current")
    shutil.rmtree(b.dir / "state/workspaces/api")
    b("image", "rm", one, check=0)
    assert listed(b) == {} and (images / "notes").exists()


def hidden(target, empty):
    """Something else in its place, in this test file's own mount namespace."""
    class Mount:
        def __enter__(self):
            subprocess.run(["mount", "--bind", empty, target], check=True)

        def __exit__(self, *_):
            subprocess.run(["umount", target], check=True)
    return Mount()


def left(b):
    """What is in the folder of images besides its lock, hidden or not."""
    images = b.dir / "state/images"
    return sorted(p.name for p in images.iterdir() if p.name != ".lock") if images.exists() else []


def test_what_the_host_lacks(w):
    b = Brome(w)
    nothing = w.dir / "nothing"
    nothing.write_text("")
    folder = w.dir / "empty"
    folder.mkdir()
    if have_mmdebstrap():
        with hidden("/usr/bin/mmdebstrap", str(nothing)):
            p = b("image", "build", check=69)
    else:
        p = b("image", "build", check=69)
    assert "mmdebstrap is missing" in p.stderr and "apt-get install mmdebstrap e2fsprogs qemu-system-x86" in p.stderr and left(b) == [], p
    if not have_mmdebstrap():
        raise Skip("mmdebstrap is not installed")
    with hidden("/etc/apt/sources.list.d", str(folder)):
        if pathlib.Path("/etc/apt/sources.list").exists():
            with hidden("/etc/apt/sources.list", str(nothing)):
                p = b("image", "build", check=69)
        else:
            p = b("image", "build", check=69)
    assert "no mirror of" in p.stderr and "apt-get update" in p.stderr and left(b) == [], p
    os_release = w.dir / "os-release"
    os_release.write_text('ID=other\x1b[31m\nVERSION_CODENAME=x\n')
    with hidden(os.path.realpath("/etc/os-release"), str(os_release)):
        p = b("image", "build", check=69)
    assert "\x1b" not in p.stderr and "Debian and Ubuntu" in p.stderr and left(b) == [], p


def test_one_at_a_time(w):
    if not have_mmdebstrap():
        raise Skip("mmdebstrap is not installed")
    b = Brome(w)
    one = an_image(b, manifest())
    with open(b.dir / "state/images/.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        for words in (("build",), ("rm", one)):
            p = b("image", *words, check=1)
            assert "is at work" in p.stderr and left(b) == [one], p


def dead_mirror(w):
    """Sources whose mirror nobody answers, in place of the host's; with a login in it."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=w.dir))
    folder.chmod(0o755)
    suite = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
    (folder / "m.sources").write_text(f"Types: deb\nURIs: http://somebody:RealPassword@127.0.0.1:9/debian\nSuites: {suite}\nComponents: main\n")
    return hidden("/etc/apt/sources.list.d", str(folder))


def test_a_dead_mirror(w):
    """As root and as an ordinary user: the command that failed, its last lines, and nothing is left. What a killed build left goes too."""
    if not have_mmdebstrap():
        raise Skip("mmdebstrap is not installed")
    nothing = w.dir / "nothing2"
    nothing.write_text("")
    for user in (None, a_user()):
        b = Brome(w, user=user)
        stale = b.dir / "state/images/.new-1/root/a"
        stale.mkdir(parents=True)
        if user:
            subprocess.run(["chown", "-R", user, str(b.dir / "state")], check=True)
        with dead_mirror(w):
            if pathlib.Path("/etc/apt/sources.list").exists():
                subprocess.run(["mount", "--bind", str(nothing), "/etc/apt/sources.list"], check=True)
            p = b("image", "build", "--json", check=1, timeout=300)
            if pathlib.Path("/etc/apt/sources.list").exists():
                subprocess.run(["umount", "/etc/apt/sources.list"], check=True)
        lines = [json.loads(x) for x in p.stderr.splitlines()]
        assert "mmdebstrap ended with" in lines[-1]["error"], p
        assert any("127.0.0.1" in json.dumps(x) for x in lines), p
        assert p.stdout == "" and left(b) == [], (left(b), p)


def below(pid):
    """All processes that descend from it."""
    parents = {}
    for p in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(p.name)] = int((p / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            pass
    found, new = set(), {pid}
    while new:
        new = {c for c, parent in parents.items() if parent in new} - found
        found |= new
    return found


def test_interrupted(w):
    """^C in the middle: 130, no process and no folder is left."""
    if not have_mmdebstrap():
        raise Skip("mmdebstrap is not installed")
    for user in (None, a_user()):
        b = Brome(w, user=user)
        child = b.popen("image", "build")
        images = b.dir / "state/images"
        wait_for("mmdebstrap", lambda: child.poll() is not None or list(images.glob(".new-*/root/*")))
        assert child.poll() is None, child.stderr.read()
        processes = below(child.pid)
        assert len(processes) >= 3, processes
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=120) == 130, child.stderr.read()
        assert "interrupted" in child.stderr.read().decode() and left(b) == [], left(b)
        wait_for("their end", lambda: not any(os.path.exists(f"/proc/{p}") for p in processes))
