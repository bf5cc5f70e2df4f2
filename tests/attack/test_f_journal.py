"""The record (F4): each row edited, removed, moved or cut in the real journal of a stopped set-up is found; a full disk refuses new flows, with the
reason, and recovers."""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import time

from ground import ordinary_user, two
from world import Brome, World, wait_for

CONFIG = "workspace s { rules { allow web allowed.example; default deny } }\n"


def make_world():
    w = World()
    w.nginx(("allowed.example",))
    w.b = Brome(w, CONFIG)
    w.b("workspace", "start", "s", check=0)
    for i in range(12):
        w.b.sh("s", f"curl -sS https://allowed.example/row-{i}; curl -sS -m 9 http://203.0.113.66:{2000 + i}/")
    w.b.rules("s", "allow web allowed.example read-only\ndefault deny\n")
    w.b("daemon", "stop", check=0)
    w.state = w.b.dir / "state"
    w.saved = w.dir / "saved-state"
    shutil.copytree(w.state, w.saved, symlinks=True, ignore=lambda d, names: [n for n in names if n in ("workspaces",)])
    return w


def restore(w):
    for f in w.state.glob("journal*"):
        f.unlink()
    for f in w.saved.glob("journal*"):
        shutil.copy2(f, w.state)


def tables(db):
    return {t: [r[1] for r in db.execute(f"pragma table_info({t})")] for (t,) in db.execute("select name from sqlite_master where type='table' and name not like 'sqlite_%'")}


def verify(w):
    return w.b("trace", "verify")


def test_whole_at_first(w):
    restore(w)
    p = verify(w)
    assert p.returncode == 0, p.stdout + p.stderr


def test_every_column_of_a_record(w):
    restore(w)
    with sqlite3.connect(w.state / "journal.db") as db:
        layout = tables(db)
        table = max(layout, key=lambda t: db.execute(f"select count(*) from {t}").fetchone()[0])
        total = db.execute(f"select count(*) from {table}").fetchone()[0]
    assert total > 30, (layout, total)
    missed = []
    for column in layout[table]:
        restore(w)
        db = sqlite3.connect(w.state / "journal.db")
        row, value = db.execute(f"select rowid, {column} from {table} where {column} is not null order by rowid limit 1 offset 5").fetchone() or (None, None)
        if row is None:
            continue
        new = bytes([value[0] ^ 1]) + value[1:] if isinstance(value, bytes) and value else (value + 1 if isinstance(value, int) else "x" + str(value))
        try:
            db.execute(f"update {table} set {column} = ? where rowid = ?", (new, row))
            db.commit()
        except sqlite3.Error:
            db.close()
            continue
        db.close()
        if verify(w).returncode == 0:
            missed.append((column, value))
    assert not missed, f"edits that were not found: {missed}"
    w.table, w.total = table, total


def changed(w, *statements):
    restore(w)
    db = sqlite3.connect(w.state / "journal.db")
    for (trigger,) in db.execute("select name from sqlite_master where type = 'trigger'").fetchall():
        db.execute(f"drop trigger {trigger}")  # they keep the honest from erring; an enemy drops them first
    for s in statements:
        db.execute(s.replace("TABLE", w.table))
    db.commit()
    db.close()
    p = verify(w)
    return p.returncode, p.stdout + p.stderr


def test_rows_removed_moved_added_cut(w):
    ids = "(select rowid from TABLE order by rowid limit 1 offset {})"
    columns = None
    with sqlite3.connect(w.saved / "journal.db") as db:
        columns = ",".join(tables(db)[w.table])
    swap = ["update TABLE set rowid = -1 where rowid = 7", "update TABLE set rowid = 7 where rowid = 9", "update TABLE set rowid = 9 where rowid = -1"]
    cases = {
        "the first removed": [f"delete from TABLE where rowid = {ids.format(0)}"], "one in the middle removed": [f"delete from TABLE where rowid = {ids.format(9)}"],
        "the last removed": ["delete from TABLE where rowid = (select max(rowid) from TABLE)"], "the tail cut": ["delete from TABLE where rowid > (select max(rowid) - 10 from TABLE)"],
        "the head cut": ["delete from TABLE where rowid < (select min(rowid) + 10 from TABLE)"], "all removed": ["delete from TABLE"], "two swapped": swap,
        "a gap closed": ["delete from TABLE where rowid = 8", "update TABLE set rowid = rowid - 1 where rowid > 8"], "one copied to the end": [f"create temp table t as select * from TABLE where rowid = {ids.format(5)}",
         "insert into TABLE select " + columns.replace("id", "(select max(id) + 1 from TABLE)", 1) + " from t" if columns.startswith("id") else "delete from TABLE where rowid = 3"],
        "the table dropped": ["drop table TABLE"],
    }
    missed = []
    for name, statements in cases.items():
        try:
            code, out = changed(w, *statements)
        except sqlite3.Error as e:
            print(f"{name}: {e}")
            continue
        if code == 0:
            missed.append(name)
    assert not missed, missed


