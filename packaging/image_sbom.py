"""``make image-sbom ARGS='ROOT FILE'``: the software bill of materials (CycloneDX) of an image, from its files.

ROOT is the root file system of a container of the image. Listed are the packages of Debian, by the status file of dpkg,
and those of Python beside kai-sched, by their metadata. The same files give the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

VERSION = SchemaVersion.V1_6
PACKAGES = "opt/kai-sched/lib/python3*/site-packages"
OURS = "kai-sched"
FIELD = re.compile(r"^(Package|Version|Architecture|Status): (.*)$", re.MULTILINE)


def debian(status: str) -> Iterator[PackageURL]:
    """The packages that dpkg says are installed."""
    for paragraph in status.split("\n\n"):
        fields = dict(FIELD.findall(paragraph))
        if fields.get("Status", "").endswith(" installed"):
            qualifiers = {"arch": fields["Architecture"]}
            yield PackageURL("deb", "debian", fields["Package"], fields["Version"], qualifiers)


def python(folder: Path) -> Iterator[PackageURL]:
    """The packages of Python that are installed in a folder."""
    for found in distributions(path=[str(folder)]):
        yield PackageURL("pypi", None, found.name, found.version)


def bill(root: Path) -> Bom:
    """What is installed in the image, of which kai-sched is the subject. Ends the process where it is not there."""
    folder = next(root.glob(PACKAGES), None)
    if folder is None:
        sys.exit(f"{root}: no {PACKAGES} below it: name the root file system of a container of the image")
    packages = {url.to_string(): url for url in (*debian((root / "var/lib/dpkg/status").read_text()), *python(folder))}
    parts = [
        Component(name=url.name, version=url.version, purl=url, bom_ref=text, type=ComponentType.LIBRARY)
        for text, url in sorted(packages.items())
    ]
    (subject,) = (part for part in parts if (part.purl and part.purl.type, part.name) == ("pypi", OURS))
    subject.type = ComponentType.CONTAINER
    found = Bom(components=[part for part in parts if part is not subject])
    found.metadata.component = subject
    found.register_dependency(subject, found.components)
    return found


def main() -> None:
    """Write the bill of the root file system that the first argument names into the file of the second one."""
    if len(sys.argv) != 3:
        sys.exit("Usage: make image-sbom ARGS='ROOT FILE'")
    root, target = map(Path, sys.argv[1:])
    found = bill(root)
    content = json.loads(make_outputter(found, OutputFormat.JSON, VERSION).output_as_string())
    # A number and a time of its own would make each file another one.
    del content["serialNumber"], content["metadata"]["timestamp"]
    text = json.dumps(content, indent=2, sort_keys=True)
    if (fault := JsonStrictValidator(VERSION).validate_str(text)) is not None:
        sys.exit(f"{target}: {fault}")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text + "\n")


if __name__ == "__main__":
    main()
