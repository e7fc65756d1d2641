"""Debian's Chromium: where it is, and how it is installed. Needs the standard library only.

``python -m tests.browser.chromium`` installs the package where there is none, as root or with sudo.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
# Chromium refuses to run as root in a sandbox of its own; the pages are our own files.
FLAGS = ("--no-sandbox",) if os.getuid() == 0 else ()


class Unavailable(Exception):
    """There is no Chromium here; the text says what to do."""


def program() -> str:
    """The path of the browser. Raises Unavailable."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise Unavailable("Chromium is not installed: run `make chromium`, or `apt-get install chromium`")
    return found


def install() -> None:
    """Install Debian's package. Raises Unavailable where apt-get cannot be used, CalledProcessError where it fails."""
    apt = shutil.which("apt-get")
    sudo = [] if os.getuid() == 0 else [shutil.which("sudo") or ""]
    if apt is None or "" in sudo:
        raise Unavailable("install Chromium by hand: there is no apt-get here, or no right to use it")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run([*sudo, apt, *command], check=True, env=environment, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    try:
        print(f"chromium: {program()}")
    except Unavailable:
        try:
            print("chromium: installing Debian's package", flush=True)
            install()
            print(f"chromium: {program()}")
        except Unavailable as missing:
            sys.exit(f"chromium: {missing}")
        except subprocess.CalledProcessError as failure:
            sys.exit(f"chromium: {' '.join(failure.cmd)} failed with {failure.returncode}: see above")
