"""Reads what the annotations of a pod request of parts of GPUs and of MIG devices, and which are ignored with a warning
(semantics 0.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from kai_sched.api import names
from kai_sched.api.legal import LABEL_MAX
from kai_sched.model.field_errors import Warn, shown
from kai_sched.model.objects import GpuShare
from kai_sched.model.problems import some_of
from kai_sched.model.read.container_memory import is_container_key, misspelt_keys, read_container_memory

_DECIMAL = re.compile(r"\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"\+?\d{1,9}", re.ASCII)
DEVICES_MAX = 1024
FRACTION_LENGTH = 64


@dataclass(frozen=True, slots=True)
class GpuAnnotations:
    """What the annotations request.

    Attributes
    ----------
    share
        The part of GPUs; None where none is asked for, or where MIG devices or whole GPUs are.
    mig
        (profile, count) of MIG devices that are asked for by annotation, the legacy way.
    whole
        Whole GPUs that the pod counts as requesting because of a share.
    faults
        Annotations that ask for GPUs in a form that cannot be read, each with what is wrong.
    """

    share: GpuShare | None = None
    mig: tuple[tuple[str, float], ...] = ()
    whole: float = 0.0
    faults: tuple[str, ...] = ()

    def beside(self, gpus: float) -> GpuAnnotations:
        """The same for a pod whose containers request ``gpus`` whole GPUs.

        The kubelet gives it these whatever the annotations say. So the pod counts with whole GPUs: those of the
        containers or the shared devices, whichever are more.
        """
        return replace(self, share=None, whole=float(self.share.devices)) if gpus and self.share else self


NONE = GpuAnnotations()


@dataclass(frozen=True, slots=True)
class _AnnotationReader:
    """Reads numbers in annotations; those that are none are told by ``warn`` and added to ``faults``."""

    annotations: Mapping[str, str]
    warn: Warn
    faults: list[str]

    def read(self, key: str, parse: Callable[[str], float], wanted: str) -> float:
        """The number; 0 for an annotation that is not there or cannot be read."""
        text = self.annotations.get(key)
        if text is None:
            return 0.0
        value = parse(text)
        if not value:
            fault = f"{shown(text)} is not {wanted}"
            self.warn(f"metadata.annotations[{key}]", f"{fault}; the annotation is ignored: correct it")
            self.faults.append(f"annotation {key}: {fault}")
        return value


def read_gpu_annotations(annotations: Mapping[str, str], warn: Warn) -> GpuAnnotations:
    """What the annotations request (semantics 0.2). What is malformed is told as a warning and is one of the faults;
    what counts for nothing beside another one is ignored with a warning, as in the original.
    """
    faults: list[str] = []
    read = _AnnotationReader(annotations, warn, faults).read
    fraction = read(names.GPU_FRACTION_ANNOTATION, fraction_of, "a number above 0 and up to 1")
    memory = read(names.GPU_MEMORY_ANNOTATION, whole_of, "a whole number of MiB above 0, of 9 digits at most")
    asked = read(names.GPU_DEVICES_ANNOTATION, devices_of, f"a whole number from 1 to {DEVICES_MAX}")
    mig = []
    for key in sorted(annotations):
        if key.startswith(names.MIG_PREFIX):
            count = read(key, whole_of, "a whole number above 0")
            if count:
                mig.append((key, count))
    own = read_container_memory(annotations)
    for key, fault in (*own.faults, *combined_faults(annotations)):
        warn(f"metadata.annotations[{key}]", f"{fault}; until then the pod waits")
        faults.append(f"annotation {key}: {fault}")
    if fraction and memory:
        text = f"ignored, as the pod has {names.GPU_FRACTION_ANNOTATION} as well: remove one of them"
        warn(f"metadata.annotations[{names.GPU_MEMORY_ANNOTATION}]", text)
    if not asks_for_part(annotations):
        faults += _without_part(annotations, bool(asked), warn)
    share = None
    if not mig and (fraction or memory):
        share = GpuShare(int(asked or 1), fraction, 0 if fraction else int(memory))
    elif not mig and own.mib:
        share = GpuShare(int(asked or 1), 0.0, own.mib, own.limit_mib)
    return GpuAnnotations(share, tuple(mig), faults=tuple(faults))


def _without_part(annotations: Mapping[str, str], devices: bool, warn: Warn) -> Iterator[str]:
    """Annotations that need a part of a GPU beside them, where there is none: admission refuses them (API 8.2)."""
    either = f"{names.GPU_FRACTION_ANNOTATION} or {names.GPU_MEMORY_ANNOTATION}"
    for key, is_set in (
        (names.GPU_DEVICES_ANNOTATION, devices),
        (names.MPS_ANNOTATION, annotations.get(names.MPS_ANNOTATION) == "true"),
    ):
        if is_set:
            text = f"ignored, as the pod asks for no part of a GPU: add {either}, or remove it"
            warn(f"metadata.annotations[{key}]", text)
            yield f"annotation {key} without {either}"


def asks_for_part(annotations: Mapping[str, str]) -> bool:
    """Whether some annotation asks for a part of a GPU, in whatever form."""
    either = names.GPU_FRACTION_ANNOTATION in annotations or names.GPU_MEMORY_ANNOTATION in annotations
    return either or any(map(is_container_key, annotations))


def combined_faults(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with annotations about the memory of a container by their keys or beside others: each with the
    remedy.
    """
    yield from misspelt_keys(annotations)
    own = read_container_memory(annotations)
    for other in (names.GPU_FRACTION_ANNOTATION, names.GPU_MEMORY_ANNOTATION):
        if own.keys and other in annotations:
            yield own.keys[0], f"the pod asks for a part of a GPU by {other} as well: remove one of them"
    wanted = annotations.get(names.GPU_CONTAINER_ANNOTATION)
    if own.keys and wanted is not None and (wanted,) != own.containers:
        text = f"{shown(wanted)} is another container than that of {own.keys[0]}: remove the annotation"
        yield names.GPU_CONTAINER_ANNOTATION, text


