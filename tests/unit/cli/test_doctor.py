"""What is said of an installation and of a cluster, the remedies, and the exit status."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

import kai_sched
from kai_sched.cli.cluster_checks import check_cluster
from kai_sched.cli.doctor import check_installation
from kai_sched.cli.finding import Finding, Gravity
from kai_sched.cli.version import COMPILED, INTERPRETED, MISSING, InstallationFacts, facts
from kai_sched.cluster.client import Api, ApiFailure
from tests.unit.cli.command import run
from tests.unit.cli.test_run import KUBECONFIG

NO_KUBECONFIG = "there is no kubeconfig (KUBECONFIG is not set, and there is no ~/.kube/config)"
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
GROUPS = {
    "scheduling.run.ai": {"v2": ["queues"], "v2alpha2": ["podgroups"], "v1alpha2": ["bindrequests"]},
    "kai.scheduler": {"v1": ["configs", "schedulingshards"], "v1alpha1": ["topologies"]},
}
SYSTEM = "/namespaces/kai-scheduler"
LEASES = f"/apis/coordination.k8s.io/v1{SYSTEM}/leases"
DEPLOYMENTS = f"/apis/apps/v1{SYSTEM}/deployments"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
CONFIG = "/apis/kai.scheduler/v1/configs/kai-config"
MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/mutating-kai-admission"
FORBIDDEN = 'leases is forbidden: User "u" cannot list resource "leases"'


class FakeApi:
    """Answers from ``objects`` and ``lists`` by path; reviews by ``refused``. A failure in ``objects`` is raised."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {"/version": {"gitVersion": "v1.34.1"}}
        self.lists: dict[str, list[Any] | ApiFailure] = {LEASES: [lease()], DEPLOYMENTS: [], QUEUES: [{}, {}]}
        self.refused: set[str] = set()
        self.reviewed: list[Mapping[str, str]] = []
        self.serve(GROUPS)

    def serve(self, groups: Mapping[str, Mapping[str, list[str]]]) -> None:
        """These groups, versions and resources are served, and no others."""
        found = []
        for group, versions in groups.items():
            found.append({"name": group, "versions": [{"groupVersion": f"{group}/{version}"} for version in versions]})
            for version, resources in versions.items():
                self.objects[f"/apis/{group}/{version}"] = {"resources": [{"name": name} for name in resources]}
        self.objects["/apis"] = {"groups": [{"name": "apps", "versions": []}, *found]}

    def credentials(self) -> SimpleNamespace:
        return SimpleNamespace(server="https://api:6443")

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> bytes:
        if method == "POST":
            assert path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
            asked = json.loads(body)["spec"]["resourceAttributes"]
            self.reviewed.append(asked)
            return msgspec.json.encode({"status": {"allowed": asked["resource"] not in self.refused}})
        found = self.objects.get(path, ApiFailure("GET", path, 404, "NotFound", "there is none"))
        if isinstance(found, ApiFailure):
            raise found
        return msgspec.json.encode(found)

    async def list_pages(self, path: str, *_: Any, **__: Any) -> AsyncIterator[tuple[list[msgspec.Raw], str]]:
        found = self.lists[path]
        if isinstance(found, ApiFailure):
            raise found
        yield [msgspec.Raw(msgspec.json.encode(each)) for each in found], "1"


def lease(name: str = "kai-scheduler", renewed: str = "2026-11-22T11:59:50.000000Z") -> dict[str, Any]:
    spec = {"holderIdentity": "pod-1_u", "renewTime": renewed, "leaseDurationSeconds": 15}
    return {"metadata": {"name": name}, "spec": spec}


def deployment(name: str, args: list[str] | None, ready: int = 1) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "c", **({"args": args} if args else {})}]}}
    return {"metadata": {"name": name}, "spec": {"template": pod}, "status": {"readyReplicas": ready}}


def webhook(service: str, bundle: str = "YQ==") -> dict[str, Any]:
    client = {"service": {"name": service}, **({"caBundle": bundle} if bundle else {})}
    return {"webhooks": [{"clientConfig": client}]}


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


async def lines(api: FakeApi, what: str = "") -> list[str]:
    """The findings about something, as they are printed."""
    found = await check_cluster(cast(Api, api), "kai-scheduler", NOW)
    return [str(each) for each in found if each.what.startswith(what)]


