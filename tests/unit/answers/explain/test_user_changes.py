"""What the user of a workload can change: on each cluster the smallest change is known by hand."""

from __future__ import annotations

import pytest

from tests.unit.answers.explain.explained import explanation, flags, helpless, suggested


def test_fewer_gpus_of_each_pod() -> None:
    """Nodes of 4 and 3 GPUs: two pods of 3 fit, of 4 one."""
    found = explanation("node a gpu=4\nnode b gpu=3\npod g-0..1 gpu=4")
    assert suggested(found)["gpusPerPod"] == ["3 GPUs per pod instead of 4"]
    assert flags(found, "gpusPerPod") == ["--set workload/ns/g.gpus=3"]


def test_a_smaller_part_of_a_gpu_in_tenths() -> None:
    """Two halves fit on one GPU."""
    found = explanation("node a gpu=1 labels=nvidia.com/gpu.memory:16000\npod g-0..1 part=0.75")
    assert suggested(found)["gpusPerPod"] == ["0.5 GPUs per pod instead of 0.75"]
    assert flags(found, "gpusPerPod") == ["--set workload/ns/g.gpus=0.5"]


def test_fewer_pods() -> None:
    """6 of 8 GPUs are free: room for two pods of 3."""
    full = "node a gpu=8\ngroup runs preemptible=no\npod runs-0 gpu=2 on=a\npod g-0..2 gpu=3"
    found = explanation(full)
    assert suggested(found)["pods"] == ["2 pods instead of 3"]
    assert flags(found, "pods") == ["--set workload/ns/g.pods=2"]


def test_a_smaller_minimum() -> None:
    found = explanation("node a gpu=8\ngroup g min=3\npod g-0..3 gpu=3")
    assert suggested(found)["minimum"] == ["a minimum of 2 pods instead of 3"]
    assert flags(found, "minimum") == ["--set workload/ns/g.minMember=2"]


def test_a_smaller_minimum_of_the_sub_group_that_is_too_large() -> None:
    found = explanation("""
        node a gpu=8
        group g tree="head*1 work*4"
        pod g-0 sub=head
        pod g-1..4 sub=work gpu=3
    """)
    assert suggested(found)["minimum"] == ["a minimum of sub-group work of 2 pods instead of 4"]
    assert flags(found, "minimum") == ["--set workload/ns/g.work.minMember=2"]
    assert suggested(found)["pods"] == ["3 pods instead of 5"]


@pytest.mark.parametrize(
    ("demand", "text", "flag"),
    [
        ("selector=zone:y", "without its node selector (zone=y)", "nodeSelector=none"),
        ('affinity="zone In y"', "without its required node affinity", "nodeAffinity=none"),
        ('near="app In web @ zone"', "without its pod affinity", "podAffinity=none"),
        ('apart="app In db @ zone"', "without its pod anti-affinity", "podAntiAffinity=none"),
        ("", "with a toleration of the taint gpu", "tolerations=gpu"),
    ],
)
def test_one_demand_less(demand: str, text: str, flag: str) -> None:
    taint = "" if demand else "taints=gpu:yes:NoSchedule"
    found = explanation(f"""
        node a gpu=8 labels=zone:x {taint}
        group other preemptible=no
        pod other-0 labels=app:db on=a tolerates=gpu:Exists
        pod g-0 gpu=1 {demand}
    """)
    assert suggested(found)["demand"] == [text]
    assert flags(found, "demand") == [f"--set workload/ns/g.{flag}"]


def test_demands_that_stop_it_only_together_are_one_change() -> None:
    found = explanation("""
        node a gpu=8 labels=zone:x,disk:ssd taints=gpu:yes:NoSchedule
        pod g-0 gpu=1 selector=zone:y affinity="disk In ssd"
    """)
    assert suggested(found) == {"demand": ["without its node selector (zone=y) and with a toleration of the taint gpu"]}
    assert flags(found, "demand") == ["--set workload/ns/g.nodeSelector=none", "--set workload/ns/g.tolerations=gpu"]


def test_being_preemptible() -> None:
    """The quota binds only what may not be evicted."""
    found = explanation("node a gpu=8\nqueue q gpu=2\ngroup g preemptible=no\npod g-0 gpu=3")
    assert suggested(found)["preemptible"] == ["preemptible (spec.preemptibility)"]
    assert flags(found, "preemptible") == ["--set workload/ns/g.preemptibility=preemptible"]


