"""The groups that wait: in which order, equal ones as one, and the reason of each in a few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Config, run_cycle
from kai_sched.answers.waiting import Waiting, in_brief, waiting_groups
from kai_sched.answers.workloads import workloads_of
from kai_sched.cycle.explain.groups import NODE_TEXTS
from kai_sched.plan import reasons, topology_reasons
from kai_sched.plan.reasons import Gate, NoFit, Reason
from kai_sched.plan.result import GroupState, QueueState
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

NODES = """
    node a gpu=8 labels=zone:x taints=gpu:yes:NoSchedule
    node b gpu=4 labels=zone:y
    node c gpu=8 cordoned
"""


def waiting(text: str) -> list[Waiting]:
    cluster = cluster_of(text)
    return waiting_groups(cluster, run_cycle(cluster, Config(), NOW_NS), workloads_of(cluster), NOW_NS)


def why(text: str) -> tuple[str, str]:
    (found,) = waiting(text)
    return found.code, found.why


@pytest.mark.parametrize(
    ("code", "text", "told"),
    [
        (reasons.OVER_LIMIT, "queue q gpu=2/2\npod g-0 gpu=3", "limit 2 < 0 + 3"),
        (reasons.OVER_LIMIT, "queue d gpu=2/2\nqueue q parent=d\npod g-0 gpu=3", "limit of d 2 < 0 + 3"),
        (reasons.OVER_LIMIT, "queue q cpu=2/2\npod g-0 cpu=3", "limit 2 < 0 + 3 cpu"),
        (
            reasons.OVER_QUOTA,
            "queue q gpu=2\ngroup g preemptible=no min=1\npod g-0 gpu=3",
            "not preemptible, quota 2 < 0 + 3",
        ),
        (reasons.NO_QUEUE, "queue q\ngroup g queue=nlpp\npod g-0", "there is no queue 'nlpp'"),
        (reasons.QUEUE_NOT_LEAF, "queue d\nqueue q parent=d\ngroup g queue=d\npod g-0", "queue d has child queues"),
        (reasons.NO_FIT, "pod g-0 gpu=16", "no node has 16 GPUs"),
        (reasons.NO_FIT, "pod g-0 selector=zone:z", "node selector or node affinity not matched, 1 of 3 nodes"),
        (reasons.NO_FIT, "pod g-0..2 gpu=3", "room for 1 of 3 pods"),
        (
            reasons.NO_FIT,
            "pod g-0 configmaps=none",
            "pod ns/g-0 can run on no node: required ConfigMap ns/none does not exist",
        ),
        (reasons.NOT_READY, "group g min=3\npod g-0", "the gang is not complete: 1 of 3 pods exist"),
        (reasons.NOT_SUPPORTED, "pod g-0 unsupported=x", "this version does not support x: the group stays pending"),
    ],
)
def test_the_reason_of_each_code_in_a_few_words(code: str, text: str, told: str) -> None:
    assert why(f"{NODES}\n{text}") == (code, told)


def test_no_room_is_told_with_what_the_queue_may_claim() -> None:
    full = """
        node n gpu=8
        queue rich gpu=8
        queue poor gpu=0/-1/0
        group runs queue=rich
        pod runs-0 gpu=8 on=n
        group waits queue=poor min=2
        pod waits-0..1 gpu=4
    """
    assert why(full) == (reasons.NO_FIT, "no room; claim 0 < 0 + 8")


def test_a_queue_within_its_claim_has_no_room_all_the_same() -> None:
    full = """
        node n gpu=8
        queue rich gpu=4
        queue poor gpu=4
        group runs queue=rich preemptible=no
        pod runs-0 gpu=8 on=n
        group waits queue=poor
        pod waits-0 gpu=4
    """
    assert why(full) == (reasons.NO_FIT, "no room")


def test_nodes_that_are_not_usable_are_the_reason_only_where_no_node_is() -> None:
    assert why("node a gpu=8 cordoned\nnode b gpu=8 bad=NotReady\nnode c gpu=8 cordoned\npod g-0 gpu=1") == (
        reasons.NO_FIT,
        "cordoned (unschedulable), 2 of 3 nodes",
    )
    one_full = "node a gpu=8 cordoned\nnode b gpu=8 cordoned\nnode c gpu=8\ngroup f preemptible=no\npod f-0 gpu=8 on=c"
    assert why(f"{one_full}\npod g-0 gpu=1")[1] == "no room; claim 8 < 8 + 1"


def test_states_of_nodes_are_those_that_a_cycle_tells() -> None:
    assert set(NODE_TEXTS.values()) > reasons.NODE_STATES


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        (reasons.delayed(60.0, "12:00"), reasons.delayed(60.0, "12:00").message),
        (reasons.not_tried(), "the group was not tried in this cycle"),
        (reasons.over_work("ns/g-0", "why"), "pod ns/g-0 takes more work than a cycle has for it: why"),
        (reasons.left_out("Pod ns/g-0", "why"), reasons.left_out("Pod ns/g-0", "why").message),
        (reasons.sharing_off(), reasons.sharing_off().message),
        (reasons.backed_off("a"), reasons.backed_off("a").message),
        (
            topology_reasons.no_domain("t", "", "rack", 2, 1, False),
            topology_reasons.no_domain("t", "", "rack", 2, 1, False).message,
        ),
    ],
)
def test_other_reasons_are_told_whole(reason: Reason, told: str) -> None:
    state = GroupState("ns/g", "q", 50, True, 1, {"Pending": 1}, {}, reason)
    assert in_brief(state, reason, 1.0, {}) == told


def test_every_code_is_looked_at_above() -> None:
    codes = {value for name, value in vars(reasons).items() if name.isupper() and isinstance(value, str)}
    codes -= reasons.NODE_STATES
    told = {reasons.OVER_LIMIT, reasons.OVER_QUOTA, reasons.NO_QUEUE, reasons.QUEUE_NOT_LEAF, reasons.NO_FIT}
    told |= {reasons.NOT_READY, reasons.NOT_SUPPORTED, reasons.NOT_TRIED, reasons.OVER_WORK, reasons.SCHEDULER_ERROR}
    assert codes == told | {reasons.DELAYED, reasons.NO_DOMAIN, reasons.BACKED_OFF}


def test_a_group_without_a_queue_is_told_so() -> None:
    reason = reasons.no_queue("", [], None)
    assert in_brief(GroupState("ns/g", "", 50, True, 1, {}, {}, reason), reason, 0.0, {}) == "it names no queue"


@pytest.mark.parametrize(
    ("placed", "told"),
    [(1, "room for each pod, and not for all together"), (0, "later decisions of this cycle made room")],
)
def test_room_for_all_pods_is_told_with_why_they_wait_all_the_same(placed: int, told: str) -> None:
    facts = NoFit("ns/g-0", placed, 2, 4, 3, {"gpu": (2, 1.0, 0.0)}, {}, {}, {}, (), "")
    reason = reasons.no_fit(facts)
    state = GroupState("ns/g", "q", 50, True, 2, {}, {}, reason)
    assert in_brief(state, reason, 0.0, {}) == told
    whole = "each pod of the gang would fit by itself" if placed else "later decisions of this cycle made room"
    assert whole in reason.message


def test_a_gang_that_was_tried_before_others_were_evicted_has_room_and_waits_for_the_next_cycle() -> None:
    """Four pods go for the one GPU that "urgent" asks for; "late" was tried before it."""
    (found,) = waiting("""
        node n gpu=4
        queue rich gpu=0
        queue poor gpu=1
        queue other gpu=0
        group pays queue=rich min=4
        pod pays-0..3 gpu=1 on=n
        group urgent queue=poor
        pod urgent-0 gpu=1
        group late queue=other
        pod late-0 gpu=1
    """)
    assert (found.name, found.why) == ("late", "later decisions of this cycle made room")
    assert "later decisions of this cycle made room" in found.message


def test_amounts_of_memory_have_their_unit_on_the_bound() -> None:
    gate = Gate("q", "memory", 64 * 2.0**30, 32 * 2.0**30, 64 * 2.0**30)
    reason = Reason(reasons.OVER_LIMIT, "whole", "q", gate=gate)
    state = GroupState("ns/g", "q", 50, True, 1, {}, {}, reason)
    assert in_brief(state, reason, 0.0, {}) == "limit 64Gi < 32Gi + 64Gi memory"


def test_an_unlimited_claim_is_never_too_small() -> None:
    facts = NoFit("ns/g-0", 0, 1, 0, 1, {"gpu": (1, 1.0, 0.0)}, {}, {}, {}, (), "")
    reason = Reason(reasons.NO_FIT, "whole", facts=facts)
    free = (float("inf"),) * 3
    queue = QueueState("q", "", 0, 100, free, free, free, (0.0,) * 3, (0.0,) * 3, (0.0,) * 3)
    state = GroupState("ns/g", "q", 50, True, 1, {}, {}, reason)
    assert in_brief(state, reason, 1.0, {"q": queue}) == "no room"


FULL = """
    node n gpu=8
    group runs preemptible=no
    pod runs-0 gpu=8 on=n
