"""A cluster that is there already, such as one of kind: ControlPlane's face, as far as it is ours to touch."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path

from tests.cluster import components
from tests.cluster.control_plane import write_kubeconfig
from tests.cluster.processes import Process, free_port

ACCOUNT = "kai-sched-tests"


class ExternalPlane:
    """Reached by a kubeconfig. A ServiceAccount is made in it, so that here too everybody comes with a token."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self._given = kubeconfig
        self.server = ""
        self.authority: Path | None = None
        self._token = ""
        self._kwok: Process

    def start(self) -> None:
        """Make the account and start kwok. Raises CalledProcessError where the cluster does not answer."""
        view = json.loads(self._kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
        cluster = view["clusters"][0]["cluster"]
        self.server = cluster["server"]
        if "certificate-authority-data" in cluster:
            self.authority = self.folder / "authority.crt"
            self.authority.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
        account = f"--serviceaccount=kube-system:{ACCOUNT}"
        for made in (
            ("serviceaccount", ACCOUNT, "--namespace=kube-system"),
            ("clusterrolebinding", ACCOUNT, "--clusterrole=cluster-admin", account),
        ):
            content = self._kubectl("create", *made, "--dry-run=client", "--output=yaml")
            self._kubectl("apply", "--server-side", "--filename=-", input=content)
        self._token = self._kubectl("create", "token", ACCOUNT, "--namespace=kube-system", "--duration=24h").strip()
        flags = [
            f"--kubeconfig={self.kubeconfig()}",
            f"--server-address=127.0.0.1:{free_port()}",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            *(f"--config={path}" for path in components.kwok_stages()),
        ]
        self._kwok = Process("kwok", [components.program("kwok", "kwok"), *flags], self.folder / "kwok.log")

    def stop(self) -> None:
        """End kwok; the cluster goes on."""
        self._kwok.end()

    def mend(self) -> None:
        """Nothing of it is stopped by tests."""

    def kubeconfig(self, user: str = "admin", server: str | None = None, token: str | None = None) -> Path:
        """A kubeconfig for the account, or for a token; all users are the same one here."""
        name = f"{user}-{server.rsplit(':', 1)[-1] if server else 'direct'}.kubeconfig"
        authority = None if server else self.authority
        return write_kubeconfig(self.folder / name, server or self.server, token or self._token, authority)

    def token(self, _user: str) -> str:
        """The account's token."""
        return self._token

    def service_account_token(self, namespace: str, name: str) -> str:
        """A token for a ServiceAccount, as the API server hands them to pods."""
        return self._kubectl("create", "token", name, f"--namespace={namespace}").strip()

    def _kubectl(self, *arguments: str, input: str | None = None) -> str:
        command: list[str | Path] = [
            components.program("kubernetes", "kubectl"),
            f"--kubeconfig={self._given}",
            *arguments,
        ]
        return subprocess.run(command, input=input, check=True, text=True, stdout=subprocess.PIPE).stdout
