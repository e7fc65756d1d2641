"""The chart on a real API server: what it renders is valid and that of manifests/, and the public guide works."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kai_sched.model.config import Config, past_usage_map
from kai_sched.operator.options import RunOptions
from tests import rendered_manifests
from tests.cluster import components, sharing
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ACCOUNT
from tests.cluster.control_plane import ControlPlane
from tests.cluster.device_plugin import DevicePlugin, device_of
from tests.cluster.helm_release import DEPLOYMENT, NAMESPACE, Release
from tests.cluster.processes import wait_until
from tests.cluster.workload_objects import apply, pods_of, wait_one_group, wait_running
from tests.cluster.workload_operators import install_crds, start_kuberay
from tests.tree import ROOT

TOOLS = ("helm", "kuberay", "prometheus-operator")
MONITORS = ("prometheusrules", "servicemonitors")
# All that can be switched on.
EVERYTHING = (
    *rendered_manifests.COMPONENTS,
    "shards[0].name=a100",
    "global.imagePullSecrets[0].name=registry",
    "global.tolerations[0].operator=Exists",
    "global.nodeSelector.kubernetes\\.io/os=linux",
    "scheduler.image.digest=sha256:" + "0" * 64,
    "monitoring.dashboards.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.serviceMonitor.authorization.credentials.name=token",
    "monitoring.serviceMonitor.authorization.credentials.key=token",
    "monitoring.serviceMonitor.relabelings[0].targetLabel=cluster",
    "monitoring.alerts.enabled=true",
    "monitoring.labels.release=prometheus",
    "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/8",
)


def test_manifests_are_what_the_chart_renders() -> None:
    assert list(rendered_manifests.differences()) == [], "run `make manifests`"


@pytest.mark.parametrize(
    ("mode", "shared", "on"),
    [
        ("", "false", False),
        ("", "true", True),
        ("Disabled", "true", False),
        ("HamiCore", "false", True),
        ("NvFractions", "false", True),
    ],
)
def test_the_mode_says_whether_pods_share_gpus(mode: str, shared: str, on: bool) -> None:
    files = rendered_manifests.by_template(
        rendered_manifests.template(f"global.gpuSharingMode={mode}", f"global.gpuSharing={shared}")
    )
    assert ("gpu-sharing/namespace.yaml" in files) == on
    config = yaml.safe_load(files["settings.yaml"].split("---\n")[0])["data"]["config.yaml"]
    spec = yaml.safe_load(config)["spec"]["global"]
    assert spec == ({"gpuSharing": on} | ({"gpuSharingMode": mode} if mode else {}))


@pytest.mark.parametrize("pool", ["a100", "a.b", "A100_80GB", "a..b", "x" * 63, "X" * 63])
def test_what_a_node_pool_needs_is_named_as_the_scheduler_looks_for_it(pool: str) -> None:
    """Values of labels may have what no name of an object has."""
    files = rendered_manifests.by_template(
        rendered_manifests.template("shards[0].name=big", f"shards[0].partitionLabelValue={pool}")
    )
    config = Config(node_pool=pool)
    maps = [each["metadata"]["name"] for each in yaml.safe_load_all(files["usage.yaml"])]
    assert maps == ["kai-scheduler-usage", past_usage_map(config)[1]]
    rules = [rule for role in yaml.safe_load_all(files["rbac.yaml"]) for rule in role.get("rules", ())]
    named = [rule["resourceNames"] for rule in rules if "resourceNames" in rule]
    assert maps in named
    assert ["kai-scheduler", RunOptions().lease_name(config)] in named


def test_helm_finds_nothing_to_complain_about() -> None:
    said = rendered_manifests.helm("lint", "--strict", str(rendered_manifests.CHART)).stdout
    assert "0 chart(s) failed" in said


def test_the_packed_chart_is_the_same_each_time(tmp_path: Path) -> None:
    """Whenever the files of the checkout were written."""
    packed = []
    for written_s in (1_000_000_000, 1_700_000_000):
        tree = tmp_path / str(written_s)
        shutil.copytree(rendered_manifests.CHART, tree / "charts" / "kai-scheduler")
        for path in (tree / "charts").rglob("*"):
            os.utime(path, (written_s, written_s))
        shutil.copytree(ROOT / "packaging", tree / "packaging")
        environment = dict(os.environ, SOURCE_DATE_EPOCH="1767225600")
        helm = components.program("helm", "helm")
        subprocess.run([tree / "packaging" / "chart", helm], check=True, env=environment, stdout=subprocess.PIPE)
        (found,) = (tree / "dist").iterdir()
        packed.append((found.name, found.read_bytes()))
    assert packed[0] == packed[1]


def test_a_wrong_value_is_refused_with_its_name() -> None:
    for setting, named in (
        ("global.gpuSharng=true", "gpuSharng"),
        ("scheduler.placementStrategy=scatter", "/scheduler/placementStrategy"),
        ("replicas=many", "/replicas"),
    ):
        done = rendered_manifests.helm("template", str(rendered_manifests.CHART), "--set", setting, check=False)
        assert done.returncode != 0
        assert named in done.stderr


def test_the_api_server_takes_all_that_can_be_rendered(cluster: Cluster, tmp_path: Path) -> None:
    """With strict validation: a field that no schema has is an error."""
    for kind in MONITORS:
        install_crds(cluster, "prometheus-operator", f"*_{kind}.yaml")
    cluster.add_namespace(NAMESPACE)
    for namespace in (sharing.NAMESPACE, "kai-scale-adjust"):
        cluster.add_namespace(namespace)
    path = tmp_path / "all.yaml"
    path.write_text(rendered_manifests.template(*EVERYTHING))
    said = cluster.kubectl("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
                           "-f", str(path))  # fmt: skip
    kinds = {line.partition("/")[0] for line in said.splitlines()}
    assert {"deployment.apps", "networkpolicy.networking.k8s.io", "poddisruptionbudget.policy"} <= kinds
    assert {"servicemonitor.monitoring.coreos.com", "prometheusrule.monitoring.coreos.com"} <= kinds
    cluster.kubectl("delete", "crd", *(f"{kind}.monitoring.coreos.com" for kind in MONITORS))
    assert "kai-scheduler-a100" in said


def test_metrics_are_read_over_tls_where_the_webhooks_are() -> None:
    monitor, tls = "monitoring.serviceMonitor.enabled=true", "monitoring.serviceMonitor.tls=true"
    known = ("monitoring.authenticated=true", "networkPolicy.webhookFrom[0].ipBlock.cidr=10.1.0.0/16")
    files = rendered_manifests.by_template(rendered_manifests.template(monitor, tls, *known))
    (endpoint,) = yaml.safe_load(files["monitoring.yaml"])["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["scheme"]) == ("https-metrics", "https")
    assert endpoint["tlsConfig"] == {
        "ca": {"secret": {"name": "kai-sched-webhook-tls", "key": "ca.crt"}},
        "serverName": f"kai-sched-webhook.{NAMESPACE}.svc",
    }
    services = [each for each in yaml.safe_load_all(files["services.yaml"]) if each["kind"] == "Service"]
    (metrics,) = [each for each in services if each["metadata"]["name"] == DEPLOYMENT]
    assert {port["name"]: port["targetPort"] for port in metrics["spec"]["ports"]}["https-metrics"] == "webhook"

    def readers(*settings: str) -> object:
        rendered = rendered_manifests.by_template(rendered_manifests.template(monitor, tls, *known, *settings))
        (policy,) = [each for each in yaml.safe_load_all(rendered["services.yaml"]) if each["kind"] == "NetworkPolicy"]
        return policy["spec"]["ingress"][0].get("from")

    assert readers() is None, "everybody may read metrics"
    blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("10.1.0.0/16", "10.2.0.0/16")]
    assert readers("networkPolicy.metricsFrom[0].ipBlock.cidr=10.2.0.0/16") == blocks

    for settings, named in (((), "the webhooks serve it"), ((known[0], "shards[0].name=a100"), "set allShards")):
        words = [word for each in (monitor, tls, *settings) for word in ("--set", each)]
        done = rendered_manifests.helm("template", str(rendered_manifests.CHART), *words, check=False)
        assert done.returncode != 0
        assert named in done.stderr


def sample(name: str) -> list[Object]:
    """An example of KubeRay's for us."""
    (path,) = components.shipped("kuberay", f"ray-cluster.{name}.yaml")
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def test_the_public_guide_works_from_its_first_step_to_its_last(
    release: Release, controller_manager: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    # Step 1: install. Nothing but helm: the definitions, and the settings, come with it.
    notes = release.upgrade("global.gpuSharing=true", "binder.image.name=binder", "global.leaderElection=true")
    assert "GPU sharing  on" in notes
    assert "binder.image: one image does all" in notes
    assert "global.leaderElection: always on" in notes
    assert "global.vpa" not in notes
    mark = controller_manager.audit.mark()
    replica = release.run()
    assert replica.logs("settings.written")
    assert cluster.get("Config", "kai-config")["spec"]["global"] == {"gpuSharing": True}
    wait_until(lambda: cluster.find("Queue", "default-queue"), "the default queues")
    # Step 2: KubeRay with us as its batch scheduler.
    kuberay = start_kuberay(controller_manager, cluster, tmp_path)
    try:
        # Steps 3 and 4: queues and a gang.
        cluster.add_nodes(2, gpus=2)
        apply(cluster, *sample("kai-scheduler"))
        wait_running(cluster, 3)
        assert wait_one_group(cluster)["spec"]["minMember"] == 3
        cluster.kubectl("delete", "raycluster", "raycluster-sample")
        wait_until(lambda: not pods_of(cluster), "its pods being gone", 60.0)
        # The last step: workers that share a GPU.
        cluster.kubectl("apply", "-f", "-", input=sharing.RUNTIME_CLASS)
        with DevicePlugin(cluster):
            apply(cluster, *sample("kai-gpu-sharing"))
            wait_running(cluster, 3)
            (reservation,) = sharing.reservations(cluster)
            deployed = cluster.get("Deployment", DEPLOYMENT, NAMESPACE)["spec"]["template"]["spec"]
            assert reservation["spec"]["containers"][0]["image"] == deployed["containers"][0]["image"]
            assert device_of(reservation)
            cluster.kubectl("delete", "raycluster", "raycluster-half-gpu")
            wait_until(lambda: not pods_of(cluster), "its pods being gone", 60.0)
    finally:
        kuberay.kill()
        cluster.kubectl("delete", "runtimeclass", "nvidia", "--ignore-not-found")
    refused = [one for one in controller_manager.audit.since(mark, ACCOUNT) if one.status == 403]
    assert [(one.verb, one.subject) for one in refused] == []
