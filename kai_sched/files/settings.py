"""The config of a cluster from files: which Config, SchedulingShard and config file count, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import msgspec

from kai_sched.api import names
from kai_sched.files.dump_info import DumpInfo
from kai_sched.files.errors import BrokenInput
from kai_sched.files.items import Item, problem_in, unfold, warner
from kai_sched.files.sources import FilePosition, documents
from kai_sched.model.config import CLUSTER, POOL, Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.model.read.config import config_from_file, config_from_operator, config_from_shard
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD, split_custom
from kai_sched.model.shards import shards_of
from kai_sched.reconcile.admission.types import admission_from_operator
from kai_sched.telemetry.pace import Pace

# Overrides a config by a config file. Raises FieldError.
Overlay = Callable[[Config], Config]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The config of the cluster, and that of each of its SchedulingShards, in the order of their names; none where the
    files have none."""

    config: Config
    shards: tuple[Config, ...] = ()


def cluster_config(
    items: Sequence[Item], dump: DumpInfo | None, problems: list[Problem], all_shards: bool = False
) -> ClusterSettings:
    """The operator's defaults or the settings of the dump, changed by the object kai-config and by the shard: the one
    that the dump names, ``default``, or the only one. With ``all_shards`` the config is that of all of them at once.

    As live, GPU sharing is off unless kai-config turns it on.
    """
    config = dump.config if dump else Config(gpu_sharing=False)
    shards: dict[str, tuple[Item, bytes]] = {}
    for item in items:
        if item.kind not in (SHARD, OPERATOR_CONFIG):
            continue
        try:
            name, spec = split_custom(item.raw, warner(item, problems))
            if item.kind == SHARD:
                shards[name] = (item, spec)
            elif name == names.CONFIG_NAME:
                config = config_from_operator(spec, config, warner(item, problems))
                sharing = admission_from_operator(spec).gpu_sharing
                config = replace(config, gpu_sharing=sharing)
        except FieldError as error:
            problems.append(problem_in(item, error.field, error.message, fatal=True))
    chosen = shards.keys() if all_shards else _chosen(shards, dump, problems)
    given = {name: _of_shard(found, config, problems if name in chosen else None) for name, found in shards.items()}
    every = shards_of(config, {name: each for name, each in given.items() if each is not None})
    if all_shards:
        problems += [Problem("", f"SchedulingShard {name}", "", text) for name, text in every.problems.items()]
        return ClusterSettings(every.whole, tuple(every.configs.values()))
    own = next((each for name in chosen if (each := given[name]) is not None), config)
    if own.fair_share == CLUSTER:
        text = "cluster is for all shards together: decide them with --all-shards; shares are those of each node pool"
        problems.append(Problem("", f"Config {names.CONFIG_NAME}", "spec.global.fairShare", text))
        own = replace(own, fair_share=POOL)
    return ClusterSettings(own, tuple(every.configs.values()) if shards else ())


def _chosen(shards: Collection[str], dump: DumpInfo | None, problems: list[Problem]) -> tuple[str, ...]:
    """The name of the shard that is decided; none where there is none, or where it is not clear which."""
    name = dump.shard if dump and dump.shard else names.DEFAULT_SHARD
    if name in shards or len(shards) == 1:
        return (name if name in shards else next(iter(shards)),)
    if shards:
        text = f"{len(shards)} of them and none is named {name}, so all are ignored: decide all with --all-shards, or "
        problems.append(Problem("", "SchedulingShard", "", f"{text}choose one with --config"))
    return ()


def _of_shard(found: tuple[Item, bytes], base: Config, problems: list[Problem] | None) -> Config | None:
    """The settings of the shard; None for one that cannot be read. ``problems`` is None where that is not told."""
    item, spec = found
    noted: list[Problem] = [] if problems is None else problems
    try:
        return config_from_shard(spec, base, warner(item, noted))
    except FieldError as error:
        noted.append(problem_in(item, error.field, error.message, fatal=True))
        return None


def read_overlay(path: str, data: bytes, problems: list[Problem]) -> Overlay:
    """The config file, or a SchedulingShard in its place. Raises BrokenInput."""
    found = list(documents(path, data, Pace(None)))
    if len(found) != 1:
        raise BrokenInput(f"{len(found)} documents: a config file has one")
    raw = bytes(found[0])
    source = FilePosition(path)

    def warn(field: str, message: str) -> None:
        problem = Problem(str(source), "", field, message)
        if problem not in problems:
            problems.append(problem)

    try:
        content = msgspec.json.decode(raw, type=dict[str, object])
    except msgspec.ValidationError:
        raise BrokenInput("not a mapping: a config file has actions, tiers and the like") from None
    if "kind" in content:
        item = next(unfold(source, raw, problems), None)
        if item is None or item.kind != SHARD:
            raise BrokenInput("neither a scheduler config file nor a SchedulingShard: give one of them")
        spec = split_custom(item.raw, warn)[1]
        return lambda config: config_from_shard(spec, config, warn)
    return lambda config: config_from_file(content, config, warn)
