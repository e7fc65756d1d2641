"""examples/shard.yaml: a scheduler for one node pool beside that of manifests/, with no right too many."""

from __future__ import annotations

import yaml

from kai_sched.model.config import Config
from kai_sched.operator.options import RunOptions
from tests.test_manifests import APP, NAMESPACE, Document, pod_spec, the
from tests.tree import ROOT


def shard() -> dict[str, Document]:
    """The objects of the example of a shard, by their kind."""
    found = yaml.safe_load_all((ROOT / "examples" / "shard.yaml").read_text())
    return {document["kind"]: document for document in found}


def test_the_example_of_a_shard_may_hold_its_own_lease_and_no_other() -> None:
    pool = shard()["SchedulingShard"]["spec"]["partitionLabelValue"]
    rule, of_usage = shard()["Role"]["rules"]
    lease = RunOptions().lease_name(Config(node_pool=pool))
    assert rule == {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [lease],
        "verbs": ["get", "update"],
    }
    assert of_usage["resourceNames"] == [f"{lease}-usage"] == [shard()["ConfigMap"]["metadata"]["name"]]
    assert (of_usage["resources"], of_usage["verbs"]) == (["configmaps"], ["patch"])
    binding, account = shard()["RoleBinding"], the("ServiceAccount")["metadata"]
    assert binding["roleRef"]["name"] == shard()["Role"]["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["name"], "namespace": NAMESPACE}]
    assert {shard()[kind]["metadata"]["namespace"] for kind in ("Role", "RoleBinding", "Deployment")} == {NAMESPACE}


def test_the_example_of_a_shard_is_the_deployment_of_the_manifests_for_one_node_pool() -> None:
    example, main = shard()["Deployment"]["spec"], the("Deployment")["spec"]
    labels = example["template"]["metadata"]["labels"]
    assert example["selector"]["matchLabels"] == labels != APP, "the webhooks' Service must not select it"
    pod, of_main = example["template"]["spec"], pod_spec()
    for field in ("serviceAccountName", "priorityClassName", "securityContext", "terminationGracePeriodSeconds"):
        assert pod[field] == of_main[field], field
    (own,), (mains,) = pod["containers"], main["template"]["spec"]["containers"]
    assert own["args"] == ["run", "--log-json", f"--shard={shard()['SchedulingShard']['metadata']['name']}"]
    for field in ("securityContext", "resources", "livenessProbe", "readinessProbe", "startupProbe"):
        assert own[field] == mains[field], field
