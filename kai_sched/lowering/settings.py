"""The configuration in numbers (semantics 1.3, 9)."""

from __future__ import annotations

from kai_sched.model.config import Config
from kai_sched.snapshot.tables import Settings

NO_DEPTH_LIMIT = 2**31 - 1
_PLACEMENT = {"binpack": 1, "spread": 2}


def lower_settings(config: Config) -> Settings:
    """Points and switches of the plugins that are on. Predicates and capacity gates are always on."""
    plugins = config.plugins
    placement = plugins.get("nodeplacement")

    def points(plugin: str, value: float) -> float:
        return value if plugin in plugins else 0.0

    def strategy(resource: str) -> int:
        return 0 if placement is None else _PLACEMENT.get(placement.get(resource, "binpack"), 0)

    return Settings(
        k_value=_k_value(plugins.get("proportion", {}).get("kValue")),
        nominated_points=points("nominatednode", 10_000_000.0),
        affinity_points=points("podaffinity", 1_000_000.0),
        available_points=points("nodeavailability", 1000.0),
        cpu_node_points=points("resourcetype", 10.0),
        gpu_placement=strategy("gpu"),
        cpu_placement=strategy("cpu"),
        elastic_order=int("elastic" in plugins),
        priority_order=int("priority" in plugins),
        allocate_depth=config.queue_depth.get("allocate", NO_DEPTH_LIMIT),
    )


def _k_value(text: str | None) -> float:
    """1 where unset or unreadable, 0 where negative (2.3)."""
    try:
        return max(0.0, float(text)) if text is not None else 1.0
    except ValueError:
        return 1.0
