"""Fixtures of the tests against a real API server, started once a test run and emptied after each test.

``cluster`` is what most tests need. A test that asks for ``own_plane`` restarts components or reads the audit log: it
is left out where the cluster is one that was there before, named in KAI_TEST_KUBECONFIG. So is one that asks for
``workloads``, with controllers and the operators that its module names in WORKLOAD_OPERATORS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from kai_sched.operator.http import certificate
from tests.cluster import components
from tests.cluster.cluster import Cluster, Key
from tests.cluster.control_plane import ADMIN, OPERATOR, ControlPlane
from tests.cluster.external import ExternalPlane
from tests.cluster.helm_release import RELEASE, Release
from tests.cluster.operator_process import Operator
from tests.cluster.processes import Process, wait_until
from tests.cluster.proxy import Proxy
from tests.cluster.workload_operators import OPERATORS
from tests.tree import ROOT

GIVEN = "KAI_TEST_KUBECONFIG"
SYSTEM_NAMESPACE = "kai-scheduler"
SERVICE_ACCOUNT = "scheduler"
LOG = ("--log-level", "debug")  # with the cycles that decide nothing, which tests wait for
ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{SERVICE_ACCOUNT}"
FOLDER = Path(__file__).resolve().parent
OURS = {"own_plane", "shared_workloads", "newer_plane"}  # fixtures that start components
LEFT_OUT = pytest.StashKey[list[str]]()
# The groups of programs that every test needs; a module names more in TOOLS, and operators in WORKLOAD_OPERATORS.
BASE, BASE_OF_GIVEN = ("etcd", "kubernetes", "kwok"), ("kubernetes", "kwok")

Plane = ControlPlane | ExternalPlane
StartOperator = Callable[..., Operator]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark what lies here; after the choice by -m, leave out what cannot run, and say so."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("cluster")
    yield
    chosen = [item for item in items if item.get_closest_marker("cluster")]
    lines: list[str] = []
    dropped: list[pytest.Item] = []
    if chosen and (why := _build(chosen, config)):
        if os.environ.get("CI") == "true":
            raise pytest.UsageError(f"the cluster tests cannot run: {why}")
        dropped = chosen
        lines = [f"{len(chosen)} CLUSTER TESTS LEFT OUT: {why}"]
    elif os.environ.get(GIVEN):
        dropped = [item for item in chosen if OURS & set(getattr(item, "fixturenames", ()))]
        lines = [f"left out, as {GIVEN} names a cluster that is not ours: {item.nodeid}" for item in dropped]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]
    config.stash[LEFT_OUT] = lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The loud line, where it cannot be missed."""
    for line in config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(line, yellow=True, bold=True)


def _build(chosen: list[pytest.Item], config: pytest.Config) -> str:
    """Build the programs that these tests need and that are not built yet; return why they cannot be had, or ""."""
    needed = set(BASE_OF_GIVEN if os.environ.get(GIVEN) else BASE)
    for item in chosen:
        module = getattr(item, "module", None)
        needed.update(getattr(module, "TOOLS", ()), getattr(module, "WORKLOAD_OPERATORS", ()))
    try:
        missing = [group for group in components.GROUPS if group in needed and not components.is_built(group)]
        if missing and not config.option.collectonly:
            with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
                print(flush=True)
                components.build(missing)
    except components.Unavailable as missing_program:
        return str(missing_program)
    return ""


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """The control plane, with our CRDs and without anything else."""
    folder = tmp_path_factory.mktemp("control-plane")
    given = os.environ.get(GIVEN)
    plane = ExternalPlane(folder, Path(given)) if given else ControlPlane(folder)
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture(scope="session")
def _empty(plane: Plane) -> tuple[Cluster, set[Key]]:
    given = isinstance(plane, ExternalPlane)
    cluster = Cluster(plane.server, plane.token(ADMIN), plane.authority, plane.kubeconfig(ADMIN), controlled=given)
    cluster.add_crds()
    cluster.add_namespace("default")
    return cluster, cluster.everything()


