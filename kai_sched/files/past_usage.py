"""What queues used in the past, as a running scheduler has written it down, for whoever decides on its cluster offline:
the text ``usage`` in its ConfigMap (semantics 2.7).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from kai_sched.api import core, names
from kai_sched.files.items import Item, problem_in
from kai_sched.model.config import CLUSTER, Config, past_usage_map
from kai_sched.model.objects import UsedShares
from kai_sched.model.problems import Problem
from kai_sched.reconcile.past_usage import PoolPast

CONFIG_MAP = ("v1", "ConfigMap")
REMEDY = "the past does not count: read the cluster again"


class UsageMap(core.Wire):
    """A ConfigMap with what was used."""

    metadata: core.Meta | None = None
    data: dict[str, str] | None = None


class _Shares(msgspec.Struct):
    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0


_decode_map = msgspec.json.Decoder(UsageMap).decode
_decode_usage = msgspec.json.Decoder(dict[str, _Shares]).decode


def _usage_in(items: Sequence[Item], config: Config, problems: list[Problem]) -> Mapping[str, UsedShares]:
    """The parts of the cluster by queue; none where the past does not count, or where nothing was written down."""
    if not config.usage.source:
        return {}
    place = past_usage_map(config)
    for item in items:
        if item.kind != CONFIG_MAP or place[1].encode() not in item.raw:
            continue
        try:
            found = _decode_map(item.raw)
            meta = found.metadata or core.Meta()
            if (meta.namespace, meta.name) != place:
                continue
            text = (found.data or {}).get(names.PAST_USAGE_KEY, "{}")
            return {queue: _shares(each) for queue, each in _decode_usage(text).items()}
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError) as error:
            problems.append(problem_in(item, f"data.{names.PAST_USAGE_KEY}", f"{error}: {REMEDY}"))
    return {}


def pasts_of_shards(
    items: Sequence[Item], config: Config, shards: Sequence[Config], problems: list[Problem]
) -> tuple[PoolPast, ...]:
    """What was written down for each of these shards, or for all of them at once, as ``config`` says (2.8).

    What cannot be read is added to ``problems``, and the past of that shard does not count.
    """
    configs = (config,) if config.fair_share == CLUSTER else shards
    return tuple(PoolPast(each, _usage_in(items, each, problems)) for each in configs)


def _shares(given: _Shares) -> UsedShares:
    shares = UsedShares(given.cpu, given.memory, given.gpu)
    if not all(0 <= share < math.inf for share in shares):
        raise ValueError(f"{max(shares):g} is no part of a cluster")
    return shares
