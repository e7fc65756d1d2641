"""``kai-sched convert-kueue``: Queues on the standard output, and on stderr what has no meaning in them."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from kai_sched.cli.inputs import BAD_INPUT, ClusterOptions, print_problems
from kai_sched.cli.migration.found import KUEUE, KUEUE_KINDS, name_of, part
from kai_sched.cli.migration.kueue_fields import (
    KINDS,
    Notes,
    fields_of_flavor,
    fields_of_local_queue,
    fields_of_queue,
    priority_class,
)
from kai_sched.cli.migration.kueue_objects import is_of_kueue, read_anything, read_queue_like
from kai_sched.cli.migration.kueue_queues import CLUSTER_QUEUE, COHORT, KueueQueue, kueue_queue, queues_of
from kai_sched.files.items import Item, problem_in, read_items
from kai_sched.files.sources import FilePosition
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.model.read.meta import DEFAULT_NAMESPACE
from kai_sched.telemetry.pace import Pace

CONNECTIONS = 8
NAMESPACED = "LocalQueue"


@dataclass(frozen=True, slots=True)
class Converted:
    """Queues as they are applied, each with the object that it was made of, and what is to say about the input."""

    queues: tuple[tuple[str, dict[str, Any]], ...]
    problems: tuple[Problem, ...]


def convert_kueue(paths: Sequence[str], cluster: ClusterOptions | None) -> int:
    """Print the Queues; return the exit status: 0, or 2 if the input cannot be used."""
    problems: list[Problem] = []
    items = list(read_items(paths, sys.stdin.buffer, Pace(None), problems, [], {}))
    if cluster is not None:
        items += _read_cluster(cluster, problems)
    found = converted(items)
    if print_problems([*problems, *found.problems]):
        return BAD_INPUT
    for number, (origin, manifest) in enumerate(found.queues):
        print("---\n" * (number > 0) + f"# {origin}")
        print(yaml.safe_dump(manifest, sort_keys=False, default_flow_style=None, width=110), end="")
    return 0


def converted(items: Sequence[Item]) -> Converted:
    """The Queues for the objects of Kueue among the items. What is wrong is in ``problems``, some of them fatal."""
    problems: list[Problem] = []
    found: dict[str, tuple[Item, KueueQueue]] = {}
    for item in items:
        if not is_of_kueue(item) or item.kind[1] not in (CLUSTER_QUEUE, COHORT):
            continue
        try:
            each = kueue_queue(item.kind[1], *read_queue_like(item))
            each.notes += fields_of_queue(read_anything(item).get("spec") or {}, each.kind)
        except FieldError as error:
            problems.append(problem_in(item, error.field, error.message, fatal=True))
            continue
        if each.subject in found:
            text = f"already defined in {found[each.subject][0].source}: remove one of them"
            problems.append(problem_in(item, "", text, fatal=True))
        found[each.subject] = item, each
    if not found and not problems:
        text = "no ClusterQueue and no Cohort in the input: name files that `kubectl get clusterqueues -o yaml` printed"
        return Converted((), (Problem("", "", "", text, fatal=True),))
    try:
        queues = queues_of(each for _, each in found.values())
    except FieldError as error:
        return Converted((), (*problems, Problem("", COHORT, error.field, error.message, fatal=True)))
    for item, each in found.values():
        problems += [problem_in(item, field, text) for field, text in each.notes]
    problems += _others(items, {each.name: each.queue for each, _ in queues if each.kind == CLUSTER_QUEUE})
    return Converted(tuple((each.subject, manifest) for each, manifest in queues), tuple(problems))


def _others(items: Sequence[Item], known: Mapping[str, str]) -> list[Problem]:
    """What is to say about all other objects."""
    problems: list[Problem] = []
    kinds: Counter[str] = Counter()
    for item in items:
        if not is_of_kueue(item):
            kinds[f"{item.kind[1]} ({item.kind[0]})"] += 1
        elif item.kind[1] not in (CLUSTER_QUEUE, COHORT):
            try:
                notes = _notes_of(item.kind[1], read_anything(item), known)
            except FieldError as error:
                problems.append(problem_in(item, error.field, error.message, fatal=True))
                continue
            problems += [problem_in(item, field, text) for field, text in notes]
    for name, number in sorted(kinds.items()):
        problems.append(Problem("", name, "", f"passed over, as they are not of {KUEUE}: {number} objects"))
    return problems


def _notes_of(kind: str, manifest: Mapping[str, Any], known: Mapping[str, str]) -> Notes:
    """What is to say about an object that is neither ClusterQueue nor Cohort."""
    spec = part(manifest, "spec")
    spec = spec if isinstance(spec, dict) else {}
    if kind == NAMESPACED:
        namespace = str(part(manifest, "metadata", "namespace") or DEFAULT_NAMESPACE)
        return fields_of_local_queue(name_of(manifest), namespace, spec, known)
    if kind == "ResourceFlavor":
        return fields_of_flavor(spec)
    if kind == "WorkloadPriorityClass":
        return [("value", priority_class(manifest))]
    return [("", KINDS.get(kind, "not converted: this version does not know the kind"))]


def _read_cluster(cluster: ClusterOptions, problems: list[Problem]) -> list[Item]:
    """The objects of a running cluster; a kind that may not be listed is an error, as half of a tree misleads."""
    from kai_sched.cli.migration.reading import read_foreign
    from kai_sched.cluster.client import Api, ApiFailure
    from kai_sched.cluster.login import LoginFailure

    async def read() -> list[Item]:
        api = await Api.connect(cluster.kubeconfig, cluster.context, CONNECTIONS)
        try:
            found = await read_foreign(api, KUEUE_KINDS, with_pods=False)
        finally:
            await api.close()
        problems.extend(Problem("cluster", what, "", why, fatal=True) for what, why in found.unreadable)
        return [
            Item(FilePosition("cluster"), (str(each["apiVersion"]), kind.kind), msgspec.json.encode(each))
            for kind, objects in found.objects.items()
            for each in objects
        ]

    try:
        return asyncio.run(read())
    except (LoginFailure, ApiFailure) as failure:
        problems.append(Problem("cluster", "", "", str(failure), fatal=True))
        return []
