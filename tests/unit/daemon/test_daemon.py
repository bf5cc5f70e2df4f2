#!/usr/bin/env python3
"""bromed with stand-ins for its programs: the whole dance, and everything that goes wrong in it.

usage: test_daemon.py BROMED BROME_SPAWN BROME_SWEEP [name …]      prints TAP"""
import array, json, os, select, shutil, signal, socket, sqlite3, subprocess, sys, tempfile, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
BROMED, SPAWN, SWEEP = map(os.path.abspath, sys.argv[1:4])
with open(BROMED, "rb") as f:
    SANITIZED = b"__asan_init" in f.read()  # its memory says nothing then
BLOCK = "workspace t1 {\n        rules {\n                allow web example.org read-only\n        }\n}\n"


def memfd(text):
    fd = os.memfd_create("text")
    os.write(fd, text.encode() if isinstance(text, str) else text)
    return fd


class Client:
    def __init__(self, home, hello=True):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.connect(home.run + "/bromed.sock")
        self.s.settimeout(40)
        self.id = 0
        self.progress = []
        if hello:
            self.send({"op": "hello", "version": 1, "build": "test"})
            self.hello = self.recv()
            assert self.hello["op"] == "hello", self.hello

    def send(self, body, fds=()):
        anc = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.s.sendmsg([body if isinstance(body, bytes) else json.dumps(body).encode()], anc)

    def recv(self):
        data, anc, _, _ = self.s.recvmsg(70000, socket.CMSG_SPACE(128))
        self.fds = array.array("i")
        for _, _, raw in anc:
            self.fds.frombytes(raw)
        return json.loads(data) if data else {"op": "eof"}

    def start(self, op, text=None, **members):
        self.id += 1
        fds = [memfd(text)] if text is not None else []
        self.send({"op": op, "id": self.id, **({"fds": ["text"]} if fds else {}), **members}, fds)
        for fd in fds:
            os.close(fd)
        return self.id

    def wait(self, id):
        while True:
            m = self.recv()
            if m["op"] == "progress":
                self.progress.append(m["step"])
            elif m["op"] == "eof" or m.get("id") == id:
                return m

    def ask(self, op, text=None, **members):
        return self.wait(self.start(op, text, **members))

    def ok(self, op, text=None, **members):
        m = self.ask(op, text, **members)
        assert m["op"] not in ("error", "eof"), m
        return m

    def close(self):
        self.s.close()


class Home:
    """A hermetic set-up: configuration, state, runtime folder, stand-ins."""

    def __init__(self, config="", uid=0):
        self.dir = tempfile.mkdtemp(prefix="brome-test-")
        self.lib, self.run, self.state = (f"{self.dir}/{x}" for x in ("lib", "run", "state"))
        self.conf = f"{self.dir}/conf/brome.conf"
        self.uid = uid
        os.mkdir(self.lib), os.mkdir(f"{self.dir}/conf")
        for p in ("launch", "inner", "outer"):
            shutil.copy(f"{HERE}/stub.py", f"{self.lib}/brome-{p}")
        for p in (BROMED, SPAWN, SWEEP):
            shutil.copy(p, self.lib)
        if config:
            self.write(self.conf, config)
        if uid:
            subprocess.check_call(["chown", "-R", str(uid), self.dir])
            os.chmod(self.dir, 0o755)
        self.daemon = None

    def write(self, path, text):
        with open(path, "w") as f:
            f.write(text)

    def mode(self, program, words):
        self.write(f"{self.lib}/mode.{program}", words)

    def said(self, program):
        try:
            with open(f"{self.lib}/said.{program}") as f:
                return [json.loads(x) for x in f]
        except FileNotFoundError:
            return []

    def env(self):
        return {"PATH": os.environ["PATH"], "HOME": self.dir, "BROME_LIBEXEC": self.lib, "BROME_CONFIG": self.conf, "BROME_STATE": self.state,
                "BROME_RUNTIME": self.run, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}  # the search for leaks makes calls that the seal kills for

    def spawn(self, prefix=()):
        r, w = os.pipe()
        self.log = f"{self.dir}/log"
        with open(self.log, "a") as log:
            p = subprocess.Popen([*prefix, f"{self.lib}/bromed", "--foreground", "--ready-fd", str(w)], pass_fds=[w], env=self.env(), stderr=log,
                                 user=self.uid or None)
        os.close(w)
        text = b""
        while not text.endswith(b"\n"):
            piece = os.read(r, 4096)
            if not piece:
                break
            text += piece
        os.close(r)
        return p, text.decode().strip()

    def up(self):
        self.daemon, said = self.spawn()
        assert said == "ok", said
        return self

    def client(self, **k):
        return Client(self, **k)

    def down(self):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGTERM)
            assert self.daemon.wait(30) == 0, self.daemon.returncode
        self.daemon = None

    def log_text(self):
        return open(self.log).read()

    def notes(self):
        """Everything in the journal as bytes: texts stand in it as they are."""
        text = b""
        for name in ("journal.db", "journal.db-wal"):
            if os.path.exists(f"{self.state}/{name}"):
                with open(f"{self.state}/{name}", "rb") as f:
                    text += f.read()
        return text.decode("latin-1")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.daemon and self.daemon.poll() is None:
            self.daemon.kill()
            self.daemon.wait()
        log = self.log_text() if os.path.exists(f"{self.dir}/log") else ""
        subprocess.run(["rm", "-rf", self.dir])
        assert "Sanitizer" not in log and "runtime error" not in log and "impossible" not in log, log


