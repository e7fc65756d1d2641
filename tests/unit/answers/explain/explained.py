"""Explanations of the group g of small clusters, as the tests of each kind of change ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from kai_sched import Config
from kai_sched.answers.explain.explanation import Explanation, explain
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import workloads_of
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

GROUP = "ns/g"


def explanation(
    text: str, group: str = GROUP, config: Config | None = None, shards: Sequence[Config] = ()
) -> Explanation:
    """Why the group waits in the cluster of this text, of which these are all shards."""
    cluster = cluster_of(text)
    workloads = workloads_of(cluster)
    return explain(Trials(cluster, config or Config(), NOW_NS, shards=shards), workloads.of(group), workloads)


def suggested(found: Explanation) -> dict[str, list[str]]:
    """The changes that start it, by kind, in words."""
    texts: dict[str, list[str]] = {}
    for each, _ in found.suggestions:
        texts.setdefault(each.kind, []).append(each.text)
    return texts


def flags(found: Explanation, kind: str) -> list[str]:
    """The flags of the changes of one kind."""
    return [change.flag for each, _ in found.suggestions if each.kind == kind for change in each.changes]


def helpless(found: Explanation) -> dict[str, str]:
    """The kinds of changes that do not help, and how far they were tried."""
    return {each.kind: each.bound for each in found.nothing}


def constraints(found: Explanation) -> list[tuple[str, bool]]:
    """What blocks it, and whether that alone does."""
    return [(each.kind, each.necessary) for each in found.constraints]
