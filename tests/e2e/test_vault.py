"""The vault: each root of trust from the first credential to the next start, what is refused while it is locked, damaged, gone or full, and where its secrets never are.
As root and as an ordinary user. No command has a terminal but those that are given one."""
import contextlib
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import socket
import subprocess
import termios
import threading
import time

from search import in_files, in_memory
from world import Brome as Plain, Recorder, Skip, World, sh, wait_for

ADDRESS = "203.0.113.20"
SECRET, SECOND, THIRD = "RealVaultSecret0123456789abcdefgh", "RealSecondSecret0123456789abcdef", "RealThirdSecret0123456789abcdefg"
PASSPHRASE = "correct horse battery staple"
RULES = "rules { allow web api.example; default deny }\n"


class Brome(Plain):
    def argv(self, *args):
        return ["setsid", "-w", *super().argv(*args)]  # nobody to ask

    def __init__(self, world, config="", user=None):
        super().__init__(world, config, user)
        self.vault, self.key = self.dir / "state/vault", ["--key-file", self.dir / "key"]

    def add(self, name, secret, *args, check=0, **kw):
        return self("credential", "add", name, "--kind", "bearer", "--for", f"{name}.example", *(["--as-env", "TOKEN"] if name == "api" else []), *args, input=secret + "\n", check=check, **kw)

    def lock(self):
        """Locked, and nothing cached in the kernel's keyring of this test's login."""
        self("unlock", "--lock", check=0)

    def restart(self):
        self.lock()
        self("daemon", "stop", check=0)

    def have(self):
        return {r["name"]: r["have"] for r in self.json("credential", "ls")}

    def state(self):
        """What a failed command must leave as it was."""
        return self.vault.read_bytes(), self.config.read_text(), sorted(os.listdir(self.dir)), sorted(n for n in os.listdir(self.dir / "state") if "vault" in n)


class Terminal:
    """brome on a terminal of its own; what it shows and what was typed are one text, as a person sees it."""

    def __init__(self, b, *args, env=None):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(b.home)
            argv = Plain.argv(b, *args)
            os.execvpe(argv[0], argv, {**b.env, "TERM": "xterm", **(env or {})})
        self.text = b""

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while what.encode() not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.fd, 4096)
                except OSError:
                    break
        assert what.encode() in self.text, self.text
        self.text = self.text.split(what.encode(), 1)[1]
        return self

    def type(self, text):
        assert not termios.tcgetattr(self.fd)[3] & termios.ECHO, "what is typed would show"
        os.write(self.fd, text.encode() + b"\n")
        return self

    def end(self):
        while True:
            try:
                data = os.read(self.fd, 4096)
            except OSError:
                break
            if not data:
                break
            self.text += data
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.fd)
        return status


def make_world():
    w = World()
    w.dns.set("api.example", ADDRESS)
    w.origin = Recorder(ADDRESS, 443, tls=w.server_tls("api.example"))
    if subprocess.run(["id", "brome-test"], capture_output=True).returncode:
        sh("useradd", "-m", "brome-test")
    return w


def both(fn):
    def run(w):
        for user in (None, "brome-test"):
            b = Brome(w, "", user)
            try:
                fn(w, b)
            except AssertionError as e:
                raise AssertionError(f"as {user or 'root'}: {e}") from e
            finally:
                b("unlock", "--lock")
                b("daemon", "stop")
    run.__name__ = fn.__name__
    return run


def one_line(p, *words, code=None):
    """A refusal: one line, perhaps one more with the way out; the words are in it."""
    assert p.returncode != 0 and (code is None or p.returncode == code), (p.returncode, p.stdout, p.stderr)
    lines = p.stderr.splitlines()
    assert 1 <= len(lines) <= 2 and all(x.startswith("brome: ") or x.startswith("  ") for x in lines), p.stderr
    assert all(x in p.stderr for x in words), (words, p.stderr)


def locked_refuses(b, names, *words):
    """While it is locked, and cannot be opened: every command says so, nothing changes."""
    before = b.state()
    (b.home / ".env").write_text(f"GITHUB_TOKEN=ghp_{'a1B2' * 9}\n")
    assert b.have() == {n: False for n in names}
    assert "`brome unlock` opens it" in b("credential", "ls", check=0).stderr
    one_line(b.add("another", SECOND, check=None), "locked", *words)
    one_line(b("credential", "rm", names[-1]), "locked", *words)
    one_line(b("credential", "import", ".env", "--yes"), "locked", *words)
    p = b("credential", "test", names[0], "--path", "/")
    assert p.returncode and "locked" in p.stderr, p.stderr
    assert b.have() == {n: False for n in names}
    assert b.state() == before
    (b.home / ".env").unlink()


