"""A control plane of real components on loopback: etcd, kube-apiserver, kwok, and kube-controller-manager if asked for.

All of it lives in one folder. What a test may do to it is here too: restart the API server, compact etcd, change the
tokens, read the audit log. ``ControlPlane.client`` is the administrator.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster import components
from tests.cluster.audit import POLICY, AuditLog
from tests.cluster.client import Client, Object
from tests.cluster.processes import Process, free_port

# Users of the token file. Each program has its own, so that the audit log tells them apart.
ADMIN, KWOK, CONTROLLERS, OPERATOR = "admin", "kwok", "controller-manager", "operator"
WORKLOADS = "workload-operator"
MASTERS = "system:masters"
START_S = 120.0
# What Kubernetes 1.34 has for claims and devices besides what is on by default: all that is alpha.
FEATURES = (
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions",
    "DRADeviceTaints",
    "DRAExtendedResource",
    "DRAPartitionableDevices",
)


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """A version of Kubernetes: the group of its programs, and what it has besides what is on by default."""

    programs: str
    features: tuple[str, ...]
    api: str

    @property
    def gates(self) -> str:
        return ",".join(f"{feature}=true" for feature in self.features)


# Taints by DeviceTaintRules are read by a controller.
KUBERNETES = Kubernetes("kubernetes", FEATURES, "resource.k8s.io/v1alpha3")
# Workloads and PodGroups of Kubernetes itself, the latter with topology, and for Jobs made by their controller.
NEWER_FEATURES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "WorkloadWithJob")
NEWER_KUBERNETES = Kubernetes("kubernetes-1.37", NEWER_FEATURES, "scheduling.k8s.io/v1beta1")


def write_kubeconfig(path: Path, server: str, token: str, authority: Path | None = None) -> Path:
    """A kubeconfig with one context named tests, readable only to its owner."""
    cluster = {"server": server} | ({"certificate-authority": str(authority)} if authority else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def signing_key() -> bytes:
    """A new key in PEM, for the tokens of ServiceAccounts."""
    form, text = serialization.PrivateFormat.TraditionalOpenSSL, serialization.Encoding.PEM
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(text, form, serialization.NoEncryption())


class ControlPlane:
    """The components and their folder. ``start`` returns when the API server is ready."""

    def __init__(self, folder: Path, version: Kubernetes = KUBERNETES) -> None:
        self.folder = folder
        self.version = version
        self.tokens: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self._peer_url = f"http://127.0.0.1:{free_port()}"
        self._port = free_port()
        self.server = f"https://127.0.0.1:{self._port}"
        self.authority = folder / "certificates" / "apiserver.crt"
        self.audit = AuditLog(folder / "audit.log")
        self.processes: dict[str, Process] = {}
        self.client: Client
        self.admin_kubeconfig: Path

    def start(self) -> None:
        """Start etcd, the API server and kwok. Raises Unavailable, and AssertionError with the tail of a log."""
        (self.folder / "certificates").mkdir(parents=True, exist_ok=True)
        (self.folder / "service-accounts.key").write_bytes(signing_key())
        (self.folder / "audit-policy.json").write_text(json.dumps(POLICY))
        self.write_tokens({user: [MASTERS] for user in (ADMIN, KWOK, CONTROLLERS, OPERATOR, WORKLOADS)})
        try:
            self._start_etcd()
            self.start_apiserver()
            self.client = Client(self.server, self.token(ADMIN), self.authority)
            self.admin_kubeconfig = self.kubeconfig(ADMIN)
            self.start_kwok()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End all components, those that need the others first."""
        while self.processes:
            self.processes.popitem()[1].end()

    def mend(self) -> None:
        """Start what a test has stopped, and end what it has started besides."""
        self.stop_controller_manager()
        for name, start in (("kube-apiserver", self.start_apiserver), ("kwok", self.start_kwok)):
            if name not in self.processes or self.processes[name].exit_code is not None:
                start()

    # Users

    def write_tokens(self, users: Mapping[str, Sequence[str]]) -> None:
        """Give each of these users a new token and these groups. The API server reads the file only when it starts."""
        self.tokens |= {user: (secrets.token_hex(16), tuple(groups)) for user, groups in users.items()}
        lines = [f'{token},{user},{user},"{",".join(groups)}"\n' for user, (token, groups) in self.tokens.items()]
        path = self.folder / "tokens.csv"
        path.touch(mode=0o600)
        path.write_text("".join(lines))

    def token(self, user: str) -> str:
        """The token of a user of the token file, as of its last writing."""
        return self.tokens[user][0]

    def kubeconfig(self, user: str = ADMIN, server: str | None = None, token: str | None = None) -> Path:
        """A kubeconfig for a user, or for a token; `server` is the address of a proxy that speaks plain http."""
        name = f"{user}-{server.rsplit(':', 1)[-1] if server else 'direct'}.kubeconfig"
        authority = None if server else self.authority
        return write_kubeconfig(self.folder / name, server or self.server, token or self.token(user), authority)

    def service_account_token(
        self, namespace: str, name: str, pod: Object | None = None, lasts_s: int | None = None
    ) -> str:
        """A token for a ServiceAccount, as the API server hands them to pods; with a ``pod`` that of this one.

        It lasts an hour where ``lasts_s`` does not say otherwise.
        """
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        spec: Object = {} if lasts_s is None else {"expirationSeconds": lasts_s}
        if pod is not None:
            meta = pod["metadata"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str(self.client.request("POST", path, request)["status"]["token"])

    # Components

    def start_apiserver(self) -> None:
        """Start the API server on the data and the ports that are there, and wait until it is ready."""
        key = self.folder / "service-accounts.key"
        flags = {
            "etcd-servers": self.etcd_url,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",  # it would refuse to publish a loopback address
            "secure-port": self._port,
            "cert-dir": self.authority.parent,
            "service-cluster-ip-range": "10.0.0.0/24",
            "authorization-mode": "RBAC",
            "token-auth-file": self.folder / "tokens.csv",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "feature-gates": self.version.gates,
            "runtime-config": f"{self.version.api}=true",
            "audit-log-path": self.audit.path,
            "audit-log-maxsize": 100_000,  # megabytes: a reader of a file does not follow its rotation
            "audit-policy-file": self.folder / "audit-policy.json",
            # Else it waits up to a minute for watches to end by themselves.
            "shutdown-send-retry-after": "true",
            "shutdown-watch-termination-grace-period": "1s",
        }
        self._start("kube-apiserver", components.program(self.version.programs, "kube-apiserver"), flags)
        self._wait_ready("kube-apiserver", f"{self.server}/readyz", self.authority, self.token(ADMIN))

    def stop_apiserver(self, kill: bool = False) -> None:
        """End the API server; `kill` without a word to its clients."""
        process = self.processes.pop("kube-apiserver")
        if kill:
            process.kill()
        process.end(timeout_s=60.0)

    def restart_apiserver(self, kill: bool = False) -> None:
        """End the API server and start it again: same address, same data, the token file read anew."""
        self.stop_apiserver(kill)
        self.start_apiserver()

    def start_kwok(self, *more: Path, without: str = "") -> None:
        """Start the simulated kubelets of all nodes; they follow these stages as well, and not the file ``without``."""
        usual = [path for path in components.kwok_stages() if path.name != without]
        stages = [f"--config={path}" for path in (*usual, *more)]
        flags = {"kubeconfig": self.kubeconfig(KWOK), "server-address": f"127.0.0.1:{free_port()}"}
        self._start("kwok", components.program("kwok", "kwok"), flags, ["--manage-all-nodes", *stages])

    def stop_kwok(self) -> None:
        """End the simulated kubelets: bound pods stay pending, deleted ones stay."""
        self.processes.pop("kwok").end()

    def start_controller_manager(self, controllers: str = "*") -> None:
        """Start kube-controller-manager with these controllers, named as in its flag."""
        port = free_port()
        certificates = self.folder / "controller-manager"
        flags = {
            "kubeconfig": self.kubeconfig(CONTROLLERS),
            "controllers": controllers,
            "feature-gates": self.version.gates,
            "leader-elect": "false",
            "bind-address": "127.0.0.1",
            "secure-port": port,
            "cert-dir": certificates,
            "service-account-private-key-file": self.folder / "service-accounts.key",
            "root-ca-file": self.authority,
        }
        name = "kube-controller-manager"
        self._start(name, components.program(self.version.programs, name), flags)
        self._wait_ready(name, f"https://127.0.0.1:{port}/healthz", certificates / f"{name}.crt")

    def stop_controller_manager(self) -> None:
        """End kube-controller-manager; nothing where it does not run."""
        if process := self.processes.pop("kube-controller-manager", None):
            process.end()

    def compact(self) -> int:
        """Compact etcd up to now and return that revision.

        What the API server has in its watch cache it goes on serving: a watch or a page that goes on from before gets
        410 once the API server has been restarted.
        """
        revision = int(self._etcd("range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"])
        self._etcd("compaction", {"revision": revision, "physical": True})
        return revision

    def collect_garbage(self) -> None:
        """Let the API server collect its garbage now.

        A collection takes it up to a second of CPU, and falls into every second window or so of two seconds: that
        decided which of two rates was the better one.
        """
        headers = {"Authorization": f"Bearer {self.token(ADMIN)}"}
        with urllib3.PoolManager(ca_certs=str(self.authority), timeout=60.0) as pool:
            answer = pool.request("GET", f"{self.server}/debug/pprof/heap?gc=1", headers=headers)
        assert answer.status == 200, answer.data

    def _etcd(self, call: str, body: object) -> Any:
        answer = urllib3.request("POST", f"{self.etcd_url}/v3/kv/{call}", json=body)
        assert answer.status == 200, answer.data
        return answer.json()

    def _start_etcd(self) -> None:
        flags = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": self.etcd_url,
            "advertise-client-urls": self.etcd_url,
            "listen-peer-urls": self._peer_url,
            "initial-advertise-peer-urls": self._peer_url,
            "initial-cluster": f"default={self._peer_url}",
            "unsafe-no-fsync": "true",  # the data need not outlive the machine
        }
        self._start("etcd", components.program("etcd", "etcd"), flags)
        self._wait_ready("etcd", f"{self.etcd_url}/health")

    def _start(self, name: str, path: Path, flags: Mapping[str, object], more: Sequence[str] = ()) -> None:
        command: list[str | Path] = [path, *(f"--{flag}={value}" for flag, value in flags.items()), *more]
        # A webhook of the tests is on loopback or nowhere, whatever proxy this machine goes out by.
        environment = {"NO_PROXY": "*", "no_proxy": "*"}
        self.processes[name] = Process(name, command, self.folder / f"{name}.log", environment)

    def _wait_ready(self, name: str, url: str, authority: Path | None = None, token: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}

        def ready() -> bool:
            if authority and not authority.exists():  # each server makes its own certificate when it first starts
                return False
            trust = str(authority) if authority else None
            try:
                with urllib3.PoolManager(ca_certs=trust, retries=False, timeout=5.0) as pool:
                    answer = pool.request("GET", url, headers=headers)
            except urllib3.exceptions.HTTPError:
                return False
            assert answer.status == 200, answer.data.decode(errors="replace")
            return True

        self.processes[name].wait_until(ready, f"{name} being ready", START_S)
