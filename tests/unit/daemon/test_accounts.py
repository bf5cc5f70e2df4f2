#!/usr/bin/env python3
"""bromed's side of accounts, with stand-ins for its programs: secrets, placeholders, account doors, approvals, trips.

usage: test_accounts.py BROMED BROME_SPAWN BROME_SWEEP [name …]      prints TAP"""
import hashlib, json, os, select, shutil, socket, subprocess, sys, tempfile, traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_daemon  # noqa: E402
from test_daemon import Home, alive, memfd, state, until  # noqa: E402

CONF = """credential forge { kind github; secret file "/nowhere/forge"; for { api.forge.example, git.forge.example:8443 }; ask before use }
credential vaulted { kind bearer; for api.corp.example }
credential mirror { kind bearer; secret env MIRROR; for npm.corp.example; attach }
workspace t1 {
        credential { forge, vaulted, mirror }
        rules {
                allow web api.forge.example path "/repos/**" read-only
                allow web api.corp.example POST
                allow web registry.example as npm via "https://npm.corp.example/api/npm/"
                ask web docs.example read-only
        }
}
workspace plain { rules { allow web example.org } }
"""
SECRET = "ghp_this-is-the-real-one"


def pipe(data):
    r, w = os.pipe()
    os.write(w, data)
    os.close(w)
    return r


def bring(c, op, what, data, **members):
    """A request with a pipe."""
    c.id += 1
    r = pipe(data)
    c.send({"op": op, "id": c.id, "fds": [what], **members}, [r])
    os.close(r)
    return c.wait(c.id)


def give(c, name="forge", secret=SECRET):
    m = bring(c, "secret.give", "secret", secret.encode() + b"\n", credential=name)
    assert m["op"] == "done", m


def order(h, program, **body):
    """Makes a stand-in say something."""
    path = f"{h.lib}/do.{program}"
    until(lambda: os.path.exists(path))
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    until(lambda: s.connect_ex(path) == 0)
    s.send(json.dumps(body).encode())
    s.close()


def heard(h, program, op, count=1, **like):
    """Waits until the stand-in got that message (so many times); the last one."""
    def find():
        got = [m for m in h.said(program) if m["op"] == op and all(m.get(k) == v for k, v in like.items())]
        return got[-1] if len(got) >= count else None
    return until(find)


def count(h, program, op, **like):
    return len([m for m in h.said(program) if m["op"] == op and all(m.get(k) == v for k, v in like.items())])


def notice(c, kind):
    while True:
        m = c.recv()
        assert m["op"] == "notice", m
        if m["kind"] == kind:
            return m


def up(uid=0):
    h = Home(CONF, uid=uid)
    h.up()
    return h


def opened(h, secret=True):
    c = h.client()
    if secret:
        give(c)
    c.ok("session.open", workspace="t1", keep=True)
    return c


def door(h, account="forge", n=1):
    order(h, "inner", op="account", account=account)
    return heard(h, "inner", "link", n, account=account)


def ask(h, id, path="/repos/a", host="api.forge.example", port=443, what="credential", name="forge", door="outer.forge", method="GET", **more):
    digest = hashlib.sha256(f"{method} {host} {path}".encode()).hexdigest()
    order(h, door, op="ask", id=id, what=what, name=name, host=host, port=port, method=method, path=path, digest=digest, **{"body": False, **more})


def trip(h, host="evil.example", **more):
    order(h, "inner", op="trip", account="forge", placeholder="ghp_brmabcd…", host=host, port=443, field="header x-leak", view="base64", method="POST",
          path="/collect", flow=7, **more)


def placeholders(h, workspace="t1"):
    return open(f"{h.state}/workspaces/{workspace}/placeholders").read()


def everything(h):
    """All that bromed wrote anywhere, and what its programs were told."""
    text = b""
    for base, _, names in os.walk(h.dir):
        for n in names:
            p = os.path.join(base, n)
            if os.path.isfile(p) and not n.startswith("secret.") and os.access(p, os.R_OK):
                text += open(p, "rb").read()
    return text


# --- secrets ---------------------------------------------------------------------------------------------------------------------

def test_needs_and_vault():
    with up() as h:
        c = h.client()
        m = c.ok("session.needs", workspace="t1")
        got = {s["credential"]: s for s in m["secrets"]}
        assert m["vault"] == "absent" and not any(s["have"] for s in m["secrets"]), m
        assert got["forge"]["source"] == "file" and got["forge"]["value"] == "/nowhere/forge" and got["vaulted"]["source"] == "vault", m
        assert got["mirror"]["source"] == "env" and got["mirror"]["value"] == "MIRROR", m
        key = os.urandom(32)
        assert bring(c, "vault.unlock", "key", key)["code"] == "state"
        assert bring(c, "vault.create", "key", key[:31], root={"kind": "key-file"})["code"] == "state"
        assert bring(c, "vault.create", "key", key, root={"kind": "key-file", "id": "0" * 32})["op"] == "done"
        assert bring(c, "vault.put", "secret", b"v-secret\n", name="vaulted")["op"] == "done"
        m = c.ok("vault")
        assert m["state"] == "open" and m["names"] == ["vaulted"] and m["root"]["kind"] == "key-file", m
        assert {s["credential"]: s["have"] for s in c.ok("session.needs", workspace="t1")["secrets"]} == {"forge": False, "vaulted": True, "mirror": False}
        c.ok("vault.lock")
        assert c.ok("vault")["names"] == [] and c.ok("session.needs", workspace="t1")["vault"] == "locked"
        assert bring(c, "vault.put", "secret", b"x", name="a")["code"] == "state"
        assert bring(c, "vault.unlock", "key", os.urandom(32))["code"] == "state"
        h.down()
        h.up()  # from disk
        c = h.client()
        assert c.ok("vault")["state"] == "locked"
        assert bring(c, "vault.unlock", "key", key)["op"] == "done"
        assert c.ok("vault")["names"] == ["vaulted"]
        assert b"v-secret" not in everything(h)