@pytest.fixture
def cluster(plane: Plane, _empty: tuple[Cluster, set[Key]]) -> Iterator[Cluster]:
    """The administrator of a cluster with our CRDs and nothing else; after the test it is made so again."""
    cluster, keep = _empty
    yield cluster
    plane.mend()
    cluster.clear(keep)


@pytest.fixture
def own_plane(plane: Plane, cluster: Cluster) -> ControlPlane:
    """The control plane, for tests that restart its components or read its audit log. What is stopped starts again."""
    assert isinstance(plane, ControlPlane)
    assert cluster.server == plane.server
    return plane


@pytest.fixture
def controller_manager(own_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane with kube-controller-manager, for tests that need its controllers."""
    own_plane.start_controller_manager()
    yield own_plane
    own_plane.stop_controller_manager()


@pytest.fixture
def release(controller_manager: ControlPlane, cluster: Cluster, tmp_path: Path) -> Iterator[Release]:
    """Helm on a cluster that has never heard of us; what it installed is uninstalled."""
    crds = [crd["metadata"]["name"] for crd in cluster.list("CustomResourceDefinition")]
    cluster.kubectl("delete", "customresourcedefinitions", "--wait", *crds)
    release = Release(controller_manager, cluster, tmp_path)
    yield release
    release.end()
    release.helm("uninstall", RELEASE, "--ignore-not-found")


@pytest.fixture
def kubectl(cluster: Cluster) -> Callable[..., str]:
    """kubectl(*arguments, input=None): what it prints."""
    return cluster.kubectl


@pytest.fixture
def proxy(plane: Plane, cluster: Cluster) -> Iterator[Proxy]:
    """A proxy before the API server that does as it is told."""
    assert cluster.server == plane.server
    with Proxy(plane.server, plane.authority) as proxy:
        yield proxy


@pytest.fixture
def system_namespace(cluster: Cluster) -> str:
    """The namespace of the operator's lease and secrets."""
    return cluster.add_namespace(SYSTEM_NAMESPACE)


@pytest.fixture
def defaults(cluster: Cluster) -> None:
    """The priority classes of the manifests, and the default queues."""
    for path in ("manifests/priority-classes.yaml", "kai_sched/operator/default_queues.yaml"):
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / path))


@pytest.fixture
def operator(plane: Plane, system_namespace: str, tmp_path: Path) -> Iterator[StartOperator]:
    """operator(*flags, kubeconfig=None, proxy=None, webhooks=False, ready=True): `kai-sched run` as one more replica.

    Through the proxy where one is given, as the user ``operator`` (system:masters) where no kubeconfig is. ``entry``,
    ``shutdown_delay_s`` and ``packages`` as of Operator.
    """
    replicas: list[Operator] = []

    def start(
        *flags: str,
        kubeconfig: Path | None = None,
        proxy: Proxy | None = None,
        webhooks: bool = False,
        shutdown_delay_s: float = 0.0,
        ready: bool = True,
        entry: Sequence[str] = ("kai_sched.cli.main",),
        packages: Sequence[Path] = (),
    ) -> Operator:
        chosen = kubeconfig or plane.kubeconfig(OPERATOR, proxy.url if proxy else None)
        log = tmp_path / f"operator-{len(replicas)}.log"
        words = (*LOG, "--namespace", system_namespace, *flags)
        more = {"webhooks": webhooks, "shutdown_delay_s": shutdown_delay_s, "entry": entry, "packages": packages}
        replica = Operator(chosen, log, *words, **more)
        replicas.append(replica)
        return replica.wait_ready() if ready else replica

    yield start
    for replica in replicas:
        replica.end()
        print(f"{replica.process.name} said at the end:\n{replica.process.tail()}")