def test_the_priority_class_that_is_nearest() -> None:
    """Of the same queue and with priority 60: 75 and 100 are more, 55 is not."""
    found = explanation("""
        node a gpu=4
        priorityclass high value=100
        priorityclass more value=75
        priorityclass less value=55
        group other prio=60
        pod other-0 gpu=4 on=a
        group g prio=50
        pod g-0 gpu=4
    """)
    assert suggested(found)["priorityClass"] == ["priority class more (75) instead of 50"]
    assert flags(found, "priorityClass") == ["--set workload/ns/g.priorityClassName=more"]
    costs = {each.kind: costs.text for each, costs in found.suggestions}
    assert costs["priorityClass"].startswith("evicts other (q): 1 pod, 4 GPUs")
    assert costs["nodes"] == "evicts nobody"


def test_another_queue_where_it_costs_others_least() -> None:
    found = explanation("""
        node a gpu=8
        node b gpu=4
        queue full gpu=2/2
        queue costly gpu=12
        queue open gpu=0
        group other queue=open
        pod other-0 gpu=8 on=a
        group g queue=full
        pod g-0 gpu=4
    """)
    assert suggested(found)["queue"] == ["queue costly instead of full", "queue open instead of full"]
    assert flags(found, "queue") == ["--set workload/ns/g.queue=costly", "--set workload/ns/g.queue=open"]


def test_a_queue_that_does_not_exist_is_replaced_by_one_that_does() -> None:
    found = explanation("node a gpu=8\nqueue q\ngroup g queue=none\npod g-0 gpu=8")
    assert suggested(found) == {"queue": ["queue q instead of none"]}


def test_a_bare_pod_can_be_changed_as_well() -> None:
    found = explanation("node a gpu=4\nqueue q\npod g queue=q group= gpu=8")
    assert suggested(found)["gpusPerPod"] == ["4 GPUs per pod instead of 8"]
    assert flags(found, "gpusPerPod") == ["--set workload/ns/g.gpus=4"]


def test_what_does_not_help_is_told_with_how_far_it_was_tried() -> None:
    found = explanation("""
        node a gpu=8 labels=zone:x
        node b gpu=8 labels=zone:y
        priorityclass high value=100
        queue q
        queue r
        group g queue=q min=2 preemptible=no
        pod g-0..1 gpu=4 configmaps=none selector=zone:x
    """)
    assert suggested(found) == {}
    assert {kind: bound for kind, bound in helpless(found).items() if kind not in ("nodes", "weight")} == {
        "gpusPerPod": "fewer GPUs per pod (down to 1)",
        "pods": "fewer pods (down to 1)",
        "minimum": "a smaller minimum (down to 1)",
        "demand": "fewer demands on nodes (down to none)",
        "preemptible": "being preemptible",
        "priorityClass": "another priority class (1 tried)",
        "queue": "another queue (1 of 1 tried)",
    }


def test_of_a_group_that_runs_its_size_is_not_at_issue() -> None:
    """One more pod is to start; fewer pods or a smaller minimum mean nothing to it."""
    found = explanation("node a gpu=4\ngroup g min=1\npod g-0 gpu=2 on=a\npod g-1 gpu=4")
    assert suggested(found)["gpusPerPod"] == ["2 GPUs per pod instead of 4"]
    assert not {"pods", "minimum"} & (suggested(found).keys() | helpless(found).keys())


@pytest.mark.parametrize(
    ("asks", "kind", "text"),
    [
        ("group g min=2147483647\npod g-0..2 gpu=2", "minimum", "a minimum of 2 pods instead of 2147483647"),
        ("pod g-0 gpu=1000000000000", "gpusPerPod", "4 GPUs per pod instead of 1e+12"),
    ],
)
def test_a_number_that_a_tenant_wrote_sets_no_amount_of_work(asks: str, kind: str, text: str) -> None:
    """More pods than there are, and more GPUs than a node has, are not tried."""
    found = explanation(f"node a gpu=4\n{asks}")
    assert suggested(found)[kind] == [text]
    assert [each.exact for each, _ in found.suggestions if each.kind == kind] == [True]