def test_bad_secrets():
    with up() as h:
        c = h.client()
        for bad in (b"", b"\n", b"a\nb\n", b"a\0b", b"x" * 16386):
            m = bring(c, "secret.give", "secret", bad, credential="forge")
            assert m["op"] == "error" and m["code"] in ("state", "usage"), (bad[:9], m)
        assert bring(c, "secret.give", "other", b"x", credential="forge")["code"] == "usage"
        assert c.ask("secret.give", text="x", credential="forge")["code"] == "usage"  # a file named text
        c.id += 1
        fd = memfd("x")
        c.send({"op": "secret.give", "id": c.id, "fds": ["secret"], "credential": "forge"}, [fd])
        assert c.wait(c.id)["code"] == "usage"  # no pipe
        assert bring(c, "secret.give", "secret", b"x" * 16384 + b"\r\n", credential="forge")["op"] == "done"
        # One that does not end keeps nobody waiting.
        r, w = os.pipe()
        c.id += 1
        slow = c.id
        c.send({"op": "secret.give", "id": c.id, "fds": ["secret"], "credential": "forge"}, [r])
        h.client().ok("status")
        os.write(w, b"late")
        os.close(w)
        assert c.wait(slow)["op"] == "done"


def test_credentials_and_accounts():
    with up() as h:
        c = opened(h)
        got = {x["name"]: x for x in c.ok("credentials")["credentials"]}
        assert got["forge"]["hosts"] == ["api.forge.example", "git.forge.example:8443"] and got["forge"]["ask"] == "before use" and got["forge"]["have"], got
        assert got["forge"]["workspaces"] == ["t1"] and got["mirror"]["attach"] and not got["mirror"]["have"], got
        acc = {(a["credential"], a["host"]): a for a in c.ok("accounts", workspace="t1")["accounts"]}
        f = acc["forge", "api.forge.example"]
        assert f["rules"] == [{"rule": 0, "methods": ["GET", "HEAD", "OPTIONS"], "path": "/repos/**"}], f
        assert f["placeholder"].startswith("ghp_brm") and f["placeholder"].endswith("…") and len(f["placeholder"]) < 20, f
        assert acc["forge", "git.forge.example"]["port"] == 8443 and acc["forge", "git.forge.example"]["rules"] == []
        assert acc["vaulted", "api.corp.example"]["rules"] == [{"rule": 1, "methods": ["POST"]}]
        m = acc["mirror", "npm.corp.example"]
        assert m["placeholder"] == "" and m["rules"][0]["via"] == "https://npm.corp.example/api/npm/" and m["rules"][0]["profile"] == "npm", m
        assert c.ok("accounts", workspace="plain")["accounts"] == []


# --- doors -----------------------------------------------------------------------------------------------------------------------

def test_account_door():
    with up() as h:
        c = opened(h)
        kept = placeholders(h)
        for program in ("inner", "outer"):
            assert kept.split()[2] in open(f"{h.lib}/policy.{program}").read()
        plan = heard(h, "launch", "plan")
        assert {a["name"]: a["placeholder"] for a in plan["accounts"]} == {"forge": kept.split()[2], "vaulted": kept.split()[5]}, plan
        assert plan["accounts"][0]["hosts"] == [{"name": "api.forge.example", "port": 443}, {"name": "git.forge.example", "port": 8443}]
        assert count(h, "outer", "start") == 1  # none before its first use
        door(h)
        start = heard(h, "outer", "start", account="forge")
        assert start["fds"] == ["events", "link", "secret"] and open(f"{h.lib}/secret.forge").read() == SECRET + "|", start
        order(h, "inner", op="account", account="nobody")
        assert heard(h, "inner", "no-link", account="nobody")["reason"] == "no-secret"
        order(h, "inner", op="account", account="vaulted")
        assert heard(h, "inner", "no-link", account="vaulted")["reason"] == "no-secret"
        # Its use is counted; its end is not the session's.
        order(h, "outer.forge", op="used", count=3, host="api.forge.example")
        until(lambda: [x for x in c.ok("credentials")["credentials"] if x["name"] == "forge"][0]["used"] == 3)
        order(h, "outer.forge", exit=1)
        until(lambda: not alive(start["pid"]))
        door(h, n=2)
        # Idle: it ends by itself, and is asked for again.
        order(h, "outer.forge", op="idle")
        pid = [m for m in h.said("outer") if m["op"] == "start"][-1]["pid"]
        until(lambda: not alive(pid))
        door(h, n=3)
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")
        assert placeholders(h) == kept
        c.ok("session.open", workspace="t1", keep=True)
        assert placeholders(h) == kept
        c.ok("session.close", workspace="t1")
        assert SECRET.encode() not in everything(h)


def test_secret_changes():
    with up() as h:
        c = opened(h)
        key = os.urandom(32)
        assert bring(c, "vault.create", "key", key, root={"kind": "key-file"})["op"] == "done"
        bring(c, "vault.put", "secret", b"one", name="vaulted")
        door(h)
        door(h, "vaulted")
        give(c)  # the same: nothing happens
        pid = heard(h, "outer", "start", account="vaulted")["pid"]
        forge = heard(h, "outer", "start", account="forge")["pid"]
        c.ok("vault.lock")
        until(lambda: not alive(pid))
        order(h, "inner", op="account", account="vaulted")
        assert heard(h, "inner", "no-link", account="vaulted")["reason"] == "locked"
        assert alive(forge)
        bring(c, "vault.unlock", "key", key)
        door(h, "vaulted", 2)
        bring(c, "vault.put", "secret", b"two", name="vaulted")
        door(h, "vaulted", 3)
        assert open(f"{h.lib}/secret.vaulted").read() == "one|one|two|"
        give(c, secret="another")
        until(lambda: not alive(forge))
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")


