"""Debian's buildah and mmdebstrap, which build the image without a daemon: where they are, and how they are installed.

``python -m tests.image.tools`` installs what is missing, as root or with sudo. Needs the standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

PACKAGES = ("buildah", "mmdebstrap")


def missing() -> list[str]:
    """The packages whose program is not in PATH."""
    return [name for name in PACKAGES if shutil.which(name) is None]


def install(packages: list[str]) -> None:
    """Install them with apt-get. CalledProcessError, FileNotFoundError where that fails."""
    sudo = [] if os.getuid() == 0 else ["sudo"]
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for words in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
        subprocess.run([*sudo, "apt-get", *words], check=True, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        if needed := missing():
            print(f"image: installing {' and '.join(needed)} from Debian", flush=True)
            install(needed)
    except (OSError, subprocess.CalledProcessError) as failure:
        sys.exit(f"image: {failure}: install {' and '.join(PACKAGES)} by hand (Debian 12 has both)")
