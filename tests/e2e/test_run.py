"""The first commands of a new user: run, exec, shell, listings, exit codes, refusals. As root and as an ordinary user."""
import json
import os
import pathlib
import pty
import pwd
import re
import select
import signal
import socket
import subprocess
import threading
import time

from world import Brome, Recorder, Skip, World, sh, wait_for

CONFIG = """
workspace saved {
        env GREETING "hello"
        rules { allow web allowed.example read-only; default deny }
}
"""


SERVICE4, SERVICE6 = "203.0.113.21", "2001:db8::21"


def echo(address):
    """A UDP service on port 9000."""
    u = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    u.bind((address, 9000))
    while True:
        data, peer = u.recvfrom(2048)
        u.sendto(b"heard " + data, peer)


def make_world():
    w = World()
    w.nginx(("allowed.example", "second.example"))
    w.dns.set("evil.example", "203.0.113.66", "2001:db8::66")
    w.dns.set("svc.example", SERVICE4, SERVICE6)
    for address in (SERVICE4, SERVICE6):
        for port in (80, 8080):
            Recorder(address, port)
        Recorder(address, 7000, answer=lambda c, d: c.sendall(b"heard " + d) or True)
        threading.Thread(target=echo, args=(address,), daemon=True).start()
    with open("/proc/sys/net/ipv4/ping_group_range", "w") as f:  # of this namespace
        f.write("0 2147483647")
    if subprocess.run(["id", "brome-test"], capture_output=True).returncode:
        subprocess.run(["useradd", "-m", "brome-test"], check=True)
    w.root = Brome(w, CONFIG)
    w.plain = Brome(w, CONFIG, user="brome-test")
    return w


def both(fn):
    def run(w):
        for b in (w.root, w.plain):
            try:
                fn(w, b)
            except AssertionError as e:
                raise AssertionError(f"as {b.user or 'root'}: {e}") from e
    return run


@both
def test_readme_command(w, b):
    p = b.run("web allowed.example read-only", "curl", "-sS", "https://allowed.example/", check=0)
    assert p.stdout == "hello from nginx\n", (p.stdout, p.stderr)


@both
def test_exit_status_passes_through(w, b):
    for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)):
        b("run", "--", "sh", "-c", script, check=code)
    b("run", "--", "/no/such/program", check=127)
    b("run", "--", "/etc/passwd", check=126)


@both
def test_stdin_stdout_stderr(w, b):
    p = b("run", "--", "sh", "-c", "cat; echo problem >&2", input="typed\n", check=0)
    assert p.stdout == "typed\n" and "problem\n" in p.stderr
    blob = os.urandom(3_000_000)
    p = b("run", "--", "cat", input=blob, check=0, text=False)
    assert p.stdout == blob


@both
def test_refusals_are_listed_with_the_rule(w, b):
    mark = w.sniffer.mark()
    p = b.run("web allowed.example read-only", "sh", "-c",
              "curl -sS -d x https://allowed.example/post; curl -sS https://evil.example/; curl -sS http://203.0.113.66/; true", check=0)
    assert "read-only" in p.stdout, p.stdout  # the readable 403
    assert "allow web evil.example" in p.stderr, p.stderr
    assert "allow web allowed.example" in p.stderr and "OPTIONS,POST" in p.stderr, p.stderr
    assert not w.dns.asked("evil"), "a name that no rule allows was looked up"
    assert not w.sniffer.since(mark, dst="203.0.113.66")


def suggested(p):
    return [line.split(":  ", 1)[1].strip() for line in p.stderr.splitlines() if line.startswith("  to allow it")]


@both
def test_each_refusal_is_one_line(w, b):
    p = b.run("web allowed.example read-only", "sh", "-c", "for i in 1 2 3 4 5 6 7; do curl -sS http://203.0.113.66/; curl -sS https://a.example/; curl -sS -d x https://allowed.example/; done; true", check=0)
    lines = p.stderr[p.stderr.index("refused in this session"):].splitlines()[1:]
    told = [line for line in lines if line.startswith("refused")]
    # Also what the journal counts together; a program asks for a name once or twice.
    times = [int(line.split("(")[1].split()[0]) for line in told]
    assert len(times) == 3 and times[0] == times[2] == 7 and times[1] in (7, 14), p.stderr
    assert suggested(p) == ["allow web 203.0.113.66 read-only", "allow web a.example read-only", 'allow web allowed.example path "/" GET,HEAD,OPTIONS,POST'], p.stderr
    assert lines[-2] == "  refused by:   allow web allowed.example read-only" and lines[-1].startswith("  to allow it, above that rule:  "), p.stderr


