"""The API server misbehaves, goes away, changes its mind: the operator says so and goes on when it is well again."""

from __future__ import annotations

from collections.abc import Sequence

import yaml

from tests.cluster import objects
from tests.cluster.client import Object
from tests.cluster.cluster import CRDS, Cluster, condition_of
from tests.cluster.conftest import StartOperator
from tests.cluster.control_plane import MASTERS, OPERATOR, ControlPlane
from tests.cluster.faults import assert_bound_once, wait_not_ready, wait_ready, wait_seen
from tests.cluster.processes import wait_until
from tests.cluster.proxy import Proxy
from tests.tree import ROOT

OWN_CRDS = sorted(path.stem for path in CRDS.glob("*.*.yaml"))


def make_room(cluster: Cluster, gpus: int = 8) -> None:
    cluster.add_nodes(1, gpus=gpus)
    cluster.add_queues("team")


def test_the_api_server_restarts_in_the_middle_of_binding(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    make_room(cluster, gpus=100)
    one, mark = operator("--connections", "8", proxy=proxy), own_plane.audit.mark()
    slow = proxy.add("POST", "/binding", delay_s=0.2)
    names = [f"gang-{n}" for n in range(80)]
    cluster.create_all(objects.gang("gang", 80))
    slow.wait_hits(16)
    own_plane.restart_apiserver(kill=True)
    proxy.remove(slow)
    cluster.wait_bound(names)
    assert_bound_once(cluster, own_plane.audit, mark, names)
    cluster.add_queues("new")
    cluster.create(objects.pod("later", "new"))
    cluster.wait_bound(["later"])
    assert one.process.exit_code is None


def test_what_happened_before_a_compaction_is_listed_anew(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    make_room(cluster, gpus=1)
    one = operator(proxy=proxy)
    cluster.create(objects.pod("before"))
    cluster.wait_bound(["before"])
    wait_seen(one, "the pod", pods=1)
    with proxy.rule("GET", "(pods|nodes|queues).*watch=", hold=True) as held:
        assert proxy.cut_streams("pods|nodes|queues")
        held.wait_hits(3)
        cluster.delete("Pod", "before", grace_s=0)
        cluster.delete("Node", "node-0")
        cluster.add_nodes(1, gpus=1, prefix="new")
        cluster.add_queues("other")
        # The pods may be listed before the nodes are, and the API server would bind to a node that is gone.
        cluster.create(objects.pod("after", "other", nodeSelector={"kubernetes.io/hostname": "new-0"}))
        own_plane.compact()
        own_plane.restart_apiserver(kill=True)
        mark = own_plane.audit.mark()
    cluster.wait_bound(["after"])
    wait_seen(one, "what there is", pods=1, nodes=1)

    def listed() -> bool:
        lists = {entry.subject for entry in own_plane.audit.since(mark, OPERATOR) if entry.verb == "list"}
        return {"pods", "nodes", "queues"} <= lists

    wait_until(listed, "all lists")
    assert_bound_once(cluster, own_plane.audit, mark, ["after"])


def test_watches_that_fall_silent_are_opened_anew(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    operator(proxy=proxy, entry=("tests.cluster.altered", "stalled", "4"))
    mark = own_plane.audit.mark()
    with proxy.rule("GET", "watch=", stall=True) as stalled:
        make_room(cluster)
        cluster.create(objects.pod("unseen"))
        stalled.wait_hits(3)
    cluster.wait_bound(["unseen"], timeout_s=40)
    assert_bound_once(cluster, own_plane.audit, mark, ["unseen"])


def test_lists_and_watches_are_asked_for_until_they_come(
    cluster: Cluster, own_plane: ControlPlane, proxy: Proxy, operator: StartOperator
) -> None:
    make_room(cluster)
    limited: Object = {"status": 429, "retry_after_s": 1}
    to_lists: Sequence[Object] = (limited, {"status": 500}, {"cut": True, "after": True})
    to_watches: Sequence[Object] = ({"cut": True}, {"status": 503, "body": "<html>"}, limited)
    # By such answers kopf, which watches all others, ends.
    more: Sequence[Object] = ({"status": 409}, {"status": 410})
    rules = [
        proxy.add("GET", f"/{kind}{pattern}", times=1, **answer)
        for kind in ("pods", "nodes", "queues", "podgroups", "customresourcedefinitions")
        for pattern, answers in (("([?](?!.*watch)|$)", to_lists), ("[?].*watch=", to_watches))
        for answer in (*answers, *(more if kind in ("pods", "nodes") else ()))
    ]
    operator(proxy=proxy)
    mark = own_plane.audit.mark()
    cluster.create(objects.pod("one"))
    cluster.wait_bound(["one"])
    proxy.cut_streams()
    cluster.add_queues("new")
    cluster.create(objects.pod("two", "new"))
    cluster.wait_bound(["two"])
    assert_bound_once(cluster, own_plane.audit, mark, ["one", "two"])
    assert [rule.path for rule in rules if not rule.hits] == []


def test_what_people_see_is_written_through_all_faults(cluster: Cluster, proxy: Proxy, operator: StartOperator) -> None:
    make_room(cluster, gpus=1)
    patterns = ("/pods/.*/status", "/podgroups/", "/queues/", "/events")
    answers: Sequence[Object] = ({"status": 429}, {"status": 500}, {"cut": True}, {"cut": True, "after": True})
    rules = [proxy.add("PATCH|POST", pattern, times=1, **answer) for pattern in patterns for answer in answers]
    operator(proxy=proxy)
    cluster.create_all(objects.gang("fits", 1))
    cluster.wait_bound(["fits-0"])
    cluster.create_all(objects.gang("waits", 1))
    cluster.wait_condition("Pod", "waits-0", "PodScheduled", status="False")
    cluster.wait_event("fits-0", "Scheduled")

    def told() -> bool:
        assert cluster.get("Queue", "team")["status"]["allocated"]["nvidia.com/gpu"] in ("1", 1)
        assert cluster.get("PodGroup", "waits")["status"]
        return True

    wait_until(told, "statuses")
    assert all(rule.hits for rule in rules)


def test_a_new_token_is_taken_up_when_the_old_one_is_refused(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    make_room(cluster)
    one = operator()
    old = own_plane.token(OPERATOR)
    own_plane.write_tokens({OPERATOR: [MASTERS]})
    mark = own_plane.audit.mark()
    own_plane.restart_apiserver(kill=True)
    wait_not_ready(one, "pods", "401", "pods")
    cluster.create(objects.pod("waits"))
    assert old not in own_plane.kubeconfig(OPERATOR).read_text()
    cluster.wait_bound(["waits"])
    wait_ready(one)
    cluster.add_queues("new")
    cluster.create(objects.pod("later", "new"))
    cluster.wait_bound(["later"], timeout_s=30)
    assert_bound_once(cluster, own_plane.audit, mark, ["waits", "later"])


def grant(cluster: Cluster, resource: str = "", verb: str = "") -> None:
    """The rights of the manifests, all but this one."""
    for content in yaml.safe_load_all((ROOT / "manifests" / "rbac.yaml").read_text()):
        rules = []
        for rule in content.pop("rules", []):
            kept = [name for name in rule["resources"] if name != resource]
            rules.append({**rule, "resources": kept})
            if resource in rule["resources"]:
                rules.append({**rule, "resources": [resource], "verbs": [one for one in rule["verbs"] if one != verb]})
        cluster.apply(
            content | ({"rules": [rule for rule in rules if rule["resources"] and rule["verbs"]]} if rules else {})
        )


def test_a_right_that_is_missing_is_named_until_it_is_there(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator, system_namespace: str
) -> None:
    make_room(cluster)
    grant(cluster, "nodes", "list")
    token = own_plane.service_account_token(system_namespace, "scheduler")
    mark = own_plane.audit.mark()
    one = operator(kubeconfig=own_plane.kubeconfig("scheduler", token=token), ready=False)
    wait_not_ready(one, "nodes", "403", "list nodes")
    grant(cluster, "pods/binding", "create")
    one.wait_ready(60)
    cluster.create(objects.pod("waits"))
    wait_not_ready(one, "requests", "POST pods/binding")
    grant(cluster)
    cluster.wait_bound(["waits"])
    wait_ready(one)
    assert_bound_once(cluster, own_plane.audit, mark, ["waits"])


def test_crds_may_come_later(cluster: Cluster, own_plane: ControlPlane, operator: StartOperator) -> None:
    for name in OWN_CRDS:
        cluster.delete("CustomResourceDefinition", name)
    wait_until(
        lambda: not {crd["metadata"]["name"] for crd in cluster.list("CustomResourceDefinition")} & {*OWN_CRDS}, ""
    )
    one, mark = operator(ready=False), own_plane.audit.mark()
    cluster.add_nodes(1)
    cluster.create(objects.pod("waits"))
    wait_not_ready(one, "queues", "404", "install the custom resource definitions")
    assert one.get("/healthz")[0] == 200
    cluster.add_crds()
    cluster.add_queues("team")
    one.wait_ready(60)
    cluster.wait_bound(["waits"])
    cluster.delete("CustomResourceDefinition", "topologies.kai.scheduler")
    cluster.add_queues("new")
    cluster.create(objects.pod("later", "new"))
    cluster.wait_bound(["later"], timeout_s=30)
    assert_bound_once(cluster, own_plane.audit, mark, ["waits", "later"])
    assert one.process.exit_code is None


def test_a_namespace_of_ours_that_is_missing_is_named_with_the_remedy(
    cluster: Cluster, operator: StartOperator
) -> None:
    one = operator("--namespace", "elsewhere", webhooks=True, ready=False)
    remedy = "kubectl create namespace elsewhere"
    wait_not_ready(one, "lease", remedy)
    wait_not_ready(one, "certificate", remedy)
    for event in ("lease.failed", "certificate.failed"):
        (line,) = wait_until(lambda event=event: one.logs(event), event)
        assert (line["level"], remedy in line["problem"]) == ("warning", True)
    cluster.add_namespace("elsewhere")
    one.wait_ready(30.0)


def wait_told(cluster: Cluster, pod: str, text: str) -> None:
    """Wait until the pod says why it is pending, and names that."""

    def told() -> bool:
        condition = condition_of(cluster.pod(pod), "PodScheduled")
        assert condition, "no condition"
        assert text in condition["message"], condition["message"]
        return True

    wait_until(told, f"a condition of {pod} that names {text}", 60)


def test_queues_in_any_order_and_gone_while_in_use(
    cluster: Cluster, own_plane: ControlPlane, operator: StartOperator
) -> None:
    cluster.add_nodes(1)
    operator()
    mark = own_plane.audit.mark()
    cluster.create_all([objects.queue("team", "org"), objects.pod("first")])
    wait_told(cluster, "first", "team")
    cluster.create(objects.queue("org"))
    cluster.wait_bound(["first"])
    wait_until(lambda: cluster.pod("first")["status"].get("phase") == "Running", "the pod running")
    cluster.delete("Queue", "team")
    cluster.create(objects.pod("second"))
    wait_told(cluster, "second", "team")
    first = cluster.pod("first")
    assert (first["status"]["phase"], first["metadata"].get("deletionTimestamp")) == ("Running", None)
    cluster.create(objects.queue("team", "org"))
    cluster.wait_bound(["second"])
    assert_bound_once(cluster, own_plane.audit, mark, ["first", "second"])
