"""The admission webhooks as the API server calls them: what is refused, what is changed, who is never asked."""

from __future__ import annotations

import pytest
import yaml

from kai_sched.api import names
from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.installed import BARE_QUEUE, dry_run, install_webhooks, lenient, topology, wait_authorities
from tests.cluster.operator_process import Operator
from tests.cluster.processes import wait_until


@pytest.fixture
def hooked(live: Cluster, shared_operator: Operator) -> Cluster:
    """A cluster whose API server asks the operator."""
    assert shared_operator.webhook_port
    install_webhooks(live, shared_operator.webhook_port, wait_authorities(live))
    return live


def test_queues_pod_groups_and_topologies_are_refused_with_the_field(hooked: Cluster) -> None:
    said = hooked.kubectl("apply", "-f", "-", input=yaml.safe_dump(BARE_QUEUE), check=False)
    assert "denied the request: Queue bare: spec.resources: resources have to be specified" in said
    assert "Warning: Queue bare: spec.resources" in said
    two = [{"name": "a", "minMember": 1}, {"name": "b", "parent": "c", "minMember": 1}]
    said = dry_run(hooked, objects.pod_group("odd", minMember=None, subGroups=two))
    assert "PodGroup default/odd: spec.subGroups[1].parent: there is no sub-group 'c'" in said
    two = [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]
    said = dry_run(hooked, objects.pod_group("odd", minMember=None, subGroups=two))
    assert "a -> b -> a" in said
    twice = topology("racks", **{"example.com/block": "rack", "example.com/rack": "rack"})
    taken = topology("racks", **{"example.com/block": "example.com/rack", "example.com/rack": "rack"})
    assert "alias" in dry_run(hooked, twice)
    assert "alias" in dry_run(hooked, taken)
    assert [hooked.list(kind) for kind in ("Queue", "PodGroup", "Topology")] == [[], [], []]


def test_topologies_that_the_crd_lets_in_are_judged_by_the_webhook(live: Cluster, shared_operator: Operator) -> None:
    twice = topology("racks", **{"example.com/block": "rack", "example.com/rack": "rack"})
    taken = topology("racks", **{"example.com/block": "example.com/rack", "example.com/rack": "rack"})
    with lenient(live, twice):
        assert shared_operator.webhook_port
        install_webhooks(live, shared_operator.webhook_port, wait_authorities(live))
        said = "Topology racks: spec.levels: aliases must be unique, these are not: rack"
        wait_until(lambda: said in dry_run(live, twice), "the webhook's answer")
        assert "an alias must not be a nodeLabel of the topology, these are: example.com/rack" in dry_run(live, taken)
    live.create(topology("racks", **{"example.com/block": "block", "example.com/rack": "rack"}))


def test_updates_are_judged_too_and_what_was_there_may_stay(hooked: Cluster) -> None:
    hooked.create_all([objects.queue("team"), objects.pod_group("gang", minMember=None, subGroups=[])])
    said = hooked.kubectl(
        "patch", "queue", "team", "--type=merge", "--patch", '{"spec": {"resources": null}}', check=False
    )
    assert "denied the request" in said
    assert "spec.resources" in said
    tree: Object = {"subGroups": [{"name": "a", "minMember": 1}, {"name": "b", "parent": "a", "minMember": 1}]}
    assert "minSubGroup" in dry_run(hooked, objects.pod_group("new", minMember=None, **tree))
    change = yaml.safe_dump({"spec": tree})
    said = hooked.kubectl("patch", "podgroup", "gang", "--type=merge", "--patch", change, check=False)
    assert "patched" in said
    assert "Warning: spec.subGroups[0].minMember" in said


def test_pods_of_ours_are_judged_changed_and_bound(hooked: Cluster) -> None:
    hooked.add_nodes()
    hooked.add_queues("team")
    for notes, fact in (
        ({names.GPU_FRACTION_ANNOTATION: "0.5"}, "sharing"),
        ({names.GPU_MEMORY_ANNOTATION: "2000"}, "sharing"),
        ({names.MPS_ANNOTATION: "true"}, "gpu-fraction"),
        ({names.GPU_FRACTION_ANNOTATION: "0.5", names.GPU_CONTAINER_ANNOTATION: "absent"}, "'absent'"),
    ):
        said = dry_run(hooked, objects.pod("part", annotations=notes, gpus=0))
        assert "denied the request: Pod default/part: " in said
        assert fact in said
    # The same of another scheduler's is none of our business.
    other = objects.pod("part", annotations={names.GPU_FRACTION_ANNOTATION: "0.5"}, gpus=0, scheduler="other")
    assert dry_run(hooked, other) == ""
    hooked.create_all(objects.gang("gang", 2))
    hooked.wait_bound(["gang-0", "gang-1"])
    wait_until(lambda: hooked.pod("gang-0")["status"].get("phase") == "Running", "the pod running")
    hooked.kubectl("label", "pod", "gang-0", "seen=yes")


