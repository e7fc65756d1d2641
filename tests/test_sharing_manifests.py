"""The components for GPU sharing: they agree with the code and with manifests/, and give no needless right."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kai_sched.model.config import Config
from kai_sched.model.read.config import config_from_operator
from kai_sched.operator.intake.live_settings import LiveSettings
from kai_sched.reconcile.admission.types import admission_from_operator
from tests.test_manifests import Document, built, find_kubectl, listed, rights, the
from tests.tree import ROOT, modules

SHARING = ROOT / "manifests" / "components" / "gpu-sharing"
ADJUSTER = ROOT / "manifests" / "components" / "node-scale-adjuster"
EXAMPLE = ROOT / "examples" / "gpu-sharing"

# By role and namespace ("" for all): resources with verbs, and the module that does it.
RIGHTS = {
    ("kai-resource-reservation", "kai-resource-reservation"): {
        ("/pods", "get patch"): "kai_sched.cluster.own_pod",
    },
    ("kai-scheduler-gpu-sharing", "kai-resource-reservation"): {
        ("/pods", "create"): "kai_sched.cluster.sharing_requests",
    },
    ("kai-scheduler-gpu-sharing", ""): {
        ("/configmaps", "create get patch"): "kai_sched.cluster.sharing_requests",
    },
    ("kai-scheduler-node-scale-adjuster", "kai-scale-adjust"): {
        ("/pods", "create"): "kai_sched.operator.scaling",
    },
}


def documents(folder: Path) -> list[Document]:
    return [document for path in listed(folder) for document in yaml.safe_load_all(path.read_text())]


def both() -> list[Document]:
    return documents(SHARING) + documents(ADJUSTER)


def only(kind: str, folder: Path = SHARING) -> Document:
    """The one object of this kind in a component."""
    (found,) = [document for document in documents(folder) if document["kind"] == kind]
    return found


def config() -> bytes:
    return msgspec.json.encode(only("Config")["spec"])


def test_it_turns_sharing_on_for_admission_and_scheduler_and_says_nothing_wrong() -> None:
    found: list[tuple[str, str]] = []
    settings = config_from_operator(config(), Config(), lambda field, message: found.append((field, message)))
    assert found == []
    assert admission_from_operator(config()).gpu_sharing
    live = LiveSettings(Config(), "default")
    live.observe(
        ("kai.scheduler/v1", "Config"), only("Config")["metadata"]["name"], msgspec.json.encode(only("Config"))
    )
    assert live.config.gpu_sharing
    assert live.config.reservation == settings.reservation


def test_names_are_those_that_the_scheduler_goes_by() -> None:
    reservation = Config().reservation
    assert only("Namespace")["metadata"]["name"] == reservation.namespace
    account = only("ServiceAccount")["metadata"]
    assert (account["namespace"], account["name"]) == (reservation.namespace, reservation.service_account)
    scaling = Config().scaling
    assert only("Namespace", ADJUSTER)["metadata"]["name"] == scaling.namespace
    account = only("ServiceAccount", ADJUSTER)["metadata"]
    assert (account["namespace"], account["name"]) == (scaling.namespace, scaling.service_account)


def test_the_adjuster_is_on_only_where_its_component_is() -> None:
    assert not config_from_operator(config(), Config(), lambda *_: None).scaling.enabled
    patch = yaml.safe_load((ADJUSTER / "config.yaml").read_text())
    assert patch["metadata"] == only("Config")["metadata"]
    assert config_from_operator(msgspec.json.encode(patch["spec"]), Config(), lambda *_: None).scaling.enabled


def test_each_right_is_needed_and_given_once() -> None:
    found = {
        (role["metadata"]["name"], role["metadata"].get("namespace", "")): sorted(rights(role))
        for role in both()
        if role["kind"] in ("Role", "ClusterRole")
    }
    assert found == {role: sorted(given) for role, given in RIGHTS.items()}
    needed = {module for given in RIGHTS.values() for module in given.values()}
    assert needed - {module.name for module in modules()} == set()


def test_rights_go_to_reservation_pods_and_to_the_scheduler() -> None:
    scheduler = the("ServiceAccount")["metadata"]
    own = only("ServiceAccount")["metadata"]
    for binding in both():
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        reference, (subject,) = binding["roleRef"], binding["subjects"]
        assert reference["kind"] == binding["kind"].removesuffix("Binding")
        assert reference["name"] == binding["metadata"]["name"]
        account = own if reference["name"] == own["name"] else scheduler
        assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])


def test_each_policy_denies_and_is_about_an_account_that_there_is() -> None:
    """A policy without a binding, or about a name that nobody has, would keep nothing from anybody."""
    every = [*built(), *both()]
    policies = [each for each in every if each["kind"] == "ValidatingAdmissionPolicy"]
    bindings = [each["spec"] for each in every if each["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert sorted(each["policyName"] for each in bindings) == sorted(each["metadata"]["name"] for each in policies)
    assert all(each["validationActions"] == ["Deny"] for each in bindings)
    accounts = {
        (each["metadata"]["namespace"], each["metadata"]["name"]) for each in every if each["kind"] == "ServiceAccount"
    }
    known = {f"'system:serviceaccount:{namespace}:{name}'" for namespace, name in accounts}
    for policy in policies:
        assert policy["spec"]["failurePolicy"] == "Fail"
        condition, *others = policy["spec"]["matchConditions"]
        # What the scheduler keeps of past usage is another matter than what it tells pods.
        assert len(others) == (policy["metadata"]["name"] == "kai-scheduler-config-maps")
        assert condition["expression"].removeprefix("request.userInfo.username == ") in known


def test_the_namespaces_of_our_pods_enforce_restricted() -> None:
    for each in (the("Namespace"), only("Namespace"), only("Namespace", ADJUSTER)):
        assert each["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_reservation_pods_run_as_the_scheduler_does() -> None:
    """Under the restricted standard, as the image is made for it."""
    deployed = the("Deployment")["spec"]["template"]["spec"]
    reservation = only("Config")["spec"]["binder"]["resourceReservation"]
    assert reservation["reservationPodSecurityContext"] == deployed["securityContext"]
    assert reservation["reservationContainerSecurityContext"] == deployed["containers"][0]["securityContext"]


def test_nothing_of_manifests_is_there_twice() -> None:
    def identity(document: Document) -> tuple[Any, ...]:
        meta = document["metadata"]
        return document["kind"], meta.get("namespace", ""), meta["name"]

    every = [identity(document) for document in (*both(), *built())]
    assert len(every) == len(set(every))


def test_the_example_is_all_of_it() -> None:
    parts = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())
    folders = [(EXAMPLE / name).resolve() for name in (*parts["resources"], *parts["components"])]
    assert folders == [ROOT / "manifests", SHARING, ADJUSTER]
    kubectl = find_kubectl()
    if kubectl:
        text = subprocess.run([kubectl, "kustomize", EXAMPLE], capture_output=True, text=True, check=True).stdout
        assert len(list(yaml.safe_load_all(text))) == len(both()) + len(built())
