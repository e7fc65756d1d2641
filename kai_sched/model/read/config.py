"""Reads which settings the config file, SchedulingShard and Config objects change: plugins, actions, placement and
flags (API 1.6, 1.7, 10.1).

Each function imports the models that it reads: most inputs have no such object, and many models take long to define.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from kai_sched.api.custom import INT32_MAX
from kai_sched.api.legal import LABEL_MAX, is_label_value
from kai_sched.model.config import ACTIONS, OPERATOR_PLUGINS, SATURATION, STEADY, TRUE, VICTIMS, Config
from kai_sched.model.field_errors import QUOTED_MAX, FieldError, Warn, shown
from kai_sched.model.label_selector import parse_label_selector
from kai_sched.model.read.custom import parse_part
from kai_sched.model.read.sharing_settings import with_memory_reserve, with_sharing
from kai_sched.model.read.usage_settings import with_usage
from kai_sched.model.times import parse_duration

if TYPE_CHECKING:
    from kai_sched.api import config as operator
    from kai_sched.api import shard

SPREAD = "spread"
BINPACK = "binpack"
GPU_SPREAD = "gpuspread"
# Highest first. gpupack and gpuspread share a place, as one of them is on.
_PLUGIN_PRIORITIES = {
    "predicates": 1900,
    "proportion": 1800,
    "priority": 1700,
    "nodeavailability": 1600,
    "resourcetype": 1500,
    "podaffinity": 1400,
    "elastic": 1300,
    "kubeflow": 1200,
    "ray": 1100,
    "subgrouporder": 1000,
    "taskorder": 900,
    "nominatednode": 800,
    "dynamicresources": 700,
    "minruntime": 600,
    "topology": 500,
    "snapshot": 400,
    "sg-nodelocalgreedy": 360,
    "sg-multinodegang": 350,
    "gpupack": 300,
    GPU_SPREAD: 300,
    "nodeplacement": 200,
    "gpusharingorder": 100,
    "backgroundpods": 50,
}
_ACTION_PRIORITIES = {action: 500 - 100 * place for place, action in enumerate(ACTIONS)}
# Known, though off unless they are asked for.
KNOWN_PLUGINS = frozenset({*_PLUGIN_PRIORITIES, "numa", "reflectjoborder"})

# The arguments that have an effect; other plugins have none.
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    "proportion": ("kValue", SATURATION, STEADY),
    "minruntime": ("defaultPreemptMinRuntime", "defaultReclaimMinRuntime", "reclaimResolveMethod"),
    "nodeplacement": ("gpu", "cpu"),
    "numa": ("ignoreList", "reconstructAvailable"),
    "backgroundpods": ("labelSelector",),
}

_METRIC_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
_QUEUE_LABELS = frozenset({"queue_name", "queue_metadata_name", "queue_display_name"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def config_from_file(document: Mapping[str, Any], base: Config, warn: Warn) -> Config:
    """``base`` changed as a scheduler config file says. ``document`` is the file, decoded. Raises FieldError."""
    from kai_sched.api.scheduler_file import SchedulerFile

    file = parse_part(SchedulerFile, msgspec.json.encode(document), "", warn)
    config = base
    if file.actions is not None:
        config = replace(config, actions=parse_actions(file.actions, "actions"))
    if file.tiers is not None:
        plugins: dict[str, Mapping[str, str]] = {}
        for t, tier in enumerate(file.tiers):
            for p, plugin in enumerate(tier.plugins or ()):
                field = f"tiers[{t}].plugins[{p}]"
                if plugin.name not in KNOWN_PLUGINS:
                    warn(
                        f"{field}.name",
                        f"there is no plugin {shown(plugin.name)}; the entry is ignored: correct the name",
                    )
                    continue
                if plugin.disabled():
                    switches = ", ".join(plugin.disabled())
                    warn(field, f"{switches}: parts of a plugin cannot be switched off; remove the plugin instead")
                _check_arguments(plugin.name, plugin.arguments or {}, f"{field}.arguments", warn)
                plugins[plugin.name] = {key: _text(value) for key, value in (plugin.arguments or {}).items()}
        config = replace(config, plugins=plugins)
    if file.queue_depth_per_action is not None:
        config = replace(
            config, queue_depth=_depths(file.queue_depth_per_action, config.actions, "queueDepthPerAction")
        )
    if file.victims is not None:
        try:
            config = replace(config, victims=_read_victims(file.victims))
        except ValueError as error:
            raise FieldError("victims", str(error)) from None
    config = with_memory_reserve(file.gpu_memory_reserve, "gpuMemoryReserve", config)
    if file.usage_db_config is not None:
        config = with_usage(file.usage_db_config, "usageDBConfig", config, warn)
    if file.scenario_search_budgets is not None:
        warn("scenarioSearchBudgets", "not used by this version")
    return config


def _check_arguments(plugin: str, arguments: Mapping[str, object], field: str, warn: Warn) -> None:
    """Warn of arguments that the plugin does not have: they have no effect."""
    known = _ARGUMENTS.get(plugin, ())
    for name in sorted(arguments.keys() - set(known)):
        near = difflib.get_close_matches(name[:QUOTED_MAX], known, n=1)
        remedy = f"did you mean {near[0]}?" if near else f"the arguments here are {', '.join(known) or 'none'}"
        warn(f"{field}.{name}", f"unknown argument, ignored: {remedy}")
    if plugin == "backgroundpods" and "labelSelector" in arguments:
        try:
            parse_label_selector(_text(arguments["labelSelector"]))
        except ValueError as error:
            warn(f"{field}.labelSelector", f"no pod is in the background: {error}")
    if plugin == "proportion" and STEADY in arguments:
        try:
            _read_bool(_text(arguments[STEADY]))
        except ValueError as error:
            warn(f"{field}.{STEADY}", f'{error}, so it is off: give "true" or "false"')


def parse_actions(text: str, field: str) -> tuple[str, ...]:
    """The actions of a list with commas, in its order. Raises FieldError for an unknown one."""
    actions = tuple(part for part in (each.strip() for each in text.split(",")) if part)
    check_actions(actions, field)
    return actions


def check_actions(actions: tuple[str, ...], field: str) -> None:
    """Raises FieldError for an unknown or repeated action, or none at all."""
    for action in actions:
        if action not in ACTIONS:
            raise FieldError(field, f"there is no action {shown(action)}: use some of {', '.join(ACTIONS)}")
        if actions.count(action) > 1:
            raise FieldError(field, f"action {action!r} is there twice: name it once")
    if not actions:
        raise FieldError(field, f"names no action: use some of {', '.join(ACTIONS)}")


def _depths(depths: Mapping[str, int], actions: tuple[str, ...], field: str) -> dict[str, int]:
    for action, depth in depths.items():
        if action not in actions:
            raise FieldError(f"{field}.{action}", f"the action is not enabled: use some of {', '.join(actions)}")
        if depth < 0:
            raise FieldError(f"{field}.{action}", f"{depth} is below 0: give the number of jobs to try in each queue")
    return dict(sorted(depths.items()))


def _text(value: object) -> str:
    """An argument as the text that plugins read; files often give plain numbers."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def config_from_operator(raw: bytes, base: Config, warn: Warn) -> Config:
    """``base`` with what kai-config sets for all components; ``raw`` is its spec. Raises FieldError."""
    from kai_sched.api.config import ConfigSpec

    spec = parse_part(ConfigSpec, raw, "spec", warn)
    shared = spec.global_settings
    if shared is not None:
        base = replace(
            base,
            scheduler_name=shared.scheduler_name or base.scheduler_name,
            queue_label=shared.queue_label_key or base.queue_label,
            node_pool_label=shared.node_pool_label_key or base.node_pool_label,
            fair_share=shared.fair_share or base.fair_share,
        )
    base = with_sharing(spec, base, warn)
    if spec.queue_controller is not None:
        base = _with_queue_metrics(spec.queue_controller, base, warn)
    grouper = spec.pod_grouper.args if spec.pod_grouper else None
    return base if grouper is None else _with_grouper(grouper, base)


