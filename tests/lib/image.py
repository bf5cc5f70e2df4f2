"""What the tests of images share: no closed world, and what has to be there."""
import pathlib
import shutil
import subprocess
import tempfile
import urllib.parse

from world import sh


class Bare:
    """No closed world: the host's own network."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brome-image-"))
        self.dir.chmod(0o755)
        self.children, self.bromes = [], []

    def close(self):
        for b in self.bromes:
            b.close()
        sh("rm", "-rf", "--one-file-system", self.dir, check=False)


def have_mmdebstrap():
    return shutil.which("mmdebstrap") is not None


def a_user():
    """One that every Debian has, with a group of the same name, and who has no subordinate ids on most machines."""
    return "games"


def mirror_answers():
    """Does one of the host's sources answer? Their addresses come from apt itself, at run time."""
    p = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True)
    sites = {s for s in p.stdout.splitlines() if urllib.parse.urlsplit(s).scheme in ("http", "https")}
    return any(subprocess.run(["curl", "-sS", "-m", "20", "-o", "/dev/null", s], capture_output=True).returncode == 0 for s in sites)