def test_policy_reaches_account_doors_first():
    with up() as h:
        c = opened(h)
        door(h)
        c.ok("rules.set", "allow web api.forge.example\n", workspace="t1")
        acks = [m for m in h.said("outer") if m["op"] == "policy"]
        assert [m["generation"] for m in acks] == [1, 1, 2, 2], acks
        # A credential that is taken away takes its door with it.
        pid = heard(h, "outer", "start", account="forge")["pid"]
        h.write(h.conf, CONF.replace("credential { forge, vaulted, mirror }", "credential { vaulted, mirror }"))
        c.ok("reload")
        until(lambda: not alive(pid))
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")


def generations(h):
    return [m["generation"] for m in h.said("outer") if m["op"] == "policy"]


def test_ca_file_reaches_account_doors():
    """The same rules, another CA in the file they name: sent again with their generation, and that is no lie of the door that confirms it."""
    with up() as h:
        ca = f"{h.dir}/conf/ca.pem"
        h.write(ca, "OLD CA")
        h.write(h.conf, f'host api.forge.example {{ ca file "{ca}" }}\n' + CONF)
        c = opened(h)
        door(h)
        h.write(ca, "NEW CA")
        c.ok("reload")
        until(lambda: len(generations(h)) == 4)
        assert len(set(generations(h))) == 1, generations(h)
        assert state(c)["state"] == "running", h.log()
        c.ok("rules.set", "allow web api.forge.example\n", workspace="t1")
        assert state(c)["state"] == "running", h.log()
        c.ok("session.close", workspace="t1")


def test_door_that_does_not_confirm():
    with up() as h:
        c = opened(h)
        h.mode("outer", "quiet")
        door(h)
        h.mode("outer", "no-ack-later")
        m = c.ask("rules.set", "allow web api.forge.example\n", workspace="t1")
        assert m["op"] == "error", m
        until(lambda: state(c)["state"] == "failed")


def test_door_that_dies_at_once():
    with up() as h:
        c = opened(h)
        h.mode("outer", "die")
        order(h, "inner", op="account", account="forge")
        assert heard(h, "inner", "no-link", account="forge")["reason"] == "internal"
        h.mode("outer", "")
        door(h)
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")


def test_door_says_what_it_may_not():
    for body in ({"op": "used", "count": -1}, {"op": "ask", "id": 1, "what": "credential", "name": "vaulted"}, {"op": "trip"}, {"op": "revoke", "cut": 0}):
        with up() as h:
            c = opened(h)
            door(h)
            order(h, "outer.forge", **body)
            until(lambda: state(c)["state"] == "failed")
            assert "taken over" in state(c)["reason"], body


# --- approvals -------------------------------------------------------------------------------------------------------------------

def test_consent():
    with up() as h:
        c = opened(h)
        door(h)
        ask(h, 1)
        assert heard(h, "outer", "answer", id=1)["answer"] == "nobody"
        w = h.client()
        w.start("watch", workspace="t1")
        c.ok("status")  # in order
        ask(h, 2)
        a = notice(w, "approval")["approval"]
        assert a["what"] == "credential" and a["name"] == "forge" and a["host"] == "api.forge.example" and a["requests"] == [
            {"method": "GET", "path": "/repos/a", "count": 1}], a
        w.close()  # whoever comes back finds it
        w = h.client()
        w.start("watch")
        assert notice(w, "approval")["approval"]["id"] == a["id"]
        assert c.ask("approvals.allow", approval=a["id"])["code"] == "usage"
        assert c.ask("approvals.allow", approval=a["id"], **{"for": "ever"})["code"] == "usage"
        assert c.ask("approvals.allow", approval=a["id"] + 9, **{"for": "once"})["code"] == "state"
        assert c.ok("approvals.allow", approval=a["id"], **{"for": "once"})["released"] == 1
        assert notice(w, "approval-end") | {"id": 0} == {"op": "notice", "id": 0, "kind": "approval-end", "approval": a["id"], "answer": "once"}
        assert heard(h, "outer", "answer", id=2) | {"pid": 0} == {"op": "answer", "id": 2, "answer": "allow", "ttl_ms": 0, "pid": 0}
        assert "Consent" in h.notes() and "once; 1 distinct request, 1 waiting" in h.notes()
        ask(h, 3, path="/repos/b")
        a = notice(w, "approval")["approval"]
        c.ok("approvals.allow", approval=a["id"], **{"for": "session"})
        assert heard(h, "outer", "answer", id=3)["ttl_ms"] == -1
        g = [x for x in c.ok("approvals")["grants"] if x.get("session")][0]
        assert c.ok("approvals.revoke", approval=g["id"])["cut"] == 2
        assert heard(h, "outer", "revoke")["name"] == "forge"
        ask(h, 4, path="/repos/c")
        a = notice(w, "approval")["approval"]
        c.ok("approvals.deny", approval=a["id"])
        assert heard(h, "outer", "answer", id=4)["answer"] == "deny"
        ask(h, 5, path="/repos/d")
        assert heard(h, "outer", "answer", id=5)["answer"] == "deny"
        # A rule of the door without an account; a host that is not bound is not asked about.
        ask(h, 6, path="/x", host="docs.example", what="rule", name="ask web docs.example read-only", door="outer")
        a = notice(w, "approval")["approval"]
        assert a["what"] == "rule" and a["name"] == "ask web docs.example read-only", a
        order(h, "outer", op="ask-end", id=6)
        until(lambda: c.ok("approvals", workspace="t1")["waiting"][0]["waiting"] == 0)
        ask(h, 7, host="other.example")
        assert heard(h, "outer", "answer", id=7)["answer"] == "deny"
        c.ok("session.close", workspace="t1")
        assert notice(w, "approval-end")["answer"] in ("deny", "ended")
        assert c.ok("approvals") | {"id": 0} == {"op": "approvals", "id": 0, "waiting": [], "grants": [], "denials": []}


