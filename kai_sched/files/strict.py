"""Names of fields, labels, annotations and resources that nothing would use: which of them a cluster refuses, and what
was probably meant.

`kubectl apply` refuses fields that a kind does not have. Here a name that is written almost like a field of the kind is
an error. Any other may be a field of a newer version, and is a warning. Objects from a cluster have no such fields.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from kai_sched.api import core, names
from kai_sched.files.controllers.kinds import WORKLOADS, made_up_uid
from kai_sched.files.field_names import Inner, field_types
from kai_sched.files.items import Item, problem_in
from kai_sched.model.field_errors import QUOTED_MAX, shown
from kai_sched.model.problems import Problem, some_of
from kai_sched.model.read.custom import UNKNOWN_SHOWN_MAX
from kai_sched.model.read.kinds import KINDS, NODE, POD, Kind

# From here on two names are one name and a slip, or at least similar, by the ratio of difflib.
SAME, SIMILAR = 0.85, 0.6
CHECKED: Mapping[Kind, str] = {kind: kind[1] for kind in sorted(WORKLOADS | KINDS) if kind[1] in field_types()}
_SERVER_FIELDS = (b"uid", b"resourceVersion", b"managedFields", b"generation")
# Those that people set, for pods and their workloads.
LABELS = (
    names.QUEUE_LABEL,
    names.NODE_POOL_LABEL,
    names.SUB_GROUP_LABEL,
    names.PRIORITY_CLASS_LABEL,
    names.PREEMPTIBILITY_LABEL,
    names.TASK_PRIORITY_LABEL,
    names.BACKGROUND_LABEL,
)
ANNOTATIONS = (
    names.POD_GROUP_ANNOTATION,
    names.GPU_FRACTION_ANNOTATION,
    names.GPU_MEMORY_ANNOTATION,
    names.GPU_DEVICES_ANNOTATION,
    names.GPU_CONTAINER_ANNOTATION,
    names.SKIP_GROUPER_ANNOTATION,
    names.PREEMPTION_DELAY_ANNOTATION,
    names.STALENESS_GRACE_ANNOTATION,
    names.BATCH_MIN_MEMBER_ANNOTATION,
    names.TOPOLOGY_ANNOTATION,
    names.TOPOLOGY_REQUIRED_ANNOTATION,
    names.TOPOLOGY_PREFERRED_ANNOTATION,
    names.SEGMENT_SIZE_ANNOTATION,
    names.SEGMENT_REQUIRED_ANNOTATION,
    names.SEGMENT_PREFERRED_ANNOTATION,
    names.SAFE_TO_CONSOLIDATE_ANNOTATION,
)
_KNOWN_NAMES = frozenset(
    value for name, value in vars(names).items() if name.endswith(("_LABEL", "_ANNOTATION")) and isinstance(value, str)
)
GPUS = (names.NVIDIA_GPU, "amd.com/gpu")
# Without a domain a container can ask for these only.
STANDARD = ("cpu", "memory", "ephemeral-storage")
HUGE_PAGES = "hugepages-"


class _ServerMeta(core.Wire):
    uid: object = None
    resource_version: object = None
    managed_fields: object = None
    generation: object = None


class _ServerHead(core.Wire):
    metadata: _ServerMeta | None = None


_head = msgspec.json.Decoder(_ServerHead)


def is_from_cluster(item: Item) -> bool:
    """Whether an API server has written to the object: it has fields that only servers set."""
    raw = bytes(item.raw)
    if not any(name in raw for name in _SERVER_FIELDS):
        return False
    try:
        meta = _head.decode(item.raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if meta is None:
        return False
    has_uid = meta.uid and meta.uid != made_up_uid(item.kind[1])
    return bool(has_uid or meta.resource_version or meta.managed_fields or meta.generation)


def near(name: str, known: Iterable[str], least: float = SAME) -> str:
    """The known name that was probably meant; "" for none. Case and separators of words do not count."""
    name = name[:QUOTED_MAX]
    plain = {_plain(each): each for each in known}
    found = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=least)
    return plain[found[0]] if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def name_problems(items: Sequence[Item], queue_label: str) -> Iterator[Problem]:
    """What is wrong with the names in workloads, in pods that wait, and in other objects that people wrote."""
    for item in items:
        is_written = not is_from_cluster(item)
        waits = item.kind in WORKLOADS or (item.kind == POD and b'"nodeName"' not in bytes(item.raw))
        top = CHECKED.get(item.kind, "")
        if not top or not (is_written or waits):
            continue
        try:
            content = msgspec.json.decode(item.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue  # its reader reports the error
        found: list[Iterator[Problem]] = []
        for path, kind, part in _parts(content, Inner(top), ""):
            if is_written:
                found.append(_unknown_fields(item, path, kind, part))
            if waits and kind == "ObjectMeta":
                found.append(_wrong_keys(item, path, part, queue_label))
            if waits and kind == "ResourceRequirements":
                found.append(_wrong_resources(item, path, part, is_written, items))
        yield from islice((problem for each in found for problem in each), UNKNOWN_SHOWN_MAX)


def _parts(value: Any, inner: Inner, path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(path, type, fields) of the object and of all objects in it whose type is known."""
    if isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _parts(entry, inner, f"{path}[{i}]")
    elif isinstance(value, dict) and inner.is_map:
        for key, entry in value.items():
            yield from _parts(entry, Inner(inner.type), _below(path, key))
    elif isinstance(value, dict) and inner.type in field_types():
        yield path, inner.type, value
        fields = field_types()[inner.type]
        for name, entry in value.items():
            if name in fields and fields[name].type:
                yield from _parts(entry, fields[name], _below(path, name))