def _with_queue_metrics(args: operator.QueueController, base: Config, warn: Warn) -> Config:
    field = "spec.queueController"
    names = _pairs(args.queue_label_to_metric_label, f"{field}.queueLabelToMetricLabel")
    defaults = _pairs(args.queue_label_to_default_metric_value, f"{field}.queueLabelToDefaultMetricValue")
    labels: list[tuple[str, str, str]] = []
    for key in sorted(defaults.keys() - names.keys()):
        text = f"{shown(key)} is no label that metrics have: name it in queueLabelToMetricLabel, or leave it out"
        warn(f"{field}.queueLabelToDefaultMetricValue", text)
    for key, name in sorted(names.items()):
        if not _METRIC_LABEL.fullmatch(name) or name in _QUEUE_LABELS or name in {other for _, other, _ in labels}:
            text = f"{shown(name)} is no label of its own: use letters, digits and _, another one than that of others"
            warn(f"{field}.queueLabelToMetricLabel", text)
            continue
        labels.append((key, name, defaults.get(key, "")))
    return replace(base, queue_metric_labels=tuple(labels))


def _pairs(text: str | None, field: str) -> dict[str, str]:
    """What "a=b,c=d" says; of two for the same key the last one. Raises FieldError."""
    found: dict[str, str] = {}
    for part in (text or "").split(","):
        key, equals, value = part.strip().partition("=")
        if part.strip() and not (key and equals):
            raise FieldError(field, f"{shown(part)} is no pair: write it as key=value,key=value")
        if key:
            found[key.strip()] = value.strip()
    return found


