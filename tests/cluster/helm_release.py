"""A release of the chart by the real helm, and its Deployment run as a process: kwok runs no containers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from tests.cluster import components
from tests.cluster.client import Object
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.operator_process import Operator
from tests.cluster.processes import free_port, wait_until
from tests.rendered_manifests import CHART

RELEASE = NAMESPACE = "kai-scheduler"
DEPLOYMENT = "kai-scheduler-default"


class Release:
    """Installs into one cluster. ``folder`` is for what helm keeps, mounts and logs."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, folder: Path) -> None:
        self.plane, self.cluster, self.folder = plane, cluster, folder
        self.webhook_port = free_port()
        self.processes: list[Operator] = []

    def helm(self, *arguments: str, check: bool = True) -> str:
        """What helm says. Raises AssertionError where it fails, unless ``check`` is false."""
        command = [str(components.program("helm", "helm")), "--namespace", NAMESPACE, *arguments]
        homes = {f"HELM_{name}_HOME": str(self.folder / "helm") for name in ("CACHE", "CONFIG", "DATA")}
        environment = os.environ | homes | {"KUBECONFIG": str(self.cluster.kubeconfig)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0 or not check, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def upgrade(self, *settings: str, chart: Path = CHART, flags: Sequence[str] = ()) -> str:
        """The command of the guide, with webhooks that are called on loopback."""
        every = (f"admission.url=https://127.0.0.1:{self.webhook_port}", *settings)
        values = [word for setting in every for word in ("--set", setting)]
        return self.helm("upgrade", "-i", RELEASE, str(chart), "--create-namespace", *flags, *values)

    def run(self) -> Operator:
        """Run the Deployment as it is now: its arguments, account and mounted ConfigMaps, as one of its pods."""
        number = len(self.processes)
        deployment = self.cluster.get("Deployment", DEPLOYMENT, NAMESPACE)
        spec = deployment["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        command, *words = container["args"]
        assert (command, "command" in container) == ("run", False), "the image has the command"
        folder = self.folder / f"mounts-{number}"
        for mount in container["volumeMounts"]:
            target = self._mounted(spec, mount["name"], folder / mount["name"])
            words = [word.replace(f"={mount['mountPath']}", f"={target}") for word in words]
        # Ports of a pod are its own; those of this process must be free.
        words = [word for word in words if not word.startswith("--webhook-address=")]
        token = self.plane.service_account_token(NAMESPACE, spec["serviceAccountName"])
        kubeconfig = self.plane.kubeconfig(spec["serviceAccountName"], token=token)
        own = {"POD_NAME": self._pod(deployment)["metadata"]["name"]}
        log = self.folder / f"release-{number}.log"
        with patch.dict(os.environ, own):
            process = Operator(kubeconfig, log, *words, webhooks=self.webhook_port)
        self.processes.append(process)
        process.wait_ready()
        process.process.wait_until(lambda: bool(process.logs("lease.held")), "the lease being held", 60.0)
        return process

    def _mounted(self, spec: Object, name: str, target: Path) -> Path:
        (volume,) = [each for each in spec["volumes"] if each["name"] == name]
        target.mkdir(parents=True)
        if "configMap" in volume:
            content = self.cluster.get("ConfigMap", volume["configMap"]["name"], NAMESPACE)["data"]
            for key, text in content.items():
                (target / key).write_text(text)
        return target

    def _pod(self, deployment: Object) -> Object:
        """A pod of the Deployment as it is now, which its controller makes."""
        image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]

        def there() -> Object:
            pods = [pod for pod in self.cluster.list("Pod", NAMESPACE) if "deletionTimestamp" not in pod["metadata"]]
            found = [pod for pod in pods if pod["spec"]["containers"][0]["image"] == image]
            assert found, f"{len(pods)} pods"
            return found[0]

        return wait_until(there, "a pod of the Deployment", 60.0)

    def end(self) -> None:
        """End all processes."""
        for process in self.processes:
            process.end()
            print(f"{process.process.name} said at the end:\n{process.process.tail()}")
