"""The pages of the site that are made from the code: what stands below the text of their documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import typer
import yaml
from typer.cli import get_docs_for_click

from kai_sched.cli.main import app
from tests import data_model, module_index
from tests.tree import ROOT

Schema = dict[str, Any]
FIRST = ("Queue", "PodGroup", "SchedulingShard", "Config")
# Bounds in words; those of integers are the range of their type.
BOUNDS = {
    "minimum": "At least {:,}.",
    "maximum": "At most {:,}.",
    "maxLength": "At most {:,} characters.",
    "maxItems": "At most {:,}.",
}


def commands() -> str:
    """Every command with its arguments and options, as ``--help`` has them."""
    command = typer.main.get_command(app)
    context = command.make_context("kai-sched", [], resilient_parsing=True)
    text = get_docs_for_click(obj=command, ctx=context, name="kai-sched", title="Commands")
    # The list of commands cuts what it says of each; their forms are no commands that were run.
    text = re.sub(r"\*\*Commands\*\*:\n.*?(?=^## )", "", text, count=1, flags=re.MULTILINE | re.DOTALL)
    return _without_title(text).replace("```console\n$ ", "```text\n")


def resources() -> str:
    """The fields of each custom resource with their types, units and bounds."""
    manifests = [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "crds").glob("*.yaml"))]
    found = {each["spec"]["names"]["kind"]: each for each in manifests if each["kind"] == "CustomResourceDefinition"}
    return "\n\n".join(_resource(found[kind]) for kind in sorted(found, key=_order))


def _order(kind: str) -> tuple[int, str]:
    """What people write comes first."""
    return FIRST.index(kind) if kind in FIRST else len(FIRST), kind


def _resource(manifest: Any) -> str:
    spec = manifest["spec"]
    names, group = spec["names"], spec["group"]
    parts = []
    for version in spec["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        scope = "in a namespace" if spec["scope"] == "Namespaced" else "of the whole cluster"
        parts.append(f"## {names['kind']}\n\n`apiVersion: {group}/{version['name']}`, {scope}; `{names['plural']}`.")
        parts.append(schema.get("description", ""))
        rows = [row for top in ("spec", "status") for row in _fields(top, schema["properties"].get(top, {}))]
        parts.append(_table(("field", "type", "meaning"), rows))
    return "\n\n".join(part for part in parts if part)


def _fields(path: str, schema: Schema) -> Iterator[tuple[str, ...]]:
    """A row for each field below that path, depth first."""
    for name, field in schema.get("properties", {}).items():
        inner, here = field, f"{path}.{name}"
        if field.get("type") == "array":
            inner, here = field["items"], f"{here}[]"
        yield f"`{here}`", _type(field), _meaning(field)
        yield from _fields(here, inner)


def _type(field: Schema) -> str:
    if "enum" in field:
        return ", ".join(f"`{each}`" for each in field["enum"])
    if field.get("x-kubernetes-int-or-string") or "anyOf" in field:
        return "integer or string"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map of {_type(field['additionalProperties'])}"
    return str(field.get("format", field.get("type", "any")))


def _meaning(field: Schema) -> str:
    """What the description says, with bounds, and what a rule refuses."""
    said = [field["description"]] if "description" in field else []
    said += [words.format(field[key]) for key, words in BOUNDS.items() if key in field and "int" not in _type(field)]
    said += [_refusal(rule["message"]) for rule in field.get("x-kubernetes-validations", []) if "message" in rule]
    return " ".join(text[0].upper() + text[1:] for text in said)


def _refusal(message: str) -> str:
    """A message of a rule, which says what is wrong with a value or what must be, as a sentence about the field."""
    return f"Refused where it {message}." if message.startswith("is ") else f"{message}."


def answers() -> str:
    """The parts of the answers with their fields and units."""
    schema = json.loads((ROOT / "docs" / "answers.schema.json").read_text())
    parts = []
    for name, part in schema["$defs"].items():
        rows = [
            (f"`{field}`", _json_type(each), each.get("description", ""))
            for field, each in part.get("properties", {}).items()
        ]
        parts.append(f"## {name}\n\n{part.get('description', '')}\n\n{_table(('field', 'type', 'meaning'), rows)}")
    return "\n\n".join(parts)


def _json_type(schema: Schema) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_json_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {_json_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_json_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    cells = [titles, ("---",) * len(titles), *(tuple(_cell(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _without_title(text: str) -> str:
    """Without the heading of the page, which its document has."""
    return text.partition("\n\n")[2]


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/commands": commands,
    "docs/reference/resources": resources,
    "docs/reference/answers": answers,
    "docs/modules": lambda: _without_title(module_index.render()),
    "docs/data-model": lambda: _without_title(data_model.render()),
}