@both
def test_what_is_suggested_works(w, b):
    """Whoever adds what is suggested, each above what was there, gets through; a name's other ports are known once the name is."""
    udp = 'import socket, sys; i = socket.getaddrinfo(sys.argv[1], 9000, 0, socket.SOCK_DGRAM)[0]; s = socket.socket(*i[:2]); s.settimeout(20); s.connect(i[4]); s.send(b"q"); print(s.recv(99).decode())'
    tcp = 'import socket, sys; s = socket.create_connection((sys.argv[1], 7000), 20); s.send(b"q"); print(s.recv(99).decode())'
    cases = [(["curl", "-sS", "https://second.example/"], "hello from nginx"), (["curl", "-sS", "-d", "x", "https://second.example/"], "405 Not Allowed"), (["curl", "-sS", "http://svc.example:8080/"], "ok")]
    for host in (SERVICE4, SERVICE6, "svc.example"):
        url = f"http://[{host}]" if ":" in host else f"http://{host}"
        cases += [(["python3", "-c", udp, host], "heard q"), (["python3", "-c", tcp, host], "heard q"), (["ping", "-c1", "-W20", host], " 0% packet loss"),
                  (["curl", "-sS", url + "/"], "ok"), (["curl", "-sS", "-X", "DELETE", url + "/a%20b?x=1"], "ok"), (["curl", "-sS", url + ":8080/"], "ok")]
    for command, want in cases:
        rules, seen = [], []
        for _ in range(4):
            p = b.run(rules, *command)
            if want in p.stdout:
                break
            new = suggested(p)
            seen.append((p.stdout, p.stderr))
            assert new, (command, seen)
            for rule in new:
                b("rules", "check", "-", input=f"{rule}\ndefault deny\n", check=0)
            rules = [rule.removeprefix("allow ") for rule in new] + rules
        assert want in p.stdout, (command, seen)
        assert rules and "refused in this session" not in p.stderr, (command, p.stderr)


@both
def test_default_is_closed(w, b):
    mark = w.sniffer.mark()
    began = time.monotonic()
    p = b("run", "--", "sh", "-c", "curl -sS https://allowed.example/; echo $?; curl -sS http://203.0.113.10/; echo $?")
    assert p.stdout.split() in (["6", "7"], ["6", "55"], ["6", "56"]), (p.stdout, p.stderr)  # the reset may come while curl sends
    assert time.monotonic() - began < 30, "refused, not timed out"
    left = [q for q in w.sniffer.since(mark) if q["dst"] != "127.0.0.1"]
    assert not left, left


@both
def test_saved_workspace_start_exec_stop(w, b):
    b("workspace", "start", "saved", check=0)
    rows = {r.get("workspace") or r.get("name"): r for r in b.json("workspace", "ls")}
    assert rows["saved"]["state"] == "running", rows
    assert b.sh("saved", "echo $GREETING", check=0).stdout == "hello\n"
    b.sh("saved", "echo kept > ~/file", check=0)
    assert b.sh("saved", "curl -sS https://allowed.example/", check=0).stdout == "hello from nginx\n"
    d = b.json("workspace", "describe", "saved")[0]
    assert "allow web allowed.example read-only" in json.dumps(d), d
    said = b("workspace", "describe", "saved", check=0).stdout
    lines = {x.split(" ", 1)[0]: x[12:] for x in said.splitlines()}
    assert lines["state"].startswith("running since 20") and "allow web allowed.example read-only" in lines["rules"] and "GREETING=hello" in said, said
    assert "{" not in said and "[" not in said, said
    said = b("daemon", "status", check=0).stdout
    assert "supervisor  runs (process " in said and "journal     good\n" in said and "saved " in said and "{" not in said, said
    b("workspace", "stop", "saved", check=0)
    rows = {r.get("workspace") or r.get("name"): r for r in b.json("workspace", "ls")}
    assert rows["saved"]["state"] == "stopped", rows
    assert b("run", "saved", "--", "cat", "file", check=0).stdout == "kept\n", "the home outlives the session"


