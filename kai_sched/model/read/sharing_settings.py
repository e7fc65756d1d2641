"""Reads what kai-config and the config file say about GPU sharing: whether it is on, how reservation pods are made, and
how much memory of a device is kept for its driver (API 1.6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kai_sched.api.legal import is_label, is_label_value, is_subdomain
from kai_sched.model.config import Config, ReservationSettings, ScalingSettings
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.resources import GPU_NAMES, MIG_PREFIX, QuantityError, parse_quantity

if TYPE_CHECKING:  # else imported where they are made: see model.read.config
    from kai_sched.api import config as operator
    from kai_sched.api.sharing import GpuMemoryReserve

MIB = 2**20
RESERVATION = "spec.binder.resourceReservation"
SCALING = "spec.nodeScaleAdjuster.args"
CDI_ARGUMENT = "cdiEnabled"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def with_sharing(spec: operator.ConfigSpec, base: Config, warn: Warn) -> Config:
    """``base`` with what kai-config says about GPU sharing. Raises FieldError.

    Sharing that ``base`` does not have stays off: the process cannot do it.
    """
    wanted = is_sharing_on(spec, warn)
    shared = spec.global_settings
    reserve = shared.gpu_memory_reserve if shared else None
    config = replace(
        base,
        gpu_sharing=base.gpu_sharing and wanted is not False,
        reservation=read_reservation(spec, base.reservation, warn),
        scaling=read_scaling(spec, base.scaling),
    )
    return with_memory_reserve(reserve, "spec.global.gpuMemoryReserve", config)


def is_sharing_on(spec: operator.ConfigSpec, warn: Warn) -> bool | None:
    """Whether pods may share GPUs; None where no field says so.

    The mode, which is that of v0.18, wins; then the field of admission, which KAI has.
    """
    shared, admission = spec.global_settings, spec.admission
    every = shared.gpu_sharing if shared else None
    own = admission.gpu_sharing if admission else None
    mode = shared.gpu_sharing_mode if shared else None
    if mode == "NvFractions":
        text = "the memory that containers request is scheduled, and nothing keeps them to it: no device is told to"
        warn("spec.global.gpuSharingMode", f"{text} kai-gpu-fractioning; HamiCore enforces it")
    if mode is not None:
        is_on = mode != "Disabled"
        for field, given in (("global", every), ("admission", own)):
            if given is not None and given != is_on:
                text = f"says otherwise and is ignored, as spec.global.gpuSharingMode is {mode}: leave one of them out"
                warn(f"spec.{field}.gpuSharing", text)
        return is_on
    if own is not None and every is not None and own != every:
        text = "says otherwise and is ignored, as spec.admission.gpuSharing counts: leave one of them out"
        warn("spec.global.gpuSharing", text)
    return every if own is None else own


def is_hami_core_on(spec: operator.ConfigSpec) -> bool:
    """Whether containers are told how much memory they may take: the plugin says so, else the mode."""
    plugin = ((spec.binder.plugins if spec.binder else None) or {}).get("hamicore")
    if plugin is not None and plugin.enabled is not None:
        return plugin.enabled
    return bool(spec.global_settings and spec.global_settings.gpu_sharing_mode == "HamiCore")


def with_memory_reserve(reserve: GpuMemoryReserve | None, field: str, base: Config) -> Config:
    """``base`` with the part of each device that its driver takes. ``field`` is the path of it. Raises FieldError."""
    if reserve is None:
        return base
    percent = base.gpu_memory_reserve_percent if reserve.percent is None else reserve.percent
    least = base.gpu_memory_reserve_min_mib
    if reserve.min is not None:
        least = _mib(reserve.min, f"{field}.min")
    return replace(base, gpu_memory_reserve_percent=percent, gpu_memory_reserve_min_mib=least)


def _mib(amount: str | float, field: str) -> int:
    """A quantity of bytes in whole MiB, rounded up."""
    remedy = "give an amount of memory such as 256Mi"
    try:
        value = parse_quantity(amount)
    except QuantityError:
        raise FieldError(field, f"{shown(amount)} is no quantity: {remedy}") from None
    if value < 0 or 0 < value < MIB:
        raise FieldError(field, f"{shown(amount)} is less than one MiB, as it counts in bytes: {remedy}")
    return int(-(-value // MIB))


def read_reservation(spec: operator.ConfigSpec, base: ReservationSettings, warn: Warn) -> ReservationSettings:
    """``base`` with what kai-config says about reservation pods. Raises FieldError."""
    from kai_sched.api import config as operator

    binder = spec.binder or operator.BinderComponent.model_construct()
    wire = binder.resource_reservation or operator.ResourceReservation.model_construct()
    shared = spec.global_settings or operator.GlobalSettings.model_construct()
    resources = wire.pod_resources or operator.ComponentResources.model_construct()
    image, pull_policy = _image(wire.image, f"{RESERVATION}.image", base)
    return replace(
        base,
        namespace=_name(wire.namespace, f"{RESERVATION}.namespace", is_label, base.namespace),
        app_label=_name(wire.app_label, f"{RESERVATION}.appLabel", is_label_value, base.app_label),
        service_account=_name(
            wire.service_account_name, f"{RESERVATION}.serviceAccountName", is_subdomain, base.service_account
        ),
        runtime_class=_name(
            wire.runtime_class_name, f"{RESERVATION}.runtimeClassName", is_subdomain, base.runtime_class
        ),
        image=image,
        image_pull_policy=pull_policy,
        requests=_amounts(resources.requests, f"{RESERVATION}.podResources.requests", warn),
        limits=_amounts(resources.limits, f"{RESERVATION}.podResources.limits", warn),
        pod_security_context=wire.reservation_pod_security_context or base.pod_security_context,
        container_security_context=wire.reservation_container_security_context
        or shared.security_context
        or base.container_security_context,
        allocation_timeout_s=wire.allocation_timeout or base.allocation_timeout_s,
        fake_gpu_nodes=base.fake_gpu_nodes if wire.fake_gpu_nodes is None else wire.fake_gpu_nodes,
        cdi_enabled=_cdi(binder, base.cdi_enabled),
        hami_core=is_hami_core_on(spec),
    )


def _name(text: str | None, field: str, is_legal: Callable[[str], bool], default: str) -> str:
    if not text:
        return default
    if not is_legal(text):
        raise FieldError(field, f"{shown(text)} cannot be such a name in Kubernetes: use letters, digits and '-'")
    return text


def read_scaling(spec: operator.ConfigSpec, base: ScalingSettings) -> ScalingSettings:
    """``base`` with what kai-config says about scaling pods, which are off unless it says so. Raises FieldError."""
    from kai_sched.api import config as operator

    adjuster = spec.node_scale_adjuster
    service, wire = (adjuster.service, adjuster.args) if adjuster else (None, None)
    wire = wire or operator.NodeScaleAdjusterArgs.model_construct()
    image, pull_policy = _image(wire.scaling_pod_image, f"{SCALING}.scalingPodImage", base)
    return replace(
        base,
        enabled=bool(service and service.enabled),
        namespace=_name(wire.node_scale_namespace, f"{SCALING}.nodeScaleNamespace", is_label, base.namespace),
        service_account=_name(
            wire.node_scale_service_account, f"{SCALING}.nodeScaleServiceAccount", is_subdomain, base.service_account
        ),
        image=image,
        image_pull_policy=pull_policy,
        memory_portion=wire.gpu_memory_to_fraction_ratio or base.memory_portion,
    )


def _image(wire: operator.Image | None, field: str, base: ReservationSettings | ScalingSettings) -> tuple[str, str]:
    """The image and its pull policy. An image has to be named whole, as nothing here has a default for its parts."""
    if wire is None:
        return base.image, base.image_pull_policy
    policy = wire.pull_policy or base.image_pull_policy
    if policy not in PULL_POLICIES:
        raise FieldError(f"{field}.pullPolicy", f"{shown(policy)} is not one of {', '.join(PULL_POLICIES)}: correct it")
    if not wire.name:
        if wire.repository or wire.tag:
            raise FieldError(f"{field}.name", "missing: name the image, or leave out its repository and tag as well")
        return base.image, policy
    path = f"{wire.repository}/{wire.name}" if wire.repository else wire.name
    return (f"{path}:{wire.tag}" if wire.tag else path), policy


def _amounts(wire: Mapping[str, str | int | float] | None, field: str, warn: Warn) -> dict[str, str]:
    """What a reservation pod asks for beside its device, which it has anyway."""
    found: dict[str, str] = {}
    for name, amount in sorted((wire or {}).items()):
        if name in GPU_NAMES or name.startswith(MIG_PREFIX):
            warn(f"{field}.{name}", "ignored: a reservation pod holds exactly one device; leave it out")
            continue
        try:
            value = parse_quantity(amount)
        except QuantityError as error:
            raise FieldError(f"{field}.{name}", f"{error}: give a quantity such as 50m or 64Mi") from None
        if value < 0:
            raise FieldError(f"{field}.{name}", f"{shown(amount)} is below 0: give a quantity such as 50m or 64Mi")
        found[name] = str(amount)
    return found


def _cdi(binder: operator.BinderComponent, default: bool | None) -> bool | None:
    """Whether devices go by their CDI names: as the plugin gpusharing is told, else as the binder is."""
    plugin = (binder.plugins or {}).get("gpusharing")
    arguments: Mapping[str, Any] = (plugin.arguments if plugin else None) or {}
    text = arguments.get(CDI_ARGUMENT)
    if text is None:
        return default if binder.cdi_enabled is None else binder.cdi_enabled
    if text not in ("true", "false"):
        field = f"spec.binder.plugins.gpusharing.arguments.{CDI_ARGUMENT}"
        raise FieldError(field, f"{shown(text)} is neither true nor false: write one of them")
    return bool(text == "true")
