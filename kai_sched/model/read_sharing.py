"""Reads what the annotations of a pod request of parts of GPUs and of MIG devices, and which are ignored with a warning
(semantics 0.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kai_sched.api import names
from kai_sched.model.faults import Warn, shown
from kai_sched.model.objects import GpuShare

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
    """

    share: GpuShare | None = None
    mig: tuple[tuple[str, float], ...] = ()
    whole: float = 0.0

    def beside(self, gpus: float) -> GpuAnnotations:
        """The same for a pod whose containers request ``gpus`` whole GPUs.

        The kubelet gives it these whatever the annotations say. So the pod counts with whole GPUs: those of the
        containers or the shared devices, whichever are more.
        """
        return replace(self, share=None, whole=float(self.share.devices)) if gpus and self.share else self


NONE = GpuAnnotations()


def read_gpu_annotations(annotations: Mapping[str, str], warn: Warn) -> GpuAnnotations:
    """What the annotations request (semantics 0.2). What is malformed, or counts for nothing beside another one, is
    ignored with a warning, as in the original.
    """
    fraction = _read(annotations, names.GPU_FRACTION_ANNOTATION, fraction_of, "a number above 0 and up to 1", warn)
    memory = _read(
        annotations, names.GPU_MEMORY_ANNOTATION, whole_of, "a whole number of MiB above 0, of 9 digits at most", warn
    )
    asked = _read(
        annotations, names.GPU_DEVICES_ANNOTATION, devices_of, f"a whole number from 1 to {DEVICES_MAX}", warn
    )
    mig = []
    for key in sorted(annotations):
        if key.startswith(names.MIG_PREFIX):
            count = _read(annotations, key, whole_of, "a whole number above 0", warn)
            if count:
                mig.append((key, count))
    _warn_of_unused(fraction, memory, asked, warn)
    if mig:
        return GpuAnnotations(None, tuple(mig))
    if fraction:
        return GpuAnnotations(GpuShare(int(asked or 1), fraction))
    if memory:
        return GpuAnnotations(GpuShare(int(asked or 1), 0.0, int(memory)))
    return NONE


def _warn_of_unused(fraction: float, memory: float, devices: float, warn: Warn) -> None:
    """Warn of annotations that can be read and count for nothing: admission refuses them (API 8.2)."""
    if fraction and memory:
        text = f"ignored, as the pod has {names.GPU_FRACTION_ANNOTATION} as well: remove one of them"
        warn(f"metadata.annotations[{names.GPU_MEMORY_ANNOTATION}]", text)
    if devices and not fraction and not memory:
        either = f"{names.GPU_FRACTION_ANNOTATION} or {names.GPU_MEMORY_ANNOTATION}"
        text = f"ignored, as the pod asks for no part of a GPU: add {either}, or remove it"
        warn(f"metadata.annotations[{names.GPU_DEVICES_ANNOTATION}]", text)


def is_device_label(key: str) -> bool:
    """Whether the label names a device that the pod shares."""
    return key == names.GPU_GROUP_LABEL or key.startswith(names.GPU_GROUPS_PREFIX)


def _read(annotations: Mapping[str, str], key: str, parse: Callable[[str], float], wanted: str, warn: Warn) -> float:
    text = annotations.get(key)
    if text is None:
        return 0.0
    value = parse(text)
    if not value:
        warn(f"metadata.annotations[{key}]", f"{shown(text)} is not {wanted}; the annotation is ignored: correct it")
    return value


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
