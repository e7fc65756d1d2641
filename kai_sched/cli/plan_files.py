"""Whether ``diff`` was given two plans or two clusters; what else it may be given by mistake is told with its file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kai_sched.api.names import PLAN_KIND
from kai_sched.files import json_input
from kai_sched.files.errors import BrokenInput
from kai_sched.files.sources import STDIN, FilePosition, read_bytes
from kai_sched.model.field_errors import FieldError
from kai_sched.report.plan_documents import answer_kind

AS_YAML = "a plan as YAML: print it with -o json"
SIMULATE = "`kai-sched simulate {} -o json`"


def read_plans(paths: Sequence[str]) -> list[bytes]:
    """The plans in the two files; nothing where both are clusters. Raises FieldError."""
    contents = [_content(path) for path in paths]
    kinds = [answer_kind(data or b"") for data in contents]
    for path, kind in zip(paths, kinds, strict=True):
        if kind not in ("", PLAN_KIND):
            raise FieldError(path, _no_plan(kind))
    if not any(kinds):
        return []
    documents = [_documents(path, data) for path, data in zip(paths, contents, strict=True)]
    if not all(kinds):
        plan, cluster = paths if kinds[0] else (paths[1], paths[0])
        remedy = f"name two of a kind ({SIMULATE.format(cluster)} prints its plan)"
        raise FieldError(plan, f"a plan, but {FilePosition(cluster)} is a cluster: {remedy}")
    for path, found in zip(paths, documents, strict=True):
        if len(found) != 1:
            raise FieldError(path, f"{len(found)} plans: name a file with one" if found else AS_YAML)
    return [found[0] for found in documents]


def _no_plan(kind: str) -> str:
    article = "an" if kind[0] in "AEIOU" else "a"
    if kind == "Difference":
        remedy = f"make the plan without --set or another change ({SIMULATE.format('CLUSTER')})"
    else:
        remedy = f"make the plan with {SIMULATE.format('CLUSTER')}"
    return f"is {article} {kind}, not a plan: {remedy}"


def _content(path: str) -> bytes | None:
    """What is in the file; None for a folder, and for what can be read only once. Raises FieldError."""
    if path == STDIN or (os.path.exists(path) and not os.path.isfile(path)):
        return None
    try:
        return read_bytes(path, None)
    except BrokenInput as error:
        raise FieldError(path, str(error)) from None


def _documents(path: str, data: bytes | None) -> list[bytes]:
    """The documents of a file in JSON; none of another one. Raises FieldError."""
    if data is not None and not data.strip():
        raise FieldError(path, "empty: write it again")
    if data is None or not json_input.may_be_json(data):
        return []
    try:
        return [bytes(document) for document in json_input.documents(data)]
    except BrokenInput as error:
        raise FieldError(path, str(error)) from None
