"""How the configuration becomes numbers: points of node scores, k value, saturation multiplier, minimum runtimes, and
what an unreadable argument counts as (semantics 1.3, 9).

Arguments of plugins are texts in the API. A text that cannot be read counts as not set, as in the original.
"""

from __future__ import annotations

from collections.abc import Mapping

from kai_sched.lowering.limits import duration
from kai_sched.model.config import CLUSTER, SATURATION, STEADY, TRUE, Config
from kai_sched.model.times import parse_duration
from kai_sched.snapshot.choices import Generator, GpuOrder, Placement
from kai_sched.snapshot.tables import Settings

NO_DEPTH_LIMIT = 2**31 - 1
_GENERATORS = {"sg-nodelocalgreedy": Generator.NODE_LOCAL, "sg-multinodegang": Generator.MULTI_NODE}
_PLACEMENT = {"binpack": int(Placement.BINPACK), "spread": int(Placement.SPREAD)}


def lower_settings(config: Config, now_ns: int) -> Settings:
    """The settings for a cycle at ``now_ns`` (nanoseconds since the epoch).

    A plugin that is not configured has 0 points, or its switch off. Predicates and capacity gates are always on.
    """
    plugins = config.plugins
    runtime = plugins.get("minruntime", {})
    generators = [_GENERATORS[name] for name in plugins if name in _GENERATORS] + [Generator.NONE] * 2
    placement = plugins.get("nodeplacement")

    def points(plugin: str, value: float) -> float:
        return value if plugin in plugins else 0.0

    def strategy(resource: str) -> int:
        if placement is None:
            return int(Placement.OFF)
        return _PLACEMENT.get(placement.get(resource, "binpack"), int(Placement.OFF))

    return Settings(
        k_value=_k_value(plugins.get("proportion", {}).get("kValue")),
        nominated_points=points("nominatednode", 10_000_000.0),
        affinity_points=points("podaffinity", 1_000_000.0),
        available_points=points("nodeavailability", 1000.0),
        cpu_node_points=points("resourcetype", 10.0),
        sharing_points=points("gpusharingorder", 10_000.0),
        numa_points=points("numa", 100.0),
        gpu_order=int(_gpu_order(plugins)),
        gpu_placement=strategy("gpu"),
        cpu_placement=strategy("cpu"),
        elastic_order=int("elastic" in plugins),
        priority_order=int("priority" in plugins),
        allocate_depth=config.queue_depth.get("allocate", NO_DEPTH_LIMIT),
        consolidation_depth=config.queue_depth.get("consolidation", NO_DEPTH_LIMIT),
        reclaim_depth=config.queue_depth.get("reclaim", NO_DEPTH_LIMIT),
        preempt_depth=config.queue_depth.get("preempt", NO_DEPTH_LIMIT),
        now=now_ns,
        min_runtime=int("minruntime" in plugins),
        preempt_runtime=_duration_ns(runtime.get("defaultPreemptMinRuntime")),
        reclaim_runtime=_duration_ns(runtime.get("defaultReclaimMinRuntime")),
        reclaim_by_ancestor=int(runtime.get("reclaimResolveMethod") != "queue"),
        saturation=_saturation(plugins.get("proportion", {}).get(SATURATION)),
        steady=_steady(plugins.get("proportion", {}).get(STEADY), config),
        consolidating_reclaim=int(config.allow_consolidating_reclaim),
        search_work=config.search_work,
        most_moved=NO_DEPTH_LIMIT if config.max_consolidation_preemptees < 0 else config.max_consolidation_preemptees,
        signatures=int(config.use_scheduling_signatures),
        first_generator=int(generators[0]),
        second_generator=int(generators[1]),
        shared=int(config.fair_share == CLUSTER),
        minimal=int(config.victims == "minimal"),
    )


def _gpu_order(plugins: Mapping[str, object]) -> GpuOrder:
    """The order of devices for pods with a share; with both plugins their scores cancel each other out (8.4)."""
    pack, spread = "gpupack" in plugins, "gpuspread" in plugins
    if pack == spread:
        return GpuOrder.OFF
    return GpuOrder.PACK if pack else GpuOrder.SPREAD


def _duration_ns(text: str | None) -> int:
    """The duration in nanoseconds; 0 where it is not set, unreadable or negative (11.1)."""
    try:
        return max(0, duration(parse_duration(text, long_units=True))) if text else 0
    except ValueError:
        return 0


def _steady(text: str | None, config: Config) -> int:
    """1 where steady shares are switched on (4.9); the search of v0.17.0 does not know them."""
    return int(text in TRUE and config.victims == "minimal")


def _saturation(text: str | None) -> float:
    """The saturation multiplier; 1 where it is not set, unreadable or below 1 (4.7)."""
    try:
        return max(1.0, float(text)) if text is not None else 1.0
    except ValueError:
        return 1.0


def _k_value(text: str | None) -> float:
    """The k value of time-based fair share; 1 where it is not set or unreadable, 0 where it is negative (2.3)."""
    try:
        return max(0.0, float(text)) if text is not None else 1.0
    except ValueError:
        return 1.0