def made_by_terminal(b, name="api", secret=SECRET, passphrase=PASSPHRASE, args=("--root", "passphrase")):
    t = Terminal(b, "credential", "add", name, "--kind", "bearer", "--for", f"{name}.example", "--as-env", "TOKEN", *args)
    t.until("(nothing is shown): ").type(secret).until("a new passphrase for the vault: ").type(passphrase).until("once more: ").type(passphrase)
    t.until("made the vault; its passphrase opens it, and nothing else does")
    assert t.end() == 0, t.text


@both
def test_passphrase(w, b):
    one_line(b.add("api", SECRET, "--root", "passphrase", check=None), "no terminal to ask for a passphrase", code=69)
    assert not b.vault.exists() and "credential" not in b.config.read_text()
    made_by_terminal(b)
    header = json.loads(b.vault.read_bytes().split(b"\n", 1)[0])
    assert header["root"]["kind"] == "passphrase" and header["root"]["memory_kib"] >= 65536 and b.vault.stat().st_mode & 0o777 == 0o600
    b.add("second", SECOND)  # open: nobody is asked
    assert b.have() == {"api": True, "second": True}
    b.restart()
    locked_refuses(b, ["api", "second"], "no terminal to ask for its passphrase")
    before = b.state()
    for wrong in ("wrong", PASSPHRASE + " ", PASSPHRASE[:-1], PASSPHRASE.upper()):
        one_line(b("unlock", input=wrong + "\n"), "the vault stays locked", "cannot be opened with this key", code=75)
    one_line(b("unlock", input=""), "there is nothing", code=75)
    one_line(b("unlock", input="x" * 1025), "longer than a passphrase", code=75)
    t = Terminal(b, "unlock")
    for _ in range(2):
        t.until("the vault's passphrase: ").type("wrong").until("that is not the passphrase")
    t.until("the vault's passphrase: ").type("wrong")
    assert t.end() == 75 and b"stays locked" in t.text and not any(b.have().values()), t.text
    assert b.state() == before
    assert "the vault is open" in b("unlock", "--for", "0s", input=PASSPHRASE + "\n", check=0).stderr
    assert b.have() == {"api": True, "second": True}
    b.restart()
    with open(b.dir / "pass", "w") as f:
        f.write(PASSPHRASE)
    with open(b.dir / "pass") as f:  # `brome unlock < file`, without a newline
        p = subprocess.run(b.argv("unlock", "--for", "0s"), env=b.env, stdin=f, capture_output=True, text=True, cwd=b.home)
    assert p.returncode == 0 and "already" not in p.stderr, p.stderr
    (b.dir / "pass").unlink()
    b.restart()
    t = Terminal(b, "credential", "add", "third", "--kind", "bearer", "--for", "third.example")
    t.until("(nothing is shown): ").type(THIRD).until("the vault's passphrase: ").type(PASSPHRASE)
    assert t.end() == 0 and b.have() == {"api": True, "second": True, "third": True}, t.text
    b("credential", "rm", "second", check=0)
    assert b.have() == {"api": True, "third": True}
    b.restart()
    b("unlock", "--for", "0s", input=PASSPHRASE + "\n", check=0)
    assert b.have() == {"api": True, "third": True}


@both
def test_words(w, b):
    for args, word in ((["--root", "stone"], "--root is secret-service, passphrase or tpm"), (["--root", "key-file"], "--key-file FILE names a file"),
                       (["--root", "tpm", "--key-file", "/k"], "not both"), (["--root", "tpm", "--env", "X"], "about the vault")):
        p = b.add("api", SECRET, *args, check=64)
        assert word in p.stderr, p.stderr
    assert "--root is" in b("credential", "import", "-", "--yes", "--root", "stone", input="", check=64).stderr
    # Neither keyring nor TPM nor terminal nor file.
    one_line(b.add("api", SECRET, check=None, env={"BROME_TPM": "swtpm:path=/nonexistent"}), "neither a keyring or TPM", "--key-file", code=69)
    one_line(b.add("api", SECRET, "--root", "secret-service", check=None), "the desktop's keyring: there is no session bus", "--root passphrase", code=69)
    one_line(b.add("api", SECRET, "--root", "tpm", check=None, env={"BROME_TPM": "swtpm:path=/nonexistent"}), "there is no TPM at swtpm:path=/nonexistent", code=69)
    one_line(b("unlock"), "there is no vault yet", "`brome credential add` makes it", code=1)
    assert not b.vault.exists() and "credential" not in b.config.read_text()


