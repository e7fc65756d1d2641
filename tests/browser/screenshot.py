"""Takes the pictures of the page in docs/images: of examples/company, and of two steps of the tutorial. Run by
`make screenshot`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.browser.tab import show, tab
from tests.tree import ROOT

FOLDER = ROOT / "docs" / "images"
COMMAND = (sys.executable, "-m", "kai_sched.cli.main", "simulate", "-o", "html")
TUTORIAL = "examples/tutorial"


class Picture(NamedTuple):
    """A page, and how much of it is to be seen."""

    arguments: tuple[str, ...]
    width: int
    height: int


PICTURES = {
    "page.png": Picture(("examples/company/cluster.json.gz",), 1000, 655),
    "tutorial-borrowed.png": Picture((f"{TUTORIAL}/cluster.yaml", f"{TUTORIAL}/vision-running.yaml"), 860, 500),
    "tutorial-returned.png": Picture(
        ("--cycles", "2", *(f"{TUTORIAL}/{name}.yaml" for name in ("cluster", "vision-running", "nlp"))), 860, 500
    ),
}


def take(name: str, picture: Picture) -> None:
    """Write the picture."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, tab(picture.width, picture.height) as page:
        path = Path(folder) / "page.html"
        command = [*COMMAND, *picture.arguments]
        path.write_bytes(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        show(page, path)
        page.screenshot(path=FOLDER / name)
    print(f"docs/images/{name}: {(FOLDER / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    for each, what in PICTURES.items():
        take(each, what)