@both
def test_a_dns_line_says_its_type(w, b):
    b("run", "saved", "--", "sh", "-c", "getent ahostsv4 allowed.example; getent ahostsv6 allowed.example; getent ahosts closed.example; true", check=0)
    asked = {(r["host"], r["method"], r["verdict"]) for r in b.trace(protocol="dns") if r["host"] in ("allowed.example", "closed.example")}
    assert {("allowed.example", "A", "allow"), ("allowed.example", "AAAA", "allow"), ("closed.example", "A", "deny"), ("closed.example", "AAAA", "deny")} <= asked, asked
    lines = [x.split() for x in b("trace", "ls", "--host", "closed.example", check=0).stdout.splitlines() if " dns " in x]
    assert {x[5] for x in lines} == {"A", "AAAA"}, lines


@both
def test_errors_as_json(w, b):
    for words, code, hint in ((["run", "nix", "--", "true"], 125, "lists them"), (["workspace", "describe", "nix"], 1, "lists them"), (["workspace", "describ"], 64, "brome workspace describe")):
        r = b("--json", *words)
        e = json.loads(r.stderr)
        assert r.returncode == code and not r.stdout and set(e) == {"error", "hint"} and hint in e["hint"], (r.returncode, r.stderr)


@both
def test_workspace_new_and_rm(w, b):
    b("workspace", "new", "fresh", "--allow", "web allowed.example", check=0)
    assert b("run", "fresh", "--", "curl", "-sS", "https://allowed.example/", check=0).stdout == "hello from nginx\n"
    assert b("workspace", "new", "fresh").returncode == 1
    b("workspace", "rm", "fresh", check=0)
    assert b("run", "fresh", "--", "true").returncode != 0
    assert "fresh" not in b("workspace", "ls", check=0).stdout


def test_mounts_below_opt(w):
    """An ordinary user cannot lay a layer over a folder with mounts of its own: the workspace starts all the same, and says what is missing."""
    sh("mount", "-t", "tmpfs", "stand-in", "/opt")
    try:
        os.mkdir("/opt/vendor")
        sh("mount", "-t", "tmpfs", "stand-in", "/opt/vendor")
        p = w.plain("run", "--", "ls", "-A", "/opt", check=0)
        assert p.stdout == "" and "/opt is empty inside" in p.stderr, (p.stdout, p.stderr)
        assert w.root("run", "--", "ls", "-A", "/opt", check=0).stdout == "vendor\n"
    finally:
        sh("umount", "-R", "/opt")


@both
def test_throw_away_leaves_nothing(w, b):
    b("run", "--", "sh", "-c", "echo secret > ~/x; mkdir -p ~/a/b; chmod 0 ~/a/b", check=0)
    wait_for("the throw-away folder to go", lambda: not [d for d in os.listdir(b.dir / "state/workspaces") if d.startswith("run-")])


@both
def test_errors_name_the_way_out(w, b):
    p = b("run", "nosuch", "--", "true")
    assert p.returncode == 125 and "nosuch" in p.stderr, p
    p = b("run", "--allow", "web example.org raed-only", "--", "true")
    assert p.returncode == 65 and "raed-only" in p.stderr and "^" in p.stderr, p
    p = b("run", "--share", "/", "--", "true")
    assert p.returncode in (65, 125) and "/" in p.stderr and "Traceback" not in p.stderr, p
    p = b("frobnicate")
    assert p.returncode == 64
    p = b("run", "curl", "https://x/")
    assert p.returncode == 64 and "--" in p.stderr, p