def test_once_is_for_what_was_shown():
    """The same head with another body is another request: neither a retry nor a use that joined later goes with the yes."""
    with up() as h:
        c = opened(h)
        door(h)
        w = h.client()
        w.start("watch", workspace="t1")
        c.ok("status")
        ask(h, 1, method="POST", body=True)
        a = notice(w, "approval")["approval"]
        assert a["requests"] == [{"method": "POST", "path": "/repos/a", "count": 1, "body": True}], a
        ask(h, 2, method="POST", body=True)
        until(lambda: c.ok("approvals")["waiting"][0]["waiting"] == 2)
        assert c.ok("approvals.allow", approval=a["id"], seen=1, **{"for": "once"})["released"] == 1
        assert heard(h, "outer", "answer", id=1)["answer"] == "allow"
        ask(h, 3, method="POST", body=True)  # the retry
        until(lambda: c.ok("approvals")["waiting"][0]["waiting"] == 2)
        assert count(h, "outer", "answer") == 1
        a = c.ok("approvals")["waiting"][0]
        assert c.ok("approvals.allow", approval=a["id"], **{"for": "once"})["released"] == 2  # both were listed
        order(h, "outer.forge", op="ask", id=4, what="credential", name="forge", host="api.forge.example", port=443, method="GET", path="/", digest="0" * 64)
        until(lambda: c.ok("approvals")["waiting"])
        assert c.ok("approvals")["waiting"][0]["requests"][0]["body"] is True  # a door that does not say: with one
        c.ok("session.close", workspace="t1")


def test_rules_that_ask_no_more_end_grants():
    """A credential that is taken out, or a rule, takes its grants along: when it comes back, a person is asked."""
    with up() as h:
        c = opened(h)
        door(h)
        w = h.client()
        w.start("watch", workspace="t1")
        c.ok("status")
        ask(h, 1)
        c.ok("approvals.allow", approval=notice(w, "approval")["approval"]["id"], **{"for": "session"})
        rule = dict(what="rule", name="ask web docs.example read-only", host="docs.example", door="outer")
        ask(h, 2, **rule)
        c.ok("approvals.allow", approval=notice(w, "approval")["approval"]["id"], **{"for": "session"})
        assert len(c.ok("approvals")["grants"]) == 2
        c.ok("rules.set", "ask web docs.example read-only\nallow web api.forge.example\n", workspace="t1")  # both still ask
        assert len(c.ok("approvals")["grants"]) == 2 and count(h, "outer", "revoke") == 0
        c.ok("rules.set", "allow web docs.example read-only\nallow web api.forge.example\n", workspace="t1")
        assert [g["what"] for g in c.ok("approvals")["grants"]] == ["credential"]
        assert heard(h, "outer", "revoke")["what"] == "rule"
        ask(h, 3, host="git.forge.example", port=8443)
        until(lambda: c.ok("approvals")["waiting"])
        conf = open(h.conf).read()
        h.write(h.conf, conf.replace("; ask before use", ""))
        c.ok("reload")
        until(lambda: c.ok("approvals") | {"id": 0} == {"op": "approvals", "id": 0, "waiting": [], "grants": [], "denials": []})
        assert heard(h, "outer", "revoke", what="credential")["host"] == "api.forge.example"
        h.write(h.conf, conf)
        c.ok("reload")
        ask(h, 4)
        until(lambda: c.ok("approvals")["waiting"])
        assert state(c)["state"] == "running", h.log()
        c.ok("session.close", workspace="t1")


def test_revoke_without_doors():
    with up() as h:
        c = opened(h)
        door(h)
        w = h.client()
        w.start("watch")
        c.ok("status")
        ask(h, 1)
        c.ok("approvals.allow", approval=notice(w, "approval")["approval"]["id"], **{"for": "1h"})
        pid = heard(h, "outer", "start", account="forge")["pid"]
        order(h, "outer.forge", op="idle")
        until(lambda: not alive(pid))
        assert c.ok("approvals.revoke", approval=c.ok("approvals")["grants"][0]["id"])["cut"] == 0
        select.select([], [], [], 1.3)  # nothing is owed, so nothing falls due
        assert state(c)["state"] == "running" and c.ok("approvals")["grants"] == []
        c.ok("session.close", workspace="t1")


def test_inner_door_that_asks_without_end():
    """Taken over, it may not start programs without end."""
    with up() as h:
        c = opened(h)
        for i in range(60):
            order(h, "inner", op="account", account="forge")
        until(lambda: count(h, "inner", "link") + count(h, "inner", "no-link") > 0)
        until(lambda: len([1 for m in h.said("outer") if m["op"] == "start" and alive(m["pid"])]) <= 2)
        assert count(h, "outer", "start") < 50
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")


def test_trip_in_the_last_moment():
    with up() as h:
        h.mode("launch", "stubborn")
        c = opened(h)
        closing = h.client()
        id = closing.start("session.close", workspace="t1")
        until(lambda: state(c)["state"] == "stopping")
        trip(h)
        until(lambda: c.ok("alerts")["alerts"])
        m = closing.wait(id)
        assert m["op"] == "done" and state(c)["state"] == "compromised", m