def _with_grouper(args: operator.PodGrouperArgs, base: Config) -> Config:
    place = (args.default_priorities_config_map_namespace, args.default_priorities_config_map_name)
    if all(place):
        base = replace(base, kinds_config_map="/".join(str(part) for part in place))
    if args.gang_schedule_knative is not None:
        base = replace(base, gang_schedule_knative=args.gang_schedule_knative)
    if args.group_bare_pods is not None:
        base = replace(base, group_bare_pods=args.group_bare_pods)
    return base


def config_from_shard(raw: bytes, base: Config, warn: Warn) -> Config:
    """``base`` changed as a SchedulingShard says; ``raw`` is its spec. Raises FieldError."""
    from kai_sched.api.shard import ShardSpec

    spec = parse_part(ShardSpec, raw, "spec", warn)
    strategy = spec.placement_strategy
    gpu = (strategy.gpu if strategy else None) or BINPACK
    cpu = (strategy.cpu if strategy else None) or BINPACK
    actions = _shard_actions(spec, SPREAD in (gpu, cpu))
    config = replace(
        base,
        actions=actions,
        plugins=_shard_plugins(spec, gpu, cpu, warn),
        queue_depth=_depths(spec.queue_depth_per_action or {}, actions, "spec.queueDepthPerAction"),
        node_pool=_pool(spec.partition_label_value, "spec.partitionLabelValue") or base.node_pool,
    )
    if spec.usage_db_config is not None:
        config = with_usage(spec.usage_db_config, "spec.usageDBConfig", config, warn)
    if spec.scenario_search_budgets is not None:
        warn("spec.scenarioSearchBudgets", "not used by this version")
    return _with_flags(spec.args or {}, config)


