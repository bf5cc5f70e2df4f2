"""A machine for tests/vm/guest: an initramfs of brome-guest-vm and modules of Debian's kernel package, a small root made of this host's programs, QEMU without a
network, and the host's end of the guest protocol on the virtio-serial port. Emulated (TCG), nothing is taken from the network but the kernel package, once."""
import lzma, os, pathlib, re, select, shutil, socket, struct, subprocess, sys, time

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = TOP / "build/vm"
sys.path.insert(0, str(TOP / "tests/unit/guest"))
import driver  # noqa: E402

# In the order in which they are loaded.
MODULES = ("virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_console virtio_blk crc32c_generic crc16 mbcache jbd2 ext4 "
           "failover net_failover virtio_net rng-core virtio-rng 9pnet 9pnet_virtio netfs fscache 9p").split()
PROGRAMS = "sh bash cat ls stty tty sleep mount grep stat id date env head readlink touch cp mkdir rm ln chmod wc uname ps kill ip sync test setsid sed find seq".split()
SERIAL = {"system": "system", "home": "home"}
MAC, GATE = bytes.fromhex("02bb00000002"), bytes.fromhex("02bb00000001")


class Skip(Exception):
    pass


def need(*programs):
    missing = [p for p in programs if not shutil.which(p)]
    if missing:
        raise Skip(f"{', '.join(missing)} is missing (apt-get install qemu-system-x86 e2fsprogs)")


def kernel():
    """The folder of an unpacked kernel package: boot/vmlinuz-… and lib/modules/…; made once."""
    folder = BUILD / "kernel"
    if not folder.exists():
        out = subprocess.run(["apt-cache", "depends", "linux-image-amd64"], capture_output=True, text=True).stdout
        name = re.search(r"Depends: (linux-image-\d\S+)", out)
        if not name:
            raise Skip("apt knows no kernel package linux-image-amd64")
        new = BUILD / "kernel.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        r = subprocess.run(["apt-get", "-q", "download", name.group(1)], cwd=new, capture_output=True, text=True)
        debs = list(new.glob("*.deb"))
        if r.returncode or not debs:
            raise Skip("the kernel package cannot be downloaded: " + (r.stderr.strip().splitlines() or ["no reason given"])[-1])
        tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", debs[0]], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", new, "./boot", "./lib/modules"], stdin=tar.stdout, check=True)
        tar.wait()
        debs[0].unlink()
        new.rename(folder)
    return folder


def vmlinux():
    """The kernel out of its own archive: unpacking it in the machine takes as long as all the rest. QEMU starts it by its PVH note."""
    path = BUILD / "vmlinux"
    if not path.exists():
        packed = next((kernel() / "boot").glob("vmlinuz-*")).read_bytes()
        start = packed.find(b"\xfd7zXZ\0")
        if start < 0:
            return next((kernel() / "boot").glob("vmlinuz-*"))
        (BUILD / "vmlinux.new").write_bytes(lzma.LZMADecompressor().decompress(packed[start:]))
        (BUILD / "vmlinux.new").rename(path)
    return path


def unsigned(module):
    """Without the signature at its end, which would be checked, slowly, for nothing."""
    magic = b"~Module signature appended~\n"
    if not module.endswith(magic):
        return module
    end = len(module) - len(magic) - 12
    return module[:end - int.from_bytes(module[end + 8:end + 12], "big")]


def cpio(entries):
    """newc; entries: (name, mode, bytes)."""
    out = bytearray()
    for i, (name, mode, data) in enumerate(entries + [("TRAILER!!!", 0, b"")]):
        fields = [i + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08x" % f for f in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4)
        out += data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def initramfs(init, path, without=()):
    folder = kernel()
    # A package has one version of the kernel.
    files = {p.stem.replace("_", "-"): p for p in (folder / "lib/modules").rglob("*.ko")}
    entries = [(d, 0o40755, b"") for d in ("dev", "proc", "sys", "modules", "newroot")]
    entries.append(("init", 0o100755, pathlib.Path(init).read_bytes()))
    for i, name in enumerate(m for m in MODULES if m not in without):
        if name.replace("_", "-") in files:  # else built in
            entries.append((f"modules/{i:03}-{name}.ko", 0o100644, unsigned(files[name.replace("_", "-")].read_bytes())))
    path.write_bytes(cpio(entries))


def root_disk(path):
    """An ext4 with a handful of this host's programs and what they link."""
    root = BUILD / "root"
    shutil.rmtree(root, ignore_errors=True)
    for d in ("usr/bin", "usr/lib64", "usr/lib", "etc/ssl/certs", "root", "var"):
        (root / d).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to("usr/" + name)
    for name in PROGRAMS:
        program = shutil.which(name)
        if not program:
            raise Skip(f"{name} is missing")
        shutil.copy(program, root / "usr/bin" / name)
        for library in re.findall(r"(/\S+\.so\S*)", subprocess.run(["ldd", program], capture_output=True, text=True).stdout):
            to = root / "usr" / library.lstrip("/").removeprefix("usr/")
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists():
                shutil.copy(library, to)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    (root / "etc/ssl/certs/ca-certificates.crt").write_text("-----BEGIN CERTIFICATE-----\nFIRST=\n-----END CERTIFICATE-----\n")
    path.unlink(missing_ok=True)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, path, "96M"], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)


