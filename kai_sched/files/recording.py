"""Recordings of cycles: all that determines what a cycle decides (``CycleInputs``) and the plan that it made, as JSON,
so that another process can decide again and compare.

Objects are written as the scheduler has read them (``model.objects``), not as the API server shows them: there are no
environment values, commands or secrets in them. Numbers, texts and the order of objects come back as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

import msgspec

from kai_sched.files.errors import BrokenInput
from kai_sched.model.claims.objects import ClaimRequests, ContainerDevices, ResourceClaim
from kai_sched.model.claims.selectors import SelectorAnswer
from kai_sched.model.config import Config
from kai_sched.model.hints import PoolAmounts, SchedulingHints
from kai_sched.model.objects import Object, Pod, Shape
from kai_sched.model.store import TABLES, Cluster
from kai_sched.plan.plan_text import encode

VERSION = "kai-sched.io/v1"
KIND = "CycleRecording"
_NO_SHAPE = Shape()

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class CycleInputs:
    """The arguments of ``run_cycle`` on which its plan depends; ``now_ns`` in nanoseconds since the epoch."""

    cluster: Cluster
    config: Config
    now_ns: int
    hints: SchedulingHints


@dataclass(frozen=True, slots=True)
class CycleRecording:
    """The inputs of a cycle, and what became of it.

    Attributes
    ----------
    plan
        ``plan_text.plan_lines`` of the result; empty for a cycle that failed.
    error
        The type and the text of the exception of a cycle that failed; else empty.
    version
        The version of kai-sched that ran the cycle.
    """

    inputs: CycleInputs
    plan: Sequence[bytes]
    error: str
    version: str


class _Hints(msgspec.Struct):
    """``SchedulingHints`` with its sets in the order of their elements."""

    first: dict[str, int]
    deferred: list[str]
    pipelined_free: list[str]
    nominated_nodes: dict[str, str]
    searched: dict[str, tuple[int, ...]]
    may_search: list[str]
    closed_nodes: list[str]
    brief: list[str]
    awaited_devices: list[tuple[str, str]]
    refused_victims: list[str]
    elsewhere: PoolAmounts


class _RecordingHead(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _RecordingDocument(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    version: str
    now_ns: int
    error: str
    config: msgspec.Raw
    hints: msgspec.Raw
    selector_answers: msgspec.Raw
    shapes: msgspec.Raw  # of pods: many have the same one
    pod_shapes: list[int]  # the number of the shape of each pod
    objects: dict[str, msgspec.Raw]  # by the name of their table, in their order there
    plan: list[msgspec.Raw]


def _read_hook(kind: type, value: Any) -> Any:
    if kind is Fraction:
        return Fraction(value)
    raise NotImplementedError(kind)


def encode_recording(recording: CycleRecording) -> bytes:
    """The recording as one JSON document, on one line."""
    inputs = recording.inputs
    cluster, shapes = inputs.cluster, dict[Shape, int]()
    pod_shapes = [shapes.setdefault(pod.shape, len(shapes)) for pod in cluster.pods.values()]
    document = _RecordingDocument(
        api_version=VERSION,
        kind=KIND,
        version=recording.version,
        now_ns=inputs.now_ns,
        error=recording.error,
        config=_raw(inputs.config),
        hints=_raw(_sorted_hints(inputs.hints)),
        selector_answers=_raw(dict(cluster.selector_answers)),
        shapes=_raw(list(shapes)),
        pod_shapes=pod_shapes,
        objects={name: _listed(cluster.table(kind).values()) for kind, name in TABLES.items()},
        plan=[msgspec.Raw(line) for line in recording.plan],
    )
    return encode(document)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(encode(value))


def _listed(items: Iterable[Object]) -> msgspec.Raw:
    """The objects as a list. They are encoded one by one: other threads wait while the encoder is at work."""
    return msgspec.Raw(b"[" + b",".join([encode(_written(item)) for item in items]) + b"]")


def _written(item: Object) -> Object:
    """The object as it is written: the shapes of pods stand apart, and a hash means nothing in another process."""
    if isinstance(item, Pod):
        return replace(item, shape=_NO_SHAPE)
    if isinstance(item, ResourceClaim):
        return replace(item, asks=replace(item.asks))
    return item


def _sorted_hints(hints: SchedulingHints) -> _Hints:
    return _Hints(
        first=dict(hints.first),
        deferred=sorted(hints.deferred),
        pipelined_free=sorted(hints.pipelined_free),
        nominated_nodes=dict(hints.nominated_nodes),
        searched=dict(hints.searched),
        may_search=sorted(hints.may_search),
        closed_nodes=sorted(hints.closed_nodes),
        brief=sorted(hints.brief),
        awaited_devices=sorted(hints.awaited_devices),
        refused_victims=sorted(hints.refused_victims),
        elsewhere=hints.elsewhere,
    )


def decode_recording(raw: bytes | memoryview) -> CycleRecording:
    """The recording that ``encode_recording`` wrote. Raises BrokenInput with what is wrong, and where."""
    head = _read(_head, raw, "the recording")
    if (head.api_version, head.kind) != (VERSION, KIND):
        found = f"{head.kind or 'an object without a kind'} of {head.api_version or 'no version'}"
        raise BrokenInput(f"{found}, not a {KIND} of {VERSION}: name a file that kai-sched run has recorded")
    document = _read(_document, raw, "the recording")
    objects: list[Object] = []
    for name, decoder in _tables.items():
        of_table = _read(decoder, document.objects.get(name, b"[]"), name)
        objects.extend(of_table)
    shapes = _read(_shapes, document.shapes, "shapes")
    cluster = Cluster.of(_as_read(objects, shapes, document.pod_shapes))
    answers = _read(_answers, document.selector_answers, "selectorAnswers")
    cluster = replace(cluster, selector_answers=answers)
    config, hints = _read(_config, document.config, "config"), _read(_hints, document.hints, "hints")
    inputs = CycleInputs(cluster, config, document.now_ns, hints)
    return CycleRecording(inputs, [bytes(line) for line in document.plan], document.error, document.version)


def _as_read(objects: Iterable[Object], shapes: Sequence[Shape], pod_shapes: Sequence[int]) -> Iterable[Object]:
    """The objects as the readers make them: what is equal and shared there is one object here, too."""
    asks: dict[ClaimRequests, ClaimRequests] = {}
    extended: dict[tuple[ContainerDevices, ...], tuple[ContainerDevices, ...]] = {}
    numbers = iter(pod_shapes)
    for item in objects:
        if isinstance(item, Pod):
            number = next(numbers, -1)
            if not 0 <= number < len(shapes):
                raise BrokenInput(f"podShapes: there is no shape for the pod {item.key}: record the cycle again")
            shared = extended.setdefault(item.extended, item.extended)
            yield replace(item, shape=shapes[number], extended=shared)
        elif isinstance(item, ResourceClaim):
            plain = replace(item.asks)
            yield replace(item, asks=asks.setdefault(plain, plain))
        else:
            yield item


def _read(decoder: msgspec.json.Decoder[Part], raw: bytes | memoryview, part: str) -> Part:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BrokenInput(f"{part}: {error}: it is damaged, or another version wrote it: record it again") from None


_head = msgspec.json.Decoder(_RecordingHead)
_document = msgspec.json.Decoder(_RecordingDocument)
_config = msgspec.json.Decoder(Config)
_hints = msgspec.json.Decoder(SchedulingHints)
_shapes = msgspec.json.Decoder(list[Shape])
_answers = msgspec.json.Decoder(dict[str, SelectorAnswer])
_tables: Mapping[str, msgspec.json.Decoder[list[Object]]] = {
    name: msgspec.json.Decoder(list[kind], dec_hook=_read_hook)  # type: ignore[valid-type]
    for kind, name in TABLES.items()
}
