"""`kai-sched reserve` against the API server, with the rights of reservation pods and no more (API 7.3)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kai_sched.api import names
from kai_sched.cli.reserve import fake_uuid
from tests.cluster.client import Client, Refused, collection
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.installed import MANIFESTS
from tests.cluster.processes import Process
from tests.cluster.sharing import reservation
from tests.tree import ROOT

NAMESPACE = ACCOUNT = "kai-resource-reservation"
SHARING = MANIFESTS / "components" / "gpu-sharing"
NAME = "gpu-reservation-0123456789abcdef"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"


def test_a_reservation_pod_reports_its_device_with_its_own_rights(
    cluster: Cluster, own_plane: ControlPlane, tmp_path: Path
) -> None:
    files = [SHARING / name for name in ("namespace.yaml", "rbac.yaml", "policies.yaml")]
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    cluster.create(reservation(NAME))
    token = own_plane.service_account_token(NAMESPACE, ACCOUNT, cluster.pod(NAME, NAMESPACE))
    (tmp_path / "token").write_text(token)
    (tmp_path / "ca.crt").write_bytes(own_plane.authority.read_bytes())
    address = urlsplit(own_plane.server)
    mark = own_plane.audit.mark()

    place = {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
    words = [sys.executable, "-m", "kai_sched.cli.main", "reserve", "--fake-device", "--service-account", tmp_path]
    environment = {**place, "POD_NAME": NAME, "POD_NAMESPACE": NAMESPACE, "PYTHONPATH": str(ROOT)}
    process = Process("reserve", words, tmp_path / "reserve.log", environment)

    def reported() -> bool:
        notes = cluster.pod(NAME, NAMESPACE)["metadata"].get("annotations", {})
        return bool(notes.get(names.RESERVED_DEVICE_ANNOTATION) == fake_uuid(f"{NAMESPACE}/{NAME}"))

    process.wait_until(reported, "the device being reported")
    process.signal(signal.SIGTERM)
    assert process.wait() == 0

    asked = own_plane.audit.since(mark, USER)
    assert [(one.verb, one.subject, one.status) for one in asked] == [("get", "pods", 200), ("patch", "pods", 200)]
    itself = Client(own_plane.server, token, own_plane.authority)
    for namespace in (NAMESPACE, "default"):
        with pytest.raises(Refused):
            itself.request("GET", collection("Pod", namespace))
