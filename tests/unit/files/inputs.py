"""Objects to write, and what became of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kai_sched.files.load import Loaded, SimulationCase, load

Write = Callable[..., str]


def thing(kind: str, name: str, spec: dict[str, Any] | None = None, namespace: str = "", **more: Any) -> dict[str, Any]:
    versions = {
        "Queue": "scheduling.run.ai/v2",
        "PodGroup": "scheduling.run.ai/v2alpha2",
        "SchedulingShard": "kai.scheduler/v1",
    }
    versions |= {
        "Config": "kai.scheduler/v1",
        "Topology": "kai.scheduler/v1alpha1",
        "Scenario": "kai-sched.io/v1alpha1",
    }
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": versions.get(kind, "v1"), "kind": kind, "metadata": meta, "spec": spec or {}, **more}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    share = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    return thing("Queue", name, {"resources": {"cpu": share, "memory": share, "gpu": share}, **spec})


def listing(*items: dict[str, Any], kind: str = "List", version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"resourceVersion": ""}, "items": list(items)}


def clean(*paths: str, **more: Any) -> tuple[SimulationCase, ...]:
    loaded = load(paths, **more)
    assert [str(problem) for problem in loaded.problems] == []
    return loaded.cases


def told(loaded: Loaded) -> list[str]:
    return [("error: " if problem.fatal else "warning: ") + str(problem) for problem in loaded.problems]
