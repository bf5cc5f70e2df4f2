"""Workspaces in a virtual machine: one boot as root and one as an ordinary user serve most of the assertions; what differs from a namespace is what holds
the guest. The image comes from BROME_TEST_IMAGE (a folder), or from `BROME_STATE=build/machine ./brome image build`."""
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import time

from ground import ordinary_user
from world import TOP, Brome, Skip, World, sh, wait_for

BOOT_SECONDS = 300  # emulated, beside whatever else runs
SECRET = "ghp_" + "R7" * 18  # what GitHub's look like


def image():
    for folder in (os.environ.get("BROME_TEST_IMAGE"), TOP / "build/machine/images/current"):
        if folder and (pathlib.Path(folder) / "base.ext4").exists():
            return pathlib.Path(folder).resolve()
    raise Skip("there is no image for machines: BROME_STATE=build/machine ./brome image build makes one")


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def make_brome(w, user=None):
    b = Brome(w, user=user)
    for name in ("rw", "ro", "over"):
        put(b.dir / name / "f", f"{name}\n")
    put(b.dir / "rw/.vscode/tasks.json", "{}\n")
    sh("git", "init", "-q", b.dir / "rw")
    put(b.dir / "secret", SECRET + "\n")
    (b.dir / "secret").chmod(0o600)
    b.config.write_text(f"""
credential forge {{ kind github; secret file "{b.dir}/secret"; for api.example }}
workspace m {{
        isolation vm
        image "{w.image}"
        memory 1G
        env GREETING "hello"
        share "{b.dir}/rw"
        share "{b.dir}/ro" read-only
        share "{b.dir}/over" overlay
        credential forge
        rules {{ allow web allowed.example read-only; allow web api.example; default deny }}
}}
workspace tools {{ isolation vm; image "{w.image}"; memory 1G; agent gemini; tool "codex" }}
workspace gone {{ isolation vm; image "{b.dir}/no-such" }}
""")
    if user:
        for p in [b.dir, *b.dir.rglob("*")]:
            shutil.chown(p, user, user)
    return b


def programs_of_the_host():
    """Stand-ins for agents as `npm install -g` and as a package of one file install them; nothing else of the host is in its /usr/local."""
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "none", "/usr/local")
    local = pathlib.Path("/usr/local")
    put(local / "lib/node_modules/@a/gemini/cli.js", "#!/usr/bin/env node\nconsole.log('gemini runs on', process.version, require('./part'), process.argv[2])\n")
    put(local / "lib/node_modules/@a/gemini/part.js", "module.exports = 'with its parts'\n")
    put(local / "lib/node_modules/other/secret", "another package's\n")
    put(local / "bin/codex", "#!/bin/sh\necho codex runs \"$1\"\n")
    put(local / "bin/other", "#!/bin/sh\n")
    (local / "bin/gemini").symlink_to("../lib/node_modules/@a/gemini/cli.js")
    for p in ("lib/node_modules/@a/gemini/cli.js", "bin/codex", "bin/other"):
        (local / p).chmod(0o755)


def make_world():
    if not (shutil.which("qemu-system-x86_64") and os.access("/dev/net/tun", os.R_OK)):
        raise Skip("QEMU or /dev/net/tun is not there")
    w = World()
    w.image = image()
    w.nginx(("allowed.example", "api.example", "other.example"))
    programs_of_the_host()
    w.root, w.plain = make_brome(w), make_brome(w, ordinary_user())
    return w


def up(b):
    if b.json("workspace", "describe", "m")[0]["state"] != "running":
        b("workspace", "start", "m", check=0, timeout=BOOT_SECONDS)


def both(fn):
    def run(w):
        for b in (w.root, w.plain):
            try:
                up(b)
                fn(w, b)
            except AssertionError as e:
                raise AssertionError(f"as {b.user or 'root'}: {e}") from e
    run.__name__ = fn.__name__
    return run


def qemu(b):
    """Its pid: the child of the launcher whose program it is."""
    return b.pids("qemu-system-x86") or b.pids("qemu-kvm")