class TestCluster:
    async def test_a_cluster_in_which_all_is_well(self, api: FakeApi) -> None:
        api.lists[DEPLOYMENTS] = [
            deployment("kai-scheduler-default", ["run", "--log-json"], 2),
            deployment("web", None),
        ]
        api.objects[MUTATING] = webhook("kai-sched-webhook")
        found = await lines(api)
        assert found[:7] == [
            "ok: cluster: https://api:6443, Kubernetes v1.34.1",
            "ok: queues.scheduling.run.ai: v2",
            "ok: podgroups.scheduling.run.ai: v2alpha2",
            "ok: bindrequests.scheduling.run.ai: v1alpha2",
            "ok: configs.kai.scheduler: v1",
            "ok: schedulingshards.kai.scheduler: v1",
            "ok: topologies.kai.scheduler: v1alpha1",
        ]
        assert "ok: config kai-config: there is none: defaults apply, GPUs are not shared" in found
        assert "ok: queues: 2" in found
        assert "ok: scheduler: deployment kai-scheduler/kai-scheduler-default of kai-sched, 2 ready" in found
        assert "ok: scheduler: lease kai-scheduler/kai-scheduler is held by pod-1_u" in found
        assert "ok: webhook mutating-kai-admission: served by kai-sched-webhook (kai-sched)" in found
        assert found[-1].startswith("ok: rights: may list all ")
        assert {"verb": "list", "group": "", "resource": "pods"} in api.reviewed
        assert {"verb": "list", "group": "scheduling.run.ai", "resource": "queues"} in api.reviewed

    async def test_kinds_that_are_not_served(self, api: FakeApi) -> None:
        api.serve({"scheduling.run.ai": {"v1": ["queues"], "v2alpha2": ["podgroups"]}})
        found = await lines(api)
        remedy = "install the custom resource definitions: kubectl apply -k manifests"
        assert f"error: queues.scheduling.run.ai: served as v1 only, not as v2: {remedy}" in found
        assert f"warning: configs.kai.scheduler: not installed: {remedy}" in found
        assert [line for line in found if "queues: " in line or "kai-config" in line] == []

    async def test_the_config(self, api: FakeApi) -> None:
        spec: dict[str, Any] = {"global": {"schedulerName": "other"}, "admission": {"gpuSharing": True}}
        api.objects[CONFIG] = {"metadata": {"name": "kai-config"}, "spec": spec}
        assert await lines(api, "config kai") == ["ok: config kai-config: scheduler other, GPU sharing is on"]
        assert "none runs" in (await lines(api, "scheduler"))[-1], "the lease is of another name"
        spec["global"]["schedulerName"] = 5
        (line,) = await lines(api, "config kai")
        assert line.startswith("error: config kai-config: spec.global.schedulerName: ")
        assert line.endswith("none of it is used: correct the object")

    async def test_no_queue(self, api: FakeApi) -> None:
        api.lists[QUEUES] = []
        (line,) = [line for line in await lines(api, "queues") if "scheduling.run.ai" not in line]
        assert "no pod can be scheduled: create some" in line

    async def test_nobody_schedules(self, api: FakeApi) -> None:
        api.lists[LEASES] = [lease(renewed="2026-11-22T11:50:00Z"), lease("others"), {"metadata": {"name": "empty"}}]
        assert await lines(api, "scheduler") == [
            "warning: scheduler: lease kai-scheduler/kai-scheduler was last held by pod-1_u, until "
            "2026-11-22 11:50:15 UTC: start the scheduler, or see its log",
            "warning: scheduler: none runs in namespace kai-scheduler: kubectl apply -k manifests, or kai-sched run",
        ]

    async def test_the_original_alone_and_beside(self, api: FakeApi) -> None:
        api.lists[LEASES] = []
        original = [deployment("kai-scheduler-default", ["--scheduler-name=kai-scheduler"]), deployment("binder", None)]
        api.lists[DEPLOYMENTS] = original
        assert await lines(api, "scheduler") == [
            "ok: scheduler: deployment kai-scheduler/kai-scheduler-default of KAI Scheduler, 1 ready",
            "ok: scheduler: deployment kai-scheduler/binder of KAI Scheduler, 1 ready",
        ]
        api.lists[DEPLOYMENTS] = [*original, deployment("kai-scheduler-other", ["run"])]
        assert (await lines(api, "scheduler"))[-1] == (
            "error: scheduler: KAI Scheduler runs beside kai-sched: kai-scheduler-default, binder: end one of them: "
            "kubectl -n kai-scheduler scale --replicas=0 deployment kai-scheduler-default binder"
        )

    async def test_webhooks(self, api: FakeApi) -> None:
        api.objects[MUTATING] = webhook("admission")
        assert await lines(api, "webhook mutating") == [
            "ok: webhook mutating-kai-admission: served by admission (others)"
        ]
        api.objects[MUTATING] = webhook("kai-sched-webhook", "")
        (line,) = await lines(api, "webhook mutating")
        assert line.startswith("warning: webhook mutating-kai-admission: nobody is trusted to answer it")
        (line,) = await lines(api, "webhook kai-queue")
        assert line.endswith(
            "not installed: objects with mistakes are accepted: kubectl apply -f manifests/webhooks.yaml"
        )

    async def test_rights(self, api: FakeApi) -> None:
        api.refused = {"storageclasses"}
        (line,) = await lines(api, "rights")
        assert line.startswith("warning: rights: may not list storageclasses: give this account the verb list")
        api.refused = {"storageclasses", "pods"}
        (line,) = await lines(api, "rights")
        assert line.startswith("error: rights: may not list storageclasses, pods: ")

    async def test_what_may_not_be_read_does_not_hide_the_rest(self, api: FakeApi) -> None:
        api.lists[LEASES] = ApiFailure("GET", LEASES, 403, "Forbidden", FORBIDDEN)
        api.objects[CONFIG] = ApiFailure("GET", CONFIG, 500, "InternalError", "etcd")
        found = await lines(api)
        (line,) = [line for line in found if line.startswith("warning: scheduler")]
        assert line == (
            'warning: scheduler: cannot be checked: User "u" cannot list resource "leases": give this account the right'
        )
        assert any(line.startswith("warning: config kai-config: cannot be checked: ") for line in found)
        assert found[-1].startswith("ok: rights")

    async def test_an_api_server_that_does_not_answer(self, api: FakeApi) -> None:
        api.objects["/version"] = ApiFailure("GET", "/version", 0, "NoAnswer", "refused")
        with pytest.raises(ApiFailure):
            await lines(api)


