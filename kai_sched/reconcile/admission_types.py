"""What a review is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kai_sched.api.config import Admission, ConfigSpec

RUNTIME_CLASS = "nvidia"


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How the reviews of pods are set up; names and defaults are those of the original's flags (contract 1.6, 8)."""

    scheduler_name: str = "kai-scheduler"
    gpu_sharing: bool = False
    hami_core: bool = False
    block_visible_devices: bool = False
    runtime_class: str = RUNTIME_CLASS  # given to pods with a part of a GPU; empty: none


def admission_from_operator(raw: bytes) -> AdmissionSettings:
    """As the ``spec`` of the object kai-config says, which has been found readable (1.6)."""
    spec = ConfigSpec.model_validate_json(raw)
    admission, plugins = spec.admission, (spec.binder.plugins if spec.binder else None) or {}
    if admission is None:
        admission = Admission.model_validate({})
    runtime_class = admission.gpu_fraction_runtime_class_name
    if runtime_class is None:
        runtime_class = admission.gpu_pod_runtime_class_name
    isolator = plugins.get("hamicore")
    return AdmissionSettings(
        gpu_sharing=bool(admission.gpu_sharing),
        hami_core=bool(isolator and isolator.enabled),
        block_visible_devices=bool(admission.block_nvidia_visible_devices),
        runtime_class=RUNTIME_CLASS if runtime_class is None else runtime_class,
    )


@dataclass(frozen=True, slots=True)
class Request:
    """CREATE or UPDATE of ``object``, which is only looked at, never changed."""

    operation: str
    name: str
    namespace: str
    object: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What the object is called in texts: "Queue team", "Pod ml/train-0"."""
        meta = self.object.get("metadata") or {}
        name = meta.get("name") or self.name or meta.get("generateName") or ""
        namespace = meta.get("namespace") or self.namespace
        return f"{self.object.get('kind') or 'object'} {namespace + '/' if namespace else ''}{name}"


@dataclass(frozen=True, slots=True)
class Answer:
    """Allowed, unless ``denied`` says why not. ``patch`` holds operations of a JSON patch."""

    denied: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()


# The last argument is a random suffix for new names.
Review = Callable[[Request, AdmissionSettings, str], Answer]