def out(b, script, check=0, **kw):
    return b.sh("m", script, check=check, timeout=120, **kw).stdout


@both
def test_a_kernel_of_its_own(w, b):
    assert out(b, "uname -r").strip() != os.uname().release
    assert out(b, "id -u; hostname; echo $GREETING").split() == ["0", "m", "hello"]
    assert b.sh("m", "exit 7").returncode == 7 and b.sh("m", "kill -9 $$").returncode == 137
    assert b.sh("m", "cat; echo to-stderr >&2", input="x" * 100000).stdout == "x" * 100000
    assert b.sh("m", "no-such-program").returncode == 127
    row = [r for r in b.json("workspace", "ls") if r["name"] == "m"][0]
    assert row["isolation"] == "vm" and b.json("workspace", "describe", "m")[0]["isolation"] == "vm", row


@both
def test_terminal(w, b):
    pid, master = pty.fork()
    if pid == 0:
        os.execve("/usr/bin/env", ["env", *b.argv("exec", "-t", "m", "--", "sh", "-c", "stty size; read line; stty size; echo got $line")], b.env)
    seen = b""

    def read_until(sign):
        nonlocal seen
        end = time.monotonic() + 120
        while sign not in seen and time.monotonic() < end:
            if select.select([master], [], [], 1)[0]:
                try:
                    seen += os.read(master, 4096)
                except OSError:
                    break
        assert sign in seen, seen
    import fcntl
    import struct
    import termios
    read_until(b"\n")
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    time.sleep(1)  # the window's change is a message of its own, and what is typed would overtake nothing but has no answer to wait for
    os.write(master, b"line\n")
    read_until(b"got line")
    assert b"33 77" in seen, seen
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(master)


@both
def test_the_gate(w, b):
    assert "hello from nginx" in out(b, "curl -sS https://allowed.example/")
    assert b.sh("m", "curl -sS -m 60 https://other.example/").returncode == 6, "a name that no rule allows has no address"
    assert b.sh("m", "curl -sS -m 60 http://203.0.113.10/").returncode in (7, 52, 55, 56), "reset, not timed out"
    p = b.sh("m", "curl -sS -m 60 -o /dev/null -w '%{http_code}' -X POST https://allowed.example/put/x")
    assert p.stdout == "403", p
    wait_for("the refusal", lambda: [r for r in b.timeline(engine="Firewall") if "other.example" in json.dumps(r)])
    for proxy in ("10.88.0.1:22", "10.88.0.1:53", "[fd62:726f:6d65::1]:80"):
        assert b.sh("m", f"curl -sS -m 60 http://{proxy}/").returncode != 0


@both
def test_placeholders_only(w, b):
    text = out(b, "env; cat /root/.config/gh/hosts.yml /root/.git-credentials /root/.netrc 2>/dev/null; cat /proc/1/environ /proc/cmdline")
    assert SECRET not in text and re.search(r"GH_TOKEN=ghp_brm", text), text
    assert SECRET not in (b.dir / "state/workspaces/m/console.log").read_text(errors="replace")


@both
def test_shares(w, b):
    d = b.dir
    assert out(b, f"cat {d}/rw/f {d}/ro/f {d}/over/f").split() == ["rw", "ro", "over"]
    out(b, f"echo new > {d}/rw/new; mkdir {d}/rw/dir; ln -s /etc/passwd {d}/rw/link")
    assert (d / "rw/new").read_text() == "new\n" and (d / "rw/new").stat().st_uid == (d / "rw").stat().st_uid
    assert os.readlink(d / "rw/link") == "/etc/passwd" and "root" in out(b, f"head -1 {d}/rw/link")
    assert b.sh("m", f"echo x > {d}/ro/f").returncode != 0 and (d / "ro/f").read_text() == "ro\n"
    out(b, f"echo changed > {d}/over/f")
    assert out(b, f"cat {d}/over/f") == "changed\n" and (d / "over/f").read_text() == "over\n"
    for protected in (".vscode/tasks.json", ".git/hooks/pre-commit"):
        assert b.sh("m", f"echo evil > {d}/rw/{protected}").returncode != 0, protected
    assert (d / "rw/.vscode/tasks.json").read_text() == "{}\n" and not (d / "rw/.git/hooks/pre-commit").exists()
    assert "repositoryformatversion" in out(b, f"cat {d}/rw/.git/config")
    assert b.sh("m", f"chmod u+s {d}/rw/new").returncode != 0 and not (d / "rw/new").stat().st_mode & 0o4000
    put(d / "rw/late", "from the host\n")
    assert out(b, f"cat {d}/rw/late") == "from the host\n"
    assert b.sh("m", f"ls {d}/rw/..").stdout.split() == ["over", "ro", "rw"], "only what is shared"


