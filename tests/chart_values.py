"""charts/kai-scheduler/README.md, made by `make docs` of the comments in values.yaml: a row for each value.

A comment that begins with `# --` is about the key below it. What is below a map without a comment has rows of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from tests.tree import ROOT

CHART = ROOT / "charts" / "kai-scheduler"
KEY = re.compile(r"^( *)([\w-]+):")
IGNORED = re.compile(r'define "kai-scheduler.ignored" -\}\}\n(.*?)\{\{- end', re.DOTALL)

HEAD = """\
# kai-scheduler

The Helm chart of kai-sched, for Kubernetes 1.30 or later:

```sh not-run
helm upgrade -i kai-scheduler ./charts/kai-scheduler -n kai-scheduler --create-namespace
```

[docs/install.md](../../docs/install.md) has the whole walk: images, upgrades, and how to uninstall.
This page is made of the comments in [values.yaml](values.yaml).
A value that is not here, or of another type, is refused with its name.

## Values

| value | default | |
|---|---|---|
"""
TAIL = """
## Values of KAI Scheduler's chart without effect

They are accepted, so that a file of values can be used for both, and named after each installation.

| value | why |
|---|---|
"""


def values() -> dict[str, Any]:
    """values.yaml, decoded."""
    found: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return found


def ignored() -> dict[str, str]:
    """The values of the other chart that have no effect, by their path, and why."""
    text = IGNORED.search((CHART / "templates" / "_ignored.tpl").read_text())
    assert text, "_ignored.tpl"
    found: dict[str, str] = yaml.safe_load(text[1])
    return found


def comments(text: str) -> Iterator[tuple[str, str]]:
    """The path of each key with a comment, and the comment. Raises AssertionError for a leaf without one."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("# --"):
            comment = [stripped.removeprefix("# --").strip()]
        elif stripped.startswith("#") and comment:
            comment.append(stripped.removeprefix("#").strip())
        elif found := KEY.match(line):
            path[len(found[1]) // 2 :] = [found[2]]
            if comment:
                yield ".".join(path), " ".join(comment)
                comment = []


def at(content: dict[str, Any], path: str) -> Any:
    """The value of a path such as "global.tag"."""
    for key in path.split("."):
        content = content[key]
    return content


def render() -> str:
    """The whole README."""
    content = values()
    rows = [
        f"| `{path}` | {_default(at(content, path))} | {text} |"
        for path, text in comments((CHART / "values.yaml").read_text())
    ]
    others = [f"| `{path}` | {why} |" for path, why in ignored().items()]
    return HEAD + "\n".join(rows) + "\n" + TAIL + "\n".join(others) + "\n"


def _default(value: Any) -> str:
    return "" if value in (None, "") else f"`{json.dumps(value)}`"


if __name__ == "__main__":
    print(render(), end="")
