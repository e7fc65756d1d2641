"""What the ConfigMap of kinds can say: default priority and preemptibility of a kind, and gangs of kinds without a rule
(API 3.5).

The ConfigMap has two keys, both JSON lists and both optional. ``types`` gives kinds their defaults:

    [{"typeName": "RayJob", "group": "ray.io", "priorityName": "build", "preemptibility": "preemptible"}]

``rules`` make gangs of the pods of kinds that have no rule of their own:

    [{"kind": "Solver", "group": "example.com", "minimum": "spec.minWorkers", "replicas": "spec.roles[*].replicas"}]

The minimum of the gang is the number at ``minimum``, else the sum of those at ``replicas``, else 1. A path is made of
names with dots between them; ``[*]`` stands for all items of a list, or all values of a mapping.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from kai_sched.api import core
from kai_sched.model.config import Config
from kai_sched.reconcile.grouping.workload_errors import Note

_PATH = re.compile(r"[\w-]+(\[\*\])?(\.[\w-]+(\[\*\])?)*", re.ASCII)


class KindDefault(core.Wire):
    """The defaults of a kind, for objects that do not say otherwise."""

    type_name: str
    group: str | None = None
    priority_name: str | None = None
    preemptibility: str | None = None


class KindRule(core.Wire):
    """Where an object of a kind says how many pods it wants."""

    kind: str
    group: str | None = None
    minimum: str | None = None
    replicas: str | None = None


# By group and kind, the group empty for core; a kind alone stands for itself in every group.
KindDefaults = Mapping[str, KindDefault]
KindRules = Mapping[tuple[str, str], KindRule]

Entry = TypeVar("Entry", KindDefault, KindRule)


@dataclass(frozen=True, slots=True)
class GroupingSettings:
    """What the rules go by. ``priority_classes`` are the names of the classes that exist.

    ``plugins`` are rules of other packages (``workload_kind``), by apiVersion and kind. ``topologies`` are the levels
    of each Topology. ``kubernetes_groups`` is whether the API server has PodGroups of Kubernetes itself.
    """

    config: Config = field(default_factory=Config)
    priority_classes: Set[str] = frozenset()
    defaults: KindDefaults = field(default_factory=dict)
    rules: KindRules = field(default_factory=dict)
    plugins: Mapping[tuple[str, str], Callable[[Any], Any]] = field(default_factory=dict)
    topologies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kubernetes_groups: bool = True

    def default(self, group: str, kind: str) -> KindDefault | None:
        """What the ConfigMap says of the kind."""
        return self.defaults.get(f"{kind}.{group}") or self.defaults.get(kind)


def read_kinds(data: Mapping[str, str], subject: str) -> tuple[KindDefaults, KindRules, list[Note]]:
    """What the ConfigMap ``subject`` says; ``data`` is its data. Entries with faults are noted and ignored."""
    notes: list[Note] = []
    defaults = {
        f"{each.type_name}.{each.group}" if each.group else each.type_name: each
        for each in _entries(data, "types", KindDefault, subject, notes)
    }
    rules: dict[tuple[str, str], KindRule] = {}
    for i, rule in enumerate(_entries(data, "rules", KindRule, subject, notes)):
        wrong = [path for path in (rule.minimum, rule.replicas) if path and not _PATH.fullmatch(path)]
        if wrong:
            message = f"{wrong[0]!r} is not a path: write it as spec.replicas or spec.roles[*].replicas"
            notes.append(Note(subject, f"data.rules[{i}]", message))
            continue
        rules[rule.group or "", rule.kind] = rule
    return defaults, rules, notes


def _entries(data: Mapping[str, str], key: str, kind: type[Entry], subject: str, notes: list[Note]) -> list[Entry]:
    text = data.get(key)
    if not text:
        return []
    try:
        return msgspec.json.decode(text, type=list[kind])  # type: ignore[valid-type]
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"not the JSON list that is wanted there, so it is left out: {str(error)[:200]}; correct it"
        notes.append(Note(subject, f"data.{key}", message))
        return []