"""


def test_equal_groups_are_one_row_and_the_oldest_is_first() -> None:
    found = waiting(
        FULL
        + """
        group pg-t-2 owner=Job/trial-2
        pod pg-t-2-0 gpu=4 group=pg-t-2 age=20
        group pg-t-1 owner=Job/trial-1
        pod pg-t-1-0 gpu=4 group=pg-t-1 age=30
        group other
        pod other-0 gpu=4 age=25
        """
    )
    assert [(each.name, len(each.workloads), each.waits_s) for each in found] == [
        ("trial-{1..2}", 2, 1800.0),
        ("other", 1, 1500.0),
    ]
    assert [each.name for each in found[0].workloads] == ["trial-1", "trial-2"]


@pytest.mark.parametrize(
    "second",
    [
        "group t-2 owner=RayCluster/trial-2\npod t-2-0 gpu=4",
        "group t-2 owner=Job/other-2\npod t-2-0 gpu=4",
        "group t-2 owner=Job/trial-2\npod t-2-0 gpu=2",
        "group t-2 owner=Job/trial-2\npod t-2-0..1 gpu=4",
        "group t-2 owner=Job/trial-2 queue=r\npod t-2-0 gpu=4",
        "group t-2 owner=Job/trial-2 ns=elsewhere\npod t-2-0 gpu=4 ns=elsewhere",
        "group t-2 owner=Job/trial-2 min=5\npod t-2-0 gpu=4",
    ],
    ids=["kind", "name", "size", "pods", "queue", "namespace", "reason"],
)
def test_groups_that_differ_in_anything_that_is_shown_are_not_one_row(second: str) -> None:
    first = "group t-1 owner=Job/trial-1\npod t-1-0 gpu=4"
    assert len(waiting(f"{FULL}\nqueue q\nqueue r\n{first}\n{second}")) == 2


def test_groups_of_one_owner_are_told_by_their_number() -> None:
    """A Deployment has a PodGroup for each pod."""
    found = waiting(f"{FULL}\ngroup a owner=Deployment/web\npod a-0 gpu=4\ngroup b owner=Deployment/web\npod b-0 gpu=4")
    assert [(each.name, len(each.workloads)) for each in found] == [("web", 2)]


@pytest.mark.parametrize(
    ("pods", "gpus_per_pod", "gpus", "size"),
    [
        (1, 4.0, 4.0, "1x4 GPU"),
        (8, 8.0, 64.0, "8x8 GPU"),
        (2, 0.5, 1.0, "2x0.5 GPU"),
        (3, 0.0, 5.0, "3 pods, 5 GPU"),
        (1, 0.0, 0.0, "1 pod"),
        (2, 0.0, 0.0, "2 pods"),
    ],
)
def test_the_size_of_a_group(pods: int, gpus_per_pod: float, gpus: float, size: str) -> None:
    (row,) = waiting(f"{FULL}\npod g-0 gpu=4")
    assert replace(row, pods=pods, gpus_per_pod=gpus_per_pod, gpus=gpus).size == size


def test_of_a_group_that_runs_the_pods_that_wait_are_told() -> None:
    (row,) = waiting("node n gpu=4\ngroup g min=1\npod g-0..1 gpu=2 on=n\npod g-2 gpu=2")
    assert (row.pods, row.running, row.size) == (1, 2, "1x2 GPU")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("capacity one class=fast size=10", "no node has 50G storage of class fast"),
        (
            "pvc old class=fast size=50\ncapacity one class=fast size=60\npod r-0 claims=old on=a",
            "1 of 1 nodes lack 50G storage of class fast",
        ),
    ],
)
def test_what_is_lacked_for_volumes_is_told_without_what_the_queue_may_claim(text: str, told: str) -> None:
    there = "node a gpu=8\nstorageclass fast waits\ncsidriver csi.example.com capacity\npvc data class=fast size=50\n"
    (found,) = waiting(f"{there}{text}\npod g-0 gpu=1 claims=data")
    assert found.why == told