@both
def test_what_qemu_may(w, b):
    (pid,) = qemu(b)
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    assert {status[k] for k in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} <= {"0" * 16}, status
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["Uid"].split()[0] != "0"
    inside = pathlib.Path(f"/proc/{pid}/root")
    assert not (inside / "home").exists() and not (inside / "root").exists() and sorted(p.name for p in (inside / "etc").iterdir()) in (["ld.so.cache"], [])
    assert sorted(p.name for p in (inside / "dev").iterdir() if p.name != "kvm") == ["full", "null", "random", "urandom", "zero"]
    links = pathlib.Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in links] == ["lo"], "QEMU itself has no network"
    argv = pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert "-nodefaults" in argv and "spawn=deny" in argv[argv.index("-sandbox") + 1]


@both
def test_freeze_and_thaw(w, b):
    out(b, "(while :; do cat /proc/uptime > /tmp/tick; sleep 0.1; done) > /dev/null 2>&1 &")
    b("workspace", "freeze", "m", check=0)
    assert b.sh("m", "true").returncode == 125
    (pid,) = qemu(b)

    def cpu():
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()[11:13]
    before = cpu()
    time.sleep(0.5)
    assert cpu() == before, "no virtual processor runs"
    b("workspace", "thaw", "m", check=0)
    assert abs(float(out(b, "date +%s.%N")) - time.time()) < 60, "the clock was set again"


@both
def test_the_tripwire(w, b):
    p = b.popen("exec", "-T", "m", "--", "sh", "-c", "curl -sS -m 60 -H \"X-Note: $GH_TOKEN\" https://allowed.example/; echo after")
    wait_for("the trip", lambda: b.json("workspace", "describe", "m")[0]["state"] == "compromised")
    assert b.sh("m", "true").returncode != 0
    served = (w.dir / "nginx/access.log").read_text()
    b("workspace", "thaw", "m", "--continue", check=0)
    assert b"after" in p.communicate(timeout=120)[0], "the machine goes on where it stood"
    assert (w.dir / "nginx/access.log").read_text() == served and out(b, "echo on").strip() == "on"
    out(b, "printf 'seen on \\033[31mthe console\\n' > /dev/console")
    p = b("workspace", "stop", "m", "--save-evidence", check=0, timeout=120)
    folder = pathlib.Path(re.search(r"(/\S*evidence/\S*?)\.?(\s|$)", p.stdout + p.stderr)[1])
    console = (folder / "console.txt").read_text()
    assert "seen on " in console and "\033" not in console, console
    assert (folder / "processes.txt").read_text().startswith("NOT KNOWN") and "vm/system.qcow2" in (folder / "files.txt").read_text()
    assert "vm/image" in (folder / "README").read_text() and (b.dir / "state/workspaces/m/vm/system.qcow2").exists()
    sh("sh", "-c", f"cd {folder} && sha256sum -c --quiet SHA256SUMS")


@both
def test_disks_stay(w, b):
    out(b, "echo home > /root/kept; echo system > /opt/kept; echo gone > /tmp/gone; sync")
    b("workspace", "stop", "m", check=0, timeout=120)
    assert not qemu(b)
    up(b)
    assert out(b, "cat /root/kept /opt/kept").split() == ["home", "system"] and b.sh("m", "cat /tmp/gone").returncode != 0
    assert (b.dir / "state/workspaces/m/vm/image").read_text() == str(w.image)


