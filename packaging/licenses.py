"""``make licenses``: the license of each package that is installed with kai-sched, and whether it is an allowed one.

It reads the metadata of the packages in requirements/runtime.txt, as they are installed beside it, and exits with 1
where one has no license or another one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from email.message import Message
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import NamedTuple, cast

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
LOCKED = ROOT / "requirements" / "runtime.txt"
# Those that ask for no more than a notice. Another one is a decision: add it here, with the reason in the commit.
ALLOWED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
    }
    | {"Zlib", "LLVM-exception"}
)
# As packages name them in older metadata.
NAMES: Mapping[str, str] = {
    "apache": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
CLASSIFIER = "License :: OSI Approved :: "
WORD = re.compile(r"[A-Za-z0-9.+-]+")


class License(NamedTuple):
    """The license of a package, as SPDX writes it where that is known; "" for none."""

    package: str
    version: str
    license: str

    @property
    def is_allowed(self) -> bool:
        """Whether every license in the expression is; of two with OR between them, one is enough."""
        choices = re.split(r"\s+OR\s+", self.license.replace("(", " ").replace(")", " "))
        return bool(self.license) and any(_all_allowed(each) for each in choices)


def _all_allowed(expression: str) -> bool:
    names = [word for word in WORD.findall(expression) if word not in ("AND", "WITH")]
    return bool(names) and all(name in ALLOWED for name in names)


def locked(text: str) -> list[Requirement]:
    """The requirements of a lock file that apply to this machine."""
    lines = [line.partition(" \\")[0] for line in text.splitlines() if re.match(r"[A-Za-z0-9]", line)]
    found = [Requirement(line.partition("#")[0].strip()) for line in lines]
    return [each for each in found if each.marker is None or each.marker.evaluate()]


def license_of(meta: Message) -> str:
    """What the metadata says, in the newest way that it has."""
    if expression := meta.get("License-Expression"):
        return str(expression)
    classifiers = [str(each) for each in meta.get_all("Classifier") or () if str(each).startswith(CLASSIFIER)]
    names = [spdx(each.removeprefix(CLASSIFIER)) for each in classifiers]
    text = str(meta.get("License") or "")
    if text and "\n" not in text and (not names or spdx(text) in ALLOWED):
        return spdx(text)
    return " OR ".join(names)


def spdx(name: str) -> str:
    """The name of SPDX for it, or itself."""
    return NAMES.get(name.strip().lower(), name.strip())


def licenses(requirements: Iterable[Requirement]) -> list[License]:
    """The license of each, by name. One that is not installed has none."""
    found = []
    for each in requirements:
        version = next(iter(each.specifier)).version if each.specifier else ""
        try:
            meta = metadata(each.name)
        except PackageNotFoundError:
            found.append(License(each.name, version, ""))
        else:
            found.append(License(each.name, meta["Version"], license_of(cast(Message, meta))))
    return sorted(found)


def main() -> int:
    """Print the report; return the exit status."""
    found = licenses(locked(LOCKED.read_text()))
    for each in found:
        print(f"{each.package:35} {each.version:15} {each.license or '-'}")
    refused = [each for each in found if not each.is_allowed]
    for each in refused:
        remedy = "look at it, and add it to ALLOWED of packaging/licenses.py, or do without the package"
        print(f"error: {each.package} {each.version}: license {each.license or 'unknown'}: {remedy}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
