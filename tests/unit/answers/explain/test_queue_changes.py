"""What the owner of a queue can change: the smallest amounts are known by hand, at every level that stops the group."""

from __future__ import annotations

from tests.unit.answers.explain.explained import explanation, flags, helpless, suggested

QUOTA = """
    node n gpu=16
    queue rich gpu=8
    queue poor gpu=4/-1/0
    group over queue=rich min=1
    pod over-0..3 gpu=4 on=n
    group g queue=poor
    pod g-0 gpu=6
"""


def test_a_quota_as_high_as_what_is_asked_for() -> None:
    """Without a weight the queue may claim its quota alone: 6 are asked for."""
    found = explanation(QUOTA)
    assert suggested(found)["quota"] == ["quota of poor 4 -> 6 GPUs"]
    assert flags(found, "quota") == ["--set queue/poor.gpu.quota=6"]
    (costs,) = [costs for each, costs in found.suggestions if each.kind == "quota"]
    assert costs.text.startswith("evicts over (rich): 2 of its 4 pods, 8 GPUs")


def test_quotas_of_two_levels_are_one_change() -> None:
    found = explanation(
        QUOTA.replace("queue poor gpu=4/-1/0", "queue dep gpu=4/-1/0\nqueue poor parent=dep gpu=2/-1/0")
    )
    assert suggested(found)["quota"] == ["quota of poor 2 -> 6 GPUs and quota of dep 4 -> 6 GPUs"]
    assert flags(found, "quota") == ["--set queue/dep.gpu.quota=6", "--set queue/poor.gpu.quota=6"]


def test_a_level_that_does_not_stop_it_stays() -> None:
    found = explanation(
        QUOTA.replace("queue poor gpu=4/-1/0", "queue dep gpu=8/-1/0\nqueue poor parent=dep gpu=2/-1/0")
    )
    assert suggested(found)["quota"] == ["quota of poor 2 -> 6 GPUs"]


def test_quota_of_what_is_not_preemptible() -> None:
    found = explanation("node a gpu=8\nqueue q gpu=2\ngroup g preemptible=no\npod g-0 gpu=3")
    assert suggested(found)["quota"] == ["quota of q 2 -> 3 GPUs"]


def test_a_limit() -> None:
    """3 are held and 3 asked for."""
    found = explanation("""
        node n gpu=16
        queue dep gpu=8/8
        queue q parent=dep gpu=2/4
        group runs queue=q
        pod runs-0 gpu=3 on=n
        group g queue=q
        pod g-0 gpu=3
    """)
    assert suggested(found)["limit"] == ["limit of q 4 -> 6 GPUs"]
    assert flags(found, "limit") == ["--set queue/q.gpu.limit=6"]
    assert helpless(found)["quota"] == "a higher quota (up to all that is asked for: q 6 GPUs)"


def test_a_limit_of_cores() -> None:
    found = explanation("node n cpu=16\nqueue q cpu=2/2\npod g-0 cpu=3.5")
    assert suggested(found)["limit"] == ["limit of q 2 -> 4 CPU cores"]
    assert flags(found, "limit") == ["--set queue/q.cpu.limit=4"]


def test_limits_of_two_levels_are_one_change() -> None:
    found = explanation("""
        node n gpu=16
        queue dep gpu=2/2
        queue q parent=dep gpu=2/4
        group g queue=q
        pod g-0 gpu=6
    """)
    assert suggested(found)["limit"] == ["limit of q 4 -> 6 GPUs and limit of dep 2 -> 6 GPUs"]


def test_quota_and_limit_together_where_neither_helps_alone() -> None:
    found = explanation("""
        node n gpu=8
        queue q gpu=2/2
        group g preemptible=no queue=q
        pod g-0 gpu=3
    """)
    assert suggested(found)["quota and limit"] == ["quota of q 2 -> 3 GPUs and limit of q 2 -> 3 GPUs"]
    assert {"quota", "limit"} <= helpless(found).keys()


def test_a_weight() -> None:
    """12 GPUs over quota: at weights 2 to 1 poor may claim 4, at 2 to 2 it may claim the 6 that it asks for."""
    found = explanation("""
        node n gpu=12
        queue rich gpu=0/-1/2
        queue poor gpu=0/-1/1
        group over queue=rich min=1
        pod over-0..5 gpu=2 on=n
        group g queue=poor
        pod g-0 gpu=6
    """)
    assert suggested(found)["weight"] == ["weight of poor 1 -> 2"]
    assert flags(found, "weight") == ["--set queue/poor.gpu.weight=2"]


def test_nothing_of_a_queue_helps_where_there_is_no_room_at_all() -> None:
    """The other one may not be evicted."""
    found = explanation(QUOTA.replace("over queue=rich min=1", "over queue=rich min=1 preemptible=no"))
    assert not {"quota", "limit", "weight"} & suggested(found).keys()
    assert helpless(found)["quota"] == "a higher quota (up to all that is asked for: poor 6 GPUs)"
    assert helpless(found)["weight"] == "a larger weight (up to 100)"


def test_a_request_that_a_tenant_wrote_sets_no_amount_of_work() -> None:
    """In a queue of which somebody requests a trillion GPUs, a quota of 6 is found, by halves."""
    found = explanation(QUOTA + "\n group greedy queue=poor owner=Job/greedy\n pod greedy-0 gpu=1000000000000")
    assert suggested(found)["quota"] == ["quota of poor 4 -> 6 GPUs"]
