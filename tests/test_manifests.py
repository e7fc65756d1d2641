"""manifests/ as kustomize builds it: it agrees with the code, asks for no right without need, and runs restricted."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_sched import __version__
from kai_sched.model.config import Config
from kai_sched.operator.http import certificate
from kai_sched.operator.http.listener import SHUTDOWN_S
from kai_sched.operator.intake.sources import SOURCES
from kai_sched.operator.kopf_frame import KINDS
from kai_sched.operator.lifecycle import DRAIN_S, RELEASE_S
from kai_sched.operator.options import RunOptions
from kai_sched.reconcile.grouping.registry import RULES, SKIPPED, SKIPPED_IN_GROUP
from tests.cluster import components
from tests.tree import ROOT, modules

Document = dict[str, Any]

NAMESPACE = "kai-scheduler"
APP = {"app": "kai-scheduler-default"}
REFLECTOR = "kai_sched.cluster.reflector"
HANDLERS = "kai_sched.operator.kopf_frame"
BINDER = "kai_sched.cluster.pod_binder"
EVICTER = "kai_sched.cluster.pod_deleter"
VOLUMES = "kai_sched.cluster.volume_binder"
CLAIMS = "kai_sched.cluster.claim_requests"
WRITER = "kai_sched.cluster.status_writer"
CERTIFICATE = "kai_sched.operator.http.certificate"
GROUPER = "kai_sched.cluster.group_requests"
LEASE = "kai_sched.cluster.lease"

# Why the operator may do what it may: resource and verb, and the module that does it.
CLUSTER_RIGHTS = {
    ("/pods", "list watch"): REFLECTOR,
    ("/nodes", "list watch"): REFLECTOR,
    ("/namespaces", "list watch"): REFLECTOR,
    ("/configmaps", "list watch"): REFLECTOR,
    ("/persistentvolumeclaims", "list watch"): REFLECTOR,
    ("/persistentvolumes", "list watch"): REFLECTOR,
    ("scheduling.k8s.io/priorityclasses", "list watch"): REFLECTOR,
    ("scheduling.k8s.io/podgroups", "list watch"): REFLECTOR,
    ("storage.k8s.io/storageclasses", "list watch"): REFLECTOR,
    **{(f"storage.k8s.io/csi{name}", "list watch"): REFLECTOR for name in ("drivers", "nodes", "storagecapacities")},
    **{(f"resource.k8s.io/resource{name}", "list watch"): REFLECTOR for name in ("slices", "claims")},
    **{(f"resource.k8s.io/device{name}", "list watch"): REFLECTOR for name in ("classes", "taintrules")},
    ("scheduling.run.ai/bindrequests", "list watch"): REFLECTOR,
    ("scheduling.run.ai/queues", "list watch"): REFLECTOR,  # and kopf
    ("scheduling.run.ai/podgroups", "list watch"): REFLECTOR,  # and kopf
    ("topology.node.k8s.io/noderesourcetopologies", "list watch"): REFLECTOR,
    ("kai.scheduler/topologies", "list watch"): REFLECTOR,
    ("kai.scheduler/configs", "list watch"): REFLECTOR,
    ("kai.scheduler/schedulingshards", "list watch"): REFLECTOR,
    ("apiextensions.k8s.io/customresourcedefinitions", "list watch"): HANDLERS,  # kopf waits for our kinds
    ("/pods", "delete"): EVICTER,
    ("/pods", "get patch"): BINDER,  # and the grouper
    ("/pods/binding", "create"): BINDER,
    **{(f"/{kind}", "patch"): VOLUMES for kind in ("persistentvolumeclaims", "persistentvolumes")},
    ("resource.k8s.io/resourceclaims", "create delete get update"): CLAIMS,
    ("/pods/finalizers", "update"): "kai_sched.cluster.extended_claim_requests",
    **{(f"resource.k8s.io/resourceclaims/{part}", "update"): CLAIMS for part in ("status", "binding")},
    ("/pods/status", "patch"): WRITER,
    ("/events", "create get patch"): WRITER,
    ("scheduling.run.ai/podgroups", "create get update"): GROUPER,
    ("scheduling.run.ai/podgroups", "patch"): WRITER,
    ("scheduling.run.ai/podgroups/status", "patch"): WRITER,
    ("scheduling.k8s.io/podgroups/status", "patch"): WRITER,
    ("scheduling.run.ai/queues/status", "patch"): WRITER,
    ("scheduling.run.ai/queues", "create"): "kai_sched.operator.default_queues",
}
OWN_NAMESPACE_RIGHTS = {
    ("coordination.k8s.io/leases", "create"): LEASE,
    ("coordination.k8s.io/leases:kai-scheduler", "get update"): LEASE,
    ("/configmaps", "get"): "kai_sched.operator.grouping.rule_settings",
    ("/configmaps:kai-scheduler-usage", "patch"): "kai_sched.operator.usage_accounts",
}
# The roles of who keeps the certificate.
CONFIGURATION_RIGHTS = {
    (
        "admissionregistration.k8s.io/mutatingwebhookconfigurations:" + ",".join(certificate.MUTATING),
        "get list patch watch",
    ): CERTIFICATE,
    (
        "admissionregistration.k8s.io/validatingwebhookconfigurations:" + ",".join(certificate.VALIDATING),
        "get list patch watch",
    ): CERTIFICATE,
}
SECRET_RIGHTS = {
    ("/secrets", "create"): CERTIFICATE,
    (f"/secrets:{certificate.SECRET}", "get update"): CERTIFICATE,
}
FOR_PEOPLE = "kai-scheduler-view", "kai-scheduler-edit", "kai-scheduler-admin", "kai-scheduler-queue-"


@functools.cache
def built() -> tuple[Document, ...]:
    """What `kubectl apply -k manifests` sends; where there is no kubectl, the files that the kustomization lists."""
    kubectl = find_kubectl()
    if kubectl:
        text = subprocess.run(
            [kubectl, "kustomize", ROOT / "manifests"], capture_output=True, text=True, check=True
        ).stdout
        return tuple(yaml.safe_load_all(text))
    return tuple(document for path in listed(ROOT / "manifests") for document in yaml.safe_load_all(path.read_text()))


def find_kubectl() -> str | None:
    """kubectl of the machine, or else the one that was built for the cluster tests."""
    try:
        return shutil.which("kubectl") or str(components.program("kubernetes", "kubectl"))
    except components.Unavailable:
        return None


def listed(folder: Path) -> list[Path]:
    """The files of a kustomization, those of the kustomizations in it too."""
    found: list[Path] = []
    for name in yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]:
        path = folder / name
        found += listed(path) if path.is_dir() else [path]
    return found


def all_of(kind: str) -> list[Document]:
    return [document for document in built() if document["kind"] == kind]


def the(kind: str, name: str | None = None) -> Document:
    (found,) = [document for document in all_of(kind) if name in (None, document["metadata"]["name"])]
    return found


def pod_spec() -> Document:
    spec: Document = the("Deployment")["spec"]["template"]["spec"]
    return spec


def container() -> Document:
    (found,) = pod_spec()["containers"]
    return dict(found)


def rights(role: Document) -> list[tuple[str, str]]:
    """Each resource of a role, with the names it is bound to, and the verbs."""
    return [
        (f"{group}/{resource}{bound}", " ".join(sorted(rule["verbs"])))
        for rule in role["rules"]
        for bound in [":" + ",".join(rule["resourceNames"]) if "resourceNames" in rule else ""]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]


def test_all_that_the_issue_asks_for_is_there() -> None:
    kinds = {document["kind"] for document in built()}
    assert kinds == {
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "MutatingWebhookConfiguration",
        "Namespace",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "PriorityClass",
        "ResourceQuota",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
    crds = {document["metadata"]["name"] for document in all_of("CustomResourceDefinition")}
    assert crds == {path.stem for path in (ROOT / "crds").glob("*.*.yaml")}
    classes = {document["metadata"]["name"]: document["value"] for document in all_of("PriorityClass")}
    assert classes == {"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}


def test_everything_lives_in_one_namespace() -> None:
    assert the("Namespace")["metadata"]["name"] == NAMESPACE
    namespaces = {document["metadata"].get("namespace", NAMESPACE) for document in built()}
    assert namespaces == {NAMESPACE}


@pytest.mark.parametrize(
    ("kind", "name", "needed"),
    [
        ("ClusterRole", "kai-scheduler", CLUSTER_RIGHTS),
        ("Role", "kai-scheduler", OWN_NAMESPACE_RIGHTS),
        ("ClusterRole", "kai-scheduler-certificate", CONFIGURATION_RIGHTS),
        ("Role", "kai-scheduler-certificate", SECRET_RIGHTS),
    ],
)
def test_each_right_is_needed_and_given_once(kind: str, name: str, needed: dict[tuple[str, str], str]) -> None:
    assert sorted(rights(the(kind, name))) == sorted(needed)
    missing = set(needed.values()) - {module.name for module in modules()}
    assert missing == set(), "the code that needed it is gone: so is the need"


def test_what_is_watched_is_what_may_be_watched() -> None:
    paths = [source.path for source in SOURCES]
    assert {kind for kind, _ in KINDS} <= {source.kind for source in SOURCES}, "kopf may lose deletions"
    watched = {re.sub(r"^/(?:api/v1|apis/([^/]+)/[^/]+)/", r"\1/", path) for path in paths}
    may = {resource for resource, verbs in CLUSTER_RIGHTS if verbs == "list watch"}
    assert may - watched == {"apiextensions.k8s.io/customresourcedefinitions"}, "kopf's own"
    assert watched - may == set()


def test_every_kind_that_has_a_rule_can_be_read() -> None:
    """By the plural that its name in lower case makes; and what stands between workloads and pods besides."""
    kinds = {(version.rpartition("/")[0], kind) for version, kind in (*RULES, *SKIPPED)} | SKIPPED_IN_GROUP
    wanted = {f"{group}/{kind.lower()}s" for group, kind in kinds - {("", "Pod")}}
    between = {
        "scheduling.k8s.io/podgroups",
        "scheduling.k8s.io/workloads",
        "serving.knative.dev/configurations",
        "serving.knative.dev/revisions",
        "scheduler.grove.io/podgangs",
        "grove.io/podcliques",
        "grove.io/podcliquescalinggroups",
        "kubevirt.io/virtualmachines",
    }
    given = rights(the("ClusterRole", "kai-scheduler-workloads"))
    assert sorted(given) == sorted((resource, "get list") for resource in wanted | between)


def test_the_lease_is_the_one_that_may_be_held() -> None:
    lease = RunOptions().lease_name(Config())
    assert f"coordination.k8s.io/leases:{lease}" in {resource for resource, _ in OWN_NAMESPACE_RIGHTS}


def test_no_right_is_a_wildcard() -> None:
    for role in (*all_of("ClusterRole"), *all_of("Role")):
        texts = [text for rule in role["rules"] for key in ("apiGroups", "resources", "verbs") for text in rule[key]]
        assert [text for text in texts if "*" in text] == []


def test_rights_go_to_the_account_that_the_pods_run_as() -> None:
    account = the("ServiceAccount")["metadata"]
    assert pod_spec()["serviceAccountName"] == account["name"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": NAMESPACE}
    for kind in ("ClusterRole", "Role"):
        for role in all_of(kind):
            name = role["metadata"]["name"]
            if name.startswith(FOR_PEOPLE):
                continue
            binding = the(f"{kind}Binding", name)
            assert binding["subjects"] == [subject]
            assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (kind, name)


def test_roles_for_people_widen_those_of_kubernetes() -> None:
    """Who views reads queues and groups, editors write groups, and queues are for their owners and administrators."""
    roles = {role["metadata"]["name"]: role for role in all_of("ClusterRole")}
    assert len([name for name in roles if name.startswith(FOR_PEOPLE)]) == 5
    write = "create delete deletecollection patch update"
    every = "create delete deletecollection get list patch update watch"
    queues, groups = "scheduling.run.ai/queues", "scheduling.run.ai/podgroups"
    given = {name: dict(rights(role)) for name, role in roles.items()}
    assert given["kai-scheduler-view"][queues] == given["kai-scheduler-view"][groups] == "get list watch"
    assert given["kai-scheduler-edit"] == {groups: write}
    assert given["kai-scheduler-admin"][queues] == given["kai-scheduler-admin"]["kai.scheduler/configs"] == every
    assert given["kai-scheduler-queue-reader"] == {queues: "get list watch"}
    assert rights(roles["kai-scheduler-queue-owner"]) == [(queues, "get list watch"), (queues, "patch update")]
    for name in ("view", "edit", "admin"):
        labels = roles[f"kai-scheduler-{name}"]["metadata"]["labels"]
        assert labels == {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}


def test_pods_are_allowed_where_security_is_restricted() -> None:
    """The rules of the restricted pod security standard, which the namespace enforces."""
    labels = the("Namespace")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}
    pod, main, (volume,) = pod_spec(), container(), pod_spec()["volumes"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 10000
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert main["securityContext"]["allowPrivilegeEscalation"] is False
    assert main["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert main["securityContext"]["readOnlyRootFilesystem"] is True
    assert "privileged" not in main["securityContext"]
    assert {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & pod.keys() | volume.keys() == {"name", "emptyDir"}
    assert [port for port in main["ports"] if "hostPort" in port] == []


def test_it_runs_as_the_image_does() -> None:
    user = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[-1]
    security = pod_spec()["securityContext"]
    assert user == (str(security["runAsUser"]), str(security["runAsGroup"]))
    images = yaml.safe_load((ROOT / "manifests" / "kustomization.yaml").read_text())["images"]
    assert images == [{"name": container()["image"].split(":")[0], "newTag": __version__}]


def test_its_options_are_those_of_the_command() -> None:
    command, *options = container()["args"]
    words = [sys.executable, "-m", "kai_sched.cli.main", command, "--help"]
    wide = {**os.environ, "COLUMNS": "200"}
    shown = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT, env=wide).stdout
    assert [option for option in options if option.split("=")[0] not in shown] == []
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert f"--webhook-address=:{ports['webhook']}" in options
    assert RunOptions().listen_address == f":{ports['http-metrics']}"
    assert RunOptions().namespace == NAMESPACE


def test_two_replicas_and_never_fewer_than_one() -> None:
    deployment, budget = the("Deployment")["spec"], the("PodDisruptionBudget")["spec"]
    assert deployment["replicas"] == 2
    assert budget["maxUnavailable"] == 1
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    spread = [constraint["whenUnsatisfiable"] for constraint in pod_spec()["topologySpreadConstraints"]]
    assert set(spread) == {"ScheduleAnyway"}, "one node is enough to run it"


def test_there_is_time_to_end_in_order() -> None:
    grace_s = pod_spec()["terminationGracePeriodSeconds"]
    assert RunOptions().shutdown_delay_s >= 5.0, "the cluster goes on sending requests for some seconds"
    assert DRAIN_S + RELEASE_S + RunOptions().shutdown_delay_s + SHUTDOWN_S < grace_s


def test_critical_pods_have_a_quota_where_one_is_needed() -> None:
    quota = the("ResourceQuota")["spec"]
    (scope,) = quota["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [pod_spec()["priorityClassName"]]}
    assert int(quota["hard"]["pods"]) >= 10 * the("Deployment")["spec"]["replicas"]


def test_selectors_select_the_pods() -> None:
    labels = the("Deployment")["spec"]["template"]["metadata"]["labels"]
    spread = [constraint["labelSelector"]["matchLabels"] for constraint in pod_spec()["topologySpreadConstraints"]]
    services = [service["spec"]["selector"] for service in all_of("Service")]
    selectors = [the(kind)["spec"]["selector"]["matchLabels"] for kind in ("Deployment", "PodDisruptionBudget")]
    assert labels == APP
    assert [selector for selector in spread + services + selectors if selector != APP] == []


def test_services_and_probes_reach_the_ports() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert ports == {"http-metrics": 8080, "webhook": 9443}
    assert {service["spec"]["ports"][0]["targetPort"] for service in all_of("Service")} == ports.keys()
    probes = {kind: container()[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["port"] for probe in probes.values()} == {"http-metrics"}
    assert [probe["path"] for probe in probes.values()] == ["/healthz", "/healthz", "/readyz"]
    (webhook,) = the("Service", certificate.SERVICE)["spec"]["ports"]
    assert (webhook["port"], webhook["targetPort"]) == (443, "webhook")
    policy = the("NetworkPolicy")["spec"]
    assert (policy["podSelector"]["matchLabels"], policy["policyTypes"]) == (APP, ["Ingress"])
    assert {port["port"] for rule in policy["ingress"] for port in rule["ports"]} == ports.keys()
