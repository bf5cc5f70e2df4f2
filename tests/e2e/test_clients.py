"""Real clients in a workspace, over the transparent path, with no proxy variable set; real servers where they can be had."""
import os
import pathlib
import shutil
import subprocess

from world import Brome, Skip, World, sh

TOP = pathlib.Path(__file__).resolve().parents[2]


def make_world():
    w = World()
    git_extra = ""
    backend = "/usr/lib/git-core/git-http-backend"
    if os.path.exists(backend) and shutil.which("fcgiwrap"):
        git_extra = f"""
            location /git/ {{
                fastcgi_pass unix:{w.dir}/fcgi.sock; include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {backend};
                fastcgi_param GIT_HTTP_EXPORT_ALL ""; fastcgi_param GIT_PROJECT_ROOT {w.dir}/repos; fastcgi_param PATH_INFO $uri; fastcgi_param HOME {w.dir};
            }}"""
        repos = w.dir / "repos/git"
        repos.mkdir(parents=True)
        env = {**os.environ, "HOME": str(w.dir), "GIT_CONFIG_GLOBAL": str(w.dir / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
        (w.dir / "gitconfig").write_text("[user]\nname = t\nemail = t@t.example\n[init]\ndefaultBranch = main\n[safe]\ndirectory = *\n[http]\nreceivepack = true\n")
        (w.dir / ".gitconfig").write_text((w.dir / "gitconfig").read_text())
        work = w.dir / "work"
        sh("git", "init", "-q", work, env=env)
        (work / "Cargo.toml").write_text('[package]\nname = "dep"\nversion = "0.1.0"\nedition = "2021"\n')
        (work / "src").mkdir()
        (work / "src/lib.rs").write_text("pub fn answer() -> u32 { 42 }\n")
        (work / "data").write_bytes(os.urandom(3 << 20))
        sh("git", "-C", work, "add", ".", env=env)
        sh("git", "-C", work, "commit", "-qm", "one", env=env)
        sh("git", "clone", "-q", "--bare", work, repos / "thing.git", env=env)
        w.start("fcgiwrap", "-s", f"unix:{w.dir}/fcgi.sock", env=env)
    w.nginx(("allowed.example",), extra=git_extra)
    w.has_git = bool(git_extra)
    w.b = Brome(w, "workspace s { rules { allow web allowed.example; default deny } }")
    w.b("workspace", "start", "s", check=0)
    w.env = "unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; "
    return w


def need(*programs):
    for p in programs:
        if not shutil.which(p):
            raise Skip(f"{p} is not installed")


def run(w, script, **kw):
    return w.b.sh("s", w.env + script, check=0, timeout=180, **kw).stdout


def test_curl(w):
    for version, proto in (("--http1.1", "HTTP/1.1"), ("--http2", "HTTP/2")):
        assert proto in run(w, f"curl -sSi {version} https://allowed.example/echo").splitlines()[0]
    assert "HTTP/1.1 200" in run(w, "curl -sSi http://allowed.example/echo")
    assert "hello" in run(w, "curl -sS -4 https://allowed.example/; curl -sS -6 https://allowed.example/")
    assert run(w, "curl -sS -o /dev/null -w '%{http_code} %{num_connects}\\n' https://allowed.example/ https://allowed.example/ -o /dev/null").count("200") == 2


def test_wget(w):
    need("wget")
    assert run(w, "wget -qO- https://allowed.example/") == "hello from nginx\n"


def test_python(w):
    out = run(w, "python3 -c \"import urllib.request as u; print(u.urlopen('https://allowed.example/').read())\"")
    assert "hello" in out


def test_node_fetch(w):
    need("node")
    assert "hello" in run(w, "node -e \"fetch('https://allowed.example/').then(r => r.text()).then(t => console.log(t))\"")
    assert "hello" in run(w, "node -e \"require('https').get('https://allowed.example/', r => r.on('data', d => process.stdout.write(d)))\"")
    out = run(w, "node -e \"const c=require('http2').connect('https://allowed.example'); const r=c.request({':path':'/'}); r.on('data',d=>process.stdout.write(d)); r.on('end',()=>c.close()); r.end()\"")
    assert "hello" in out


def test_openssl(w):
    out = run(w, "printf 'GET / HTTP/1.1\\r\\nHost: allowed.example\\r\\nConnection: close\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -connect allowed.example:443 -servername allowed.example 2>&1")
    assert "hello from nginx" in out, out
    out = run(w, "openssl s_client -connect allowed.example:443 -servername allowed.example </dev/null 2>/dev/null | openssl x509 -noout -issuer -subject -ext subjectAltName")
    assert "brome" in out and "allowed.example" in out, "the certificate is the workspace's own"
    for v in ("-tls1_2", "-tls1_3"):
        assert "Verify return code: 0" in run(w, f"openssl s_client {v} -connect allowed.example:443 -servername allowed.example </dev/null 2>&1")
    p = run(w, "openssl s_client -tls1_1 -cipher DEFAULT@SECLEVEL=0 -connect allowed.example:443 -servername allowed.example </dev/null 2>&1; true")
    assert "Verify return code: 0" not in p or "no peer certificate" in p, p
    out = run(w, "openssl s_client -connect allowed.example:443 -servername allowed.example -sess_out /tmp/s </dev/null >/dev/null 2>&1; openssl s_client -connect allowed.example:443 -servername allowed.example -sess_in /tmp/s </dev/null 2>&1 | grep -c '^Reused'; true")
    # TLS 1.3 tickets come after the handshake; s_client keeps one when it read it.
    assert out.strip() in ("0", "1")


def test_git_clone_fetch_push(w):
    need("git")
    if not w.has_git:
        raise Skip("git http-backend or fcgiwrap is not installed")
    out = run(w, "cd && git clone -q https://allowed.example/git/thing.git && cd thing && git fetch -q && git log --oneline | wc -l && sha256sum data | cut -c1-64")
    count, digest = out.split()
    assert count == "1"
    import hashlib
    assert digest == hashlib.sha256((w.dir / "work/data").read_bytes()).hexdigest()
    w.b.rules("s", "allow web allowed.example read-only\ndefault deny\n")
    p = w.b.sh("s", w.env + "cd && rm -rf thing2 && git clone https://allowed.example/git/thing.git thing2")
    assert p.returncode != 0, "upload-pack is a POST"
    w.b.rules("s", "allow web allowed.example\ndefault deny\n")


def test_cargo(w):
    need("cargo", "git")
    if not w.has_git:
        raise Skip("git http-backend or fcgiwrap is not installed")
    out = run(w, "cd && rm -rf app && mkdir -p app/src && cd app && printf '[package]\\nname=\"app\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n[dependencies]\\ndep={git=\"https://allowed.example/git/thing.git\"}\\n' > Cargo.toml && "
                 "echo 'fn main(){println!(\"{}\", dep::answer())}' > src/main.rs && cargo run -q 2>&1")
    assert out.strip().endswith("42"), out


def test_ws_client(w):
    need("node")
    folder = TOP / "build/npm/ws/node_modules"
    if not folder.exists():
        raise Skip("the ws package is not installed: the npm registry was not reachable")
    w.dns.set("ws.example", "203.0.113.20")
    server = w.dir / "ws.js"
    chain, key = w.cert("ws.example")
    server.write_text(f"""
const {{ WebSocketServer }} = require('{folder}/ws'); const https = require('https'), fs = require('fs');
const s = https.createServer({{ cert: fs.readFileSync('{chain}'), key: fs.readFileSync('{key}') }}).listen(443, '203.0.113.20');
new WebSocketServer({{ server: s, perMessageDeflate: true }}).on('connection', c => c.on('message', (d, b) => c.send(d, {{ binary: b }})));
""")
    w.start("node", server)
    w.listening("203.0.113.20", 443)
    b = Brome(w, f'workspace v {{ share "{folder}" read-only; rules {{ allow web ws.example; default deny }} }}')
    b("workspace", "start", "v", check=0)
    out = b("exec", "-T", "v", "--", "node", "-e", f"const W=require('{folder}/ws'); const c=new W('wss://ws.example/x'); const big='y'.repeat(300000); let n=0;"
            "c.on('open',()=>{c.send('hello'); c.send(Buffer.from(big)); c.ping()}); c.on('message',m=>{console.log(m.length); if(++n==2) c.close()}); c.on('error',e=>{console.log(e.message);process.exit(1)})",
            check=0).stdout
    assert out.split() == ["5", "300000"], out
    b.rules("v", "allow web ws.example read-only\ndefault deny\n")
    p = b("exec", "-T", "v", "--", "node", "-e", f"const W=require('{folder}/ws'); const c=new W('wss://ws.example/x'); c.on('open',()=>console.log('open')); c.on('error',e=>console.log(e.message))")
    assert "403" in p.stdout and "open" not in p.stdout, p.stdout
