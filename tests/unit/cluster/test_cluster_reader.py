"""Reading a cluster once: which requests, what of the answers is kept, and what is said of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from aiohttp import web

from kai_sched.cluster.client import Api, ApiFailure
from kai_sched.cluster.cluster_reader import ATTEMPTS, PAUSE_MAX_S, Cleaning, ClusterReader, Manifest, ReadObjects
from kai_sched.operator.intake.sources import SOURCES
from tests.unit.cluster.conftest import ApiServer, status

PODS = "/api/v1/pods"
QUEUES = "/apis/scheduling.run.ai/v2/queues"
FORBIDDEN = 'nodes is forbidden: User "u" cannot list resource "nodes" in API group "" at the cluster scope'
Answer = Callable[[web.BaseRequest], web.Response]


def keep(manifest: Manifest) -> Manifest:
    return manifest


class Desk:
    """A reader of a server that has nothing but what ``answers`` says by path; ``asked`` and ``naps`` are noted."""

    def __init__(self, server: ApiServer, api: Api) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str, str]] = []
        self.naps: list[float] = []
        self.config_map = ""
        self.api = api
        server.answer = self.answer

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked.append((request.method, request.path, request.headers["Accept"]))
        found = self.answers.get(request.path)
        return found(request) if found else listed()

    async def nap(self, seconds: float) -> None:
        self.naps.append(seconds)
        await asyncio.sleep(0)

    async def read(self, namespace: str = "") -> ReadObjects:
        reader = ClusterReader(self.api, Cleaning(keep, keep), lambda _: self.config_map, lambda: 0.0, self.nap)
        return await reader.read(SOURCES, "kai-scheduler", namespace)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]


def listed(*names: str, more: str = "", **fields: Any) -> web.Response:
    items = [{"metadata": {"name": name, "namespace": "ns"}, **fields} for name in names]
    return web.json_response({"metadata": {"resourceVersion": "7", "continue": more}, "items": items})


def owned(name: str, kind: str, owner: str, **meta: Any) -> Manifest:
    above = [{"apiVersion": "batch/v1", "kind": kind, "name": owner, "uid": "u"}]
    return {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": above, **meta},
        "spec": {"schedulerName": "kai-scheduler"},
    }


@pytest.fixture
async def desk(server: ApiServer) -> AsyncIterator[Desk]:
    api = await Api.connect(str(server.kubeconfig))
    yield Desk(server, api)
    await api.close()


async def test_each_kind_is_listed_once_pods_first_and_nothing_else_is_asked(desk: Desk) -> None:
    found = await desk.read()
    assert desk.paths()[0] == PODS
    assert sorted(desk.paths()) == sorted(source.path for source in SOURCES)
    assert {method for method, _, _ in desk.asked} == {"GET"}
    assert found == ReadObjects()


async def test_of_config_maps_the_metadata_is_asked_for_and_objects_get_their_kind(desk: Desk) -> None:
    desk.answers["/api/v1/configmaps"] = lambda _: listed(
        "c", kind="PartialObjectMetadata", apiVersion="meta.k8s.io/v1"
    )
    desk.answers[QUEUES] = lambda _: listed("q", spec={"x": 1})
    found = await desk.read()
    (accept,) = [accept for _, path, accept in desk.asked if path == "/api/v1/configmaps"]
    assert "as=PartialObjectMetadataList" in accept
    assert [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in found.objects] == [
        ("scheduling.run.ai/v2", "Queue", "q"),
        ("v1", "ConfigMap", "c"),
    ]
    assert found.objects[0]["spec"] == {"x": 1}


async def test_the_config_map_that_is_needed_is_read_whole(desk: Desk) -> None:
    desk.config_map = "ns/kinds"
    desk.answers["/api/v1/configmaps"] = lambda _: listed("kinds", "other")
    desk.answers["/api/v1/namespaces/ns/configmaps"] = lambda request: listed("kinds", data=dict(request.query))
    found = await desk.read()
    kinds, other = found.objects
    assert kinds["data"]["fieldSelector"] == "metadata.name=kinds"
    assert (kinds["apiVersion"], kinds["kind"], kinds["metadata"]["name"]) == ("v1", "ConfigMap", "kinds")
    assert "data" not in other


async def test_all_pages_are_read(desk: Desk) -> None:
    def pages(request: web.BaseRequest) -> web.Response:
        return listed("b") if request.query.get("continue") == "next" else listed("a", more="next")

    desk.answers[PODS] = pages
    found = await desk.read()
    assert [each["metadata"]["name"] for each in found.objects] == ["a", "b"]


async def test_a_list_whose_pages_expire_is_read_again_and_at_last_without_pages(desk: Desk) -> None:
    limits: list[str] = []

    def expiring(request: web.BaseRequest) -> web.Response:
        limits.append(request.query["limit"])
        if request.query["limit"] == "0":
            return listed("a", "b")
        return status(410, "Expired", "too old") if "continue" in request.query else listed("a", more="next")

    desk.answers[PODS] = expiring
    found = await desk.read()
    assert [each["metadata"]["name"] for each in found.objects] == ["a", "b"], "nothing is there twice"
    assert limits == ["500"] * 2 * (ATTEMPTS - 1) + ["0"]
    assert found.unreadable == []


async def test_a_busy_server_is_asked_again_when_it_says(desk: Desk) -> None:
    left = [30, 2]

    def busy(_: web.BaseRequest) -> web.Response:
        if not left:
            return listed("a")
        answer = status(429, "TooManyRequests", "later")
        answer.headers["Retry-After"] = str(left.pop())
        return answer

    desk.answers[PODS] = busy
    found = await desk.read()
    assert [each["metadata"]["name"] for each in found.objects] == ["a"]
    assert desk.naps == [2.0, PAUSE_MAX_S]


async def test_a_right_that_is_missing_is_named_with_the_rule_to_add(desk: Desk) -> None:
    desk.answers["/api/v1/nodes"] = lambda _: status(403, "Forbidden", FORBIDDEN)
    desk.answers["/apis/resource.k8s.io/v1/resourceslices"] = lambda _: status(403, "Forbidden", "no")
    found = await desk.read()
    slices, nodes = sorted(found.unreadable, key=lambda each: each.fatal)
    assert (nodes.resource, nodes.reason, nodes.fatal) == ("nodes", "forbidden", True)
    assert nodes.message == (
        f"listing nodes is forbidden ({FORBIDDEN}): add the rule "
        '{apiGroups: [""], resources: [nodes], verbs: [list]} to the ClusterRole of this account '
        "(manifests/samples/reader.yaml has all of them)"
    )
    assert (slices.resource, slices.fatal) == ("resourceslices.resource.k8s.io", False)
    assert '{apiGroups: ["resource.k8s.io"], resources: [resourceslices], verbs: [list]}' in slices.message


async def test_a_kind_that_is_not_installed_is_named_unless_it_is_optional(desk: Desk) -> None:
    for path in (QUEUES, "/apis/resource.k8s.io/v1/deviceclasses"):
        desk.answers[path] = lambda _: status(404, "NotFound", "page not found")
    (found,) = (await desk.read()).unreadable
    assert (found.resource, found.reason, found.fatal) == ("queues.scheduling.run.ai", "missing", True)
    assert "install the custom resource definitions: kubectl apply -k manifests" in found.message


async def test_in_one_namespace_only_what_is_in_namespaces_is_listed_there(desk: Desk) -> None:
    desk.answers["/api/v1/namespaces/ml/pods"] = lambda _: status(403, "Forbidden", "no")
    found = await desk.read("ml")
    assert {"/api/v1/nodes", QUEUES, "/apis/scheduling.run.ai/v2alpha2/namespaces/ml/podgroups"} <= set(desk.paths())
    assert PODS not in desk.paths()
    assert "listing pods in the namespace ml is forbidden" in found.unreadable[0].message


async def test_a_login_that_is_not_accepted_ends_it(desk: Desk) -> None:
    desk.answers["/api/v1/nodes"] = lambda _: status(401, "Unauthorized", "no")
    with pytest.raises(ApiFailure, match="401"):
        await desk.read()


async def test_owners_are_read_up_to_the_top_for_pods_without_a_group_alone(desk: Desk) -> None:
    resources = [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True} for kind in ("Job", "Run", "Other")]
    grouped = {"annotations": {"pod-group-name": "g"}}
    pods = [owned("p1", "Job", "j"), owned("p2", "Job", "j"), owned("p3", "Other", "o", **grouped)]
    jobs = "/apis/batch/v1/namespaces/ns"
    desk.answers |= {
        PODS: lambda _: web.json_response({"metadata": {"resourceVersion": "7"}, "items": pods}),
        "/apis": lambda _: web.json_response({"groups": [{"versions": [{"groupVersion": "batch/v1"}]}]}),
        "/apis/batch/v1": lambda _: web.json_response({"resources": resources}),
        f"{jobs}/jobs/j": lambda _: web.json_response(owned("j", "Run", "r")),
        f"{jobs}/runs/r": lambda _: status(403, "Forbidden", "no"),
    }
    found = await desk.read()
    assert [path for path in desk.paths() if path.startswith(jobs)] == [f"{jobs}/jobs/j", f"{jobs}/runs/r"]
    assert [(each["kind"], each["metadata"]["name"]) for each in found.objects][3:] == [("Job", "j")]
    (missing,) = found.unreadable
    assert (missing.resource, missing.fatal) == ("runs.batch", False)
    assert "Run ns/r, which owns pods without a PodGroup, cannot be read (no)" in missing.message
    assert '{apiGroups: ["batch"], resources: [runs], verbs: [get]}' in missing.message


async def test_workloads_are_read_that_pod_groups_of_kubernetes_name(desk: Desk) -> None:
    """The owner of a pod of a Job is the Job, not the PodGroup that its controller puts before it."""
    version = "scheduling.k8s.io/v1beta1"
    pod = owned("p", "Job", "j")
    above = {"apiVersion": version, "kind": "PodGroup", "name": "g", "uid": "u"}
    pod["metadata"]["ownerReferences"].insert(0, above)
    group = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"workloadRef": {"workloadName": "w"}}}
    odd = {"metadata": {"name": "h", "namespace": "ns"}, "spec": {"workloadRef": 5}}
    served = [{"groupVersion": "batch/v1"}, {"groupVersion": version}]
    kinds = {"batch/v1": "Job", version: "Workload"}
    paths = ("/apis/batch/v1/namespaces/ns/jobs/j", f"/apis/{version}/namespaces/ns/workloads/w")
    desk.answers |= {
        PODS: lambda _: web.json_response({"metadata": {"resourceVersion": "7"}, "items": [pod]}),
        f"/apis/{version}/podgroups": lambda _: web.json_response(
            {"metadata": {"resourceVersion": "7"}, "items": [group, odd]}
        ),
        "/apis": lambda _: web.json_response({"groups": [{"versions": served}]}),
        **{path: lambda _: web.json_response({"metadata": {"name": "found", "namespace": "ns"}}) for path in paths},
    }
    for api, kind in kinds.items():
        answer = web.json_response({"resources": [{"name": f"{kind.lower()}s", "kind": kind, "namespaced": True}]})
        desk.answers[f"/apis/{api}"] = lambda _, body=answer.body: web.Response(
            body=body, content_type="application/json"
        )
    found = await desk.read()
    assert sorted(path for path in desk.paths() if path in paths) == sorted(paths)
    assert {each["kind"] for each in found.objects} == {"Pod", "PodGroup", "Job", "Workload"}
    assert found.unreadable == []