@both
def test_a_word_that_is_not_utf8_is_never_left_out(w, b):
    p = subprocess.run([a.encode() for a in b.argv("run", "--", "sh", "-c", "echo $#", "x")] + [b"\xff", b"d"], env=b.env, cwd=b.home, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    assert p.returncode == 125 and b"UTF-8" in p.stderr and p.stdout == b"", p
    assert b("run", "--", "sh", "-c", "printf '%s|' \"$@\"", "x", "a b", "\"q\"", "ü€", "", "-n", check=0).stdout == "a b|\"q\"|ü€||-n|"


@both
def test_closed_descriptors(w, b):
    p = subprocess.run(b.argv("run", "--", "cat"), env=b.env, cwd=b.home, capture_output=True, timeout=60, preexec_fn=lambda: os.close(0))
    assert p.returncode == 0 and p.stdout == b"", p
    with open("/dev/full", "wb") as full:
        assert subprocess.run(b.argv("help"), env=b.env, stdout=full, stderr=subprocess.DEVNULL, timeout=60).returncode == 70
        p = subprocess.run(b.argv("run", "--", "echo", "lost"), env=b.env, cwd=b.home, stdout=full, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60)
        assert p.returncode == 125 and b"could not be written" in p.stderr, p


@both
def test_a_saved_workspace_starts_where_you_stand(w, b):
    here = b.dir / "project" / "deep"
    here.mkdir(parents=True, exist_ok=True)
    if b.user:
        for d in (here.parent, here):
            os.chown(d, pwd.getpwnam(b.user).pw_uid, pwd.getpwnam(b.user).pw_gid)
    b("workspace", "new", "placed", "--share", here.parent, check=0)
    assert b("run", "placed", "--", "pwd", cwd=here, check=0).stdout == f"{here}\n"
    assert b("run", "placed", "--", "pwd", check=0).stdout == "/root\n"
    b("workspace", "rm", "placed", check=0)


@both
def test_restart_checks_before_it_stops(w, b):
    b("workspace", "start", "saved", check=0)
    good = b.config.read_text()
    try:
        b.config.write_text("workspace broken {\n")
        b("daemon", "restart", check=65)
        assert b.sh("saved", "echo alive", check=0).stdout == "alive\n"
    finally:
        b.config.write_text(good)
    b("workspace", "stop", "saved", check=0)


@both
def test_listings_have_json(w, b):
    b.run("web allowed.example read-only", "sh", "-c", "curl -sS https://allowed.example/a?token=sesame; curl -sS -X POST https://allowed.example/b", check=0)
    for words in (("trace", "ls"), ("trace", "hostnames"), ("trace", "summary"), ("timeline",), ("workspace", "ls"), ("doctor",)):
        rows = b.json(*words)
        assert rows, words
    rows = b.trace(host="allowed.example")
    assert any(r.get("method") == "GET" and r["verdict"] == "allow" and r.get("status") == 404 for r in rows), rows
    assert any(r.get("method") == "POST" and r["verdict"] == "deny" and r.get("status") == 403 for r in rows), rows
    assert "sesame" not in json.dumps(rows), "query values are redacted"
    assert b.timeline(engine="Firewall")
    assert b("trace", "verify", check=0)


def spawn_pty(b, *args):
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update({**b.env, "TERM": "xterm"})
        os.chdir(b.home)
        argv = b.argv(*args)
        os.execvp(argv[0], argv)
    return pid, fd


def read_until(fd, text, deadline=60):
    out, end = b"", time.monotonic() + deadline
    while text not in out:
        assert time.monotonic() < end, (text, out)
        if select.select([fd], [], [], 0.5)[0]:
            try:
                out += os.read(fd, 65536)
            except OSError:
                break
    assert text in out, (text, out)
    return out


@both
def test_shell_on_a_terminal(w, b):
    import fcntl
    import struct
    import termios
    pid, fd = spawn_pty(b, "run")
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
    os.write(fd, b"PS1='$ '; echo re''ady\n")
    read_until(fd, b"ready\r\n")
    os.write(fd, b"stty size; tty; id -u\n")
    out = read_until(fd, b"\n0\r\n")
    assert b"40 123" in out and b"/dev/pts/" in out, out
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 99, 0, 0))
    os.write(fd, b"until [ \"$(stty size)\" = '50 99' ]; do :; done; echo re''sized\n")
    read_until(fd, b"resized\r\n")
    os.write(fd, b"sleep 1000\n")
    time.sleep(0.3)
    os.write(fd, b"\x03")  # the terminal's interrupt reaches the job, not brome
    os.write(fd, b"echo code $?\n")
    read_until(fd, b"code 130\r\n")
    os.write(fd, b"sleep 1000\n")
    time.sleep(0.3)
    os.write(fd, b"\x1a")
    os.write(fd, b"jobs; kill %1; echo sto''pped\n")
    out = read_until(fd, b"stopped\r\n")
    assert b"Stopped" in out, out
    os.write(fd, b"exit 9\n")
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    assert os.waitstatus_to_exitcode(status) == 9