def pool_of_shard(raw: bytes) -> str:
    """The node pool that the JSON of a SchedulingShard names, whatever else is wrong with it; "" if it is no text."""
    try:
        content = msgspec.json.decode(raw)
        found = content["spec"]["partitionLabelValue"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return ""
    return found if isinstance(found, str) else ""


def _pool(text: str | None, field: str) -> str:
    try:
        return _read_label_value(text or "")
    except ValueError as error:
        raise FieldError(field, str(error)) from None


def _shard_actions(spec: shard.ShardSpec, spread: bool) -> tuple[str, ...]:
    # Consolidation packs; where pods are to be spread it is off.
    enabled = {name: not (spread and name == "consolidation") for name in ACTIONS}
    priority = dict(_ACTION_PRIORITIES)
    for name, settings in (spec.actions or {}).items():
        if name not in enabled:
            raise FieldError(f"spec.actions.{name}", f"there is no such action: use some of {', '.join(ACTIONS)}")
        enabled[name] = enabled[name] if settings.enabled is None else settings.enabled
        priority[name] = priority[name] if settings.priority is None else settings.priority
    return tuple(sorted((name for name in ACTIONS if enabled[name]), key=lambda name: (-priority[name], name)))


def _shard_plugins(spec: shard.ShardSpec, gpu: str, cpu: str, warn: Warn) -> dict[str, Mapping[str, str]]:
    arguments: dict[str, Mapping[str, str]] = {name: dict(defaults) for name, defaults in OPERATOR_PLUGINS.items()}
    arguments["nodeplacement"] = {"gpu": gpu, "cpu": cpu}
    if gpu == SPREAD:
        del arguments["gpupack"], arguments["gpusharingorder"]
        arguments[GPU_SPREAD] = {}
    if spec.k_value is not None:
        arguments["proportion"] = {"kValue": f"{spec.k_value:g}"}
    if spec.min_runtime is not None:
        given = {
            "defaultPreemptMinRuntime": spec.min_runtime.preempt_min_runtime,
            "defaultReclaimMinRuntime": spec.min_runtime.reclaim_min_runtime,
        }
        arguments["minruntime"] = {key: value for key, value in given.items() if value}
    priority = dict(_PLUGIN_PRIORITIES)
    for name, settings in (spec.plugins or {}).items():
        if name not in KNOWN_PLUGINS:
            warn(f"spec.plugins.{name}", "there is no such plugin; it is ignored: correct the name")
            continue
        priority.setdefault(name, 0)
        _check_arguments(name, settings.arguments or {}, f"spec.plugins.{name}.arguments", warn)
        if settings.priority is not None:
            priority[name] = settings.priority
        if settings.enabled is False:
            arguments.pop(name, None)
        elif settings.enabled or name in arguments or name not in _PLUGIN_PRIORITIES:
            replaced = settings.arguments is not None
            arguments[name] = dict(settings.arguments or {}) if replaced else arguments.get(name, {})
    return {name: arguments[name] for name in sorted(arguments, key=lambda name: (-priority[name], name))}


def _with_flags(flags: Mapping[str, str], config: Config) -> Config:
    """The config changed by the flags that affect scheduling; other flags of the original have no effect."""
    changes: dict[str, Any] = {}
    for flag, text in flags.items():
        if flag == _RESERVATION_LABEL:
            changes["reservation"] = replace(config.reservation, app_label=text)
        if flag not in _FLAGS:
            continue
        name, read = _FLAGS[flag]
        try:
            changes[name] = read(text)
        except ValueError as error:
            raise FieldError(f"spec.args.{flag}", str(error)) from None
    return replace(config, **changes)


def _read_bool(text: str) -> bool:
    if text not in TRUE | _FALSE:
        raise ValueError(f"{shown(text)} is neither true nor false")
    return text in TRUE


def _read_int(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = None
    if value is None or not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise ValueError(f"{shown(text)} is not a whole number of 32 bits: correct it")
    return value


def _read_label_value(text: str) -> str:
    if not is_label_value(text):
        letters = "letters, digits, '-', '_' and '.', a letter or digit at each end"
        text = f"{shown(text)} cannot be the value of a label, so no node has it"
        raise ValueError(f"{text}: use at most {LABEL_MAX} {letters}")
    return text


def _read_victims(text: str) -> str:
    if text not in VICTIMS:
        raise ValueError(f"{shown(text)} is not one of {', '.join(VICTIMS)}: write one of them")
    return text


def _read_stuck_s(text: str) -> float:
    """0 means the default, as in the original."""
    return parse_duration(text) or Config().stuck_in_releasing_s


_RESERVATION_LABEL = "resource-reservation-app-label"
_FLAGS: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "scheduler-name": ("scheduler_name", str),
    "queue-label-key": ("queue_label", str),
    "nodepool-label-key": ("node_pool_label", str),
    "partition-label-value": ("node_pool", _read_label_value),
    "restrict-node-scheduling": ("restrict_node_scheduling", _read_bool),
    "cpu-worker-node-label-key": ("cpu_worker_label", str),
    "gpu-worker-node-label-key": ("gpu_worker_label", str),
    "schedule-csi-storage": ("schedule_csi_storage", _read_bool),
    "full-hierarchy-fairness": ("full_hierarchy_fairness", _read_bool),
    "stuck-in-releasing-threshold": ("stuck_in_releasing_s", _read_stuck_s),
    "default-staleness-grace-period": ("staleness_grace_s", parse_duration),
    "max-consolidation-preemptees": ("max_consolidation_preemptees", _read_int),
    "allow-consolidating-reclaim": ("allow_consolidating_reclaim", _read_bool),
    "use-scheduling-signatures": ("use_scheduling_signatures", _read_bool),
    "detailed-fit-errors": ("detailed_fit_errors", _read_bool),
    "victims": ("victims", _read_victims),
}