class TestInstallation:
    known = InstallationFacts(
        "1", "3.11", "Linux", "znver4", {"numba": "2", "numpy": "3"}, COMPILED, Path(__file__).parent, False, ""
    )

    def kernels(self, **changes: Any) -> Finding:
        versions, found = check_installation(replace(self.known, **changes))
        assert str(versions) == "ok: versions: kai-sched 1, Python 3.11, numba 2, numpy 3, Linux, CPU znver4"
        return found

    def test_kernels(self) -> None:
        assert str(self.kernels()).startswith(f"ok: kernels: compiled, in {self.known.cache_folder} (0.")
        packaged = self.kernels(for_any_cpu=True)
        assert str(packaged).startswith(f"ok: kernels: compiled for any CPU, in {self.known.cache_folder} (0.")
        missing = self.kernels(kernels=MISSING)
        assert (missing.gravity, missing.remedy) == (Gravity.WARNING, "run kai-sched warmup")
        assert self.kernels(kernels=INTERPRETED, cache_folder=None).remedy == "unset KAI_SCHED_JIT"
        no_place = self.kernels(kernels=MISSING, cache_folder=None, cache_problem="why: set KAI_SCHED_CACHE_DIR")
        assert str(no_place) == "warning: kernels: why: set KAI_SCHED_CACHE_DIR"

    def test_a_package_that_is_missing(self) -> None:
        found = check_installation(replace(self.known, packages={"numba": None, "numpy": "3"}))[0]
        assert str(found) == "error: versions: numba not installed: install kai-sched again with what it needs"

    def test_this_one(self) -> None:
        known = facts()
        assert known.version == kai_sched.__version__
        assert all(known.packages.values())
        assert known.cpu


@pytest.mark.slow
class TestCommand:
    def test_without_a_cluster_it_is_ok(self, tmp_path: Path) -> None:
        done = run("doctor", HOME=str(tmp_path), KUBECONFIG="", KAI_SCHED_JIT="off")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].startswith(f"ok: no cluster: {NO_KUBECONFIG}, and the service account ")

    def test_a_context_without_a_kubeconfig_is_an_error(self, tmp_path: Path) -> None:
        done = run("doctor", "--context", "nowhere", HOME=str(tmp_path), KUBECONFIG="", KAI_SCHED_JIT="off")
        text = f"error: no cluster: --context: {NO_KUBECONFIG}, so no context 'nowhere' can be used"
        assert done.stdout.splitlines()[-1] == f"{text}: name a kubeconfig with --kubeconfig or KUBECONFIG"
        assert done.returncode == 1

    def test_a_cluster_that_is_named_must_answer(self, tmp_path: Path) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))  # nobody listens
            config = tmp_path / "config"
            config.write_text(KUBECONFIG.replace("127.0.0.1:1", f"127.0.0.1:{unused.getsockname()[1]}"))
            done = run("doctor", "--kubeconfig", str(config), "-o", "json", KAI_SCHED_JIT="off")
            usual = run("doctor", KUBECONFIG=str(config), KAI_SCHED_JIT="off")
        said = json.loads(done.stdout)
        assert (done.returncode, said["ok"]) == (1, False)
        assert said["findings"][-1]["level"] == "error"
        assert "check --kubeconfig and --context" in said["findings"][-1]["remedy"]
        assert usual.returncode == 0
        assert usual.stdout.splitlines()[-1].startswith("ok: no cluster: http://127.0.0.1:")

    def test_version_in_facts(self, tmp_path: Path) -> None:
        said = json.loads(run("version", "-o", "json", KAI_SCHED_CACHE_DIR=str(tmp_path)).stdout)
        assert list(said) == [
            *("version", "python", "numba", "numpy", "llvmlite", "platform", "cpu", "kernels", "cacheFolder")
        ]
        assert (said["kernels"], Path(said["cacheFolder"]).parent) == ("not compiled", tmp_path)
        off = json.loads(run("version", "-o", "json", KAI_SCHED_JIT="off").stdout)
        assert (off["kernels"], off["cacheFolder"]) == ("interpreted", None)
        nowhere = run("version", "-o", "json", KAI_SCHED_CACHE_DIR="/dev/null/kernels")
        assert (json.loads(nowhere.stdout)["cacheFolder"], nowhere.stderr) == (None, "")