@both
def test_locked_under_a_running_session(w, b):
    b.add("api", SECRET, *b.key)
    b.config.write_text(b.config.read_text() + "workspace s { credential api\n" + RULES + "}\n")
    b("reload", check=0)
    b("workspace", "start", "s", check=0)
    curl = 'curl -sS -m 30 -H "Authorization: Bearer $TOKEN" https://api.example/; echo; env'
    mark = len(w.origin.everything())
    said = b.sh("s", curl, check=0).stdout
    assert said.startswith("ok\n") and SECRET not in said, said
    assert SECRET.encode() in w.origin.everything()[mark:]
    b.lock()
    mark, connections = len(w.origin.everything()), w.origin.connections
    said = b.sh("s", curl, check=0).stdout
    assert not said.startswith("ok") and "locked" in said.split("\n\n")[0] and SECRET not in said, said
    assert len(w.origin.everything()) == mark and w.origin.connections == connections, "nothing goes out without the secret"
    b("unlock", check=0)
    assert b.sh("s", curl, check=0).stdout.startswith("ok\n")
    assert SECRET.encode() in w.origin.everything()[mark:]
    b("workspace", "stop", "s", check=0)
    # The key file opens it by itself at the next start; without the file the start is refused and says why.
    b.restart()
    (b.dir / "key").rename(b.dir / "away")
    one_line(b("run", "s", "--", "true"), "the vault stays locked: key file", "No such file", code=125)
    (b.dir / "away").rename(b.dir / "key")
    assert b("run", "s", "--", "sh", "-c", curl, check=0).stdout.startswith("ok\n")


@both
def test_two_setups(w, b):
    other = Brome(w, "", b.user)
    try:
        b.add("api", SECRET, *b.key)
        made_by_terminal(other, "far", SECOND)
        b.restart()
        other.lock()
        b("unlock", check=0)
        assert b.have() == {"api": True} and other.have() == {"far": False}, "one's key opens nobody else's"
        one_line(other("unlock", input=SECRET + "\n"), "stays locked")
        # A vault is its file and its root, wherever they are: with a key of another one it does not open.
        other("daemon", "stop", check=0)
        third = (other.dir / "key3")
        shutil.copy(b.dir / "key", third)
        shutil.copystat(b.dir / "key", third)
        body = bytearray(third.read_bytes())
        body[0] ^= 1
        (b.dir / "key").write_bytes(body)
        b.restart()
        one_line(b("unlock"), "cannot be opened with this key", code=75)
        (b.dir / "key").write_bytes(third.read_bytes())
        b("unlock", check=0)
        assert b.have() == {"api": True}
    finally:
        other("unlock", "--lock")
        other("daemon", "stop")