def alive(pid):
    try:
        os.kill(pid, 0)
        return open(f"/proc/{pid}/stat").read().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


def until(what, seconds=20):
    """Waits for a state of the world; for things that no message announces."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        v = what()
        if v:
            return v
        select.select([], [], [], 0.01)
    raise AssertionError("never came true")


def state(c, name="t1"):
    for w in c.ok("status")["workspaces"]:
        if w["name"] == name:
            return w
    return None


# --- the tests -------------------------------------------------------------------------------------------------------------------


def test_happy():
    with Home().up() as h:
        c = h.client()
        m = c.ok("session.open", BLOCK, rm=True)
        assert m["session"] == 1 and m["workspace"] == "t1" and m["limits"] == ["pids"], m
        assert "making the gateway" in c.progress
        m = c.ok("exec", workspace="t1", argv=["echo", "hi"], env={"A": "b"}, pty=False)
        assert os.read(c.fds[0], 100) == b"ran echo hi"
        m = c.ok("rules.show", workspace="t1")
        assert m["hits"] == [[0, 7]] and m["generation"] == 1
        assert os.pread(c.fds[0], 1000, 0) == b"allow web example.org read-only\ndefault deny\n"
        inner = {x["op"]: x for x in h.said("inner")}
        assert inner["start"]["fds"] == ["events", "tcp", "udp", "raw4", "raw6", "icmp4", "icmp6", "names", "ca_key", "ca_cert", "link"]
        assert [x["op"] for x in h.said("outer")] == ["start", "policy"]
        assert [x["op"] for x in h.said("launch")] == ["plan", "open", "exec"]
        assert oct(os.stat(f"{h.state}/workspaces/t1/ca.key").st_mode)[-3:] == "600"
        m = c.ok("session.close", workspace="t1")
        assert m["changed"] == ["/x/.envrc"] and m["changed_more"] == 3 and m["kept_out"] == [{"path": "/x/.git/config", "count": 1, "keys": "core.pager"}], m
        until(lambda: not os.listdir(f"{h.state}/workspaces") and not os.listdir(f"{h.state}/sweep"))
        assert state(c) is None
        h.down()
        assert "seen.example" in h.notes() and "running" in h.notes()


def test_owner_ends_session():
    with Home().up() as h:
        c, d = h.client(), h.client()
        c.ok("session.open", BLOCK, rm=True)
        pid = state(d)["pid"]
        c.close()
        until(lambda: state(d) is None)
        assert not alive(pid)
        c = h.client()
        c.ok("session.open", BLOCK, keep=True)
        c.close()
        assert state(d)["state"] == "running"


def failing(program, words, text, code=None, slow=False):
    with Home().up() as h:
        h.mode(program, words)
        c = h.client()
        m = c.ask("session.open", BLOCK, rm=True)
        if m["op"] == "error":
            assert text in m["text"] and code in (None, m["code"]), m
        until(lambda: state(c) is None)
        assert text in h.log_text(), h.log_text()
        h.mode(program, "")
        c.ok("session.open", BLOCK, rm=True)
        assert state(c)["state"] == "running"


def test_launch_fails(): failing("launch", "failed", "no user namespaces", "host")
def test_inner_unknown_message(): failing("inner", "bad-op", "not legal now (pwn)")
def test_outer_unknown_message(): failing("outer", "bad-op", "not legal now (pwn)")
def test_inner_malformed_records(): failing("inner", "garbage", "malformed record")
def test_outer_malformed_records(): failing("outer", "garbage", "malformed record")


def test_stage_timeouts():
    """All three at once: a deadline takes 20 s."""
    with Home().up() as h, Home().up() as i, Home().up() as j:
        h.mode("launch", "mute"), i.mode("outer", "no-ack"), j.mode("launch", "half")
        cs = [(x.client(), t) for x, t in ((h, "no gateway within 20 s"), (i, "outer door was not ready"), (j, "guest did not start"))]
        ids = [c.start("session.open", BLOCK, rm=True) for c, _ in cs]
        for (c, text), id in zip(cs, ids):
            m = c.wait(id)
            assert m["op"] == "error" and text in m["text"], m


def test_not_there():
    with Home().up() as h:
        os.unlink(f"{h.lib}/brome-inner")
        c = h.client()
        m = c.ask("session.open", BLOCK, rm=True)
        assert m["op"] == "error" and m["code"] == "host" and "brome-inner is not in" in m["text"], m


def kill_one(program, call):
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, keep=True)
        pids = {p: h.said(p)[0]["pid"] for p in ("launch", "inner", "outer")}
        os.kill(pids[program], signal.SIGKILL)
        until(lambda: state(c) is None)
        assert not any(alive(p) for p in pids.values())
        if program != "launch":
            assert "shut" in [x["op"] for x in h.said("launch")]
        line = [x for x in h.log_text().splitlines() if "workspace t1: " + call in x]
        assert line and ("ended" in line[0] or "signal 9" in line[0]), h.log_text()
        h.down()


def test_kill_inner(): kill_one("inner", "the inner door")
def test_kill_outer(): kill_one("outer", "the outer door")
def test_kill_launch(): kill_one("launch", "the launcher")


def test_stubborn_launch_is_killed():
    with Home().up() as h:
        h.mode("launch", "stubborn")
        c = h.client()
        c.ok("session.open", BLOCK, keep=True)
        m = c.ok("session.close", workspace="t1")
        assert state(c) is None and "is killed" in h.log_text()


def test_rules_set():
    config = "# kept\nallowed = npm.example\nworkspace w {\n        rules { allow web $allowed } # old\n}\nworkspace other { }\n"
    with Home(config).up() as h:
        c = h.client()
        c.ok("session.open", workspace="w", keep=True)
        m = c.ask("rules.set", "allow wob x.example\nallow web .com\n", workspace="w")
        assert m["op"] == "error" and m["code"] == "config" and len(m["errors"]) == 2 and "rules:1:7:" in m["errors"][0], m
        assert open(h.conf).read() == config and state(c, "w")["generation"] == 1
        m = c.ask("rules.set", "allow web new.example\n", workspace="w", base_generation=1)
        assert m == {"op": "done", "id": c.id, "generation": 2, "cut": 6}, m
        text = open(h.conf).read()
        assert "# kept" in text and "new.example" in text and "workspace other" in text and "$allowed" not in text, text
        assert "new.example" in open(f"{h.lib}/policy.inner").read() and "new.example" in open(f"{h.lib}/policy.outer").read()
        m = c.ask("rules.set", "default deny\n", workspace="w", base_generation=1)
        assert m["op"] == "error" and m["code"] == "state", m
        m = c.ask("rules.set", "default deny\n", workspace="nobody")
        assert m["code"] == "no-such-workspace", m
        # Not a memory file: bromed does not wait for a pipe.
        r, w = os.pipe()
        c.send({"op": "rules.set", "id": 99, "workspace": "w", "fds": ["text"]}, [r])
        assert c.wait(99)["code"] == "usage"
        h.down()
        notes = h.notes()
        assert "+ allow web new.example" in notes, notes
        h.up()
        c = h.client()
        c.ok("rules.show", workspace="w")
        assert b"new.example" in os.pread(c.fds[0], 1000, 0)


def test_rules_set_throw_away_and_made():
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        assert c.ok("rules.set", "allow web b.example", workspace="t1")["generation"] == 2
        c.ok("workspace.new", "workspace made {\n        # mine\n        rules { allow web a.example }\n}\n", name="made")
        c.ok("rules.set", "allow web c.example", workspace="made")
        text = open(f"{h.state}/workspaces/made/workspace.conf").read()
        assert "c.example" in text and "# mine" in text
        m = c.ask("workspace.new", "workspace made { }", name="made")
        assert m["code"] == "exists", m
        m = c.ask("workspace.new", "workspace made2 { }", name="made3")
        assert m["code"] == "usage", m
        m = c.ask("workspace.new", "workspace x { rules { allow } }", name="x")
        assert m["code"] == "config" and m["errors"], m
        h.down()
        h.up()
        c = h.client()
        c.ok("rules.show", workspace="made")
        assert b"c.example" in os.pread(c.fds[0], 1000, 0)
        c.ok("workspace.rm", name="made")
        assert state(c, "made") is None
        until(lambda: not os.listdir(f"{h.state}/workspaces"))


def no_ack(program):
    with Home().up() as h:
        h.mode(program, "no-ack-later")
        c = h.client()
        c.ok("session.open", BLOCK, keep=True)
        m = c.ask("rules.set", "allow web b.example", workspace="t1")
        assert m["op"] == "error" and "did not confirm" in m["text"], m
        until(lambda: state(c) is None)
        assert "shut" in [x["op"] for x in h.said("launch")]


def test_no_ack_inner(): no_ack("inner")
def test_no_ack_outer(): no_ack("outer")


def test_freeze():
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        c.ok("freeze", workspace="t1")
        assert state(c)["state"] == "frozen"
        assert c.ask("exec", workspace="t1", argv=["x"])["code"] == "state"
        until(lambda: [x["reason"] for x in h.said("inner") if x["op"] == "refuse"][:1] == ["frozen"])
        c.ok("thaw", workspace="t1")
        assert state(c)["state"] == "running"
        assert c.ask("thaw", workspace="t1")["code"] == "state"


def test_reload():
    with Home("workspace a { rules { allow web a.example } }\n").up() as h:
        c = h.client()
        c.ok("session.open", workspace="a", keep=True)
        h.write(h.conf, "workspace a { rules { allow wob a.example } }\n")
        m = c.ask("reload")
        assert m["code"] == "config" and m["errors"], m
        assert c.ok("status")["config"]["error"]
        h.write(h.conf, "workspace a { rules { allow web b.example } }\nworkspace b { }\n")
        c.ok("reload")
        until(lambda: "b.example" in open(f"{h.lib}/policy.inner").read())
        assert state(c, "b") and state(c, "a")["generation"] == 2
        h.write(h.conf, "")
        c.ok("reload")
        assert state(c, "b") is None and state(c, "a")["state"] == "running"
        c.ok("session.close", workspace="a")
        assert state(c, "a") is None
        assert c.ok("status")["config"]["error"] == ""


def test_edits_are_noticed():
    """No reload: whoever asks gets what stands in the file now, and sessions that run get its rules."""
    with Home("workspace a { rules { allow web a.example } }\n").up() as h:
        c = h.client()
        c.ok("session.open", workspace="a", keep=True)
        first = c.ok("status")["config"]["generation"]

        def rules(name="a"):
            c.ok("rules.show", workspace=name)
            return os.pread(c.fds[0], 4000, 0).decode()
        for host in ("b.example", "c.example"):  # at once, with as many bytes: no clock's tick lies between
            h.write(h.conf, f"workspace a {{ rules {{ allow web {host} }} }}\n")
            assert host in rules()
        until(lambda: "c.example" in open(f"{h.lib}/policy.inner").read() and "c.example" in open(f"{h.lib}/policy.outer").read())
        # Its time set back, as tools that unpack do.
        past = os.stat(h.conf).st_mtime_ns
        h.write(h.conf, "workspace a { rules { allow web d.example } }\n")
        os.utime(h.conf, ns=(past, past))
        assert "d.example" in rules()
        # Another file behind the same name; a file that it includes; a link that leads elsewhere.
        h.write(h.conf + ".new", 'include "more.conf"\nworkspace a { rules { allow web e.example } }\n')
        h.write(f"{h.dir}/conf/more.conf", "workspace m { }\n")
        os.rename(h.conf + ".new", h.conf)
        assert "e.example" in rules() and c.ok("workspace.describe", workspace="m")["name"] == "m"
        h.write(f"{h.dir}/conf/more.conf", "workspace m { rules { allow web m.example } }\nworkspace n { }\n")
        assert "m.example" in rules("m")
        h.write(f"{h.dir}/conf/other.conf", "workspace o { }\n")
        os.unlink(f"{h.dir}/conf/more.conf"), os.symlink("other.conf", f"{h.dir}/conf/more.conf")
        assert {"a", "o"} == {w["name"] for w in c.ok("status")["workspaces"]}
        c.ok("session.open", workspace="o", keep=True)
        # One's own `workspace new`, edited by hand.
        c.ok("workspace.new", "workspace made { rules { allow web x.example } }\n", name="made")
        h.write(f"{h.state}/workspaces/made/workspace.conf", "workspace made { rules { allow web y.example } }\n")
        c.ok("status")
        h.write(f"{h.state}/workspaces/made/workspace.conf", "workspace made { rules { allow web z.example } }\n")
        assert "z.example" in rules("made")
        # A file that is as it was is not read again.
        c.ok("status")
        before = c.ok("status")["config"]["generation"]
        rules(), c.ok("credentials"), c.ok("accounts", workspace="a")
        assert c.ok("status")["config"]["generation"] == before > first
        # Nor after bromed's own write; what another writes behind it in the same moment counts.
        noticed = h.log_text().count("was changed and read again")
        c.ok("rules.set", "allow web own.example\n", workspace="a"), c.ok("status"), c.ok("rules.set", "allow web own.example\n", workspace="made"), c.ok("status")
        assert h.log_text().count("was changed and read again") == noticed
        text = open(h.conf).read()
        assert "own.example" in rules() and "own.example" in rules("made") and "own.example" in text
        c.ok("rules.set", "allow web two.example\n", workspace="a"), h.write(h.conf, text.replace("own.example", "six.example"))
        assert "six.example" in rules() and h.log_text().count("was changed and read again") == noticed + 1
        m = c.ask("rules.set", "default deny\n", workspace="a", base_generation=state(c, "a")["generation"] - 1)
        assert m["code"] == "state", m


def test_broken_edit_is_said():
    """What does not parse changes nothing, and every answer says so until it does."""
    good = "workspace a { rules { allow web a.example } }\ncredential k { kind bearer; for { k.example } }\n"
    with Home(good).up() as h:
        c = h.client()
        assert "stale" not in c.ok("status")
        h.write(h.conf, good.replace("allow", "allwo") + "workspace new { }\n")
        for op, members in (("workspace.describe", {"workspace": "a"}), ("rules.show", {"workspace": "a"}), ("credentials", {}), ("accounts", {"workspace": "a"}),
                            ("session.needs", {"workspace": "a"}), ("status", {})):
            m = c.ok(op, **members)
            assert f"{h.conf}:1:23: " in m["stale"] and "; the configuration read at 20" in m["stale"] and m["stale"].endswith(" is in force"), (op, m)
        m = c.ask("session.open", workspace="new", keep=True)
        assert m["code"] == "no-such-workspace" and ":1:23: " in m["stale"], m
        m = c.ok("session.open", workspace="a", keep=True)
        assert m["op"] == "session" and ":1:23: " in m["stale"] and "a.example" in open(f"{h.lib}/policy.inner").read()
        # A throw-away one rests on the configuration in force too.
        m = c.ok("session.open", "workspace t1 { credential k; rules { allow web b.example } }\n", rm=True)
        assert m["stale"] and "k.example" in open(f"{h.lib}/policy.inner").read()
        tried = h.log_text().count("could not be read again")
        c.ok("credentials"), time.sleep(0.06), c.ok("credentials")
        tried = h.log_text().count("could not be read again")
        c.ok("credentials"), c.ok("exec", workspace="a", argv=["x"])
        assert h.log_text().count("could not be read again") == tried
        # Who may write it is part of it.
        h.write(h.conf, good + "workspace theirs { }\n")
        os.chmod(h.conf, 0o666)
        m = c.ok("status")
        assert "others could have written it" in m["stale"] and "theirs" not in [w["name"] for w in m["workspaces"]], m
        os.chmod(h.conf, 0o644)
        assert "stale" not in c.ok("status")
        # One's own workspace that no longer parses stays as it was.
        c.ok("workspace.new", "workspace made { rules { allow web x.example } }\n", name="made")
        h.write(f"{h.state}/workspaces/made/workspace.conf", "workspace made { ruels { allow web y.example } }\n")
        m = c.ok("rules.show", workspace="made")
        assert "workspace.conf:1:18: " in m["stale"] and b"x.example" in os.pread(c.fds[0], 4000, 0), m
        c.ok("workspace.rm", name="made")
        h.write(h.conf, 'include "later.conf"\n' + good)
        assert "later.conf" in c.ok("status")["stale"]
        h.write(f"{h.dir}/conf/later.conf", "workspace later { }\n")
        m = c.ok("status")
        assert "stale" not in m and m["config"]["error"] == "" and "later" in [w["name"] for w in m["workspaces"]], m


def test_configuration_that_appears():
    with Home() as h:
        h.up()
        c = h.client()
        assert c.ok("status")["workspaces"] == []
        h.write(h.conf, "workspace late { }\n")
        c.ok("session.open", workspace="late", keep=True)


def test_reload_of_a_ca_file():
    """The same rules, another CA in the file they name: the doors get it."""
    with Home() as h:
        ca = f"{h.dir}/conf/ca.pem"
        h.write(ca, "OLD CA")
        h.write(h.conf, f'host x.example {{ ca file "{ca}" }}\nworkspace a {{ rules {{ allow web x.example }} }}\n')
        h.up()
        c = h.client()
        c.ok("session.open", workspace="a", keep=True)
        assert "OLD CA" in open(f"{h.lib}/cas.outer").read()
        h.write(ca, "NEW CA")
        c.ok("reload")
        until(lambda: "NEW CA" in open(f"{h.lib}/cas.outer").read())
        assert state(c, "a")["state"] == "running"


def test_configuration_that_comes_later():
    with Home() as h:
        os.rmdir(f"{h.dir}/conf")
        h.up()
        c = h.client()
        h.write(h.conf, "workspace late { }\n")
        c.ok("reload")
        assert state(c, "late")
        os.mkdir(f"{h.dir}/elsewhere")
        h.write(f"{h.dir}/elsewhere/ca.pem", "PEM")
        h.write(h.conf, f'host x.example {{ ca file "{h.dir}/elsewhere/ca.pem" }}\nworkspace late {{ }}\n')
        c.ok("reload")
        m = c.ask("session.open", workspace="late", keep=True)
        assert m["code"] == "config" and "brome daemon restart" in m["text"], m
        h.down()
        h.up()
        h.client().ok("session.open", workspace="late", keep=True)


def test_broken_config_refuses_first_start():
    with Home("workspace a { rules { allow wob } }\n") as h:
        p, said = h.spawn()
        assert p.wait(10) == 1 and "does not parse" in said and ":1:" in said, said


def test_config_in_share():
    with Home() as h:
        os.mkdir(f"{h.dir}/src")
        h.write(f"{h.dir}/src/ca.pem", "pem")
        h.write(h.conf, f'host x.example {{ ca file "{h.dir}/src/ca.pem" }}\nworkspace a {{ share "{h.dir}/src" }}\n'
                        f'workspace b {{ share "{h.dir}/src" read-only }}\nworkspace c {{ share "{h.dir}/conf" }}\n')
        h.up()
        c = h.client()
        m = c.ask("session.open", workspace="a", keep=True)
        assert m["code"] == "config" and "lies in the share" in m["text"], m
        m = c.ask("session.open", workspace="c", keep=True)
        assert m["code"] == "config" and "lies in the share" in m["text"], m
        c.ok("session.open", workspace="b", keep=True)


def test_bad_clients():
    with Home().up() as h:
        for junk in (b"", b"x", b"[]", b"{}", b'{"op":1}', b"{" * 60000, json.dumps({"op": "status", "id": 1}).encode(), b'{"op":"hello","version":2}',
                     b'{"op":"hello"}', b"\xff\xfe" * 100):
            c = h.client(hello=False)
            c.send(junk or b" ")
            m = c.recv()
            assert m["op"] in ("eof", "error"), m
        for junk in (b'{"op":"nope","id":1}', b'{"op":"exec","id":2,"workspace":"../x","argv":["a"]}', b'{"op":"exec","id":3,"workspace":"t1"}',
                     b'{"op":"exec","id":4,"workspace":"t1","argv":[1]}', b'{"op":"rules.set","id":5,"workspace":"t1"}', b'{"op":"status","id":-1}',
                     b'{"op":"exec","id":6,"workspace":"t1","argv":["a"],"env":{"":"x"}}', b'{"op":"session.open","id":7}'):
            c = h.client()
            c.send(junk)
            m = c.recv()
            assert m["op"] == "error" and m["code"] in ("usage", "no-such-workspace"), m
        # Descriptors that nobody asked for do not pile up in bromed.
        c = h.client()
        before = open_files(h)
        for _ in range(50):
            c.send({"op": "status", "id": 1}, [0] * 30)
            assert c.recv()["op"] == "status"
        until(lambda: open_files(h) <= before)
        # More than it takes at once, and one that never reads.
        many = [h.client(hello=False) for _ in range(80)]
        end = [m for m in (x.recv() for x in many[70:]) if m["op"] == "error"]
        assert end and "too many connections" in end[0]["text"], end
        for x in many:
            x.close()
        c.close()
        c = until(lambda: connects(h))
        c.s.setblocking(False)
        try:
            for i in range(100000):
                c.send({"op": "status", "id": i})
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            pass
        d = until(lambda: connects(h))
        d.ok("status")


def open_files(h):
    there = f"/proc/{h.daemon.pid}/fd"
    return len(os.listdir(there))


def connects(h):
    try:
        return h.client()
    except (AssertionError, OSError):
        return None


def peer(h, prefix):
    code = ("import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ns.connect(sys.argv[1])\n"
            "try: s.send(b'{\"op\":\"hello\",\"version\":1,\"build\":\"x\"}')\nexcept BrokenPipeError: pass\nprint(s.recv(70000).decode())")
    return subprocess.run([*prefix, sys.executable, "-c", code, h.run + "/bromed.sock"], capture_output=True, text=True, timeout=30)


def test_peers():
    if os.geteuid():
        return "needs root"
    with Home().up() as h:
        assert '"hello"' in peer(h, []).stdout
        for kind in (["unshare", "--pid", "--fork"], ["unshare", "--user", "--map-root-user"], ["unshare", "--user", "--pid", "--fork"]):
            out = peer(h, kind)
            assert '"hello"' not in out.stdout and "namespace" in out.stdout, (kind, out)
        # Another user: the folder keeps him out; and when he holds a descriptor of it all the same, his number does.
        for f in (h.dir, h.run):
            os.chmod(f, 0o755)
        os.chmod(h.run + "/bromed.sock", 0o666)
        out = peer(h, ["setpriv", "--reuid", "65534", "--clear-groups"])
        assert '"hello"' not in out.stdout, out
        assert "runs as user 65534" in h.log_text()
        assert '"hello"' in peer(h, []).stdout


def test_lock():
    with Home().up() as h:
        p, said = h.spawn()
        assert p.wait(10) == 1 and "another bromed" in said and str(h.daemon.pid) in said, said
        # The same state from another runtime folder.
        run, h.run = h.run, h.dir + "/run2"
        p, said = h.spawn()
        assert p.wait(10) == 1 and "another bromed" in said, said
        h.run = run
        h.client().ok("status")


def test_killed_daemon():
    """kill -9 while a session runs: everything of it ends, the next start finds its folder and its numbers."""
    with Home("workspace w { }\n").up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        c.ok("session.open", workspace="w", keep=True)
        pids = [x["pid"] for p in ("launch", "inner", "outer") for x in h.said(p)]
        h.daemon.kill()
        h.daemon.wait()
        until(lambda: not any(alive(p) for p in pids))
        h.up()
        until(lambda: os.listdir(f"{h.state}/workspaces") == ["w"] and not os.listdir(f"{h.state}/sweep"))
        c = h.client()
        assert "bromed ended unexpectedly" in until(lambda: "bromed ended" in h.notes() and h.notes())
        assert c.ok("session.open", workspace="w", keep=True)["session"] == 2
        assert c.ok("status")["journal"] == {"writable": True, "why": "", "damage": ""}
        h.down()


def test_stop_ends_everything():
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        pids = [x["pid"] for p in ("launch", "inner", "outer") for x in h.said(p)]
        assert h.client().ok("stop")["op"] == "done"
        assert h.daemon.wait(30) == 0
        assert not any(alive(p) for p in pids) and not os.path.exists(h.run + "/bromed.sock")
        assert not os.listdir(f"{h.state}/workspaces") and not os.listdir(f"{h.state}/sweep")


def test_restart_at_once():
    """Who hears `done` may start the next one."""
    with Home().up() as h:
        for _ in range(5):
            old = h.daemon
            h.client().ok("stop")
            h.up()
            assert old.wait(10) == 0


def test_spawn_killed():
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        pids = [x["pid"] for p in ("launch", "inner", "outer") for x in h.said(p)]
        children = open(f"/proc/{h.daemon.pid}/task/{h.daemon.pid}/children").read().split()
        os.kill(int(children[0]), signal.SIGKILL)
        assert h.daemon.wait(20) == 1
        until(lambda: not any(alive(p) for p in pids))


def test_sweep_hostile_tree():
    """Deep, wide, closed, linked: gone, and nothing beside it is touched."""
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        top = f"{h.state}/workspaces/t1/home"
        os.makedirs(top)
        keep = f"{h.dir}/keep"
        os.mkdir(keep), h.write(keep + "/file", "x")
        os.symlink(keep, top + "/link"), os.symlink("/", top + "/root")
        here = os.getcwd()
        os.chdir(top)
        for _ in range(3000):  # far beyond PATH_MAX
            os.mkdir("d" * 10), os.symlink(keep, "l"), os.chdir("d" * 10)
        os.chdir(here)
        os.mkdir(top + "/closed"), h.write(top + "/closed/x", "x"), os.chmod(top + "/closed", 0)
        os.mkfifo(top + "/fifo")
        c.ok("session.close", workspace="t1")
        until(lambda: not os.listdir(f"{h.state}/sweep"), 60)
        assert open(keep + "/file").read() == "x"


def test_ordinary_user():
    if os.geteuid():
        return "needs root"
    with Home(uid=65534) as h:
        h.up()
        # Its own user: through a helper, because this test is root.
        out = peer(h, ["setpriv", "--reuid", "65534", "--clear-groups"])
        assert '"hello"' in out.stdout, out
        out = peer(h, [])
        assert '"hello"' not in out.stdout, out
        h.down()


def test_sealed():
    """What the kernel says of the running process."""
    with Home().up() as h:
        status = dict(x.split(":\t", 1) for x in open(f"/proc/{h.daemon.pid}/status").read().splitlines() if ":\t" in x)
        assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1"
        for caps in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd"):
            assert int(status[caps], 16) == 0, (caps, status[caps])


def memory_kb(pid):
    return int(next(x for x in open(f"/proc/{pid}/status") if x.startswith("VmRSS")).split()[1])


def test_flood_of_records():
    """100,000 records from each door of one workspace: all arrive, the neighbour keeps its pace, memory stays."""
    with Home("workspace n { }\n").up() as h:
        c, n = h.client(), h.client()
        h.mode("inner", "flood"), h.mode("outer", "flood")
        c.ok("session.open", BLOCK, keep=True)
        h.mode("inner", ""), h.mode("outer", "")
        slowest = 0
        until_done = lambda: all(os.path.exists(f"{h.lib}/flooded.{p}") for p in ("inner", "outer"))
        n.ok("session.open", workspace="n", keep=True)
        end = time.monotonic() + 60
        while not until_done() and time.monotonic() < end:
            t = time.monotonic()
            n.ok("exec", workspace="n", argv=["x"])
            os.close(n.fds[0])
            slowest = max(slowest, time.monotonic() - t)
        assert until_done()
        print(f"# slowest neighbour {slowest * 1000:.0f} ms, {memory_kb(h.daemon.pid)} KB resident")
        assert slowest < 2 and (SANITIZED or memory_kb(h.daemon.pid) < 128 * 1024)
        c.ok("session.close", workspace="t1")


def test_journal_full():
    """A full disk refuses new flows and sessions; room makes everything go on; nothing that was taken is lost."""
    if os.geteuid():
        return "needs root"
    with Home("workspace w { }\n") as h:
        os.mkdir(h.state, 0o700)
        subprocess.check_call(["mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", h.state])
        try:
            h.up()
            c = h.client()
            c.ok("session.open", BLOCK, rm=True)
            f = os.open(h.state + "/filler", os.O_WRONLY | os.O_CREAT)
            try:
                while True:
                    os.write(f, b"x" * 4096)
            except OSError:
                os.close(f)
            until(lambda: c.ask("freeze", workspace="t1") and c.ask("thaw", workspace="t1") and not c.ok("status")["journal"]["writable"])
            m = c.ask("session.open", workspace="w", keep=True)
            assert m["code"] == "journal" and "make room" in m["text"], m
            # A checkpoint may make a little room once more: what is written goes on until the doors hear of it.
            until(lambda: c.ask("freeze", workspace="t1") and c.ask("thaw", workspace="t1") and
                  [x for x in h.said("inner") if x["op"] == "refuse" and x["reason"] == "journal"])
            os.unlink(h.state + "/filler")
            until(lambda: c.ok("status")["journal"]["writable"])
            until(lambda: h.said("inner")[-1]["op"] == "admit")
            c.ok("session.open", workspace="w", keep=True)
            h.down()
        finally:
            if h.daemon and h.daemon.poll() is None:
                h.daemon.kill(), h.daemon.wait()
            until(lambda: subprocess.call(["umount", h.state], stderr=subprocess.DEVNULL) == 0)


def test_gone_workspaces_are_forgotten():
    """Names beyond the journal's limit go, sealed as bromed is; what is defined or has a folder stays."""
    with Home("workspace defined { }\n").up() as h:
        h.down()
        with sqlite3.connect(f"{h.state}/journal.db") as db:
            names = ["defined", "kept", *(f"run-{i:06}" for i in range(17000))]
            db.executemany("INSERT INTO workspace(name, sessions) VALUES(CAST(? AS BLOB), 1)", [(n,) for n in names])
        db.close()
        os.makedirs(f"{h.state}/workspaces/kept", 0o700)
        h.up()
        c = h.client()
        c.ok("session.open", workspace="defined", keep=True)

        def left():
            db = sqlite3.connect(f"file:{h.state}/journal.db?mode=ro", uri=True)
            found = [n.decode() for n, in db.execute("SELECT name FROM workspace")]
            db.close()
            return found
        until(lambda: len(left()) <= 16384)
        found = left()
        assert len(found) > 16000 and {"defined", "kept", "run-016999"} <= set(found) and "run-000000" not in found
        h.down()
        assert not {"defined", "kept"} - set(left())


