"""The names of workloads, queues and nodes in files, for completion: the metadata of each object and little else is
decoded.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.files.controllers.kinds import WORKLOADS
from kai_sched.files.items import Item, read_items
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import NODE, POD, POD_GROUP, QUEUE
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.telemetry.pace import Pace


class _SpecWithQueue(msgspec.Struct, rename="camel"):
    scheduler_name: str | None = None
    queue: str | None = None
    parent_queue: str | None = None


class _ObjectWithName(msgspec.Struct):
    metadata: core.Meta
    spec: _SpecWithQueue | None = None


_decode = msgspec.json.Decoder(_ObjectWithName).decode


def read_names(paths: Sequence[str], prefix: str) -> tuple[dict[str, str], ...]:
    """Workloads, queues and nodes whose names begin with the prefix, sorted. See ``completion.names_in``."""
    workloads: dict[str, str] = {}
    queues: dict[str, str] = {}
    nodes: dict[str, str] = {}
    problems: list[Problem] = []  # of the files: the command itself reports them
    for item in read_items(list(dict.fromkeys(paths)), io.BytesIO(), Pace(None), problems, [], {}):
        if item.kind not in (NODE, POD, POD_GROUP, QUEUE) and item.kind not in WORKLOADS:
            continue
        try:
            found = _decode(item.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        name = found.metadata.name or ""
        if item.kind == QUEUE:
            parent = (found.spec or _SpecWithQueue()).parent_queue
            queues[name] = f"queue in {parent}" if parent else "queue"
        elif item.kind == NODE:
            nodes[name] = "node"
        elif (workload := _workload(item, found)) is not None:
            kind, name = workload
            workloads.setdefault(f"{found.metadata.namespace or DEFAULT_NAMESPACE}/{name}", kind)
    if "/" not in prefix:
        workloads = {key.partition("/")[2]: kind for key, kind in workloads.items()}
    return tuple(_beginning(found, prefix) for found in (workloads, queues, nodes))


def _workload(item: Item, found: _ObjectWithName) -> tuple[str, str] | None:
    """Kind and name of the workload that the object is, or that it was made for; None for a part of another one."""
    meta, kind = found.metadata, item.kind[1]
    owner = next(iter(meta.owner_references or ()), None)
    if item.kind == POD:
        scheduler = (found.spec or _SpecWithQueue()).scheduler_name or names.DEFAULT_SCHEDULER
        if scheduler == names.DEFAULT_SCHEDULER or names.POD_GROUP_ANNOTATION in (meta.annotations or {}):
            return None
    elif item.kind != POD_GROUP and owner is not None:
        return None
    if owner is not None and owner.name:
        return owner.kind or kind, owner.name
    return (kind, meta.name) if meta.name else None


def _beginning(found: dict[str, str], prefix: str) -> dict[str, str]:
    return {name: found[name] for name in sorted(found) if name and name.startswith(prefix)}
