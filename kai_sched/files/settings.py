"""The config of a cluster from files: which Config, SchedulingShard and config file count, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from kai_sched.api import names
from kai_sched.files.dump_info import DumpInfo
from kai_sched.files.errors import BrokenInput
from kai_sched.files.items import Item, problem_in, unfold, warner
from kai_sched.files.sources import FilePosition, documents
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.problems import Problem
from kai_sched.model.read.config import config_from_file, config_from_operator, config_from_shard
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD, split_custom
from kai_sched.reconcile.admission.types import admission_from_operator
from kai_sched.telemetry.pace import Pace

# Overrides a config by a config file. Raises FieldError.
Overlay = Callable[[Config], Config]


def cluster_config(items: Sequence[Item], dump: DumpInfo | None, problems: list[Problem]) -> Config:
    """The operator's defaults or the settings of the dump, changed by the object kai-config and by the shard: the one
    that the dump names, ``default``, or the only one.

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
                sharing = admission_from_operator(spec if spec.startswith(b"{") else b"{}").gpu_sharing
                config = replace(config, gpu_sharing=sharing)
        except FieldError as error:
            problems.append(problem_in(item, error.field, error.message, fatal=True))
    name = dump.shard if dump and dump.shard else names.DEFAULT_SHARD
    chosen = shards.get(name)
    if chosen is None and len(shards) == 1:
        chosen = next(iter(shards.values()))
    if chosen is None and shards:
        text = f"{len(shards)} of them and none is named {name}, so all are ignored: choose with --config"
        problems.append(Problem("", "SchedulingShard", "", text))
    if chosen is None:
        return config
    item, spec = chosen
    try:
        return config_from_shard(spec, config, warner(item, problems))
    except FieldError as error:
        problems.append(problem_in(item, error.field, error.message, fatal=True))
        return config


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