def test_reload_while_opening():
    """New rules before the session runs: it opens with them."""
    with Home("workspace a { rules { allow web a.example } }\n").up() as h:
        h.mode("launch", "half")
        c, d = h.client(), h.client()
        id = c.start("session.open", workspace="a", keep=True)
        until(lambda: "a.example" in (open(f"{h.lib}/policy.inner").read() if os.path.exists(f"{h.lib}/policy.inner") else ""))
        h.write(h.conf, "workspace a { rules { allow web b.example } }\n")
        d.ok("reload")
        until(lambda: "b.example" in open(f"{h.lib}/policy.inner").read())
        assert state(d, "a")["state"] == "opening"
        d.ok("session.close", workspace="a", force=True)
        assert c.wait(id)["op"] == "error"


def test_exec_too_long():
    with Home().up() as h:
        c = h.client()
        c.ok("session.open", BLOCK, rm=True)
        head = '{"op":"exec","id":1,"workspace":"t1","argv":["'
        c.send((head + "a" * (65536 - len(head) - 3) + '"]}').encode())
        m = c.wait(1)
        assert m["op"] == "error" and m["code"] == "usage", m
        assert state(c)["state"] == "running"


def test_flood_of_clients():
    with Home().up() as h:
        a, b = h.client(), h.client()
        a.ok("session.open", BLOCK, rm=True)
        ids = [a.start("exec", workspace="t1", argv=["n%d" % i]) for i in range(15)]
        for i in ids:
            m = a.wait(i)
            assert m["op"] == "exec", m
            os.close(a.fds[0])
        b.ok("status")


def main():
    names = sys.argv[4:]
    tests = [(n[5:], f) for n, f in sorted(globals().items()) if n.startswith("test_") and (not names or n[5:] in names)]
    print(f"1..{len(tests)}", flush=True)
    bad = 0
    for i, (name, f) in enumerate(tests, 1):
        try:
            skip = f()
            print(f"ok {i} {name}" + (f" # SKIP {skip}" if skip else ""), flush=True)
        except BaseException:
            bad += 1
            print(f"not ok {i} {name}", flush=True)
            print("\n".join("# " + x for x in traceback.format_exc().splitlines()), flush=True)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