def test_files_removed_rolled_back_or_broken(w):
    def cut():
        with open(w.state / "journal.db", "r+b") as f:
            f.truncate(os.path.getsize(w.state / "journal.db") // 2)

    def flip():
        data = (w.state / "journal.db").read_bytes()
        at = data.index(b"row-7")
        (w.state / "journal.db").write_bytes(data[:at] + b"row-X" + data[at + 5:])
    def zeros(count):
        data = (w.state / "journal.db").read_bytes()
        at = data.index(b"row-7")
        at -= at % 4096 if count > 40 else 20
        (w.state / "journal.db").write_bytes(data[:at] + bytes(count) + data[at + count:])

    def stub():
        (w.state / "journal.db").write_bytes((w.state / "journal.db").read_bytes()[:1000])
    cases = {"forty zeros": lambda: zeros(40), "a page of zeros": lambda: zeros(4096), "its first page cut short": stub, "database removed": lambda: (w.state / "journal.db").unlink(), "head removed": lambda: (w.state / "journal.head").unlink(), "database emptied": lambda: (w.state / "journal.db").write_bytes(b""),
             "head emptied": lambda: (w.state / "journal.head").write_bytes(b""), "key changed": lambda: (w.state / "journal.key").write_bytes(os.urandom((w.state / "journal.key").stat().st_size)),
             "database cut": cut, "pages overwritten": flip, "garbage": lambda: (w.state / "journal.db").write_bytes(os.urandom(65536))}
    missed = []
    for name, fn in cases.items():
        restore(w)
        fn()
        p = verify(w)
        if p.returncode == 0:
            missed.append(name)
        assert "Traceback" not in p.stderr and p.returncode < 128, (name, p.returncode, p.stderr)
        if name in ("database cut", "forty zeros", "a page of zeros", "its first page cut short"):
            out = p.stdout + p.stderr
            assert p.returncode == 1 and ("damaged" in out or "was changed" in out or "missing" in out) and "internal" not in out, (name, p.returncode, out)
    assert not missed, missed
    restore(w)
    # An older state put back whole, database and head together, is the user's own doing and not promised; the database alone is found.
    b = w.b
    old = (w.state / "journal.db").read_bytes()
    b("run", "--", "true", check=0)
    b("daemon", "stop", check=0)
    for f in w.state.glob("journal.db*"):
        f.unlink()
    (w.state / "journal.db").write_bytes(old)
    assert verify(w).returncode != 0, "an older database was not found"
    restore(w)


def test_damage_is_told_and_nothing_is_overwritten(w):
    restore(w)
    db = sqlite3.connect(w.state / "journal.db")
    db.execute(f"delete from {w.table} where rowid = 9")
    db.commit()
    db.close()
    p = w.b("run", "--", "true")
    p = verify(w)
    assert p.returncode != 0, "new records made an old gap good"
    w.b("daemon", "stop")
    restore(w)


def fill(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while os.write(fd, b"\0" * 4096):
            pass
    except OSError:
        pass
    os.close(fd)


def test_a_full_disk(w):
    """The state folder on a small file system that fills up: new flows are refused and say why, the daemon lives, nothing recorded is lost."""
    for user in (None, ordinary_user()):
        b = Brome(w, CONFIG, user=user)
        state = b.dir / "state"
        state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,mode=700" + (f",uid={os.stat(b.home).st_uid},gid={os.stat(b.home).st_gid}" if user else ""), "tmpfs", str(state)], check=True)
        b("workspace", "start", "s", check=0)
        assert b.sh("s", "curl -sS https://allowed.example/", check=0).stdout == "hello from nginx\n"
        rows = len(b.trace())
        ballast = state / "ballast"
        fill(ballast)
        mark = w.sniffer.mark()
        out = ""

        def refused():
            nonlocal out
            p = b.sh("s", "curl -sS -m 20 -o - -w ' %{http_code}\\n' http://allowed.example/full; echo code $?")
            out = p.stdout + p.stderr
            return "hello" not in out and "code 0" not in out or "journal" in out
        wait_for(f"refusals ({out})", refused, 60)
        again = b.sh("s", "curl -sS -m 20 https://allowed.example/full2; echo code $?")
        assert "hello" not in again.stdout and "code 28" not in again.stdout, again.stdout + again.stderr
        s = b.json("daemon", "status")[0]
        assert s["journal"]["writable"] is False, s
        assert "journal" in (b("daemon", "status").stdout + b("workspace", "ls").stdout + b.log()).lower()
        ballast.unlink()
        wait_for("recovery", lambda: b.sh("s", "curl -sS -m 20 https://allowed.example/").stdout == "hello from nginx\n", 60)
        assert len(b.trace()) >= rows
        b("daemon", "stop", check=0)
        b("trace", "verify", check=0)
        subprocess.run(["umount", str(state)])
        assert mark >= 0
