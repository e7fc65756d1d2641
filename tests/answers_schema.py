"""docs/answers.schema.json, the JSON Schema of what ``-o json`` prints and ``to_dict()`` gives, made by `make docs`
from the classes of ``kai_sched.report`` and their docstrings.

A field is described in an entry of the section Attributes in the docstring of its class.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import Any

import msgspec
from msgspec import UNSET

from kai_sched.report.cycle_documents import SimulationDocument
from kai_sched.report.documents import AnswerDocument, OverviewDocument
from kai_sched.report.explanation_documents import ExplanationDocument
from kai_sched.report.question_documents import DifferenceDocument, FitListDocument

DOCUMENTS = (SimulationDocument, OverviewDocument, ExplanationDocument, FitListDocument, DifferenceDocument)
SUFFIX = "Document"
HEADING = re.compile(r"^Attributes\n-+\n", re.MULTILINE)
ENTRY = re.compile(r"^(\w+)\n((?:    .*\n?|\n)+)", re.MULTILINE)


def schema() -> dict[str, Any]:
    """The schema: a document is one of DOCUMENTS; each of their parts is a definition of its own."""
    parts, components = msgspec.json.schema_components(DOCUMENTS, ref_template="#/$defs/{name}")
    classes = {each.__name__: each for each in subclasses(AnswerDocument)}
    definitions = {name: described(classes[name], found) for name, found in sorted(components.items())}
    text = json.dumps(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Answers of kai-sched",
            "description": "What -o json prints, and what to_dict() of the library gives. Each field has its unit.",
            "oneOf": list(parts),
            "$defs": definitions,
        }
    )
    found: dict[str, Any] = json.loads(re.sub(rf"\b(\w+){SUFFIX}\b", r"\1", text))
    return found


def subclasses(base: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """The classes below this one, at any depth."""
    return [each for sub in base.__subclasses__() for each in (sub, *subclasses(sub))]


def described(cls: type[msgspec.Struct], found: dict[str, Any]) -> dict[str, Any]:
    """The definition with the descriptions of its fields, and the keys that are always there."""
    summary, texts = descriptions(cls)
    required = []
    for each in msgspec.structs.fields(cls):
        part = found["properties"][each.encode_name]
        part.pop("default", None)
        # Beside a reference, a description stands for this field alone.
        found["properties"][each.encode_name] = {"description": texts[each.name], **part}
        if each.default is not UNSET:
            required.append(each.encode_name)
    return {**found, "description": summary, "required": required}


def descriptions(cls: type[msgspec.Struct]) -> tuple[str, dict[str, str]]:
    """The summary of the class, and what its docstring says of each field."""
    summary, rest = HEADING.split(f"{inspect.getdoc(cls)}\n", maxsplit=1)
    return " ".join(summary.split()), {name: " ".join(text.split()) for name, text in ENTRY.findall(rest)}


def render() -> str:
    """The file."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
