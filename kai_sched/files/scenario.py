"""Scenario files (kai-sched.io/v1alpha1): their fields, bounds and defaults, and the config that holds for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from kai_sched.api import core, names
from kai_sched.model.config import BUILT_IN_PLUGINS, Config
from kai_sched.model.field_errors import FieldError, Warn, decode_part
from kai_sched.model.objects import Object, Phase, Pod, UsedShares
from kai_sched.model.read.config import check_actions, config_from_file
from kai_sched.model.read.meta import time_ns

SCENARIO = (names.SCENARIO_VERSION, "Scenario")
CYCLES_MAX = 10_000
USED = ("cpu", "memory", names.NVIDIA_GPU)  # resources, as ``UsedShares`` has them
SPAN_MAX_S = 10 * 365 * 86_400.0

# The config of scenarios, unless their schedulerConfig overrides it.
SCENARIO_CONFIG = Config(
    plugins=BUILT_IN_PLUGINS,
    max_consolidation_preemptees=-1,
    allow_consolidating_reclaim=True,
    use_scheduling_signatures=False,
    staleness_grace_s=0.0,
    victims="original",
)


class Spec(core.Wire):
    actions: list[str] | None = None
    cycles: int | None = None
    now: str | None = None
    seconds_between_cycles: float | None = None
    keeps_terminating: list[str] | None = None
    usage: dict[str, dict[str, float]] | None = None
    node_pool: str | None = None
    scheduler_config: dict[str, object] | None = None
    objects: list[msgspec.Raw] | None = None


class Document(core.Wire):
    metadata: core.Meta | None = None
    spec: Spec | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    config: Config
    cycles: int
    now_ns: int | None
    seconds_between_cycles: float
    keeps_terminating: frozenset[str]  # names of pod groups
    usage: Mapping[str, UsedShares]  # by queue
    objects: tuple[bytes, ...]


def unplaced(found: Object) -> Object:
    """The object as scenario files mean it: a pending pod is not placed, even if it names a node.

    In a cluster, a pod with a node is bound; scenario files name the expected node.
    """
    if isinstance(found, Pod) and found.phase == Phase.PENDING and not found.deleted_ns:
        return replace(found, node="", expected_node=found.node)
    return found


_document = msgspec.json.Decoder(Document)


def _usage(shares: Mapping[str, float], field: str) -> UsedShares:
    for resource, share in shares.items():
        if resource not in USED:
            raise FieldError(f"{field}.{resource}", f"no usage of it counts: give {', '.join(USED)}")
        if not 0 <= share < math.inf:
            raise FieldError(f"{field}.{resource}", f"{share:g} is no part of the cluster: give 0 or more")
    return UsedShares(*(shares.get(resource, 0.0) for resource in USED))


def read_scenario(raw: bytes, warn: Warn) -> Scenario:
    """The scenario in a document. Its ``expected`` results are ignored. Raises FieldError."""
    document = decode_part(_document, raw, "")
    spec = document.spec
    if spec is None:
        raise FieldError("spec", "missing: give the scenario its objects")
    cycles = 1 if spec.cycles is None else spec.cycles
    if not 1 <= cycles <= CYCLES_MAX:
        raise FieldError("spec.cycles", f"{cycles} is not a number of cycles: give 1 to {CYCLES_MAX:,}")
    seconds = spec.seconds_between_cycles or 0.0
    if seconds < 0:
        raise FieldError("spec.secondsBetweenCycles", f"{seconds:g} is below 0: give 0 or more")
    if seconds * cycles > SPAN_MAX_S:
        raise FieldError("spec.secondsBetweenCycles", f"{seconds:g} makes the scenario last too long: give less")
    config = SCENARIO_CONFIG
    if spec.node_pool is not None:
        config = replace(config, node_pool=spec.node_pool)
    if spec.scheduler_config is not None:

        def warn_inside(field: str, message: str) -> None:
            warn(f"spec.schedulerConfig.{field}", message)

        try:
            config = config_from_file(spec.scheduler_config, config, warn_inside)
        except FieldError as error:
            raise FieldError(f"spec.schedulerConfig.{error.field}", error.message) from None
    if spec.actions is not None:
        check_actions(tuple(spec.actions), "spec.actions")
        config = replace(config, actions=tuple(spec.actions))
    if config.actions == ("stalegangeviction",):
        # Scenarios with this action alone rely on the default grace.
        config = replace(config, staleness_grace_s=Config().staleness_grace_s)
    return Scenario(
        name=(document.metadata.name if document.metadata else None) or "",
        config=config,
        cycles=cycles,
        now_ns=time_ns(spec.now, "spec.now") if spec.now else None,
        seconds_between_cycles=seconds,
        keeps_terminating=frozenset(spec.keeps_terminating or ()),
        usage={queue: _usage(shares, f"spec.usage.{queue}") for queue, shares in (spec.usage or {}).items()},
        objects=tuple(bytes(each) for each in spec.objects or ()),
    )
