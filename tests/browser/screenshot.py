"""Takes docs/images/page.png: the page of examples/company. Run by `make screenshot`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.browser.tab import show, tab
from tests.tree import ROOT

PICTURE = ROOT / "docs" / "images" / "page.png"
CLUSTER = "examples/company/cluster.json.gz"
COMMAND = (sys.executable, "-m", "kai_sched.cli.main", "simulate", CLUSTER, "-o", "html")
WIDTH, HEIGHT = 1000, 655


def take() -> None:
    """Write the picture."""
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tab(WIDTH, HEIGHT) as page:
        path = Path(folder) / "page.html"
        path.write_bytes(subprocess.run(COMMAND, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        show(page, path)
        page.screenshot(path=PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


if __name__ == "__main__":
    take()