@both
def test_signal_ends_the_command(w, b):
    p = b.popen("run", "--", "sh", "-c", "trap 'echo got it; exit 5' TERM; echo up; while :; do sleep 0.1; done")
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGTERM)
    out, _ = p.communicate(timeout=60)
    assert out == b"got it\n" and p.returncode == 5, (out, p.returncode)


@both
def test_nothing_of_the_host_inside(w, b):
    out = b("run", "--", "sh", "-c", "env; ls -A / /root /tmp /run; ls /home 2>&1; cat /etc/shadow /root/.bash_history 2>&1; ls /sys 2>&1; ps ax 2>/dev/null || true", check=0,
            env={"SECRET_TOKEN": "sesame-env"}).stdout
    assert "sesame-env" not in out and "BROME_" not in out, out
    assert "shadow: No such file" in out, out


def environment(pid_folder):
    try:
        return (pid_folder / "environ").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def demo_folder(stdout):
    return pathlib.Path(re.search(r"on this machine, in (/tmp/brome-demo-\w+)\.", stdout)[1])


def test_demo(w):
    b = Brome(w)
    p = b("demo", check=0, timeout=120)
    for line in ("the origin got: GET /readme", "read-only", "the origin got: GET /", "Now your own command"):
        assert line in p.stdout, p.stdout
    assert "POST /notes" not in p.stdout.replace("allow", ""), p.stdout
    # The account: what the workspace holds, what arrived, what came back.
    shown = re.search(r"a key for the forge, (ghp_\w{4})…", p.stdout)[1]
    held = re.search(r"printenv GITHUB_TOKEN\n(ghp_brm\w{33})\n", p.stdout)[1]
    assert f"the origin got: GET /user\nwith the key:   {shown}…\nand echoes it:  Bearer {held}\n" in p.stdout, p.stdout
    assert len(re.findall(re.escape(shown) + r"\w", p.stdout + p.stderr)) == 0, "the key itself"
    # The yes, the alert, the decision, and the record of all three.
    assert re.search(r"\$ brome approvals allow [1-9]\d+ --for session", p.stdout + p.stderr), p.stdout
    for line in ("going to  mailbox.example:443, in the header x-note", "3 requests before, 3 now", "demo is wiped", "Consent     allow", "Tripwire    deny", "decision  wiped", "the journal is whole"):
        assert line in p.stdout + p.stderr, (line, p.stdout)
    assert p.stdout.rstrip().endswith("-- curl -sS https://example.org/") and not demo_folder(p.stdout).exists(), p.stdout[-400:]


def test_demo_interrupted(w):
    """^C while a program of the workspace stands still: nothing goes on running, nothing stays."""
    p = Brome(w).popen("demo", start_new_session=True, bufsize=0)
    out = b""
    while b"$ brome alerts demo" not in out:
        more = p.stdout.read(4096)
        assert more, (out, p.stderr.read())
        out += more
    os.killpg(p.pid, signal.SIGINT)
    rest, err = p.communicate(timeout=60)
    assert p.returncode == 130 and b"interrupted" in err, (p.returncode, out + rest, err)
    folder = demo_folder(out.decode())
    assert not folder.exists()
    left = [f for f in pathlib.Path("/proc").glob("[0-9]*") if str(folder).encode() in environment(f)]
    assert not left, [(f / "cmdline").read_bytes() for f in left]