@both
def test_damaged(w, b):
    """One bit of any region, or any cut: refused with a line, and the file is left alone."""
    b.add("api", SECRET, *b.key)
    b.add("second", SECOND)
    b.restart()
    good = b.vault.read_bytes()
    head = good.index(b"\n") + 1
    flips = {"first byte": 0, "version": good.index(b":") + 1, "kind": good.index(b"key-file"), "id": good.index(b'"id":"') + 8, "path": good.index(b'"path":"') + 9, "line feed": head - 1, "nonce": head + 3,
             "box": head + 12 + 1, "secret": head + 12 + 30, "tag": len(good) - 16, "last byte": len(good) - 1}
    cuts = {"nothing": 0, "half the header": head // 2, "the header": head, "the nonce": head + 12, "half the box": (head + len(good)) // 2, "all but one": len(good) - 1, "one more": None}
    for name, data in [(n, good[:at] + bytes([good[at] ^ 1]) + good[at + 1:]) for n, at in flips.items()] + [(n, good[:at] if at is not None else good + b"x") for n, at in cuts.items()]:
        b.vault.write_bytes(data)
        before = b.state()
        p = b("unlock")
        if name in ("first byte", "line feed", "nothing", "half the header", "the header", "the nonce"):
            assert str(b.vault) in p.stderr and "put it back from a copy, or move it away and add the credentials again" in p.stderr, (name, p.stderr)
        assert p.returncode in (69, 75) and len(p.stderr.splitlines()) <= 2 and "vault" in p.stderr, (name, p.returncode, p.stderr)
        p = b.add("another", THIRD, *b.key, check=None)
        assert p.returncode in (69, 75) and "vault" in p.stderr, (name, p.returncode, p.stderr)
        assert b("credential", "rm", "api").returncode, name
        assert not any(b.have().values()), name
        assert b.state() == before, name
        b("daemon", "stop", check=0)
    b.vault.write_bytes(good)
    b("unlock", check=0)
    assert b.have() == {"api": True, "second": True}
    # Under a vault that is open: what bromed holds is the truth, until it is asked to read the file again.
    b.vault.write_bytes(good[:40])
    assert b("unlock").returncode == 0 and b.have() == {"api": True, "second": True}
    b.add("third", THIRD)
    b.restart()
    b("unlock", check=0)
    assert b.have() == {"api": True, "second": True, "third": True}


@both
def test_whose_file_it_is(w, b):
    b.add("api", SECRET, *b.key)
    b.restart()
    good = b.vault.read_bytes()
    b.vault.chmod(0o644)
    b("daemon", "start", check=0)  # one supervisor for all: it looks at the file again each time

    def refused(*words):
        before = b.vault.lstat() if os.path.lexists(b.vault) else None
        one_line(b("unlock"), *words)
        one_line(b.add("another", THIRD, *b.key, check=None), *words)
        assert b.vault.lstat() == before or b.vault.lstat().st_mtime_ns == before.st_mtime_ns
        assert "`brome unlock` says why" in b("credential", "ls", check=0).stderr
    for mode in (0o640, 0o604, 0o620, 0o602, 0o660, 0o666, 0o700 | 0o010):
        b.vault.chmod(mode)
        refused("chmod 600")
    b.vault.chmod(0o600)
    b.vault.rename(b.dir / "elsewhere")
    b.vault.symlink_to(b.dir / "elsewhere")
    refused("vault")
    b.vault.unlink()
    b.vault.mkdir()
    refused("no regular file")
    b.vault.rmdir()
    os.mkfifo(b.vault)
    refused("no regular file")
    b.vault.unlink()
    (b.dir / "elsewhere").rename(b.vault)
    os.chown(b.vault, 12345, -1)
    refused("")
    shutil.chown(b.vault, b.user or "root")
    assert b.vault.read_bytes() == good
    # The key file's own.
    (b.dir / "key").chmod(0o640)
    one_line(b("unlock"), "key file", "chmod 600", code=75)
    (b.dir / "key").chmod(0o600)
    b("unlock", check=0)
    assert b.have() == {"api": True}


@both
def test_removed_and_put_back(w, b):
    """Under one supervisor: a vault that is not there is made, one that was put back meanwhile is not written over."""
    b.add("api", SECRET, *b.key)
    b.lock()
    b.vault.rename(b.dir / "away")
    one_line(b("unlock"), "there is no vault yet", code=1)
    assert b.have() == {"api": False}
    (b.dir / "away").rename(b.vault)
    before = b.state()
    assert b.add("api", SECOND, *b.key, check=None).returncode == 1 and b.state() == before
    b.add("second", SECOND, "--key-file", b.dir / "key2")  # the vault is there: its own key opens it, and no other is made
    assert b.have() == {"api": True, "second": True} and not (b.dir / "key2").exists()
    # Its user starts afresh, as the line says whose root is gone.
    b.lock()
    b.vault.unlink()
    b("credential", "rm", "api", check=0)
    b("credential", "rm", "second", check=0)
    b.add("api", THIRD, "--key-file", b.dir / "key2")
    assert b.have() == {"api": True} and (b.dir / "key2").exists()


@both
def test_an_older_copy(w, b):
    """What docs/THREAT-MODEL.md says: an older copy opens, as it was then."""
    b.add("api", SECRET, *b.key)
    b.add("second", SECOND)
    b.restart()
    old = b.vault.read_bytes()
    b("unlock", check=0)
    b("credential", "rm", "second", check=0)
    b.add("third", THIRD)
    b.restart()
    b.vault.write_bytes(old)
    b("unlock", check=0)
    assert b.have() == {"api": True, "third": False}, "what came later has no secret"
    assert SECOND not in b("credential", "ls", check=0).stdout
    # No credential names it, so nothing uses it; a name that is used again gets what is given, not what was.
    b.add("second", THIRD)
    assert b.have() == {"api": True, "third": False, "second": True}
    b.add("fourth", SECOND)
    b.restart()
    b("unlock", check=0)
    assert b.have() == {"api": True, "third": False, "second": True, "fourth": True}


@both
def test_added_at_once(w, b):
    """Each that says yes is there; each that does not says why and left nothing."""
    b.add("api", SECRET, *b.key)
    names = [f"n{i}" for i in range(6)]
    done, todo = {"api": True}, list(names)
    for _ in range(len(names)):
        procs = {n: b.popen("credential", "add", n, "--kind", "bearer", "--for", f"{n}.example", stdin=subprocess.PIPE) for n in todo}
        for n, p in procs.items():
            with contextlib.suppress(BrokenPipeError):  # refused before it reads
                p.stdin.write((SECOND + n).encode())
                p.stdin.close()
        for n, p in procs.items():
            code, err = p.wait(60), p.stderr.read().decode()
            if code == 0:
                done[n] = True
                todo.remove(n)
            else:
                assert code == 65 and "another brome is changing the configuration" in err, (code, err)
        assert b.have() == done
        if not todo:
            break
    assert not todo
    b.restart()
    b("unlock", check=0)
    assert b.have() == {"api": True, **{n: True for n in names}}


def test_full_disk(w):
    b = Brome(w)
    (b.dir / "state").mkdir(0o700)
    sh("mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs", b.dir / "state")
    try:
        b.add("api", SECRET, *b.key)
        b.add("second", SECOND)
        filler = b.dir / "state/filler"
        with contextlib.suppress(OSError), open(filler, "wb", 0) as f:
            while True:
                f.write(b"x" * 4096)
        before = b.state()
        big = "R" + "x" * 16000  # more than what may be left in a page
        p = b.add("third", big, check=None)
        assert p.returncode and p.stderr and len(p.stderr.splitlines()) <= 3, p.stderr
        assert b.state() == before
        assert b.have() == {"api": True, "second": True}
        b.restart()
        filler.unlink()
        b("unlock", check=0)
        assert b.have() == {"api": True, "second": True}
        b.add("third", big)
        assert b.have() == {"api": True, "second": True, "third": True}
    finally:
        b("unlock", "--lock")
        b("daemon", "stop")
        sh("umount", "-l", b.dir / "state")


class Watch(threading.Thread):
    """Reads every process's arguments and environment, over and over."""

    def __init__(self, *wanted):
        super().__init__(daemon=True)
        self.wanted, self.found, self.rounds, self.over = [x.encode() for x in wanted], set(), 0, threading.Event()
        self.start()

    def run(self):
        while not self.over.is_set():
            for p in filter(str.isdigit, os.listdir("/proc")):
                for what in ("cmdline", "environ"):
                    with contextlib.suppress(OSError):
                        data = pathlib.Path(f"/proc/{p}/{what}").read_bytes()
                        self.found |= {(x.decode(), what, data[:80]) for x in self.wanted if x in data}
            self.rounds += 1

    def end(self):
        self.over.set()
        self.join()
        assert self.rounds > 1
        return self.found


@both
def test_nowhere_else(w, b):
    control = "ControlSecret0123456789"
    (b.home / ".env").write_text(f"ANTHROPIC_API_KEY=sk-ant-api03-{THIRD}\n")
    watch = Watch(SECRET, SECOND, THIRD, PASSPHRASE, control)
    p = subprocess.Popen(["sleep", "60"], env={"X": control})
    try:
        made_by_terminal(b)
        b.add("second", SECOND)
        b("credential", "import", ".env", "--yes", check=0)
        (b.home / ".env").unlink()
        b.restart()
        b("unlock", "--for", "0s", input=PASSPHRASE + "\n", check=0)
        b("credential", "ls", check=0)
        b("credential", "rm", "second", check=0)
        b("run", "--", "true", check=0)
        wait_for("the control", lambda: watch.found or not watch.is_alive())
    finally:
        found = watch.end()
        p.kill()
        p.wait()
    assert {(x, what) for x, what, _ in found} == {(control, "environ")}, found
    wait_for("the sweep", lambda: not os.path.exists(b.dir / "state/sweep") or not os.listdir(b.dir / "state/sweep"))
    (b.dir / "control").write_text(SECRET)
    assert in_files(b.dir, SECRET, SECOND, THIRD, PASSPHRASE) == [str(b.dir / "control")]
    (b.dir / "control").unlink()


@both
def test_not_in_what_lives_on(w, b):
    """A session opened with the passphrase runs for hours: its command line has forgotten passphrase and key, the supervisor never saw the passphrase."""
    made_by_terminal(b)
    b.config.write_text(b.config.read_text() + "workspace s { credential api\n" + RULES + "}\n")
    b.restart()
    t = Terminal(b, "run", "s", "--", "sh", "-c", "echo begun; sleep 300")
    t.until("the vault's passphrase: ").type(PASSPHRASE).until("begun")
    supervisor = b.json("daemon", "status")[0]["pid"]
    assert in_memory(supervisor, SECRET) and in_memory(t.pid, str(b.config)), "the controls"
    assert not in_memory(t.pid, PASSPHRASE, SECRET) and not in_memory(supervisor, PASSPHRASE)
    b("workspace", "stop", "s", check=0)
    t.end()


def dumped(b, pid, kill):
    """The core of a process, or None: it left none."""
    folder = pathlib.Path(os.readlink(f"/proc/{pid}/cwd"))
    before = set(folder.iterdir())
    kill()
    new = [f for f in folder.iterdir() if f not in before and "core" in f.name]
    assert len(new) <= 1
    data = new[0].read_bytes() if new else None
    for f in new:
        f.unlink()
    return data


@both
def test_in_no_core(w, b):
    if pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip() not in ("core", "core.%p"):
        raise Skip("this machine's cores go elsewhere (kernel.core_pattern)")
    import resource
    old = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, old[1]))
    try:
        t = Terminal(b, "credential", "add", "api", "--kind", "bearer", "--for", "api.example", "--root", "passphrase")
        t.until("(nothing is shown): ").type(SECRET).until("a new passphrase for the vault: ").type(PASSPHRASE).until("once more: ")
        pid = t.pid
        core = dumped(b, pid, lambda: (os.kill(pid, signal.SIGSEGV), t.end()))
        assert core is None or (str(b.config).encode() in core and SECRET.encode() not in core and PASSPHRASE.encode() not in core)
        if not b.user:
            assert core is not None, "the command line leaves a core, which is the control"
        made_by_terminal(b)
        pid = b.json("daemon", "status")[0]["pid"]
        assert dumped(b, pid, lambda: (os.kill(pid, signal.SIGSEGV), wait_for("the end", lambda: not os.path.exists(f"/proc/{pid}")))) is None
        b("unlock", "--for", "0s", input=PASSPHRASE + "\n", check=0)
        assert b.have() == {"api": True}
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, old)