def test_thousand_uses_are_one_question():
    with up() as h:
        c = opened(h)
        door(h)
        w = h.client()
        w.start("watch", workspace="t1")
        c.ok("status")
        for i in range(1000):
            ask(h, i, path=f"/repos/{i % 20}")
        a = notice(w, "approval")["approval"]
        until(lambda: c.ok("approvals")["waiting"][0]["waiting"] == 1000)
        all_ = c.ok("approvals")["waiting"]
        assert len(all_) == 1 and len(all_[0]["requests"]) == 20 and all_[0]["id"] == a["id"], all_
        assert c.ok("approvals.allow", approval=a["id"], **{"for": "5m"})["released"] == 1000
        until(lambda: count(h, "outer", "answer", answer="allow") == 1000)
        c.ok("session.close", workspace="t1")


# --- trips -----------------------------------------------------------------------------------------------------------------------

def tripped(h, **more):
    c = opened(h)
    w = h.client()
    w.start("watch")
    c.ok("status")
    trip(h, **more)
    a = notice(w, "alert")["alert"]
    assert notice(w, "state")["state"] == "compromised"
    return c, w, a


def test_trip_and_continue():
    with up() as h:
        c, w, a = tripped(h)
        assert a["credential"] == "forge" and a["going_to"] == "evil.example" and a["issued_for"] == "api.forge.example, git.forge.example:8443", a
        assert a["decision"] == "open" and a["field"] == "header x-leak" and a["path"] == "/collect", a
        ops = [m["op"] for m in h.said("launch")]
        assert ops[-2:] == ["shut", "freeze"] and heard(h, "inner", "refuse")["reason"] == "compromised", ops
        assert os.path.exists(f"{h.state}/workspaces/t1/compromised")
        assert "Tripwire" in h.notes() and state(c)["state"] == "compromised"
        for op, more in (("thaw", {}), ("freeze", {}), ("exec", {"argv": ["ls"]})):
            assert c.ask(op, workspace="t1", **more)["code"] == "state", op
        until(lambda: "the guest stands still" in h.log_text())
        c.ok("thaw", workspace="t1", **{"continue": True})
        # First the doors know, then the guest goes on.
        heard(h, "inner", "admit")
        said = [m["op"] for m in h.said("inner")]
        assert said[-2:] == ["policy", "admit"] and [m["op"] for m in h.said("launch")][-2:] == ["open", "thaw"], said
        assert "known { forge evil.example }" in open(f"{h.lib}/policy.inner").read().replace("\n", " ").replace("        ", ""), open(f"{h.lib}/policy.inner").read()
        assert state(c)["state"] == "running" and not os.path.exists(f"{h.state}/workspaces/t1/compromised")
        assert c.ok("alerts")["alerts"] == [] and c.ok("alerts", all=True)["alerts"][0]["decision"] == "continued"
        c.ok("session.close", workspace="t1")


def test_trip_ends_grants():
    """Who lets a workspace go on after a trip did not let it use its accounts without a question."""
    with up() as h:
        c = opened(h)
        door(h)
        w = h.client()
        w.start("watch", workspace="t1")
        c.ok("status")
        ask(h, 1)
        c.ok("approvals.allow", approval=notice(w, "approval")["approval"]["id"], **{"for": "session"})
        assert len(c.ok("approvals")["grants"]) == 1
        trip(h)
        until(lambda: state(c)["state"] == "compromised")
        assert c.ok("approvals")["grants"] == []
        assert heard(h, "outer", "revoke", what="credential")["host"] == "api.forge.example"
        c.ok("thaw", workspace="t1", **{"continue": True})
        ask(h, 2)
        until(lambda: c.ok("approvals")["waiting"])
        c.ok("session.close", workspace="t1")


def test_no_secret_while_compromised():
    """Whatever the inner door asks for: no account's door starts, no secret leaves bromed, until a person decides."""
    with up() as h:
        c, w, a = tripped(h)
        before = count(h, "inner", "no-link", account="forge")
        for n in (1, 2):
            order(h, "inner", op="account", account="forge")
            assert heard(h, "inner", "no-link", before + n, account="forge")["reason"] == "internal"
        assert count(h, "outer", "start", account="forge") == 0 and not os.path.exists(f"{h.lib}/secret.forge"), h.said("outer")
        assert count(h, "inner", "link", account="forge") == 0
        until(lambda: "the guest stands still" in h.log_text())
        c.ok("thaw", workspace="t1", **{"continue": True})
        door(h)  # the control: afterwards it is had
        assert open(f"{h.lib}/secret.forge").read() == SECRET + "|" and count(h, "outer", "start", account="forge") == 1
        c.ok("session.close", workspace="t1")


def test_door_that_was_coming_as_it_tripped():
    """Started before the trip, ready after it: its link is not handed over, and it ends."""
    with up() as h:
        c = opened(h)
        h.mode("outer", "no-ready")
        order(h, "inner", op="account", account="forge")
        start = heard(h, "outer", "start", account="forge")
        trip(h)
        until(lambda: state(c)["state"] == "compromised")
        assert alive(start["pid"])
        order(h, "outer.forge", op="ready")
        until(lambda: not alive(start["pid"]))
        assert count(h, "inner", "link", account="forge") == 0 and heard(h, "inner", "no-link", account="forge")["reason"] == "internal"
        until(lambda: "the guest stands still" in h.log_text())
        c.ok("thaw", workspace="t1", **{"continue": True})
        c.ok("session.close", workspace="t1")