@both
def test_a_killed_qemu(w, b):
    os.kill(qemu(b)[0], signal.SIGKILL)
    wait_for("the end", lambda: b.json("workspace", "describe", "m")[0]["state"] in ("stopped", "failed"))
    row = b.json("workspace", "describe", "m")[0]
    assert "killed by signal 9" in row["reason"], row
    assert not b.pids("brome-inner")


@both
def test_a_panic(w, b):
    b.sh("m", "echo c > /proc/sysrq-trigger")
    wait_for("the end", lambda: b.json("workspace", "describe", "m")[0]["state"] in ("stopped", "failed"))
    row = b.json("workspace", "describe", "m")[0]
    assert "Kernel panic" in row["reason"], row
    assert "sysrq" in (b.dir / "state/workspaces/m/console.log").read_text(errors="replace")


def test_no_image(w):
    for b in (w.root, w.plain):
        p = b("workspace", "start", "gone")
        assert p.returncode == 69 and "is not there" in p.stderr, p
        p = b("run", "--isolation", "vm", "--no-build", "--", "true")
        assert p.returncode == 125 and "brome image build" in p.stderr and "image for machines yet, so" not in p.stderr, p
        assert b("run", "--isolation", "jail", "--", "true").returncode == 64


def test_first_use(w):
    """Where there is no image a machine's start makes one; here the sources do not answer. Neither that nor ^C leaves anything."""
    for b in (w.root, w.plain):
        b.config.write_text(b.config.read_text() + "workspace first { isolation vm; rules { default deny } }\n")
        b("daemon", "start", check=0)
        folders = sorted(p.name for p in (b.dir / "state/workspaces").iterdir())
        for argv in (("run", "--isolation", "vm", "--", "echo", "ran"), ("workspace", "start", "first")):
            p = b(*argv, timeout=BOOT_SECONDS)
            assert p.returncode not in (0, 125 if argv[1] == "start" else 0) and "ran" not in p.stdout.split(), p
            assert p.stderr.count("so one is made now") == 1, p
        p = b.popen("run", "--isolation", "vm", "--", "echo", "ran")
        wait_for("the build", lambda: list((b.dir / "state/images").glob(".new-*")) or p.poll() is not None)
        p.send_signal(signal.SIGINT)
        said = p.communicate(timeout=120)
        assert p.returncode != 0 and b"ran" not in said[0].split(), said
        assert not list((b.dir / "state/images").glob(".new-*")) and not (b.dir / "state/images/current").exists()
        assert [n for n in sorted(p.name for p in (b.dir / "state/workspaces").iterdir()) if n not in folders] in ([], ["first"])


def test_tools_of_the_host(w):
    for b in (w.root, w.plain):
        b("workspace", "stop", "m")
        b("workspace", "start", "tools", check=0, timeout=BOOT_SECONDS)

        def run(script):
            return b.sh("tools", script, timeout=120)
        p = run("gemini words; codex words; command -v node")
        assert re.match(r"gemini runs on v\S+ with its parts words\ncodex runs words\n/usr/bin/node\n$", p.stdout), p
        assert run("ls /usr/local/lib/node_modules").stdout.split() == ["@a"] and run("command -v other").returncode != 0
        for path in ("/usr/local/lib/node_modules/@a/gemini/cli.js", "/run/brome/tools/codex", "/run/brome/tools/new"):
            assert run(f"echo evil >> {path}").returncode != 0, path
        assert run("mkdir /usr/local/lib/node_modules/mine && touch /usr/local/bin/mine").returncode == 0, "the machine's own places stay its own"
        assert not pathlib.Path("/usr/local/bin/mine").exists() and "evil" not in pathlib.Path("/usr/local/bin/codex").read_text()
        b("workspace", "stop", "tools", check=0, timeout=120)


