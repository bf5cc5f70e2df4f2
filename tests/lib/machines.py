"""What the tests of virtual machines share: whether they can run here, and the image they boot."""
import os
import pathlib
import shutil

from world import TOP, Skip

BOOT_SECONDS = 300  # emulated, beside whatever else runs


def machines():
    if not (shutil.which("qemu-system-x86_64") and os.access("/dev/net/tun", os.R_OK)):
        raise Skip("QEMU or /dev/net/tun is not there")
    image()


def image():
    for folder in (os.environ.get("BROME_TEST_IMAGE"), TOP / "build/machine/images/current"):
        if folder and (pathlib.Path(folder) / "base.ext4").exists():
            return pathlib.Path(folder).resolve()
    raise Skip("there is no image for machines: BROME_STATE=build/machine ./brome image build makes one")
