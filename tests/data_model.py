"""The tables that the solver works on, from the schema of the snapshot and the tables of the solver: the page
docs/data-model.md of the site, and what tests hold the arrays against.

The columns of the solver's tables are described where they are declared, in the comment behind each field::

    class SetState(NamedTuple):
        \"\"\"By set, (S,).\"\"\"

        active: Longs  # pods placed
        counts: Longs  # (S, 3) by resource

A comment may begin with the shape of its column, or the docstring of the class may have it as "``counts`` (S, 3)". The
other columns have the first other shape in that docstring; "the first two (Q, 3), the others (Q,)" is understood, too.
tests/unit/solver/test_data_model.py holds the arrays against the shapes.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from types import ModuleType

from kai_sched.snapshot import claim_tables, columns, numa_tables
from kai_sched.snapshot import tables as snapshot_tables
from kai_sched.snapshot.columns import SCHEMA, Column
from kai_sched.solver import claim_state, decisions, state
from kai_sched.solver.eviction import tables
from kai_sched.solver.eviction.minimal import tables as minimal_tables
from kai_sched.solver.eviction.original import tables as original_tables
from tests.module_index import first_sentence

DTYPES = {"Flags": "u1", "Ints": "i4", "Longs": "i8", "Floats": "f8"}
NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
LENGTH = r"(?:longest job|frames|levels|\d+ ?[A-Z]?|[A-Z])(?: \+ \d)?"
SHAPE = rf"\(({LENGTH}(?:, {LENGTH})*),?\)"
ANY = "*"
AXES = (
    "Axes as above, and: d domain of inter-pod terms, b block of nodes, l task of the longest job, m share of a pod, "
    "w device that a pod claims, o claim of a pod that waits for a volume, frames and levels of topology constraints; "
    "`2t` is 2 times t."
)

INTRODUCTION = (
    "A line for each table. What a column means, with its type and axes, stands where it is declared; "
    "tests hold the arrays against that."
)
PARTS: dict[str, tuple[ModuleType, ...]] = {
    "Working state": (state, claim_state),
    "Decision log": (decisions,),
    "Search for victims": (tables, minimal_tables, original_tables),
}


def tables_of(module: ModuleType) -> dict[str, tuple[str, dict[str, Column]]]:
    """The docstring and the columns of each named tuple of the module. A column that is no array has no axes."""
    return read_tables(inspect.getsource(module))


def read_tables(source: str) -> dict[str, tuple[str, dict[str, Column]]]:
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "NamedTuple" for base in node.bases):
            text = ast.get_docstring(node) or ""
            fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            usual = usual_axes(text, [ast.unparse(field.target) for field in fields])
            found[node.name] = (
                text,
                {
                    ast.unparse(field.target): column(field, lines[field.lineno - 1], axes)
                    for field, axes in zip(fields, usual, strict=True)
                },
            )
    return found


def column(field: ast.AnnAssign, line: str, usual: str) -> Column:
    """The column that a field declares, with the comment at the end of its line."""
    kind, comment = ast.unparse(field.annotation), line.partition("  # ")[2]
    shape = re.match(SHAPE, comment)
    if kind not in DTYPES:
        return Column(kind, "", comment)
    if not shape:
        return Column(DTYPES[kind], usual, comment)
    return Column(DTYPES[kind], axes_of(shape[1]), comment[shape.end() :].strip())


def usual_axes(text: str, names: list[str]) -> list[str]:
    """The axes of each column whose comment says nothing else."""
    named = {name: axes_of(shape) for name, shape in re.findall(rf"``(\w+)`` {SHAPE}", text)}
    split = re.search(rf"the first (\w+) {SHAPE}, the others {SHAPE}", text)
    if split:
        first = NUMBERS[split[1]]
        usual = [axes_of(split[2])] * first + [axes_of(split[3])] * (len(names) - first)
    else:
        shape = re.search(rf"(?<!`` ){SHAPE}", text)
        usual = [axes_of(shape[1]) if shape else ANY] * len(names)
    return [named.get(name, axes) for name, axes in zip(names, usual, strict=True)]


def axes_of(shape: str) -> str:
    """The axes in the notation of the snapshot's schema: "Q + 1, 3" is "q+1 3"."""
    return " ".join(length.replace("longest job", "L").replace(" ", "").lower() for length in shape.split(", "))


def render() -> str:
    """The page in Markdown: each table with what its rows are, and the files where its columns are described."""
    lines = ["# Data model", "", INTRODUCTION, "", "## Snapshot", ""]
    lines += ["Columns: `kai_sched/snapshot/columns.py`.", "", prose(columns.__doc__), ""]
    for name, schema in SCHEMA.items():
        modules = (snapshot_tables, claim_tables, numa_tables)
        table = next(found for module in modules if (found := getattr(module, name, None)) is not None)
        lines.append(line_of(name, table.__doc__, schema))
    for title, modules in PARTS.items():
        lines += ["", f"## {title}", "", AXES, ""]
        for module in modules:
            lines += [f"Columns: `{module.__name__.replace('.', '/')}.py`.", ""]
            lines += [line_of(name, text, schema) for name, (text, schema) in tables_of(module).items()]
            lines.append("")
        lines.pop()
    return "\n".join(lines) + "\n"


def line_of(name: str, text: str | None, schema: dict[str, Column]) -> str:
    return f"- **{name}** ({len(schema)} columns): {first_sentence(inspect.cleandoc(text or ''))}"


def prose(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("``", "`")


if __name__ == "__main__":
    sys.stdout.write(render())
