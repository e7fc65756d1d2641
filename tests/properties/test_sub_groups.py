"""Whatever a pod group says of its sub-groups: everything that reads them copes, and agrees on what they are."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.lowering.sub_group_tree import make_layout
from kai_sched.model import objects as o
from kai_sched.model.checks import pod_sets, problems_of, tree_fault
from kai_sched.plan.effects import PatchStatus
from kai_sched.reconcile.status.reconciler import StatusReconciler
from kai_sched.reconcile.status.usage import QueueUsage
from tests.properties.clusters import NOW_NS

UNLIMITED = o.Share(-1.0, -1.0, 1.0)
SHAPE = o.Shape((("cpu", 1000.0), ("pods", 1.0)))
NAMES = st.sampled_from(("", "a", "b", "c", "d", "e", "default"))
COUNTS = st.sampled_from((None, -1, 0, 1, 2, 2**40))
ENTRIES = st.builds(o.SubGroup, NAMES, st.one_of(NAMES, st.just("missing")), COUNTS, COUNTS)
GROUPS = st.builds(
    lambda entries, member, sub: o.PodGroup(
        "ml", "g", "u", queue="q", sub_groups=tuple(entries), min_member=member, min_sub_group=sub
    ),
    st.lists(ENTRIES, max_size=8),
    COUNTS,
    COUNTS,
)


def cluster_with(group: o.PodGroup) -> Cluster:
    """The group, a pod of each of its sub-groups, and one without a group."""
    names = sorted({each.name for each in group.sub_groups})[:20] or [""]
    pods = [o.Pod("ml", f"p{n}", SHAPE, f"u{n}", group="g", sub_group=name) for n, name in enumerate(names)]
    return Cluster.of(
        [
            o.Queue("q", cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED),
            o.Node("n", allocatable={"cpu": 64_000.0, "memory": 1e12, "pods": 110.0}),
            group,
            *pods,
            o.Pod("ml", "other", SHAPE, queue="q", scheduler="kai-scheduler"),
        ]
    )


def in_a_circle_or_lost(group: o.PodGroup) -> bool:
    """The plain definition of sub-groups that are no tree."""
    parents = {each.name: each.parent for each in group.sub_groups}
    if len(parents) < len(group.sub_groups) or "" in parents:
        return True
    for name in parents:
        for _ in range(len(parents) + 1):
            if name and name not in parents:
                return True
            name = parents.get(name, "")
        if name:
            return True
    return False


@given(GROUPS)
def test_any_sub_groups_are_coped_with(group: o.PodGroup) -> None:
    cluster, config = cluster_with(group), Config()
    problems_of(cluster, config)
    tally, layout = QueueUsage(cluster, config), make_layout(group)
    assert (tree_fault(group) is not None) == in_a_circle_or_lost(group)
    assert tally.groups["ml/g"].sets == pod_sets(group) == set(layout.pod_sets)
    result = run_cycle(cluster, config, NOW_NS)
    assert result.pods["ml/other"].status == "Binding"
    assert "ml/g" in result.groups
    reconciler = StatusReconciler(config)
    reconciler.observe_queue("q", "", b"")
    reconciler.observe_pod_group("ml/g", "u", b"")
    writes, _ = reconciler.writes(cluster, result, NOW_NS, NOW_NS)
    assert "q" in {write.ref.name for write in writes if isinstance(write, PatchStatus)}, "others are told of, too"


LONG = 10_000
DEEP = {
    "a chain": [(f"s{n}", f"s{n - 1}" if n else "") for n in range(LONG)],
    "a chain, last first": [(f"s{n}", f"s{n - 1}" if n else "") for n in reversed(range(LONG))],
    "a circle": [(f"s{n}", f"s{(n - 1) % LONG}") for n in range(LONG)],
    "a chain into the void": [(f"s{n}", f"s{n - 1}" if n else "void") for n in reversed(range(LONG))],
    "side by side": [(f"s{n}", "") for n in range(LONG // 5)],
}


@pytest.mark.parametrize("shape", DEEP)
def test_thousands_of_sub_groups_take_no_time(shape: str) -> None:
    group = o.PodGroup("ml", "g", queue="q", sub_groups=tuple(o.SubGroup(*entry) for entry in DEEP[shape]))
    cluster, config = cluster_with(group), Config()
    began = time.process_time()
    problems_of(cluster, config)
    QueueUsage(cluster, config)
    result = run_cycle(cluster, config, NOW_NS)
    assert result.pods["ml/other"].status == "Binding"
    assert "ml/g" in result.groups
    assert time.process_time() - began < 30.0, "a walk up for each of them would take minutes"