def test_trip_outlives_bromed():
    with up() as h:
        c, w, a = tripped(h)
        h.daemon.kill()
        h.daemon.wait()
        h.up()
        c = h.client()
        assert state(c)["state"] == "compromised"
        assert c.ask("session.open", workspace="t1")["code"] == "state"
        assert c.ask("workspace.rm", name="t1")["code"] == "state"
        assert c.ask("session.close", workspace="t1")["code"] == "state"
        assert c.ok("alerts")["alerts"][0]["id"] == a["id"]
        c.ok("thaw", workspace="t1", **{"continue": True})
        assert state(c)["state"] == "stopped"
        c.ok("session.open", workspace="t1", keep=True)
        assert "known" in open(f"{h.lib}/policy.inner").read()
        # A plain stop is no decision.
        trip(h, host="second.example")
        until(lambda: state(c)["state"] == "compromised")
        c.ok("session.close", workspace="t1")
        assert state(c)["state"] == "compromised" and len(c.ok("alerts")["alerts"]) == 1
        m = c.ok("session.close", workspace="t1", evidence=True)
        assert state(c)["state"] == "stopped" and "alerts.json" in os.listdir(m["evidence"]), m


def test_mark_on_a_full_disk():
    """The guest may have filled the disk before: the mark's text does not fit, its name does."""
    with up() as h:
        os.makedirs(f"{h.state}/workspaces/t1/compromised.{h.daemon.pid}.tmp")  # where the text would be written
        c, w, a = tripped(h)
        assert os.path.getsize(f"{h.state}/workspaces/t1/compromised") == 0
        h.daemon.kill()
        h.daemon.wait()
        h.up()
        c = h.client()
        assert state(c)["state"] == "compromised" and c.ask("session.open", workspace="t1")["code"] == "state"
        c.ok("workspace.wipe", name="t1")


def test_decision_that_cannot_be_carried_out():
    """Evidence that cannot be saved, a home that cannot be wiped: the decision is still owed."""
    with up() as h:
        c, w, a = tripped(h)
        open(f"{h.state}/evidence", "w").close()
        c.ok("session.close", workspace="t1", evidence=True)
        assert state(c)["state"] == "compromised" and len(c.ok("alerts")["alerts"]) == 1
        assert os.path.exists(f"{h.state}/workspaces/t1/compromised")
        os.rename(f"{h.state}/sweep", f"{h.state}/sweep.away")
        open(f"{h.state}/sweep", "w").close()
        assert c.ask("workspace.wipe", name="t1")["code"] == "host"
        assert state(c)["state"] == "compromised" and c.ask("session.open", workspace="t1")["code"] == "state"
        os.unlink(f"{h.state}/sweep")
        os.rename(f"{h.state}/sweep.away", f"{h.state}/sweep")
        c.ok("workspace.wipe", name="t1")
        assert state(c)["state"] == "stopped" and c.ok("alerts", all=True)["alerts"][0]["decision"] == "wiped"


def test_compromised_and_its_block_is_broken():
    """A workspace.conf that does not fit the configuration any more: nobody decided, and nothing is moved."""
    with up() as h:
        c = h.client()
        give(c)
        c.ok("workspace.new", "workspace made { credential { forge }; rules { allow web api.forge.example } }\n", name="made")
        c.ok("session.open", workspace="made", keep=True)
        trip(h)
        until(lambda: state(c, "made")["state"] == "compromised")
        h.daemon.kill()
        h.daemon.wait()
        h.write(h.conf, CONF.replace("forge", "smithy"))
        h.up()
        c = h.client()
        assert state(c, "made") is None and os.path.exists(f"{h.state}/workspaces/made/compromised") and not os.path.exists(f"{h.state}/evidence")
        assert c.ok("alerts")["alerts"][0]["decision"] == "open"
        h.write(h.conf, CONF)
        c.ok("reload")
        assert state(c, "made")["state"] == "compromised" and c.ask("session.open", workspace="made")["code"] == "state"
        c.ok("workspace.wipe", name="made")


def test_evidence():
    with up() as h:
        h.mode("launch", "telling")
        c, w, a = tripped(h)
        until(lambda: "the guest stands still" in h.log_text())
        m = c.ok("session.close", workspace="t1", evidence=True)
        assert "evidence" in m, h.log_text()
        raw = {n: open(f"{m['evidence']}/{n}", "rb").read() for n in os.listdir(m["evidence"])}
        got = {n: v.decode(errors="replace") for n, v in raw.items()}
        whole = ["README", "SHA256SUMS", "alerts.json", "console.txt", "environment.txt", "files.txt", "journal.head", "journal.jsonl", "processes.txt", "requests.txt", "rules.conf", "timeline.txt"]
        assert sorted(got) == whole, sorted(got)
        assert "placeholders" in got["files.txt"] and "ca.key" not in got["files.txt"] and "evil.example" in got["timeline.txt"], got
        sums = dict(reversed(x.split("  ")) for x in got["SHA256SUMS"].splitlines())
        assert sorted(sums) == [n for n in whole if n != "SHA256SUMS"] and all(hashlib.sha256(raw[n]).hexdigest() == sums[n] for n in sums), sums
        until(lambda: hashlib.sha256(raw["SHA256SUMS"]).hexdigest() in subprocess.run(["strings", "-n", "64", f"{h.state}/journal.db-wal", f"{h.state}/journal.db"], capture_output=True, text=True).stdout)
        assert "evil.example" in got["alerts.json"] and "evil" in got["processes.txt"] and "\x1b" not in got["processes.txt"], got
        assert "api.forge.example" in got["rules.conf"] and "/nowhere/forge" not in got["rules.conf"], got["rules.conf"]
        rows = [json.loads(x) for x in got["journal.jsonl"].splitlines()]
        assert any(r.get("engine") == "Tripwire" for r in rows), rows
        assert c.ok("alerts", all=True)["alerts"][0]["decision"] == "stopped" and state(c)["state"] == "stopped"
        assert os.stat(m["evidence"]).st_mode & 0o777 == 0o700
        # Decided when the session was long over: what ran is known all the same.
        c.ok("session.open", workspace="t1", keep=True)
        trip(h)
        until(lambda: state(c)["state"] == "compromised")
        until(lambda: os.path.exists(f"{h.state}/workspaces/t1/compromised.processes"))
        c.ok("session.close", workspace="t1")
        assert state(c)["state"] == "compromised"
        m = c.ok("session.close", workspace="t1", evidence=True)
        assert "evil" in open(f"{m['evidence']}/processes.txt").read() and not os.path.exists(f"{h.state}/workspaces/t1/compromised.processes")
        c.ok("session.open", workspace="t1", keep=True)
        c.ok("session.close", workspace="t1")


