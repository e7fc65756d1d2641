"""Writes the YAML files of the CRDs (``python -m kai_sched.files.crds crds/``); ``api.crdgen`` makes their content.

With ``--check`` it only reports whether they are up to date.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import yaml

from kai_sched.api.crdgen import custom_resource_definitions

NOTE = "# Generated from kai_sched/api by `make crds`; changes made here are lost.\n"


class _Dumper(yaml.CSafeDumper):
    """No anchors: every part is written where it stands."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def render() -> dict[str, str]:
    """The text of each file by its name."""
    return {
        name: NOTE + yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
        for name, manifest in custom_resource_definitions().items()
    }


def outdated(folder: Path) -> list[str]:
    """Names of the files that are missing, differ, or should not be there."""
    wanted = render()
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.yaml")}
    there.pop("kustomization.yaml", None)
    return sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))


def main(arguments: list[str]) -> int:
    """Write all files, or compare them; 1 where some are out of date, 2 for a wrong call."""
    check = "--check" in arguments
    folders = [Path(argument) for argument in arguments if argument != "--check"]
    if not folders:
        sys.stderr.write("usage: python -m kai_sched.files.crds [--check] FOLDER...\n")
        return 2
    if check:
        stale = [folder / name for folder in folders for name in outdated(folder)]
        for path in stale:
            sys.stderr.write(f"{path}: out of date: run `make crds`\n")
        return 1 if stale else 0
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in render().items():
            (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
