"""Scenarios as text: reads the blocks of a file, and says what came out in their notation (README.md)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kai_sched import Cluster, Config, CycleResult
from kai_sched.model.config import OPERATOR_PLUGINS
from kai_sched.model.objects import Object, PriorityClass
from kai_sched.plan.effects import Bind
from kai_sched.plan.result import QUEUE_RESOURCES
from tests.scenarios import numa
from tests.scenarios.claims import has, own_claim
from tests.scenarios.objects import MAKERS, G

UNITS = {"cpu": 1000.0, "memory": G}
MIN_RUNTIME = {
    "minpreempt": "defaultPreemptMinRuntime",
    "minreclaim": "defaultReclaimMinRuntime",
    "resolve": "reclaimResolveMethod",
}


@dataclass
class Scenario:
    """One block: what is there, how the scheduler is set up (``options``), and what must come out (``expected``)."""

    name: str
    rule: str = ""
    objects: list[Object] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    expected: list[list[str]] = field(default_factory=list)

    @property
    def cycles(self) -> int:
        """How many cycles there are; what is expected is the outcome of the last one."""
        return int(self.options.get("cycles", 1))

    @property
    def step_ns(self) -> int:
        """How far the clock moves on between two cycles."""
        return int(float(self.options.get("step", 0)) * 1e9)

    @property
    def pipelined_free(self) -> frozenset[str]:
        """The groups that an earlier cycle promised free room."""
        return frozenset(f"ns/{name}" for name in self.options.get("keep", "").split(","))

    @property
    def configs(self) -> list[Config]:
        """The settings of each shard that is decided, one after the other."""
        pools = (
            [pool.replace("none", "") for pool in self.options["pools"].split(",")] if "pools" in self.options else []
        )
        fair_share = "cluster" if "fairshare" in self.options else "pool"
        return [replace(self.config(), node_pool=pool, fair_share=fair_share) for pool in sorted(pools)]

    def config(self) -> Config:
        placement = {name: self.options.get(name, "binpack") for name in ("gpu", "cpu")}
        plugins = {**OPERATOR_PLUGINS, "nodeplacement": placement}
        if "k" in self.options:
            plugins["proportion"] = {"kValue": self.options["k"]}
        if "multiplier" in self.options:
            plugins["proportion"] = {"relcaimerSaturationMultiplier": self.options["multiplier"]}
        if "steady" in self.options:
            plugins["proportion"] = {**plugins["proportion"], "steadyFairShareReclaim": "true"}
        plugins["minruntime"] = {
            argument: self.options[key] for key, argument in MIN_RUNTIME.items() if key in self.options
        }
        if "numa" in self.options:
            plugins["numa"] = pairs(self.options["numa"].split(",")) if self.options["numa"] else {}
        for name in self.options.get("without", "").split(","):
            plugins.pop(name, None)
        actions = tuple(self.options.get("actions", "allocate").split(","))
        depth = {actions[0]: int(self.options["depth"])} if "depth" in self.options else {}
        return Config(
            actions,
            plugins,
            depth,
            staleness_grace_s=float(self.options.get("grace", 60)),
            max_consolidation_preemptees=int(self.options.get("max", -1)),
            victims=self.options.get("victims", Config().victims),
            allow_consolidating_reclaim="strict" not in self.options,
            use_scheduling_signatures="nosignatures" not in self.options,
            node_pool=self.options.get("pool", ""),
            restrict_node_scheduling="restrict" in self.options,
            schedule_csi_storage="csi" in self.options,
            full_hierarchy_fairness="flat" not in self.options,
        )


def blocks(folder: Path) -> Iterator[tuple[str, Scenario]]:
    """Every scenario of the folder with its id: file and name."""
    for path in sorted(folder.glob("*.txt")):
        for scenario in read(path):
            yield f"{path.stem}: {scenario.name}", scenario


def read(path: Path) -> list[Scenario]:
    """All blocks of the file, in its order. A line that is not understood is an error that names it."""
    return read_text(path.read_text(), path.name)


def cluster_of(text: str) -> Cluster:
    """The cluster of a block that has objects alone, for tests of what is asked about a cluster."""
    lines = [line.strip() for line in text.strip().splitlines()]
    (scenario,) = read_text("\n".join(["case cluster", *lines, "=> order"]), "cluster")
    return Cluster.of(scenario.objects)


def read_text(text: str, name: str) -> list[Scenario]:
    """All blocks of the text of the file ``name``."""
    found: list[Scenario] = []
    lines: list[tuple[str, dict[str, str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.partition(" ")
        if word == "case":
            lines = []
            found.append(Scenario(rest))
        elif word == "rule":
            found[-1].rule = rest
        elif word == "config":
            found[-1].options |= pairs(shlex.split(rest))
        elif word == "=>":
            found[-1].objects = found[-1].objects or _objects(lines)
            found[-1].expected.append(shlex.split(rest))
        elif word in MAKERS:
            names, *words = shlex.split(rest)
            lines += [(word, {"name": each} | pairs(words)) for each in expand(names)]
        elif word not in ("", "why", "#"):
            known = ", ".join(["case", "rule", "why", "config", "=>", *MAKERS])
            raise ValueError(f"{name}:{number}: cannot read {line!r}: a line starts with one of {known}")
    return found


def expand(name: str) -> list[str]:
    """The names that "g-0..2" stands for: g-0, g-1, g-2."""
    match = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", name)
    return [f"{match[1]}{k}" for k in range(int(match[2]), int(match[3]) + 1)] if match else [name]


def pairs(words: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (word.partition("=") for word in words)}


def _objects(lines: list[tuple[str, dict[str, str]]]) -> list[Object]:
    """The objects of the block and those it leaves out: an unlimited queue "q", a gang of all pods of each prefix."""
    groups = {words["name"] for kind, words in lines if kind == "group"}
    pods = [words for kind, words in lines if kind == "pod"]
    for words in pods:
        words.setdefault("group", "" if "foreign" in words else words["name"].rpartition("-")[0])
    named = dict.fromkeys(words["group"] for words in pods if words["group"] not in groups | {""})
    sizes = {name: str(sum(words["group"] == name for words in pods)) for name in named}
    lines.extend(("group", {"name": name, "min": size}) for name, size in sizes.items())
    queues = {words["name"]: words.get("queue", "q") for kind, words in lines if kind == "group"}
    owned = [{**own_claim(words), "queue": queues.get(words["group"], "q")} for words in pods if "own" in words]
    lines.extend(("resourceclaim", words) for words in owned)
    if all(kind != "queue" for kind, _ in lines):
        lines.append(("queue", {"name": "q"}))
    made = [MAKERS[kind](words, place) for place, (kind, words) in enumerate(lines)]
    values = {words["prio"] for kind, words in lines if kind == "group" and "prio" in words}
    return made + [PriorityClass(f"p{value}", int(value)) for value in sorted(values)]


def outcome(expected: list[str], result: CycleResult) -> list[str]:
    """What came out, said as the expectation says it, so that equal lists mean that it holds."""
    match expected:
        case ["order", *_]:
            return ["order", *(_short(effect.pod) for effect in result.effects)]
        case ["evicted", *_]:
            return ["evicted", *(_short(effect.pod) for effect in evictions(result))]
        case ["cause", pod, *_]:
            words = [(each.action, _short(each.cause)) for each in evictions(result) if _short(each.pod) == pod]
            return ["cause", pod, *(word for pair in words for word in pair if word)]
        case ["group", name, _, *texts]:
            reason = result.groups[f"ns/{name}"].reason
            message = reason.message if reason else ""
            missing = [f"(not in {message!r}: {text})" for text in texts if text not in message]
            return ["group", name, reason.code if reason else "-", *(missing or texts)]
        case [names, "has", *_]:
            return [names, "has", *has(expand(names), result)]
        case [pod, "in", *_]:
            (bind,) = [each for each in result.effects if isinstance(each, Bind) and each.pod == f"ns/{pod}"]
            return [pod, "in", *numa.in_words(bind.zones)]
        case [pod, "volumes", *_]:
            (bind,) = [each for each in result.effects if isinstance(each, Bind) and each.pod == f"ns/{pod}"]
            return [pod, "volumes", *(volume or "made" for _, volume in bind.volumes)]
        case ["queue", name, field_name, *amounts]:
            (queue,) = (queue for queue in result.queues if queue.name == name)
            found = dict(zip(QUEUE_RESOURCES, getattr(queue, field_name), strict=True))
            return ["queue", name, field_name, *in_words(amounts, found)]
        case ["node", name, field_name, *amounts]:
            return ["node", name, field_name, *in_words(amounts, getattr(result.nodes[name], field_name))]
    names, _, *nodes = expected
    states = [result.pods[name if "/" in name else f"ns/{name}"] for name in expand(names)]
    statuses = " ".join(dict.fromkeys(state.status for state in states))
    places = [state.node for state in states]
    return (
        [names, statuses, *(dict.fromkeys(places) if len(nodes) <= 1 else places)] if any(places) else [names, statuses]
    )


def evictions(result: CycleResult) -> list[Any]:
    """The evictions among the effects, in their order."""
    return [effect for effect in result.effects if type(effect).__name__ == "Evict"]


def _short(key: str) -> str:
    """The name from "namespace/name"."""
    return key.rpartition("/")[2]


def in_words(asked: list[str], found: Mapping[str, float]) -> list[str]:
    """The amounts that the expectation names, in its units: cores, GB, devices."""
    texts = []
    for name in pairs(asked):
        full = "memory" if name == "mem" else name
        texts.append(f"{name}={found.get(full, 0.0) / UNITS.get(full, 1.0):g}")
    return texts