def test_pods_share_gpus_once_kai_config_says_so(hooked: Cluster) -> None:
    """What containers were made for stays, and what was let in can still be labelled when sharing is off again."""
    hooked.add_nodes()
    hooked.add_queues("team")
    spec = {"global": {"gpuSharing": True}, "admission": {"gpuFractionRuntimeClassName": ""}}
    config = {
        "apiVersion": names.CONFIG_VERSION,
        "kind": "Config",
        "metadata": objects.meta("kai-config"),
        "spec": spec,
    }
    hooked.create(config)
    fraction = {names.GPU_FRACTION_ANNOTATION: "0.5"}
    half = objects.pod("half", annotations=fraction, gpus=0, labels={names.GPU_GROUP_LABEL: "of-another"})
    wait_until(lambda: dry_run(hooked, half) == "", "sharing being on")
    made = hooked.create(half)
    assert names.GPU_GROUP_LABEL not in made["metadata"]["labels"], "it has no device yet"
    variables = {each["name"] for each in made["spec"]["containers"][0]["env"]}
    assert variables == {names.VISIBLE_DEVICES_ENV, names.NUMBER_OF_GPUS_ENV, names.GPU_PORTION_ENV}

    def annotate(name: str, value: str) -> str:
        return hooked.kubectl("annotate", "pod", name, "--overwrite", value, check=False)

    assert "annotated" in annotate("half", "gpu-fraction=0.4")
    hooked.bind(made, "node-0")
    assert "has its devices: create another pod" in annotate("half", "gpu-fraction=0.1")
    assert "cannot be changed" in annotate("half", "gpu-fraction-")
    for part in ("+0.5", "0." + "5" * 70):
        odd = objects.pod("odd", annotations={names.GPU_FRACTION_ANNOTATION: part}, gpus=0)
        assert "without a sign" in dry_run(hooked, odd)

    memory = f"{names.CONTAINER_PREFIX}main.gpu-memory"
    own = hooked.create(objects.pod("own", annotations={f"{memory}.request": "1Gi", f"{memory}.limit": "2Gi"}, gpus=0))
    assert {each["name"] for each in own["spec"]["containers"][0]["env"]} == variables
    hooked.bind(own, "node-0")
    assert "has its devices: create another pod" in annotate("own", f"{memory}.request=512Mi")
    more = objects.pod("more", annotations={f"{memory}.request": "2Gi", f"{memory}.limit": "1Gi"}, gpus=0)
    assert "above the limit of 1,024 MiB" in dry_run(hooked, more)

    hooked.patch("Config", "kai-config", {"spec": {"global": {"gpuSharing": False}}})
    again = objects.pod("again", annotations=fraction, gpus=0)
    wait_until(lambda: "sharing" in dry_run(hooked, again), "sharing being off")
    assert "annotated" in annotate("half", "kai.scheduler/note=kept")


def test_debug_containers_see_no_gpu_where_devices_are_blocked(hooked: Cluster) -> None:
    """kubectl adds them through a subresource of the pod, which has reviews of its own."""
    hooked.add_nodes()
    hooked.add_queues("team")
    spec = {"admission": {"blockNvidiaVisibleDevices": True}}
    meta = objects.meta("kai-config")
    hooked.create({"apiVersion": names.CONFIG_VERSION, "kind": "Config", "metadata": meta, "spec": spec})
    refused = f"{names.VISIBLE_DEVICES_ENV} must not come from a reference"
    referring = {"name": names.VISIBLE_DEVICES_ENV, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    asked = objects.pod("asked", gpus=0)
    asked["spec"]["containers"][0]["env"] = [referring]
    wait_until(lambda: refused in dry_run(hooked, asked), "devices being blocked")
    hooked.create(objects.pod("main"))
    hooked.wait_bound(["main"])

    def debug(name: str, *more: str) -> str:
        arguments = ("debug", "main", f"--container={name}", "--image=cuda", "--attach=false", *more)
        return hooked.kubectl(*arguments, check=False)

    debug("tools")
    debug("all", f"--env={names.VISIBLE_DEVICES_ENV}=all")
    found = {each["name"]: each["env"] for each in hooked.pod("main")["spec"]["ephemeralContainers"]}
    hidden = [{"name": names.VISIBLE_DEVICES_ENV, "value": "void"}]
    assert found == {"tools": hidden, "all": hidden}

    added = {"name": "third", "image": "cuda", "env": [referring]}
    patch = yaml.safe_dump({"spec": {"ephemeralContainers": [added]}})
    said = hooked.kubectl("patch", "pod", "main", "--subresource=ephemeralcontainers", "--patch", patch, check=False)
    assert f"container 'third': {refused}" in said
