"""Whether a group would start in another node pool: changes of its label, tried with the cycles of all shards; and what
its own pool lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kai_sched.answers.explain.constraints import Constraint, room_text
from kai_sched.answers.explain.search import Changes, TrialSearch
from kai_sched.answers.explain.suggestion import USER, Finding, NothingHelps, Suggestion
from kai_sched.answers.goal import group_queue
from kai_sched.answers.workload_changes import InPool, InQueue
from kai_sched.model.checks import leaf_queues
from kai_sched.model.config import Config, sees_queue
from kai_sched.model.objects import Pod

KIND = "nodePool"
MOST_POOLS = 3


def pool_findings(search: TrialSearch) -> Iterator[Finding]:
    """Other pools in which the group starts, those first in which it costs others least.

    ``search`` decides all shards. Where the queue of the group is not one of the other pool, it changes, too.
    """
    others = [shard for shard in search.trials.shards if shard.node_pool != search.config.node_pool]
    if not others:
        return
    queue = group_queue(search.trials.cluster, search.group)
    able: list[tuple[int, str, Changes]] = []
    looked = others[: search.affordable(len(others))]
    for shard in looked:
        for changes in _moves(search, queue, shard):
            if search.starts(changes):
                able.append((len(search.tried(changes).evicted), shard.node_pool, changes))
                break
    for _, pool, changes in sorted(able, key=lambda each: each[:2])[:MOST_POOLS]:
        yield Suggestion(KIND, USER, _text(search, pool, changes), "", changes)
    if not able:
        yield NothingHelps(KIND, USER, f"another node pool ({len(looked)} of {len(others)} tried)")


def _moves(search: TrialSearch, queue: str, shard: Config) -> Iterator[Changes]:
    """The changes that put the group into the pool of this shard: with its own queue, or with each of that pool."""
    cluster = search.trials.cluster
    move = InPool(search.group, shard.node_pool, shard.node_pool_label)
    own = cluster.queues.get(queue)
    if own is not None and sees_queue(own.labels, shard):
        yield (move,)
        return
    leaves = [name for name in leaf_queues(cluster, shard) if sees_queue(cluster.queues[name].labels, shard)]
    for name in leaves[: search.affordable(len(leaves))]:
        yield (move, InQueue(search.group, name))


def _text(search: TrialSearch, pool: str, changes: Changes) -> str:
    text = f"{_named(pool)} instead of {_named(search.config.node_pool)}"
    queues = [each.queue for each in changes if isinstance(each, InQueue)]
    return f"{text}, in queue {queues[0]}" if queues else text


def _named(pool: str) -> str:
    return f"node pool {pool}" if pool else "no node pool"


def pool_constraints(search: TrialSearch, found: Sequence[Finding], waiting: Sequence[Pod]) -> Iterator[Constraint]:
    """That its pool blocks the group, where it starts in another one; ``found`` are the ``pool_findings``."""
    for each in found:
        if isinstance(each, Suggestion):
            own, (_, _, room) = _named(search.config.node_pool), room_text(search, waiting).partition(": ")
            room = room.rpartition(": ")[2]
            others = [change.pool for change in each.changes if isinstance(change, InPool)]
            there = f"in {_named(others[0])}" if others[0] else "without a node pool"
            text = f"pool: {own} ({room}); it starts {there}"
            yield Constraint("pool", text, True, each.changes)
            return
