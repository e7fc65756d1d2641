"""The image, built as `make image` builds it, and run as the container that the Deployment makes of it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kai_sched import __version__
from kai_sched.api import names
from kai_sched.cli.reserve import fake_uuid
from tests.cluster import objects
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import SERVICE_ACCOUNT, SYSTEM_NAMESPACE
from tests.cluster.control_plane import ControlPlane
from tests.cluster.processes import Process, free_port
from tests.cluster.sharing import reservation
from tests.cluster.test_reserve import ACCOUNT, NAME, NAMESPACE, SHARING
from tests.image.build import Builder, size
from tests.image.container import COUNT_COMPILED, Container
from tests.tree import ROOT

pytestmark = pytest.mark.alone

SECRETS = "/run/secrets/kubernetes.io/serviceaccount"
# libllvmlite alone has 172 MB, numpy 53 and the base 128 (docs/performance.md).
SIZE_MAX = 550e6
AS_OF = "as of 2026-01-01 09:30 UTC, the newest time in the files\n"  # of examples/teams


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    """Has built the image, once. The folder is removed at the end: it is half a dozen copies of the image."""
    subprocess.run(["make", "--silent", "dist/.made"], cwd=ROOT, check=True)
    builder = Builder(tmp_path_factory.mktemp("image"))
    builder.build()
    yield builder
    builder.remove()


@pytest.fixture(scope="module")
def container(builder: Builder) -> Container:
    return Container(builder.mounted(), builder.settings())


def account(plane: ControlPlane, folder: Path, token: str) -> dict[Path, str]:
    """The files of a ServiceAccount as a mount."""
    files = folder / "account"
    files.mkdir()
    (files / "token").write_text(token)
    (files / "ca.crt").write_bytes(plane.authority.read_bytes())
    files.chmod(0o755)
    return {files: SECRETS}


def place(plane: ControlPlane) -> dict[str, str]:
    """Where the API server is, as a kubelet tells containers."""
    address = urlsplit(plane.server)
    return {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}


def test_the_image_is_small_and_has_nothing_of_the_machine_that_built_it(container: Container) -> None:
    assert size(container.root) <= SIZE_MAX
    assert container.settings["User"] == "10000:10000"
    assert [word for word in container.settings["Env"] if "PIP_" in word or "CERT" in word] == []
    settings = container.root / "etc" / "pip.conf"
    assert not settings.exists() or settings.read_text() == ""
    assert [program for program in ("pip", "gcc", "cc") if container.run(program=program).returncode != 127] == []


def test_the_bill_of_materials_has_the_packages_of_both_kinds(container: Container, tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        subprocess.run([sys.executable, ROOT / "packaging/image_sbom.py", container.root, file], check=True)
    assert files[0].read_bytes() == files[1].read_bytes()
    found = json.loads(files[0].read_text())
    assert found["metadata"]["component"]["version"] == __version__
    there = {each["purl"].partition("@")[0]: each["version"] for each in found["components"]}
    locked = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/runtime.txt").read_text(), re.MULTILINE)
    assert {f"pkg:pypi/{name}": version for name, version in locked}.items() <= there.items()
    assert {"pkg:deb/debian/libc6", "pkg:deb/debian/python3.11-minimal"} <= there.keys()


def test_it_answers_for_a_stranger_who_may_write_nowhere(container: Container) -> None:
    probe = container.run("-c", "import os; print(os.getuid()); os.mkdir('/opt/here')", program="python3")
    assert probe.stdout == "10000\n"
    assert "Read-only file system" in probe.stderr

    version = container.run("--version")
    assert (version.stdout, version.stderr, version.returncode) == (f"{__version__}\n", "", 0)

    examples = {ROOT / "examples": "/run/examples"}
    simulated = container.run("simulate", "/run/examples/teams", "--output", "json", mounts=examples)
    assert (simulated.stderr, simulated.returncode) == (AS_OF, 0)
    assert json.loads(simulated.stdout)

    started = container.run("run", "--listen-address", "127.0.0.1:0", "--webhook-address", "")
    assert started.returncode != 0
    assert "kubeconfig" in started.stderr + started.stdout, "outside of a cluster it says what it needs"

    reserved = container.run("reserve", "--pod-name", "p", "--pod-namespace", "n")
    assert reserved.returncode == 1
    assert "NVML does not answer" in reserved.stderr, "there is no GPU here, and it says so"

    counted = container.run("-c", COUNT_COMPILED, program="python3")
    assert (counted.stderr, counted.returncode) == ("", 0)
    hits, misses = (int(word) for word in counted.stdout.split())
    assert hits > 0
    assert misses == 0, "kernels were compiled anew"


def test_a_workload_kind_is_added_to_the_image(builder: Builder, container: Container) -> None:
    example = ROOT / "examples" / "workload-kind"
    builder.build_on(example, "localhost/with-kind")
    own = Container(builder.mounted("localhost/with-kind"), builder.settings())
    asked = ("simulate", "/run/examples/teams", "/run/examples/workload-kind/minicluster.yaml", "--output", "json")
    mounts = {ROOT / "examples": "/run/examples"}
    assert "MiniCluster (flux-framework.org/v1alpha2): 1 object ignored" in container.run(*asked, mounts=mounts).stderr
    answer = own.run(*asked, mounts=mounts)
    assert answer.returncode == 0, answer.stderr
    assert "ml-team-a/lammps-j3" in answer.stdout


def test_the_container_schedules_with_the_rights_of_its_account(
    container: Container, cluster: Cluster, own_plane: ControlPlane, tmp_path: Path
) -> None:
    cluster.add_namespace(SYSTEM_NAMESPACE)
    for name in ("rbac", "priority-classes"):
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / f"manifests/{name}.yaml"))
    token = own_plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    flags = ["--listen-address", f"127.0.0.1:{free_port()}", "--plugin-server-port", str(free_port())]
    words = container.command(
        *("run", "--webhook-address", "", *flags),
        environment=place(own_plane),
        mounts=account(own_plane, tmp_path, token),
    )
    process = Process("container", words, tmp_path / "container.log")
    try:
        cluster.add_nodes(2)
        cluster.add_queues("team")
        gang = objects.gang("gang", 2, gpus=8)
        cluster.create_all(gang)
        pods = [content["metadata"]["name"] for content in gang if content["kind"] == "Pod"]
        process.wait_until(lambda: set(pods) <= set(cluster.bound()) or None, "the gang being bound", 120.0)
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.end()


def test_a_reservation_container_reports_its_device(
    container: Container, cluster: Cluster, own_plane: ControlPlane, tmp_path: Path
) -> None:
    files = [SHARING / name for name in ("namespace.yaml", "rbac.yaml", "policies.yaml")]
    cluster.kubectl("apply", "--server-side", *(word for file in files for word in ("-f", str(file))))
    cluster.create(reservation(NAME))
    token = own_plane.service_account_token(NAMESPACE, ACCOUNT, cluster.pod(NAME, NAMESPACE))
    words = container.command(
        *("reserve", "--fake-device"),
        environment={**place(own_plane), "POD_NAME": NAME, "POD_NAMESPACE": NAMESPACE},
        mounts=account(own_plane, tmp_path, token),
    )
    process = Process("reserve", words, tmp_path / "reserve.log")
    try:

        def reported() -> bool:
            notes = cluster.pod(NAME, NAMESPACE)["metadata"].get("annotations", {})
            return bool(notes.get(names.RESERVED_DEVICE_ANNOTATION) == fake_uuid(f"{NAMESPACE}/{NAME}"))

        process.wait_until(reported, "the device being reported")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    finally:
        process.end()
