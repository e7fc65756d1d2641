"""Changes as people write them on the command line and in notebooks: "queue/nlp.gpu.quota=56", "2:like=NODE"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from kai_sched.answers.changes import (
    NODES_MAX,
    SHARE_FIELDS,
    SHARES,
    AddNodes,
    Change,
    SetQueue,
    unknown,
)
from kai_sched.answers.goal import group_pods
from kai_sched.answers.workload_changes import (
    DEMANDS,
    InClass,
    InPool,
    InQueue,
    Minimum,
    PodCount,
    PodGpus,
    Preemptible,
    RequiredLevel,
    Tolerate,
    WithoutDemand,
    constraints_of,
)
from kai_sched.answers.workloads import Workloads
from kai_sched.model.checks import leaf_queues
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import UNLIMITED
from kai_sched.model.resources import parse_quantity
from kai_sched.model.store import Cluster

SET = "--set"
_SCALES = {"cpu": 1000, "memory": 1}  # from the unit of a quantity to that of the scheduler
_FORMS = "queue/NAME.gpu.quota=8, workload/NAME.gpus=4"
_MOST = 1e18  # beyond the memory of any cluster in bytes


def read_setting(text: str, cluster: Cluster, config: Config, workloads: Workloads) -> Change:
    """A change from "queue/NAME.SHARE.FIELD=VALUE" or "workload/NAME.FIELD=VALUE". Raises FieldError."""
    path, equals, value = text.partition("=")
    kind, slash, rest = path.partition("/")
    if not equals or not slash or kind not in ("queue", "workload"):
        raise FieldError(SET, f"{text!r} is no setting: write it as {_FORMS}")
    if kind == "queue":
        return _queue_setting(rest, value, text, cluster)
    return _workload_setting(rest, value, text, cluster, config, workloads)


def read_new_nodes(text: str, cluster: Cluster) -> AddNodes:
    """A change from "COUNT:like=NODE". Raises FieldError."""
    number, colon, like = text.partition(":")
    if not colon or not like.startswith("like=") or not number.isdecimal():
        raise FieldError("--add-nodes", f"{text!r} is no number of nodes: write it as 2:like=NODE")
    name = like.removeprefix("like=")
    if name not in cluster.nodes:
        raise unknown("node", name, cluster.nodes, "--add-nodes")
    if not 1 <= int(number[:9]) <= NODES_MAX:
        raise FieldError("--add-nodes", f"{number} is not a number of nodes: give 1 to {NODES_MAX:,}")
    return AddNodes(int(number), name)


def _queue_setting(rest: str, value: str, text: str, cluster: Cluster) -> SetQueue:
    # Names of queues may have dots in them.
    parts = rest.rsplit(".", 2)
    if len(parts) != 3 or parts[1] not in SHARES or parts[2] not in SHARE_FIELDS:
        shares, fields = "|".join(SHARES), "|".join(SHARE_FIELDS)
        raise FieldError(SET, f"{text!r} is no setting of a queue: write queue/NAME.({shares}).({fields})=VALUE")
    name, share, field = parts
    if name not in cluster.queues:
        raise unknown("queue", name, cluster.queues, SET)
    return SetQueue(name, share, field, _amount(value, share, field, text))


def _amount(value: str, share: str, field: str, text: str) -> float:
    """The amount in scheduler units: GPUs and weights are numbers, CPU and memory are quantities ("64", "512Gi")."""
    if value in ("unlimited", "-1") and field != "weight":
        return UNLIMITED
    try:
        found = float(value) if share == "gpu" or field == "weight" else float(parse_quantity(value) * _SCALES[share])
    except ValueError:
        found = -1.0
    if not 0.0 <= found < _MOST:
        what = "a number" if share == "gpu" or field == "weight" else "a quantity such as 64 or 512Gi"
        unlimited = "" if field == "weight" else ", or unlimited"
        raise FieldError(SET, f"{text!r}: {value!r} is not {what} from 0 on{unlimited}")
    return found


def _workload_setting(
    rest: str, value: str, text: str, cluster: Cluster, config: Config, workloads: Workloads
) -> Change:
    name, dot, field = rest.rpartition(".")
    make = _SETTINGS.get(field)
    if not dot or make is None:
        raise FieldError(SET, f"{text!r} is no setting of a workload: the fields are {', '.join(_SETTINGS)}")
    group, sub_group = _subject(name, field, cluster, workloads)
    if field == "queue" and value not in leaf_queues(cluster, config):
        raise unknown("leaf queue", value, leaf_queues(cluster, config), SET)
    if field == "priorityClassName" and value not in cluster.priority_classes:
        raise unknown("priority class", value, cluster.priority_classes, SET)
    change = make(group, value, text)
    if isinstance(change, InPool):
        return replace(change, label=config.node_pool_label)
    if isinstance(change, RequiredLevel):
        _check_level(change, text, cluster)
    if isinstance(change, PodGpus):
        _check_gpus(change, text, cluster)
    return Minimum(change.group, change.minimum, sub_group) if isinstance(change, Minimum) else change


def _subject(name: str, field: str, cluster: Cluster, workloads: Workloads) -> tuple[str, str]:
    """The group that is named, and for a minimum also its sub-group, if one is. Both names may have dots in them."""
    try:
        return workloads.find(name).group, ""
    except FieldError as error:
        refused = FieldError(SET, error.message)
    dots = [place for place, sign in enumerate(name) if sign == "."] if field == "minMember" else []
    for dot in reversed(dots):
        try:
            group = workloads.find(name[:dot]).group
        except FieldError:
            continue
        sub_group, known = name[dot + 1 :], cluster.pod_groups.get(group)
        names = [each.name for each in known.sub_groups] if known else []
        if sub_group in names:
            return group, sub_group
        refused = unknown("sub-group", sub_group, names, SET)
    raise refused


def _whole(value: str, text: str) -> int:
    if not value.isdecimal() or not 1 <= int(value[:9]) <= 1_000_000:
        raise FieldError(SET, f"{text!r}: {value!r} is not a whole number from 1 on")
    return int(value)


def _gpus(group: str, value: str, text: str) -> Change:
    try:
        gpus = float(value)
    except ValueError:
        gpus = 0.0
    if not 0.0 < gpus < _MOST:
        raise FieldError(SET, f"{text!r}: {value!r} is not a number of GPUs above 0")
    return PodGpus(group, gpus)


def _check_gpus(change: PodGpus, text: str, cluster: Cluster) -> None:
    """Raises FieldError for parts of GPUs that no pod of the group can ask for."""
    pods = group_pods(cluster.pods, cluster.pod_groups, change.group)
    if not change.gpus.is_integer() and not (change.gpus < 1 and any(pod.shape.share for pod in pods)):
        only = "a part of a GPU is below 1" if change.gpus > 1 else "its pods ask for whole GPUs"
        raise FieldError(SET, f"{text!r}: {only}: write a whole number")


def _preemptible(group: str, value: str, text: str) -> Change:
    if value != "preemptible":
        raise FieldError(SET, f"{text!r}: write preemptible")
    return Preemptible(group)


def _level(group: str, value: str, text: str) -> Change:
    if not value:
        raise FieldError(SET, f"{text!r}: write a level of the topology, or none")
    return RequiredLevel(group, "" if value == "none" else value)


def _check_level(change: RequiredLevel, text: str, cluster: Cluster) -> None:
    """Raises FieldError where the group requires no level, or its topology has no such level."""
    group = cluster.pod_groups.get(change.group)
    required = [each for each in constraints_of(group) if each.required_level] if group else []
    if not required:
        raise FieldError(SET, f"{text!r}: the workload requires no level of a topology")
    for topology in {each.topology for each in required} & cluster.topologies.keys():
        found = cluster.topologies[topology]
        if change.level and not found.level(change.level):
            raise unknown(f"level of Topology {topology}", change.level, found.levels, SET)


def _pool(group: str, value: str, text: str) -> Change:
    if not value:
        raise FieldError(SET, f"{text!r}: write a node pool, or none")
    return InPool(group, "" if value == "none" else value, "")


def _tolerate(group: str, value: str, text: str) -> Change:
    if not value:
        raise FieldError(SET, f"{text!r}: write the key of a taint")
    return Tolerate(group, value)


def _without(demand: str) -> Callable[[str, str, str], Change]:
    def make(group: str, value: str, text: str) -> Change:
        if value != "none":
            _refuse_demand(demand, text)
        return WithoutDemand(group, demand)

    return make


def _refuse_demand(demand: str, text: str) -> NoReturn:
    raise FieldError(SET, f"{text!r}: only {demand}=none can be written, which leaves it out")


_SETTINGS: dict[str, Callable[[str, str, str], Change]] = {
    "gpus": _gpus,
    "pods": lambda group, value, text: PodCount(group, _whole(value, text)),
    "minMember": lambda group, value, text: Minimum(group, _whole(value, text)),
    "queue": lambda group, value, _: InQueue(group, value),
    "priorityClassName": lambda group, value, _: InClass(group, value),
    "preemptibility": _preemptible,
    "tolerations": _tolerate,
    "nodePool": _pool,
    "requiredTopologyLevel": _level,
    **{demand: _without(demand) for demand in DEMANDS},
}