def empty_disk(path):
    path.unlink(missing_ok=True)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", path, "16M"], check=True, stdout=subprocess.DEVNULL)


# ---- the set-up message: vm/setup.h ----

def entry(tag, payload):
    return struct.pack("<BI", tag, len(payload)) + payload


HOSTNAME, CLOCK, SEED, LINK, V4, V6, SYSTEM, HOME, CA, SHARE, ACCOUNTS, CA_HASH = range(1, 13)


def share(tag, path, flags=0):
    return entry(SHARE, bytes([flags, len(tag)]) + tag.encode() + path.encode())


class Machine:
    """QEMU; the port is a UNIX socket on which QEMU listens, so that a host may leave it and come back."""

    def __init__(self, folder, system=None, home=None, shares=(), net=True, initrd=None, arguments=""):
        self.folder = pathlib.Path(folder)
        self.port, self.console = self.folder / "port", self.folder / "console"
        self.port.unlink(missing_ok=True)
        argv = ["nice", "-n", "10", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
                "-machine", "q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off", "-smp", "1", "-m", "512",
                "-kernel", vmlinux(), "-initrd", initrd or BUILD / "initrd",
                "-append", "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check cryptomgr.notests " + arguments,
                "-chardev", f"socket,id=guest,path={self.port},server=on,wait=off", "-device", "virtio-serial-pci,max_ports=2,disable-legacy=on",
                "-device", "virtserialport,chardev=guest,name=org.brome.guest", "-serial", f"file:{self.console}",
                "-object", "rng-builtin,id=random", "-device", "virtio-rng-pci,rng=random,disable-legacy=on"]
        for serial, path in (("home", home), ("system", system)):  # the order of devices says nothing
            if path:
                argv += ["-drive", f"if=none,id={serial},format=raw,file={path}", "-device", f"virtio-blk-pci,drive={serial},serial={serial},disable-legacy=on"]
        if net:
            mine, self.card = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            argv += ["-netdev", f"socket,id=net,fd={mine.fileno()}", "-device", f"virtio-net-pci,netdev=net,mac={MAC.hex(':')},host_mtu=65520,romfile=,disable-legacy=on"]
        for i, (path, read_only) in enumerate(shares):
            argv += ["-fsdev", f"local,id=share{i},security_model=none,multidevs=remap{',readonly=on' if read_only else ''},path={path}",
                     "-device", f"virtio-9p-pci,fsdev=share{i},mount_tag=share{i},disable-legacy=on"]
        self.began = time.monotonic()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=open(self.folder / "qemu.log", "w"), stderr=subprocess.STDOUT,
                                        pass_fds=(mine.fileno(),) if net else ())
        if net:
            mine.close()

    def connect(self, seconds=30):
        end = time.monotonic() + seconds
        while True:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                s.connect(str(self.port))
                return Host(s)
            except OSError:
                s.close()
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("QEMU did not start: " + (self.folder / "qemu.log").read_text()) from None
                time.sleep(0.01)

    def ended(self, seconds=30):
        """QEMU's exit status once the machine has turned itself off."""
        return self.process.wait(seconds)

    def said(self):
        return self.console.read_text(errors="replace") if self.console.exists() else ""

    def frames(self):
        """What the card has sent so far."""
        found = []
        while select.select([self.card], [], [], 0)[0]:
            found.append(self.card.recv(70000))
        return found

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        if hasattr(self, "card"):
            self.card.close()


class Host(driver.Guest):
    """brome-launch's end. Nothing is said until asked."""

    def __init__(self, connection):
        self.socket, self.buffer, self.next = connection, bytearray(), 1
        self.streams, self.ready, self.hold, self.keep = {}, False, set(), True
        self.failed = self.notes = None
        connection.settimeout(60)

    def hello(self, knock=False):
        """knock: somebody else was there before; what was for them is dropped."""
        if knock:
            self.send(0, driver.CLOSE)
        while True:
            stream, kind, payload = self.frame()
            if (stream, kind, payload) == (0, driver.HELLO, driver.VERSION.to_bytes(4, "little")):
                self.send(0, driver.HELLO, payload)
                return self
            assert knock, (stream, kind, payload)

    def set_up(self, payload, piece=32768):
        pieces = [payload[i:i + piece] for i in range(0, len(payload), piece)] or [b""]
        for i, p in enumerate(pieces):
            self.send(0, driver.SETUP, p, 1 if i == len(pieces) - 1 else 0)
        while (frame := self.frame())[:2] == (0, driver.HELLO):
            pass  # the one before was under way when it was asked for another
        stream, kind, answer = frame
        assert stream == 0
        if kind == driver.FAILED:
            self.failed = answer[4:].decode()
        else:
            assert kind == driver.READY, kind
            self.ready, self.notes = True, answer.decode()
        return self

    def sh(self, script, **how):
        s = self.run("sh", "-c", script, env=["PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"], **how)
        assert s.failed is None, s.failed
        return os.waitstatus_to_exitcode(s.status), s.out.decode(), s.err.decode()

    def text(self, script):
        status, out, err = self.sh(script)
        assert status == 0, (script, status, out, err)
        return out
