"""The real operators of workloads, as processes on the cluster of the tests: KubeRay, JobSet, LeaderWorkerSet."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import urllib3
import yaml

from kai_sched.operator.http import authority
from tests.cluster import components
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import WORKLOADS, ControlPlane
from tests.cluster.processes import Process, free_port

START_S = 60.0
# What pods carry that the operator's webhooks for pods are to be asked about.
POD_LABELS = {"jobset": "jobset.sigs.k8s.io/jobset-name", "lws": "leaderworkerset.sigs.k8s.io/name"}
CONFIGURATIONS = {"jobset": "config.jobset.x-k8s.io/v1alpha1", "lws": "config.lws.x-k8s.io/v1alpha1"}


def start_kuberay(plane: ControlPlane, cluster: Cluster, folder: Path) -> Process:
    """KubeRay, as its guide for us has it: with --batch-scheduler=kai-scheduler."""
    install_crds(cluster, "kuberay")
    probes = f"127.0.0.1:{free_port()}"
    flags = [
        "--batch-scheduler=kai-scheduler",
        "--enable-leader-election=false",
        "--metrics-addr=0",
        f"--health-probe-bind-address={probes}",
    ]
    return _start(plane, "kuberay", flags, folder, probes)


def start_with_webhooks(plane: ControlPlane, cluster: Cluster, folder: Path, group: str) -> Process:
    """JobSet or LeaderWorkerSet, whose webhooks fill in what their controllers rely on."""
    install_crds(cluster, group)
    certificates = folder / f"{group}-certificates"
    certificates.mkdir()
    pair = authority.issue("localhost", datetime.now(UTC))
    (certificates / "tls.crt").write_bytes(pair.certificate)
    (certificates / "tls.key").write_bytes(pair.key)
    port, probes = free_port(), f"127.0.0.1:{free_port()}"
    configuration = {
        "apiVersion": CONFIGURATIONS[group],
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(certificates)},
        "health": {"healthProbeBindAddress": probes},
        "metrics": {"bindAddress": "0"},
    }
    path = folder / f"{group}.json"
    path.write_text(json.dumps(configuration))
    process = _start(plane, group, [f"--config={path}"], folder, probes)
    for hooks in _webhooks(group, port, pair.authorities):
        cluster.apply(hooks)
    return process


OPERATORS: Mapping[str, Callable[[ControlPlane, Cluster, Path], Process]] = {
    "kuberay": start_kuberay,
    "jobset": lambda plane, cluster, folder: start_with_webhooks(plane, cluster, folder, "jobset"),
    "lws": lambda plane, cluster, folder: start_with_webhooks(plane, cluster, folder, "lws"),
}


def install_crds(cluster: Cluster, group: str, pattern: str = "*.yaml") -> None:
    """The definitions that came with the operator, those in files of that name, served when this returns."""
    paths = [
        path for path in components.shipped(group, pattern) if "\nkind: CustomResourceDefinition\n" in path.read_text()
    ]
    names = [yaml.safe_load(path.read_text())["metadata"]["name"] for path in paths]
    for path in paths:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(path))
    for name in names:
        cluster.wait_condition("CustomResourceDefinition", name, "Established", status="True")


def _start(plane: ControlPlane, group: str, flags: list[str], folder: Path, probes: str) -> Process:
    command = [components.program(group, group), f"--kubeconfig={plane.kubeconfig(WORKLOADS)}", *flags]
    process = Process(group, command, folder / f"{group}.log")

    def ready() -> bool:
        try:
            return urllib3.request("GET", f"http://{probes}/readyz", timeout=5.0, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    process.wait_until(ready, f"{group} being ready", START_S)
    return process


def _webhooks(group: str, port: int, authorities: bytes) -> list[Object]:
    """Those that came with the operator, called on loopback, and for no pods but its own."""
    (path,) = components.shipped(group, "manifests.yaml")
    found: list[Object] = []
    for configuration in yaml.safe_load_all(path.read_text()):
        configuration["metadata"]["name"] = f"{group}-{configuration['metadata']['name']}"
        for hook in configuration["webhooks"]:
            url = f"https://127.0.0.1:{port}{hook['clientConfig']['service']['path']}"
            hook["clientConfig"] = {"url": url, "caBundle": base64.b64encode(authorities).decode()}
            if hook["rules"][0]["resources"] == ["pods"]:
                hook["objectSelector"] = {"matchExpressions": [{"key": POD_LABELS[group], "operator": "Exists"}]}
        found.append(configuration)
    return found
