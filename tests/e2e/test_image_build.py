# world: outside
# long
"""A whole image, built by an ordinary user from this machine's own package sources, and looked into. Skipped where mmdebstrap or the mirror is not there."""
import hashlib
import json
import re
import shutil
import stat
import subprocess

from image import Bare, a_user, have_mmdebstrap, mirror_answers
from world import Brome, Skip

BUILD_SECONDS = 840


def make_world():
    return Bare()


def debugfs(disk, command):
    return subprocess.run(["debugfs", "-R", command, str(disk)], capture_output=True, text=True, check=True).stdout


def cpio_names(data):
    """Name → (mode, bytes) of a newc archive, in its order."""
    found, at = {}, 0
    while True:
        assert data[at:at + 6] == b"070701", at
        f = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
        name = data[at + 110:at + 110 + f[11] - 1].decode()
        begin = (at + 110 + f[11] + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found[name] = (f[1], data[begin:begin + f[6]])
        at = (begin + f[6] + 3) & ~3


def check_initrd(data):
    found = cpio_names(data)
    names = list(found)
    assert names[:5] == ["dev", "proc", "sys", "newroot", "modules"] and all(stat.S_ISDIR(found[n][0]) for n in names[:5]), names
    assert found["init"][0] == stat.S_IFREG | 0o755 and found["init"][1][:4] == b"\x7fELF"
    modules = names[6:]
    assert all(re.fullmatch(r"modules/%03d-[\w-]+\.ko" % i, n) and found[n][1][:4] == b"\x7fELF" and not found[n][1].endswith(b"appended~\n") for i, n in enumerate(modules)), modules
    order = [n[len("modules/000-"):-3].replace("-", "_") for n in modules]
    assert len(order) == len(set(order)) and {"9p", "9pnet_virtio", "overlay"} <= set(order), order
    for before, after in (("9pnet", "9p"), ("9pnet", "9pnet_virtio"), ("jbd2", "ext4"), ("virtio", "virtio_blk"), ("virtio_ring", "virtio_net"), ("virtio", "virtio_console")):
        if before in order and after in order:
            assert order.index(before) < order.index(after), order


def check_base(disk, kernel):
    assert subprocess.run(["e2fsck", "-fn", str(disk)], capture_output=True).returncode == 0
    for gone in ("/etc/resolv.conf", "/etc/hostname", "/.kernel", "/var/log/dpkg.log"):
        assert "File not found" in subprocess.run(["debugfs", "-R", f"stat {gone}", str(disk)], capture_output=True, text=True).stderr, gone
    for empty in ("/dev", "/tmp", "/run", "/var/lib/apt/lists"):
        assert [x for x in debugfs(disk, f"ls -p {empty}").splitlines() if x and x.split("/")[5] not in (".", "..")] == [], empty
    assert "Size: 0" in debugfs(disk, "stat /etc/machine-id")
    owner = re.search(r"User:\s+(\d+)\s+Group:\s+(\d+)", debugfs(disk, "stat /usr/bin/git")).groups()
    assert owner == ("0", "0"), owner
    dep = debugfs(disk, f"cat /lib/modules/{kernel}/modules.dep") or debugfs(disk, f"cat /usr/lib/modules/{kernel}/modules.dep")
    for module in ("overlay", "tun", "squashfs", "nf_tables", "fuse", "loop"):
        assert re.search(rf"/{module}\.ko", dep), module
    sources = debugfs(disk, "cat /etc/apt/sources.list.d/host.sources")
    assert "Types: deb" in sources and "@" not in sources, sources


def test_build(w):
    if not have_mmdebstrap() or not shutil.which("mke2fs"):
        raise Skip("mmdebstrap or e2fsprogs is not installed")
    if not mirror_answers():
        raise Skip("no package mirror is reachable from this machine")
    b = Brome(w, user=a_user())
    p = b("image", "build", "--json", check=0, timeout=BUILD_SECONDS)
    name = json.loads(p.stdout)["image"]
    folder = b.dir / "state/images" / name
    text = (folder / "manifest.json").read_bytes()
    m = json.loads(text)
    assert hashlib.sha256(text).hexdigest()[:16] == name and (b.dir / "state/images/current").readlink().name == name
    assert {"git", "nodejs", "npm", "python3", "libc6", "kmod"} <= set(m["packages"]), m
    assert not any(x.startswith("linux-image") for x in m["packages"])  # unpacked, never installed
    files = {f.name for f in folder.iterdir()}
    assert {"vmlinuz", "initrd", "base.ext4", "home.ext4", "manifest.json"} <= files <= {"vmlinuz", "initrd", "base.ext4", "home.ext4", "manifest.json", "accel"}, files
    for f in ("vmlinuz", "initrd"):
        assert hashlib.sha256((folder / f).read_bytes()).hexdigest() == m["files"][f]["sha256"]
    for f, gib in (("base.ext4", 32), ("home.ext4", 64)):
        st = (folder / f).stat()
        assert st.st_size == gib << 30 == m["files"][f]["bytes"] and st.st_blocks * 512 < (2 << 30), (f, st)
    kernel = (folder / "vmlinuz").read_bytes()
    if m["architecture"] == "amd64" and b"the kernel stays packed" not in p.stderr.encode():
        assert kernel[:5] == b"\x7fELF\x02" and b"Xen\0" in kernel, kernel[:64]
    check_initrd((folder / "initrd").read_bytes())
    check_base(folder / "base.ext4", m["kernel"])
    assert subprocess.run(["e2fsck", "-fn", str(folder / "home.ext4")], capture_output=True).returncode == 0
    assert "Mode:  0700" in debugfs(folder / "home.ext4", "stat /")
    assert m["init"] == "brome-guest-vm", m
    if shutil.which("qemu-system-x86_64"):
        assert (folder / "accel").read_text().split("\n")[0] in ("kvm", "tcg")
    listed = json.loads(b("image", "ls", "--json", check=0).stdout)
    assert listed["image"] == name and listed["current"] and listed["workspaces"] == [] and listed["disk_bytes"] < (2 << 30), listed
    b("image", "rm", name, check=0)
    assert not folder.exists() and not (b.dir / "state/images/current").is_symlink()
