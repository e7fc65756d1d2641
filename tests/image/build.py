"""``make image``: builds the Dockerfile with Debian's buildah, without a daemon, on a base that mmdebstrap makes.

The base is bookworm with its Python 3.11, under the name in the Dockerfile's FROM, so that no registry of images is
needed. It is kept in the user's cache, named after what goes into it. pip's settings and certificates of this machine
are mounted while the image is built, and are no part of it. Needs root.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.tree import ROOT

BASE_NAME = "docker.io/library/python:3.11-slim"
# usr-is-merged in place of usrmerge, which would bring Perl along.
BASE_PACKAGES = ("ca-certificates", "python3", "python3-venv", "usr-is-merged")
MERGED_USR = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
# As Debian's own image for containers: no documentation, no translations, no package lists.
WITHOUT = (
    "/usr/share/doc/*",
    "/usr/share/info/*",
    "/usr/share/locale/*",
    "/usr/share/man/*",
    "/var/cache/apt/*",
    "/var/lib/apt/lists/*",
)
VARIANT = "minbase"
NAME = "localhost/kai-sched"


class Builder:
    """buildah with a store of its own in ``folder``, which holds nothing but what is built here."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        place = ["--root", str(folder / "storage"), "--runroot", str(folder / "run"), "--storage-driver", "vfs"]
        self._folder = folder
        self._buildah = ["buildah", *place]

    def run(self, *words: str | Path) -> str:
        """The output of a command. Raises CalledProcessError; what was said is on stderr."""
        command = [*self._buildah, *map(str, words)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def build(self) -> None:
        """Build the image from dist/ and the Dockerfile. Raises CalledProcessError."""
        container = self.run("from", "scratch")
        self.run("add", "--quiet", container, base_archive(), "/")
        self.run("commit", "--quiet", "--rm", container, BASE_NAME)
        self._build("--tag", NAME, ROOT)

    def build_on(self, folder: Path, name: str) -> None:
        """Build an image from the Dockerfile in ``folder`` on what ``build`` has built, its argument IMAGE."""
        self._build("--build-arg", f"IMAGE={NAME}", "--tag", name, folder)

    def _build(self, *words: str | Path) -> None:
        self.run("build", "--isolation", "chroot", "--pull-never", "--quiet", *_settings(self._folder), *words)

    def settings(self) -> dict[str, Any]:
        """What the image says of how it is run, by the names of the image specification of the OCI: Env, User ..."""
        found: dict[str, Any] = json.loads(self.run("inspect", "--type", "image", NAME))["OCIv1"]["config"]
        return found

    def mounted(self, name: str = NAME) -> Path:
        """The root file system of a container of the image."""
        return Path(self.run("mount", self.run("from", "--pull-never", name)))

    def remove(self) -> None:
        """Remove all containers and images of this store."""
        self.run("rm", "--all")
        self.run("rmi", "--all", "--force")

    def write(self, archive: Path) -> None:
        """Write the image into a file that docker and containerd load."""
        self.run("push", "--quiet", NAME, f"docker-archive:{archive}:kai-sched:latest")


def base_archive() -> Path:
    """The base as a tar file, made where the cache does not have it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kai-sched-tools"
    key = hashlib.sha256(" ".join((*BASE_PACKAGES, *WITHOUT, VARIANT)).encode()).hexdigest()[:16]
    found = base / f"image-base-{key}.tar"
    if not found.exists():
        base.mkdir(parents=True, exist_ok=True)
        new = found.with_suffix(f".{os.getpid()}.tar")
        without = [f"--dpkgopt=path-exclude={path}" for path in WITHOUT if path.startswith("/usr/share")]
        clean = [f"--customize-hook=rm -rf $1{path}" for path in WITHOUT]
        packages = ",".join(BASE_PACKAGES)
        alone = '--aptopt=APT::Install-Recommends "false"'
        command = [
            "mmdebstrap",
            "--quiet",
            f"--variant={VARIANT}",
            MERGED_USR,
            alone,
            f"--include={packages}",
            *without,
            *clean,
        ]
        subprocess.run([*command, "bookworm", str(new)], check=True)
        new.rename(found)
    return found


def _settings(folder: Path) -> list[str]:
    """Mounts for the time of the build: pip's settings of this machine, and the files that they name."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    settings = dict(re.findall(r"(?m)^(?::env:|global|install)\.([\w-]+)='(.*)'$", said))
    written = folder / "pip.conf"
    written.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in sorted(settings.items())))
    words = {word for value in settings.values() for word in value.split() if word.startswith("/")}
    paths = {str(written): "/etc/pip.conf"} | {word: word for word in sorted(words) if Path(word).exists()}
    return [f"--volume={here}:{there}:ro" for here, there in paths.items()]


def size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    """Build the image; write it into the file that the first argument names."""
    builder = Builder(ROOT / "build" / "image")
    builder.build()
    print(f"{NAME}: {size(builder.mounted()) / 1e6:.0f} MB")
    if sys.argv[1:]:
        builder.write(Path(sys.argv[1]).absolute())


if __name__ == "__main__":
    main()