def test_trip_of_a_throw_away():
    """Nobody may have decided when it vanishes: what it was is kept."""
    with Home(CONF.split("workspace t1")[0]).up() as h:
        block = "workspace tmp" + CONF.split("workspace t1")[1].split("workspace plain")[0]
        owner, c = h.client(), h.client()
        give(c)
        owner.ok("session.open", block, rm=True)
        trip(h)
        until(lambda: state(c, "tmp")["state"] == "compromised")
        owner.close()
        until(lambda: state(c, "tmp") is None)
        (folder,) = os.listdir(f"{h.state}/evidence")
        assert folder.startswith("tmp-") and "placeholders" in os.listdir(f"{h.state}/evidence/{folder}/workspace"), folder
        assert not os.path.exists(f"{h.state}/evidence/{folder}/workspace/ca.key") and not os.path.exists(f"{h.state}/workspaces/tmp")
        assert c.ok("alerts", all=True)["alerts"][0]["decision"] == "stopped"


def test_throw_away_of_a_killed_bromed():
    with Home(CONF.split("workspace t1")[0]).up() as h:
        block = "workspace tmp" + CONF.split("workspace t1")[1].split("workspace plain")[0]
        c = h.client()
        c.ok("session.open", block, rm=True)
        trip(h)
        until(lambda: state(h.client(), "tmp")["state"] == "compromised")
        h.daemon.kill()
        h.daemon.wait()
        h.up()
        c = h.client()
        (folder,) = os.listdir(f"{h.state}/evidence")
        assert sorted(os.listdir(f"{h.state}/evidence/{folder}")) == ["alerts.json", "workspace"] and not os.path.exists(f"{h.state}/workspaces/tmp")
        assert c.ok("alerts", all=True)["alerts"][0]["decision"] == "stopped"
        c.ok("session.open", block, rm=True)


def test_reload_moves_a_secret():
    """A credential whose secret lies elsewhere now: what was brought is no longer it, and its door ends."""
    with up() as h:
        c = opened(h)
        door(h)
        pid = heard(h, "outer", "start", account="forge")["pid"]
        h.write(h.conf, CONF.replace("ask before use }", "ask before use  }"))
        c.ok("reload")
        assert alive(pid)
        h.write(h.conf, CONF.replace('"/nowhere/forge"', '"/nowhere/other"'))
        c.ok("reload")
        until(lambda: not alive(pid))
        order(h, "inner", op="account", account="forge")
        assert heard(h, "inner", "no-link", account="forge")["reason"] == "no-secret"
        give(c)
        door(h, n=2)
        c.ok("session.close", workspace="t1")


def test_trip_while_frozen_and_twice():
    with up() as h:
        c = opened(h)
        c.ok("freeze", workspace="t1")
        trip(h)
        until(lambda: state(c)["state"] == "compromised")
        for i in range(40):
            trip(h, host=f"h{i}.example")
        order(h, "inner", op="account", account="nobody")
        heard(h, "inner", "no-link", account="nobody")  # all were read
        assert len(c.ok("alerts")["alerts"]) == 16
        c.ok("thaw", workspace="t1", **{"continue": True})
        assert state(c)["state"] == "running"
        c.ok("session.close", workspace="t1")


def test_trip_while_it_goes_on():
    """However often it tripped before: what trips behind the person's word is new, and the guest does not go on."""
    with up() as h:
        h.mode("launch", "late-thaw")
        c = opened(h)
        for i in range(17):
            trip(h, host=f"h{i}.example")
        until(lambda: len(c.ok("alerts")["alerts"]) == 16)
        waiting = h.client()
        id = waiting.start("thaw", workspace="t1", **{"continue": True})
        heard(h, "launch", "thaw")
        trip(h, host="again.example")
        until(lambda: [a["going_to"] for a in c.ok("alerts")["alerts"]] == ["again.example"])
        order(h, "launch", op="thaw", ok=True)
        assert waiting.wait(id)["code"] == "state"
        assert state(c)["state"] == "compromised" and os.path.exists(f"{h.state}/workspaces/t1/compromised")
        assert "open" not in [m["op"] for m in h.said("launch")][-2:]
        c.ok("workspace.wipe", name="t1")


def test_trip_that_cannot_freeze():
    with up() as h:
        h.mode("launch", "stiff")
        c, w, a = tripped(h)
        until(lambda: "could not be stopped" in h.log_text())
        assert state(c)["state"] == "compromised"
        c.ok("session.close", workspace="t1", evidence=True)


def test_wipe():
    with up() as h:
        c, w, a = tripped(h)
        before = placeholders(h)
        share = f"{h.dir}/share"
        os.mkdir(share)
        os.makedirs(f"{h.state}/workspaces/t1/home/x")
        c.ok("workspace.wipe", name="t1")
        assert state(c)["state"] == "stopped" and os.listdir(f"{h.state}/workspaces/t1") == [] and os.path.exists(share)
        assert c.ok("alerts", all=True)["alerts"][0]["decision"] == "wiped"
        c.ok("session.open", workspace="t1", keep=True)
        assert placeholders(h) != before and "known" not in open(f"{h.lib}/policy.inner").read()
        c.ok("workspace.wipe", name="t1")  # stopped first
        assert state(c)["state"] == "stopped"
        # One made by `workspace new` keeps its block.
        block = "workspace made { rules { allow web example.org } }\n"
        c.ok("workspace.new", block, name="made")
        open(f"{h.state}/workspaces/made/names", "w").close()
        c.ok("workspace.wipe", name="made")
        assert os.listdir(f"{h.state}/workspaces/made") == ["workspace.conf"] and open(f"{h.state}/workspaces/made/workspace.conf").read() == block
        assert c.ask("workspace.wipe", name="none")["code"] == "no-such-workspace"
        until(lambda: os.listdir(f"{h.state}/sweep") == [])