def image_of_its_own(w, b, name):
    """A copy of the image, KVM runs it, and a workspace of that name which starts from it."""
    image = b.dir / f"{name}-image"
    image.mkdir()
    for part in ("vmlinuz", "initrd", "base.ext4", "home.ext4", "manifest.json"):
        try:
            os.link(w.image / part, image / part)
        except OSError:
            sh("cp", "--sparse=always", w.image / part, image / part)
    (image / "accel").write_text("kvm\nKVM runs it: hello after 900 ms\n")
    b.config.write_text(b.config.read_text() + f'workspace {name} {{ isolation vm; image "{image}"; memory 1G; rules {{ default deny }} }}\n')
    return image


def refused(b, name, *words, code=69):
    """A start that comes to nothing, for that reason: no QEMU, no door is left."""
    p = b("workspace", "start", name, timeout=BOOT_SECONDS)
    assert p.returncode == code and all(word in p.stderr for word in words), p
    assert not qemu(b) and not b.pids("brome-inner") and b.json("workspace", "describe", name)[0]["state"] in ("stopped", "failed")
    return p


def test_an_image_that_is_not_whole(w):
    b = w.root
    b("workspace", "stop", "m")
    image = image_of_its_own(w, b, "parts")
    for part in ("vmlinuz", "initrd", "base.ext4", "home.ext4"):
        (image / part).rename(image / "aside")
        refused(b, "parts", f"has no file {part}")
        (image / part).symlink_to(image / "aside")
        refused(b, "parts", f"has no file {part}")
        (image / "aside").replace(image / part)
    assert not (b.dir / "state/workspaces/parts/vm").exists(), "nothing was made before it was known what from"


def test_disks_without_their_record(w):
    """Which image they stand on is not guessed: over another they would be rubble."""
    b = w.root
    b("workspace", "stop", "m")
    image_of_its_own(w, b, "torn")
    vm = b.dir / "state/workspaces/torn/vm"
    put(vm / "home.qcow2", "somebody's home")
    refused(b, "torn", "nothing says which image", "brome workspace wipe torn")
    assert not (vm / "image").exists() and not (vm / "system.qcow2").exists()
    (vm / "image").write_text("")
    refused(b, "torn", "nothing says which image")
    assert (vm / "image").read_text() == "" and (vm / "home.qcow2").read_text() == "somebody's home"


def test_a_spoilt_disk(w):
    """A QEMU that was taken over may leave any disk behind: its workspace does not start, in QEMU's words, and no other loses KVM by that."""
    b = w.root
    b("workspace", "stop", "m")
    image = image_of_its_own(w, b, "spoilt")
    vm = b.dir / "state/workspaces/spoilt/vm"
    put(vm / "image", str(image))
    put(vm / "system.qcow2", "no disk")
    p = refused(b, "spoilt", "QEMU ended", "qcow2", code=70)
    assert "KVM did not bring" not in p.stderr and (image / "accel").read_text().startswith("kvm\n"), p


def test_no_tap(w):
    for b in (w.root, w.plain):
        b("workspace", "stop", "m")
    sh("mount", "-t", "tmpfs", "none", "/dev/net")
    try:
        for b in (w.root, w.plain):
            refused(b, "m", "a machine needs /dev/net/tun")
    finally:
        sh("umount", "/dev/net")


def test_a_kvm_that_boots_nothing(w):
    """/dev/kvm may open and boot no kernel: the start goes on emulated, says so once, and it is remembered."""
    b = w.root
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        raise Skip("no /dev/kvm to open")
    image = image_of_its_own(w, b, "kvm")
    p = b("run", "kvm", "--", "echo", "ran", check=0, timeout=BOOT_SECONDS)
    assert p.stdout == "ran\n", p
    if (image / "accel").read_text().startswith("kvm"):
        raise Skip("KVM works here")
    assert p.stderr.count("KVM did not bring the machine up") == 1, p
    accel, why, *rest = (image / "accel").read_text().splitlines()
    assert accel == "tcg" and "brome image probe" in why and not rest, (accel, why, rest)


def test_wiped(w):
    for b in (w.root, w.plain):
        b("workspace", "stop", "m")
        b("workspace", "wipe", "--yes", "m", check=0)
        assert not (b.dir / "state/workspaces/m/vm").exists()


def test_the_journal(w):
    for b in (w.root, w.plain):
        assert "0 findings" in b("trace", "verify", check=0).stdout