def container_of_share(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """The annotation that names the container of a share, and the name; None for the first regular container."""
    own = read_container_memory(annotations)
    if own.keys:
        return own.keys[0], own.containers[0]
    wanted = annotations.get(names.GPU_CONTAINER_ANNOTATION)
    return None if wanted is None else (names.GPU_CONTAINER_ANNOTATION, wanted)


def container_fault(annotations: Mapping[str, str], there: Iterable[str | None]) -> tuple[str, str] | None:
    """The annotation that names the container of a share, and what is wrong with it; None for nothing. ``there`` are
    the names of all containers of the pod.
    """
    found = container_of_share(annotations)
    known = [name or "" for name in there]
    if found is None or (found[1] and found[1] in known):
        return None
    of = some_of([name[:LABEL_MAX] for name in known])
    return found[0], f"there is no container {shown(found[1])}: use one of {of}"


def is_device_label(key: str) -> bool:
    """Whether the label names a device that the pod shares."""
    return key == names.GPU_GROUP_LABEL or key.startswith(names.GPU_GROUPS_PREFIX)


def fraction_of(text: str) -> float:
    """The fraction; 0 for a text that is none."""
    # Its length first: matching takes the square of it.
    value = float(text) if len(text) <= FRACTION_LENGTH and _DECIMAL.fullmatch(text) else 0.0
    return value if value <= 1 else 0.0


def devices_of(text: str) -> float:
    """The number of devices; 0 for a text that is no number a node can have."""
    value = whole_of(text)
    return value if value <= DEVICES_MAX else 0.0


def whole_of(text: str) -> float:
    """The number; 0 for a text that is no whole number above 0."""
    return float(text) if _WHOLE.fullmatch(text) else 0.0
