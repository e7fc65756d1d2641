"""Claims for devices that all pods of a PodGroup of Kubernetes share."""

from __future__ import annotations

from pathlib import Path

from tests.unit.cycle.test_claims import CLASS, EXACT, node, pod, queue, simulate, thing


def test_pods_of_a_group_that_has_the_claim_share_one(tmp_path: Path) -> None:
    """A PodGroup of Kubernetes has the claim under the same name, from the same template."""
    template = thing("ResourceClaimTemplate", "t", "a", spec={"spec": {"devices": {"requests": [EXACT]}}})
    shared = [{"name": "c", "resourceClaimTemplateName": "t"}]
    group = thing("PodGroup", "g", "a", spec={"schedulingPolicy": {"gang": {"minCount": 3}}, "resourceClaims": shared})
    group |= {"apiVersion": "scheduling.k8s.io/v1beta1"}
    group["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
    pods = [pod(f"p{number}", "", resourceClaimTemplateName="t") for number in range(3)]
    for each in pods:
        each["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    (found,) = simulate(tmp_path, *node("m", 1), *node("n", 1), queue("q"), CLASS, template, group, *pods)
    assert {found["decided"][f"a/p{number}"]["node"] for number in range(3)} == {"m"}
    assert found["nodes"]["n"]["idleGPUs"] == 1.0
    assert {tuple(found["decided"][f"a/p{number}"]["resourceClaims"]) for number in range(3)} == {("a/g-c",)}