def test_secret_file_in_a_share():
    """Whoever the credential is bound to, however it is shared, and where only a link to it lies in the share: never a session."""
    with Home() as h:
        for d in ("share", "linked", "good"):
            os.mkdir(f"{h.dir}/{d}")
        h.write(f"{h.dir}/share/token", "x")
        os.symlink(f"{h.dir}/good/token", f"{h.dir}/linked/token")
        h.write(f"{h.dir}/good/token", "y")
        h.write(h.conf, f'credential forge {{ kind github; secret file "{h.dir}/share/token"; for api.forge.example }}\n'
                        f'credential other {{ kind bearer; secret file "{h.dir}/linked/token"; for api.corp.example }}\n'
                        + "".join(f'workspace {n} {{ share "{h.dir}/{what}" {how}; {more} }}\n' for n, what, how, more in (
                            ("t1", "share", "", "credential forge; rules { allow web api.forge.example }"), ("t2", "share", "read-only", ""),
                            ("t3", "share", "overlay", ""), ("t4", "linked", "", ""), ("t5", "good", "read-only", ""))) + "workspace t6 { }\n")
        h.up()
        c = h.client()
        for n in ("t1", "t2", "t3", "t4", "t5"):
            m = c.ask("session.open", workspace=n)
            assert m["code"] == "config" and "lies in the share" in m["text"] and "secret" in m["text"], (n, m)
        c.ok("session.open", workspace="t6")
        plan = heard(h, "launch", "plan")
        assert {f"{h.dir}/share/token", f"{h.dir}/linked/token"} <= set(plan["protect"]), plan


def test_tools():
    """Where an agent's program is installed, and where its links lead: the narrowest folder that it runs from. Nothing of /usr, nothing that is not there."""
    with Home() as h:
        home = f"{h.dir}/me"
        programs = {  # found at: a file, or a link to a file
            "nvm/v22/bin/node": None, "nvm/v22/bin/script": "../lib/node_modules/@x/script/bin/cli.js",  # node's prefix, without its etc/npmrc
            "local/node_modules/.bin/shown": "../shown/lib/cli.js",
            "elsewhere/bin/linked": f"{h.dir}/far/pkg/linked",
            "opt/thing/bin/whole": None, "opt/thing/lib/thing.so": None,
            "me/venvs/v/bin/python-thing": None, "me/venvs/v/pyvenv.cfg": None,
            "me/src/project/bin/wrapper": None, "me/src/project/lib/private": None,
            "me/tools/loose": None,                                 # ~/tools holds whatever it holds
            "me/.rt/v1/bin/hidden": None, "me/.rt/v1/share/x": None,
            "flat/tool3": None,
            "me/.cargo/bin/cargo-thing": None,                      # beside it lies what logs in
            "me/.local/bin/native": f"{home}/.local/share/native/versions/2.1",
            "me/bin/own": None,
            "me/.opencode/bin/later": None,                         # not in PATH
        }
        for at, to in programs.items():
            at = f"{h.dir}/{at}"
            file = os.path.normpath(os.path.join(os.path.dirname(at), to or at))
            for f in (at, file):
                os.makedirs(os.path.dirname(f), exist_ok=True)
            open(file, "w").close()
            os.chmod(file, 0o755)
            if to:
                os.symlink(to, at)
        names = [os.path.basename(p) for p in programs]
        h.write(h.conf, "workspace t1 { " + "".join(f'tool "{n}"; ' for n in (*names, "sh", "not-there")) + "rules { } }\n")
        env = h.env()
        folders = [os.path.dirname(p) for p in programs if p.split("/")[-2] in ("bin", ".bin", "flat", "tools") and "opencode" not in p]
        h.env = lambda: env | {"HOME": home, "PATH": ":".join([f"{h.dir}/{d}" for d in folders] + ["relative", env["PATH"]])}
        h.up()
        c = h.client()
        c.ok("session.open", workspace="t1")
        got = [os.path.relpath(p, h.dir) for p in heard(h, "launch", "plan")["tools"]]
        assert got == ["nvm/v22/bin", "nvm/v22/lib/node_modules", "local/node_modules", "elsewhere/bin", "far/pkg", "opt/thing", "me/venvs/v", "me/src/project/bin", "me/.rt/v1", "flat", "me/.cargo/bin", "me/.local/bin",
                       "me/.local/share/native/versions", "me/bin", "me/.opencode/bin"], got


def test_ordinary_user():
    if os.geteuid():
        return "needs root"
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        for f in (*sys.argv[1:4], os.path.abspath(__file__), test_daemon.__file__, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub.py")):
            shutil.copy(f, d)
        p = [f"{d}/{os.path.basename(f)}" for f in sys.argv[1:4]]
        r = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-B", f"{d}/test_accounts.py", *p, "account_door",
                            "needs_and_vault", "trip_and_continue", "evidence", "wipe"], capture_output=True, text=True, env={**os.environ, "HOME": "/"})
        assert r.returncode == 0, r.stdout + r.stderr


def main():
    names = sys.argv[4:]
    tests = [(n[5:], f) for n, f in sorted(globals().items()) if n.startswith("test_") and callable(f) and (not names or n[5:] in names)]
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
