"""The data model as a page, made from the schema: ``python -m kai_sched.snapshot.document > docs/data-model.md``."""

from __future__ import annotations

import sys

from kai_sched.snapshot.columns import SCHEMA
from kai_sched.snapshot.columns import __doc__ as introduction


def render() -> str:
    """The page in Markdown."""
    lines = ["# Data model", "", "Made from `kai_sched/snapshot/columns.py` by `make docs`; do not edit.", ""]
    lines += [line.replace("*", "\\*") for line in (introduction or "").strip().splitlines()]
    for table, columns in SCHEMA.items():
        lines += ["", f"## {table}", "", "| column | type | axes | meaning |", "| --- | --- | --- | --- |"]
        for name, column in columns.items():
            target = f" (row of {column.row_of})" if column.row_of else ""
            axes = column.axes.replace("*", "\\*")
            lines.append(f"| {name} | {column.dtype} | {axes} | {column.doc.replace('|', '/')}{target} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