# --- a TPM ---

class Tpm:
    """A simulated one that the user may open."""

    def __init__(self, b):
        if not shutil.which("swtpm"):
            raise Skip("swtpm is not installed")
        self.b, self.dir, self.process = b, b.dir / "tpm", None
        self.dir.mkdir(exist_ok=True)
        b.env["BROME_TPM"] = f"swtpm:path={self.dir}/bus"
        self.plug("one")

    def plug(self, state):
        (self.dir / state).mkdir(exist_ok=True)
        self.process = subprocess.Popen(["swtpm", "socket", "--tpm2", "--tpmstate", f"dir={self.dir / state}", "--server", f"type=unixio,path={self.dir}/bus", "--ctrl", f"type=unixio,path={self.dir}/bus.ctrl",
                                         "--flags", "not-need-init,startup-clear"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.b.world.children.append(self.process)
        wait_for("the TPM", self.answers)
        for name in ("bus", "bus.ctrl"):
            (self.dir / name).chmod(0o666)
        self.dir.chmod(0o755)

    def answers(self):
        with contextlib.suppress(OSError):
            for name in ("bus.ctrl", "bus"):
                with socket.socket(socket.AF_UNIX) as c:
                    c.settimeout(10)
                    c.connect(str(self.dir / name))
                    if name == "bus":
                        c.sendall(bytes.fromhex("80010000000c0000017b0008"))  # TPM2_GetRandom(8)
                        return len(c.recv(64)) == 20
        return False

    def unplug(self):
        self.process.terminate()
        self.process.wait()
        for name in ("bus", "bus.ctrl"):
            with contextlib.suppress(FileNotFoundError):
                (self.dir / name).unlink()


@both
def test_tpm(w, b):
    tpm = Tpm(b)
    p = b.add("api", SECRET, "--root", "tpm")
    assert "made the vault; this machine's TPM opens it, and nothing else does" in p.stderr, p.stderr
    root = json.loads(b.vault.read_bytes().split(b"\n", 1)[0])["root"]
    assert set(root) == {"kind", "id", "parent", "public", "private"} and root["kind"] == "tpm"
    b.add("second", SECOND)
    b.restart()
    assert b.have() == {"api": False, "second": False}
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {"api": True, "second": True}
    # The next start: nobody is asked, whatever needs it opens it.
    b.restart()
    b.add("third", THIRD)
    assert b.have() == {"api": True, "second": True, "third": True}
    names = ["api", "second", "third"]
    b.restart()
    tpm.unplug()
    locked_refuses(b, names, "there is no TPM at")
    tpm.plug("two")
    locked_refuses(b, names, "not the one that sealed the vault's key, or it was cleared", "remove the vault's file and add the credentials again")
    tpm.unplug()
    tpm.plug("one")
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {n: True for n in names}
    assert in_files(b.dir, SECRET, SECOND, THIRD) == []
    tpm.unplug()


@both
def test_tpm_where_nobody_can_be_asked(w, b):
    tpm = Tpm(b)
    assert "this machine's TPM opens it" in b.add("api", SECRET).stderr
    b.restart()
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {"api": True}
    tpm.unplug()
    # On a terminal a passphrase comes first.
    b.restart()
    b.vault.unlink()
    b("credential", "rm", "api", check=0)
    tpm.plug("one")
    made_by_terminal(b, args=())
    tpm.unplug()


NO_ACCESS = """set -e
mkdir -p $1/dev
mount -t tmpfs -o mode=755 dev $1/dev
for n in null zero full random urandom tty; do : >$1/dev/$n; mount --bind /dev/$n $1/dev/$n; done
: >$1/dev/tpmrm0
chmod 660 $1/dev/tpmrm0
mount --move $1/dev /dev
shift
exec "$@"
"""


@both
def test_tpm_that_cannot_be_used(w, b):
    def add():
        p = subprocess.run(["unshare", "--mount", "sh", "-c", NO_ACCESS, "sh", w.dir, *b.argv("credential", "add", "api", "--kind", "bearer", "--for", "api.example", "--root", "tpm")],
                           env=b.env, input=SECRET, capture_output=True, text=True, cwd=b.home, timeout=60)
        assert not b.vault.exists() and "credential" not in b.config.read_text()
        return p
    b("daemon", "start", check=0)
    one_line(add(), *(["you may not open the TPM (/dev/tpmrm0)", "usermod -aG tss"] if b.user else ["/dev/tpmrm0 cannot be used"]), code=69)
    if not os.path.exists("/dev/tpmrm0"):
        one_line(b.add("api", SECRET, "--root", "tpm", check=None), "this machine has no TPM, or it is switched off: there is no /dev/tpmrm0", "--root passphrase", code=69)


# --- a keyring ---

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path={0}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>
"""


class Keyring:
    """A bus and a gnome-keyring of their own, in a private home."""

    def __init__(self, b):
        for program in ("dbus-daemon", "gnome-keyring-daemon", "dbus-send"):
            if not shutil.which(program):
                raise Skip(f"{program} is not installed")
        if not list(pathlib.Path("/usr/lib").glob("*/libsecret-1.so.0")):
            raise Skip("libsecret is not installed")
        self.b, self.dir, self.daemon = b, b.dir / "desktop", None
        self.dir.mkdir(0o700)
        (self.dir / "bus.conf").write_text(BUS.format(self.dir / "bus"))
        for p in (self.dir, self.dir / "bus.conf"):
            shutil.chown(p, b.user or "root")
        b.env.update(XDG_RUNTIME_DIR=str(self.dir), XDG_DATA_HOME=str(self.dir / "data"), XDG_CACHE_HOME=str(self.dir / "cache"), DBUS_SESSION_BUS_ADDRESS=f"unix:path={self.dir}/bus")
        self.bus = self.popen("dbus-daemon", "--nofork", "--nosyslog", f"--config-file={self.dir}/bus.conf")
        wait_for("the bus", lambda: (self.dir / "bus").exists())

    def as_user(self, *argv):
        return ["setpriv", "--reuid", self.b.user, "--regid", self.b.user, "--init-groups", "--", *argv] if self.b.user else list(argv)

    def popen(self, *argv, **kw):
        kw.setdefault("stdin", subprocess.DEVNULL)
        p = subprocess.Popen(self.as_user(*argv), env=self.b.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.b.home, **kw)
        self.b.world.children.append(p)
        return p

    def ask(self, path, method, *args):
        return subprocess.run(self.as_user("dbus-send", "--session", "--print-reply", "--dest=org.freedesktop.secrets", path, method, *args), env=self.b.env, capture_output=True, text=True, timeout=60)

    def start(self, password):
        """Unlocked with the password; None: locked, until somebody unlocks it."""
        self.daemon = self.popen("gnome-keyring-daemon", "--foreground", "--components=secrets", *(["--unlock"] if password else []), stdin=subprocess.PIPE)
        if password:
            self.daemon.stdin.write(password.encode())
        self.daemon.stdin.close()
        wait_for("the keyring", lambda: self.ask("/org/freedesktop/secrets", "org.freedesktop.DBus.Peer.Ping").returncode == 0)

    def stop(self):
        self.daemon.terminate()
        self.daemon.wait()

    def lock(self):
        p = self.ask("/org/freedesktop/secrets", "org.freedesktop.Secret.Service.Lock", "array:objpath:/org/freedesktop/secrets/collection/login")
        assert p.returncode == 0, p.stderr


@both
def test_secret_service(w, b):
    keyring = Keyring(b)
    keyring.start("test password")
    p = b.add("api", SECRET)  # first in the order: nobody has to name it
    assert "made the vault; your desktop's keyring holds its key" in p.stderr, p.stderr
    root = json.loads(b.vault.read_bytes().split(b"\n", 1)[0])["root"]
    assert set(root) == {"kind", "id"} and root["kind"] == "secret-service"
    b.add("second", SECOND)
    # The next start: it opens by itself for whatever needs it.
    b.restart()
    b.config.write_text(b.config.read_text() + "workspace s { credential api\n" + RULES + "}\n")
    mark = len(w.origin.everything())
    said = b("run", "s", "--", "sh", "-c", 'curl -sS -m 30 -H "Authorization: Bearer $TOKEN" https://api.example/', check=0).stdout
    assert said.startswith("ok") and SECRET.encode() in w.origin.everything()[mark:], said
    b.restart()
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {"api": True, "second": True}
    names = ["api", "second"]
    # A keyring that is locked, by its user or since its own start; one that is gone; no bus at all.
    b.restart()
    keyring.lock()
    locked_refuses(b, names, "the desktop's keyring is locked or does not hold this vault's key; unlock it")
    one_line(b("unlock"), "the desktop's keyring is locked", code=75)
    one_line(b("run", "s", "--", "true"), "the desktop's keyring is locked", code=125)
    keyring.stop()
    locked_refuses(b, names, "the desktop's keyring does not answer")
    keyring.start(None)
    locked_refuses(b, names, "the desktop's keyring is locked")
    keyring.stop()
    keyring.start("test password")
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {"api": True, "second": True}, "nothing is lost"
    b.restart()
    bus = b.env.pop("DBUS_SESSION_BUS_ADDRESS"), b.env.pop("XDG_RUNTIME_DIR")
    locked_refuses(b, names, "there is no session bus here")
    b.env["DBUS_SESSION_BUS_ADDRESS"], b.env["XDG_RUNTIME_DIR"] = bus
    b("unlock", "--for", "0s", check=0)
    assert b.have() == {"api": True, "second": True}
    # While it is open the keyring may go: bromed has the key.
    keyring.stop()
    b.add("third", THIRD)
    assert b.have()["third"]
    assert in_files(b.dir, SECRET, SECOND, THIRD) == []
    keyring.bus.terminate()


@both
def test_secret_service_that_is_locked_at_first(w, b):
    keyring = Keyring(b)
    keyring.start("test password")
    keyring.stop()
    keyring.start(None)
    one_line(b.add("api", SECRET, check=None), "the desktop's keyring: it did not take the key", "--root passphrase", code=69)
    assert not b.vault.exists() and "credential" not in b.config.read_text()
    made_by_terminal(b)  # named, a passphrase is taken all the same
    keyring.stop()
    keyring.bus.terminate()
