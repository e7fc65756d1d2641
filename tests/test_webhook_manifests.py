"""The webhook configurations of manifests/: they are those that are served, and stop nothing but ours."""

from __future__ import annotations

from kai_sched.api import names
from kai_sched.operator.http import certificate, webhook_server
from kai_sched.reconcile.admission import review as admission
from tests.test_manifests import NAMESPACE, Document, all_of


def hooks() -> dict[str, Document]:
    """Every webhook by its path."""
    configurations = all_of("MutatingWebhookConfiguration") + all_of("ValidatingWebhookConfiguration")
    every = [hook for configuration in configurations for hook in configuration["webhooks"]]
    by_path = {hook["clientConfig"]["service"]["path"]: hook for hook in every}
    assert len(by_path) == len(every)
    return by_path


def test_webhooks_are_those_that_are_served_and_kept_up_to_date() -> None:
    assert hooks().keys() == set(admission.BODY_MAX)
    kept = {
        "MutatingWebhookConfiguration": certificate.MUTATING,
        "ValidatingWebhookConfiguration": certificate.VALIDATING,
    }
    for kind, expected in kept.items():
        assert {document["metadata"]["name"] for document in all_of(kind)} == set(expected)
    for hook in hooks().values():
        service = hook["clientConfig"]["service"]
        assert (service["name"], service["namespace"]) == (certificate.SERVICE, NAMESPACE)
        assert "caBundle" not in hook["clientConfig"], "applying the manifests again must not take it away"


def test_webhooks_ask_for_the_kinds_and_changes_of_the_contract() -> None:
    asked = {}
    for path, hook in hooks().items():
        rule, *others = hook["rules"]
        # What is added to a pod that runs, by `kubectl debug`.
        more = [{**rule, "resources": ["pods/ephemeralcontainers"], "operations": ["UPDATE"]}]
        assert others == (more if rule["resources"] == ["pods"] else [])
        (group,), (version,), (resource,) = rule["apiGroups"], rule["apiVersions"], rule["resources"]
        asked[path] = (hook["name"], f"{group}/{version}/{resource}", rule["operations"], rule["scope"])
    both = ["CREATE", "UPDATE"]
    queue, group = f"{names.QUEUE_VERSION}/queues", f"{names.POD_GROUP_VERSION}/podgroups"
    topology = f"{names.TOPOLOGY_VERSION}/topologies"
    assert asked == {
        admission.MUTATE_POD: ("admission.kai-scheduler.svc", "/v1/pods", ["CREATE"], "Namespaced"),
        admission.VALIDATE_POD: ("admission.kai-scheduler.svc", "/v1/pods", both, "Namespaced"),
        admission.VALIDATE_QUEUE: ("queue-validation.kai.scheduler", queue, both, "Cluster"),
        admission.VALIDATE_POD_GROUP: ("podgroup-validation.kai.scheduler", group, both, "Namespaced"),
        admission.VALIDATE_TOPOLOGY: ("topology.admission.kai-scheduler.svc", topology, both, "Cluster"),
    }


def test_webhooks_that_are_away_stop_nothing_but_ours() -> None:
    """Fail is for our own kinds; pods are asked about only where they name our scheduler, outside of the system."""
    for path, hook in hooks().items():
        assert (hook["failurePolicy"], hook["sideEffects"]) == ("Fail", "None")
        assert webhook_server.ANSWER_S < hook["timeoutSeconds"] <= 5
        if path in (admission.MUTATE_POD, admission.VALIDATE_POD):
            condition, *on_update = hook["matchConditions"]
            assert [each["name"] for each in on_update] == ["judged-parts-changed"] * (path == admission.VALIDATE_POD)
            assert condition == {
                "name": "scheduler-name-match",
                "expression": "has(object.spec.schedulerName) && object.spec.schedulerName == 'kai-scheduler'",
            }
            (selected,) = hook["namespaceSelector"]["matchExpressions"]
            assert selected == {
                "key": names.NAMESPACE_NAME_LABEL,
                "operator": "NotIn",
                "values": ["kube-system", NAMESPACE],
            }
        else:
            assert {group for rule in hook["rules"] for group in rule["apiGroups"]} <= {
                names.QUEUE_GROUP,
                names.KAI_GROUP,
            }
            assert "namespaceSelector" not in hook
            changed = "!has(object.metadata.deletionTimestamp) && object.?spec != oldObject.?spec"
            assert hook["matchConditions"] == [
                {"name": "specification-changed", "expression": f"request.operation == 'CREATE' || {changed}"}
            ]
    assert hooks()[admission.MUTATE_POD]["reinvocationPolicy"] == "IfNeeded"
