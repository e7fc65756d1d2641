"""The settings of a scheduler as a dump holds them (``settings``: fields of Config by the names of flags), and as the
original's snapshot archive does (``config`` and ``schedulerParams``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, get_type_hints

import msgspec

from kai_sched.api.custom import INT32_MAX
from kai_sched.api.sharing import RESERVE_PERCENT_MAX
from kai_sched.model.config import Config
from kai_sched.model.cron import parse_cron
from kai_sched.model.field_errors import FieldError, Warn, shown
from kai_sched.model.read.config import check_actions, config_from_file

SHARING = "gpuSharing"
AMOUNT_MAX = INT32_MAX  # of seconds it is 68 years
# Where the name is not that of the field in camel case: the fields that the flags and the Config name otherwise.
_NAMES = {
    "queue_label": "queueLabelKey",
    "node_pool_label": "nodePoolLabelKey",
    "node_pool": "partitionLabelValue",
    "kinds_config_map": "workloadKindsConfigMap",
}
_SECOND_NS = 10**9


def _name(field: str) -> str:
    """``queue_depth`` as ``queueDepth``, ``staleness_grace_s`` as ``stalenessGraceSeconds``."""
    words = field.split("_")
    words[-1] = "seconds" if words[-1] == "s" else words[-1]
    return _NAMES.get(field, words[0] + "".join(word.capitalize() for word in words[1:]))


@cache
def setting_types() -> Mapping[str, tuple[str, Any]]:
    """The field of Config and its type by the name in ``settings``."""
    return {_name(field): (field, kind) for field, kind in get_type_hints(Config).items()}


def settings_of(config: Config) -> dict[str, Any]:
    """Whether GPUs are shared, and the other settings that differ from their defaults."""
    return {SHARING: config.gpu_sharing, **_changes(config, Config())}


def _changes(value: Any, default: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields(value):
        own, other = getattr(value, field.name), getattr(default, field.name)
        # The order of plugins is kept, so that mappings that differ in it differ.
        if own == other and (not isinstance(own, Mapping) or list(own) == list(other)):
            continue
        name = _name(field.name) if isinstance(value, Config) else field.name
        found[name] = _changes(own, other) if is_dataclass(own) else msgspec.to_builtins(own)
    return found


def config_of(settings: Mapping[str, Any], warn: Warn) -> Config:
    """The config that ``settings_of`` was given. Settings of other versions give a warning. Raises FieldError."""
    changes: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in setting_types():
            warn(f"settings.{name}", "ignored: this version has no such setting")
            continue
        field, kind = setting_types()[name]
        try:
            changes[field] = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise FieldError(f"settings.{name}", f"{shown(value)}: {error}: write the dump again") from None
    if "actions" in changes:
        check_actions(changes["actions"], "settings.actions")
    try:
        found = replace(Config(), **changes)
        if found.usage.cron:
            parse_cron(found.usage.cron)
    except ValueError as error:
        raise FieldError("settings", str(error)) from None
    _check_amounts(found, "settings")
    return found


def _check_amounts(value: Any, field: str) -> None:
    """Raises FieldError for a number that no flag takes: the solver counts in 32 bits, and times fill 64 bits."""
    if is_dataclass(value):
        for each in fields(value):
            _check_amounts(getattr(value, each.name), f"{field}.{_name(each.name)}")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _check_amounts(each, f"{field}.{shown(key)}")
    elif isinstance(value, int | float) and not -1 - AMOUNT_MAX <= value <= AMOUNT_MAX:  # NaN is not in between
        raise FieldError(field, f"{shown(value)} is too large a number: write the dump again")
    elif field.endswith("Percent") and not 0 <= value <= RESERVE_PERCENT_MAX:
        raise FieldError(field, f"{shown(value)} is no percentage: write the dump again")


def snapshot_config(config: object, params: object, warn: Warn) -> Config:
    """The settings of a snapshot archive, whose parts may be null. Raises FieldError.

    Pods with a part of a GPU get one, as in the original, whose scheduler leaves it to its webhook to refuse them.
    """
    found = Config()
    if config is not None:
        if not isinstance(config, dict):
            raise FieldError("config", f"expected a mapping, not {shown(config)}: get the snapshot again")
        found = config_from_file(config, found, warn)
    if params is None:
        return found
    if not isinstance(params, dict):
        raise FieldError("schedulerParams", f"expected a mapping, not {shown(params)}: get the snapshot again")
    # Old versions write the names with a capital; all leave out what is empty, false or 0.
    given = {key.lower(): value for key, value in params.items() if value is not None}
    pool = {key.lower(): value for key, value in _part(given, "partitionParams", dict, {}).items()}
    found = replace(
        found,
        scheduler_name=_part(given, "schedulerName", str, "") or found.scheduler_name,
        queue_label=_part(given, "queueLabelKey", str, "") or found.queue_label,
        node_pool_label=_part(pool, "NodePoolLabelKey", str, "") if pool else found.node_pool_label,
        node_pool=_part(pool, "NodePoolLabelValue", str, ""),
        restrict_node_scheduling=_part(given, "restrictSchedulingNodes", bool, False),
        max_consolidation_preemptees=_part(given, "maxNumberConsolidationPreemptees", int, 0),
        schedule_csi_storage=_part(given, "scheduleCSIStorage", bool, False),
        use_scheduling_signatures=_part(given, "useSchedulingSignatures", bool, False),
        full_hierarchy_fairness=_part(given, "fullHierarchyFairness", bool, False),
        allow_consolidating_reclaim=_part(given, "allowConsolidatingReclaim", bool, False),
        detailed_fit_errors=_part(given, "detailedFitErrors", bool, False),
        staleness_grace_s=_part(given, "globalDefaultStalenessGracePeriod", int, 0) / _SECOND_NS,
        stuck_in_releasing_s=_part(given, "stuckInReleasingThreshold", int, 0) / _SECOND_NS
        or found.stuck_in_releasing_s,
    )
    _check_amounts(found, "schedulerParams")
    return found


def _part(given: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    found = given.get(name.lower(), default)
    if type(found) is not kind:
        field, wanted = f"schedulerParams.{name}", {dict: "a mapping", str: "a text", int: "a whole number"}
        remedy = "get the snapshot again"
        raise FieldError(field, f"expected {wanted.get(kind, 'true or false')}, not {shown(found)}: {remedy}")
    return found


def snapshot_parts(config: Config) -> tuple[dict[str, Any], dict[str, Any]]:
    """``config`` and ``schedulerParams`` of a snapshot archive; what is empty, false or 0 is left out."""
    plugins = [
        {"name": name, **({"arguments": dict(arguments)} if arguments else {})}
        for name, arguments in config.plugins.items()
    ]
    file: dict[str, Any] = {"actions": ", ".join(config.actions), "tiers": [{"plugins": plugins}]}
    if config.queue_depth:
        file["queueDepthPerAction"] = dict(config.queue_depth)
    params = {
        "schedulerName": config.scheduler_name,
        "restrictSchedulingNodes": config.restrict_node_scheduling,
        "partitionParams": {"NodePoolLabelKey": config.node_pool_label, "NodePoolLabelValue": config.node_pool},
        "maxNumberConsolidationPreemptees": config.max_consolidation_preemptees,
        "scheduleCSIStorage": config.schedule_csi_storage,
        "useSchedulingSignatures": config.use_scheduling_signatures,
        "fullHierarchyFairness": config.full_hierarchy_fairness,
        "allowConsolidatingReclaim": config.allow_consolidating_reclaim,
        "detailedFitErrors": config.detailed_fit_errors,
        "globalDefaultStalenessGracePeriod": round(config.staleness_grace_s * _SECOND_NS),
        "stuckInReleasingThreshold": round(config.stuck_in_releasing_s * _SECOND_NS),
        "queueLabelKey": config.queue_label,
    }
    return file, {name: value for name, value in params.items() if value}