@pytest.fixture(scope="module")
def shared_operator(
    plane: Plane, _empty: tuple[Cluster, set[Key]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One leading replica for all tests of a module that ask for ``live``, as the user ``operator``."""
    cluster, keep = _empty
    cluster.add_namespace(SYSTEM_NAMESPACE)
    log = tmp_path_factory.mktemp("shared") / "operator.log"
    flags = [*LOG, "--namespace", SYSTEM_NAMESPACE, "--no-default-queues"]
    replica = Operator(plane.kubeconfig(OPERATOR), log, *flags, webhooks=True).wait_ready()
    replica.process.wait_until(lambda: bool(replica.logs("lease.held")), "the lease being held", 60.0)
    yield replica
    replica.end()
    cluster.clear(keep)


@pytest.fixture
def live(plane: Plane, shared_operator: Operator, _empty: tuple[Cluster, set[Key]]) -> Iterator[Cluster]:
    """As ``cluster``, with an operator that leads and that the tests of the module share. Not for use beside it."""
    cluster, keep = _empty
    yield cluster
    plane.mend()
    its = {"Lease": "kai-scheduler", "ServiceAccount": "default", "Secret": certificate.SECRET}
    cluster.clear(keep | {("Namespace", "", SYSTEM_NAMESPACE)} | {(kind, SYSTEM_NAMESPACE, its[kind]) for kind in its})
    status, text = shared_operator.get("/readyz/scheduling")
    assert status == 200, text


@dataclass(frozen=True, slots=True)
class Workloads:
    """A cluster with controllers and operators of workloads, and our operator, which leads. ``keep`` is part of it."""

    cluster: Cluster
    operator: Operator
    operators: Mapping[str, Process]
    plane: ControlPlane
    keep: set[Key]


@pytest.fixture(scope="module")
def shared_workloads(
    request: pytest.FixtureRequest,
    plane: Plane,
    _empty: tuple[Cluster, set[Key]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Workloads]:
    """For all tests of a module, which names the operators that it needs in WORKLOAD_OPERATORS, and may set WEBHOOKS.

    Our operator has the rights of the manifests, and no more.
    """
    assert isinstance(plane, ControlPlane)
    bare, keep = _empty
    cluster = Cluster(plane.server, plane.token(ADMIN), plane.authority, plane.kubeconfig(ADMIN), controlled=True)
    folder = tmp_path_factory.mktemp("workloads")
    cluster.add_namespace(SYSTEM_NAMESPACE)
    for name in ("rbac", "priority-classes"):
        cluster.kubectl("apply", "--server-side", "-f", str(ROOT / f"manifests/{name}.yaml"))
    token = plane.service_account_token(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
    started: dict[str, Process] = {}
    operator: Operator | None = None
    try:
        plane.start_controller_manager()
        for name in request.module.WORKLOAD_OPERATORS:
            started[name] = OPERATORS[name](plane, cluster, folder)
        flags = ("--namespace", SYSTEM_NAMESPACE, "--no-default-queues")
        kubeconfig, webhooks = (
            plane.kubeconfig(SERVICE_ACCOUNT, token=token),
            getattr(request.module, "WEBHOOKS", False),
        )
        operator = Operator(kubeconfig, folder / "operator.log", *flags, webhooks=webhooks).wait_ready()
        operator.process.wait_until(lambda: bool(operator.logs("lease.held")), "the lease being held", 60.0)
        if webhooks:  # the certificate stays for all tests of the module
            wait_until(lambda: cluster.find("Secret", certificate.SECRET, SYSTEM_NAMESPACE), "the certificate's Secret")
        yield Workloads(cluster, operator, started, plane, cluster.everything())
    finally:
        if operator is not None:
            operator.end()
        for process in started.values():
            process.kill()  # they would wait for what they have asked of pods that do not answer
        plane.stop_controller_manager()
        bare.clear(keep)


@pytest.fixture
def workloads(shared_workloads: Workloads) -> Iterator[Workloads]:
    """As ``shared_workloads``; what the test puts into the cluster is taken out again."""
    mark = shared_workloads.plane.audit.mark()
    yield shared_workloads
    refused = [one for one in shared_workloads.plane.audit.since(mark, ACCOUNT) if one.status == 403]
    assert [(one.verb, one.subject) for one in refused] == []
    if "kwok" not in shared_workloads.plane.processes:
        shared_workloads.plane.start_kwok()
    shared_workloads.cluster.clear(shared_workloads.keep)
    status, text = shared_workloads.operator.get("/readyz/scheduling")
    assert status == 200, text
