"""Evictions in one headline for each group that gets room: who pays how much."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Cluster, Config, run_cycle
from kai_sched.answers.headlines import Headline, Victim, headlines, paid_text, victims_of
from kai_sched.answers.workloads import Workload, workloads_of
from kai_sched.model.keys import bare_pod_group_key
from kai_sched.plan.effects import Evict
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

RECLAIM = """
    node n gpu=16
    queue research gpu=8
    queue product gpu=8
    group sft owner=PyTorchJob/llama3-70b-sft queue=research min=2 started=180000
    pod sft-0..1 gpu=8 on=n
    group serve owner=RayCluster/chat-serving queue=product min=1
    pod serve-0 gpu=4
"""


def evictions(cluster: Cluster) -> list[Evict]:
    return [each for each in run_cycle(cluster, Config(), NOW_NS).effects if isinstance(each, Evict)]


def told(text: str) -> list[Headline]:
    cluster = cluster_of(text)
    return headlines(evictions(cluster), cluster, workloads_of(cluster), NOW_NS)


def victim(
    name: str, pods: int = 1, gpus: float = 2.0, queue: str = "q", up_s: float = 0.0, of_pods: int = 0
) -> Victim:
    return Victim(Workload("Job", "ns", name, f"ns/{name}"), queue, pods, of_pods or pods, gpus, up_s)


def test_a_gang_that_pays_is_one_headline_with_what_it_costs_and_what_stays_free() -> None:
    (found,) = told(RECLAIM)
    assert found.text == (
        "To place 4 GPUs for chat-serving this evicts llama3-70b-sft (research): 2 pods, 16 GPUs, up 2d 2h; "
        "12 GPUs stay free"
    )
    assert (found.action, found.queue, found.asked, found.pods, found.gpus) == ("reclaim", "product", 4.0, 2, 16.0)
    assert found.rule == "reclaims the share of its queue"


def test_part_of_an_elastic_group_is_told_as_part() -> None:
    (found,) = told(RECLAIM.replace("research min=2", "research min=1"))
    assert "llama3-70b-sft (research): 1 of its 2 pods, 8 GPUs, up 2d 2h; 4 GPUs stay free" in found.text


def test_pods_that_are_moved_are_no_victims() -> None:
    (found,) = told("""
        node a gpu=8
        node b gpu=8
        group small min=1
        pod small-0 gpu=4 on=a
        group other min=1
        pod other-0 gpu=4 on=b
        group big min=1
        pod big-0 gpu=8
    """)
    assert found.text.startswith("To place 8 GPUs for big this moves ")
    assert "stay free" not in found.text
    assert (found.action, [each.moved for each in found.victims]) == ("consolidation", [1])


def test_a_stale_gang_has_no_winner() -> None:
    (found,) = told("node n gpu=8\ngroup g min=2 stale=120\npod g-0 gpu=4 on=n")
    assert (found.winner, found.action) == (None, "stalegangeviction")
    assert found.text == (
        "g (q): 1 pod, 4 GPUs, up 16h 38m: its gang was below its minimum for longer than its staleness grace period"
    )


def test_evictions_for_different_groups_are_different_headlines() -> None:
    found = told("""
        node n gpu=16
        queue rich gpu=0
        queue poor gpu=16
        group a queue=rich min=1
        pod a-0 gpu=8 on=n
        group b queue=rich min=1
        pod b-0 gpu=8 on=n
        group x queue=poor min=1
        pod x-0 gpu=8
        group y queue=poor min=1
        pod y-0 gpu=8
    """)
    assert [(each.winner.name if each.winner else "", len(each.victims)) for each in found] == [("x", 1), ("y", 1)]


def test_the_evictions_of_a_pod_count_once() -> None:
    cluster = cluster_of(RECLAIM)
    found = evictions(cluster)
    (once,) = victims_of([*found, *found], cluster, workloads_of(cluster), NOW_NS)
    assert (once.pods, once.of_pods, once.gpus, once.up_s) == (2, 2, 16.0, 180_000.0)


def test_without_a_start_the_oldest_pod_that_is_evicted_says_how_long_it_is_up() -> None:
    (found,) = told(RECLAIM.replace(" started=180000", "").replace("gpu=8 on=n", "gpu=8 on=n age=60"))
    assert found.victims[0].up_s == 3600.0


def test_a_bare_pod_beside_a_pod_group_of_its_name_is_counted_apart() -> None:
    """The pod is the victim, and is one of one; the group of that name has two others."""
    cluster = cluster_of(
        "group twin\npod twin-0..1 group=twin gpu=1 on=n\npod twin queue=q group= gpu=1 on=n\nnode n gpu=3"
    )
    key = bare_pod_group_key("ns/twin")
    evict = Evict("ns/twin", "twin", "n", "reclaim", "ns/twin", key, (("gpu", 1.0),), "", False, ())
    (found,) = victims_of([evict], cluster, workloads_of(cluster), NOW_NS)
    assert (found.workload.kind, found.queue, found.pods, found.of_pods) == ("Pod", "q", 1, 1)
    (headline,) = headlines([evict], cluster, workloads_of(cluster), NOW_NS)
    assert (headline.winner is not None and headline.winner.kind, headline.asked) == ("PodGroup", 0.0)


@pytest.mark.parametrize(
    ("victims", "told_as"),
    [
        ([victim("a")], "a (q): 1 pod, 2 GPUs"),
        ([victim("a", gpus=0.0)], "a (q): 1 pod"),
        ([victim("a", queue="")], "a: 1 pod, 2 GPUs"),
        ([replace(victim("a", pods=2, up_s=3600), of_pods=5)], "a (q): 2 of its 5 pods, 2 GPUs, up 1h"),
        ([victim("t-4"), victim("t-5", up_s=60), victim("t-6")], "t-{4..6} (q): 3 x 1 pod, 2 GPUs, up 1m"),
        ([victim("t-4"), victim("t-5", gpus=4.0)], "t-4 (q): 1 pod, 2 GPUs, and t-5 (q): 1 pod, 4 GPUs"),
        ([victim("t-4"), victim("t-5", queue="r")], "t-4 (q): 1 pod, 2 GPUs, and t-5 (r): 1 pod, 2 GPUs"),
    ],
)
def test_who_pays_in_words(victims: list[Victim], told_as: str) -> None:
    assert paid_text(victims) == told_as