def _below(path: str, name: str) -> str:
    return f"{path}.{name if len(name) <= QUOTED_MAX else shown(name)}".lstrip(".")


def _unknown_fields(item: Item, path: str, kind: str, part: Mapping[str, Any]) -> Iterator[Problem]:
    known = field_types()[kind]
    for name in sorted(part.keys() - known.keys()):
        field = _below(path, name)
        if right := near(name, known):
            yield problem_in(
                item, field, f"there is no such field, so a cluster refuses it: did you mean {right}?", True
            )
            continue
        right = near(name, known, SIMILAR)
        remedy = f"did you mean {right}?" if right else f"the fields here are {some_of(sorted(known))}"
        yield problem_in(item, field, f"unknown field, ignored: {remedy}")


def _wrong_keys(item: Item, path: str, meta: Mapping[str, Any], queue_label: str) -> Iterator[Problem]:
    """Labels that are annotations, annotations that are labels, and names that are almost those of either."""
    wanted = {"labels": (queue_label, *LABELS), "annotations": ANNOTATIONS}
    for field, other in (("labels", "annotations"), ("annotations", "labels")):
        here, there = meta.get(field) or {}, meta.get(other) or {}
        if not isinstance(here, dict) or not isinstance(there, dict):
            continue
        for key in sorted(here.keys() - set(wanted[field])):
            where = f"{_below(path, field)}[{key if len(key) <= QUOTED_MAX else shown(key)}]"
            if key in wanted[other]:
                if key not in there:
                    text = f"ignored, as {key} is one of the {other}: move it to {_below(path, other)}"
                    yield problem_in(item, where, text)
            elif key not in _KNOWN_NAMES and (right := near(key, (*wanted[field], *wanted[other]))):
                kind = "annotation" if right in wanted["annotations"] else "label"
                yield problem_in(item, where, f"ignored, as nothing reads it: did you mean the {kind} {right}?")


def _wrong_resources(
    item: Item, path: str, part: Mapping[str, Any], is_written: bool, items: Sequence[Item]
) -> Iterator[Problem]:
    """Resources that no node can have, and those that no node has and that are almost the GPUs of one."""
    for field in ("requests", "limits"):
        amounts = part.get(field)
        for name in sorted(amounts) if isinstance(amounts, dict) else ():
            where = _below(f"{path}.{field}", name)
            if "/" not in name:
                if is_written and name not in STANDARD and not name.startswith(HUGE_PAGES):
                    right = near(name, (*STANDARD, "gpu"), SIMILAR)
                    right = names.NVIDIA_GPU if right == "gpu" else right
                    remedy = (
                        f"did you mean {right}?" if right else "extended resources have a domain, as nvidia.com/gpu"
                    )
                    text = f"no resource of Kubernetes has this name, so a cluster refuses it: {remedy}"
                    yield problem_in(item, where, text, True)
            elif name not in GPUS and (right := _other_gpus(name, items)):
                yield problem_in(item, where, f"no node of the input has such a resource: did you mean {right}?")


def _other_gpus(resource: str, items: Sequence[Item]) -> str:
    """The GPUs that were probably meant by a resource that no node has; "" for none."""
    right = near(resource, GPUS)
    if right and any(item.kind == NODE and resource.encode() in bytes(item.raw) for item in items):
        return ""
    return right
