"""The settings, the request and the answer of an admission review, and how many faults a message names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kai_sched.api import names
from kai_sched.api.custom import NAME_LENGTH
from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.field_errors import shown
from kai_sched.model.read.custom import parse_part
from kai_sched.model.read.sharing_settings import is_hami_core_on, is_sharing_on

RUNTIME_CLASS = "nvidia"
# Of what is wrong with one object; a person mends these first.
SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """How the reviews of pods are set up; names and defaults are those of the original's flags (API 1.6, 8)."""

    scheduler_name: str = "kai-scheduler"
    gpu_sharing: bool = False
    hami_core: bool = False
    block_visible_devices: bool = False
    runtime_class: str = RUNTIME_CLASS  # given to pods with a part of a GPU; empty: none
    reservation_app_label: str = ReservationSettings().app_label
    reservation_namespace: str = ReservationSettings().namespace

    def with_names(self, config: Config) -> AdmissionSettings:
        """The same with the names that the scheduler goes by."""
        return replace(
            self,
            scheduler_name=config.scheduler_name,
            reservation_app_label=config.reservation.app_label,
            reservation_namespace=config.reservation.namespace,
        )


def admission_from_operator(raw: bytes) -> AdmissionSettings:
    """As the ``spec`` of the object kai-config says, which has been found readable (API 1.6)."""
    from kai_sched.api.config import AdmissionComponent, ConfigSpec  # many models: only if there is such an object

    spec = parse_part(ConfigSpec, raw, "spec", _ignore)
    admission = spec.admission
    if admission is None:
        admission = AdmissionComponent.model_validate({})
    runtime_class = admission.gpu_fraction_runtime_class_name
    if runtime_class is None:
        runtime_class = admission.gpu_pod_runtime_class_name
    return AdmissionSettings(
        gpu_sharing=bool(is_sharing_on(spec, _ignore)),
        hami_core=is_hami_core_on(spec),
        block_visible_devices=bool(admission.block_nvidia_visible_devices),
        runtime_class=RUNTIME_CLASS if runtime_class is None else runtime_class,
    )


def _ignore(_field: str, _message: str) -> None:
    """What is wrong with the settings is told where the scheduler reads them."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """CREATE or UPDATE of ``object``, which is never changed. ``old`` is what an update replaces."""

    operation: str
    name: str
    namespace: str
    object: Mapping[str, Any]
    old: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What messages call the object: "Queue team", "Pod ml/train-0". Works for any object."""
        found = self.object.get("metadata")
        meta = found if isinstance(found, Mapping) else {}
        name = meta.get("name") or self.name or meta.get("generateName") or ""
        namespace = meta.get("namespace") or self.namespace
        return f"{word(self.object.get('kind') or 'object')} {word(namespace) + '/' if namespace else ''}{word(name)}"

    @property
    def is_leaving(self) -> bool:
        """Whether this is an update of an object that is being deleted."""
        return self.operation == "UPDATE" and "deletionTimestamp" in (self.object.get("metadata") or {})

    @property
    def keeps_spec(self) -> bool:
        """Whether this update leaves the spec as it is: an object that exists must not block its other updates."""
        return self.operation == "UPDATE" and bool(self.old) and self.old.get("spec") == self.object.get("spec")


@dataclass(frozen=True, slots=True)
class Answer:
    """Allowed, unless ``denied`` says why not. ``patch`` holds operations of a JSON patch."""

    denied: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[dict[str, Any], ...] = ()


def word(value: object) -> str:
    """A name as it is, or as messages quote it where it is none that can be shown."""
    text = value if isinstance(value, str) else shown(value)
    return text if text.isprintable() and len(text) <= NAME_LENGTH else shown(text)


def together(texts: Sequence[str], between: str = "; ") -> str:
    """The texts as one; the first ones where they are many."""
    more = [f"and {len(texts) - SHOWN_MAX:,} more"] if len(texts) > SHOWN_MAX else []
    return between.join([*texts[:SHOWN_MAX], *more])


def reserved(name: str) -> str:
    """Why a priority class is refused."""
    where = f"the namespace {names.SYSTEM_NAMESPACE}"
    return f"{shown(name)} is one of Kubernetes' own classes, which count in {where} only: name another class"


# The last argument is a random suffix for new names.
Review = Callable[[AdmissionRequest, AdmissionSettings, str], Answer]
