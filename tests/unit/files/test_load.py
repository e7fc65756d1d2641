"""Clusters from files: what is read, and in which order."""

from __future__ import annotations

import io
import json
import random
import time
from pathlib import Path

import pytest

from kai_sched.files import sources
from kai_sched.files.load import load
from kai_sched.model.config import Config
from kai_sched.telemetry import pace
from tests.unit.files.inputs import Write, clean, listing, queue, thing, told

KUBECTL = """
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    annotations:
      pod-group-name: pg-train-1
    creationTimestamp: "2026-01-01T12:00:00Z"
    generateName: train-
    labels:
      kai.scheduler/queue: team-a
    managedFields:
    - apiVersion: v1
      fieldsType: FieldsV1
      fieldsV1:
        f:metadata:
          f:labels:
            .: {}
            f:kai.scheduler/queue: {}
      manager: kube-controller-manager
      operation: Update
      time: "2026-01-01T12:00:00Z"
    name: train-x7k2p
    namespace: ml
    ownerReferences:
    - apiVersion: batch/v1
      blockOwnerDeletion: true
      controller: true
      kind: Job
      name: train
      uid: 0f5a8f0c-7d5c-4f0c-9d8c-1a2b3c4d5e6f
    resourceVersion: "123456"
    uid: 3f0c9a1e-1111-4222-8333-444455556666
  spec:
    containers:
    - image: nginx
      imagePullPolicy: Always
      name: main
      resources:
        limits:
          nvidia.com/gpu: "1"
        requests:
          cpu: "4"
          memory: 8Gi
          nvidia.com/gpu: "1"
      volumeMounts:
      - mountPath: /var/run/secrets/kubernetes.io/serviceaccount
        name: kube-api-access-abcde
        readOnly: true
    schedulerName: kai-scheduler
    tolerations:
    - effect: NoExecute
      key: node.kubernetes.io/not-ready
      operator: Exists
      tolerationSeconds: 300
    volumes:
    - name: kube-api-access-abcde
      projected:
        defaultMode: 420
        sources:
        - serviceAccountToken: {expirationSeconds: 3607, path: token}
        - configMap:
            items:
            - {key: ca.crt, path: ca.crt}
            name: kube-root-ca.crt
  status:
    conditions:
    - lastProbeTime: null
      lastTransitionTime: "2026-01-01T12:00:00Z"
      status: "False"
      type: PodScheduled
    phase: Pending
    qosClass: Burstable
- apiVersion: scheduling.run.ai/v2alpha2
  kind: PodGroup
  metadata: {name: pg-train-1, namespace: ml}
  spec: {minMember: 1, queue: team-a}
  status: {schedulingConditions: [{type: UnschedulableOnNodePool, transitionID: "1"}]}
- apiVersion: scheduling.run.ai/v2
  kind: Queue
  metadata: {name: team-a}
  spec: {resources: {cpu: {limit: -1}, memory: {limit: -1}, gpu: {quota: 1, limit: -1, overQuotaWeight: 1}}}
kind: List
metadata:
  resourceVersion: ""
"""


class TestPlainObjects:
    def test_all_files_together_are_one_cluster(self, write: Write) -> None:
        first = write("b.json", queue("a"))
        second = write("a.yaml", "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n")
        (case,) = clean(first, second)
        cluster = case.store.cluster()
        assert (list(cluster.queues), list(cluster.nodes)) == (["a"], ["n"])
        assert (case.path, case.is_scenario, case.now_ns, case.cycles) == (first, False, None, 1)
        assert case.config == Config(gpu_sharing=False)

    def test_lists_of_every_form(self, write: Write) -> None:
        bare = {"metadata": {"name": "x"}}
        path = write(
            "all.json",
            listing(queue("a"), listing(queue("b"), queue("c"))),
            listing(bare, kind="NodeList"),
            listing({"metadata": {"name": "p", "namespace": "ml"}}, kind="PodList"),
            {"apiVersion": "scheduling.run.ai/v2", "kind": "QueueList", "items": [bare | {"spec": queue("x")["spec"]}]},
            {"apiVersion": "v1", "kind": "List", "items": None},
        )
        (case,) = clean(path)
        cluster = case.store.cluster()
        assert sorted(cluster.queues) == ["a", "b", "c", "x"]
        assert (list(cluster.nodes), list(cluster.pods)) == (["x"], ["ml/p"])

    def test_json_lines(self, write: Write) -> None:
        (case,) = clean(write("all.jsonl", *(queue(f"q{number}") for number in range(50))))
        assert len(case.store.cluster().queues) == 50

    def test_yaml_that_begins_with_a_brace(self, write: Write) -> None:
        text = "{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n" + json.dumps(queue("a"))
        (case,) = clean(write("flow.yaml", text))
        assert list(case.store.cluster().nodes) == ["n"]

    def test_standard_input(self) -> None:
        (case,) = clean("-", stdin=io.BytesIO(json.dumps(queue("a")).encode()))
        assert (case.path, list(case.store.cluster().queues)) == ("-", ["a"])

    def test_folders_are_read_whole_and_sorted(self, write: Write, tmp_path: Path) -> None:
        write("in/z.yml", json.dumps(queue("z")))
        write("in/sub/a.YAML", json.dumps(queue("a")))
        write("in/m.json", queue("m"))
        write("in/.hidden.yaml", "]")
        write("in/notes.txt", "]")
        (case,) = clean(str(tmp_path / "in"))
        assert list(case.store.cluster().queues) == ["m", "a", "z"]
        assert str(case.sources["Queue a"]) == f"{tmp_path}/in/sub/a.YAML, document 1"

    def test_any_order_gives_the_same_cluster_and_the_same_problems(self, write: Write) -> None:
        objects = [queue("d"), queue("a", parentQueue="d"), queue("lost", parentQueue="gone")]
        objects += [thing("Pod", f"p{number}", {"nodeName": "gone"}, "ml") for number in range(5)]
        objects += [thing("PodGroup", f"g{number}", {"queue": "x", "minMember": 2}, "ml") for number in range(5)]
        expected = None
        for seed in range(4):
            random.Random(seed).shuffle(objects)
            loaded = load([write("all.json", listing(*objects))])
            cluster = loaded.cases[0].store.cluster()
            found = (
                sorted(cluster.queues.items()),
                sorted(cluster.pods.items()),
                sorted(cluster.pod_groups.items()),
                sorted((problem.subject, problem.field, problem.message) for problem in loaded.problems),
            )
            expected = expected or found
            assert found == expected

    def test_output_of_kubectl_is_read_without_a_word(self, write: Write) -> None:
        (case,) = clean(write("all.yaml", KUBECTL))
        (pod,) = case.store.cluster().pods.values()
        assert dict(pod.shape.request) == {"cpu": 4000, "memory": 2**33, "gpu": 1, "pods": 1}
        assert (pod.group, pod.queue, pod.shape.config_maps) == ("pg-train-1", "team-a", ())


class TestProgress:
    def test_nothing_is_said_while_it_is_quick(self, write: Write) -> None:
        said: list[str] = []
        clean(write("q.json", queue("a")), on_progress=said.append)
        assert said == []

    def test_slow_work_is_told(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pace, "QUIET_S", 0.0)
        said: list[str] = []
        path = write("q.json", queue("a"))
        clean(path, on_progress=said.append)
        assert said == [f"reading {path}: 0 of 1 objects"]

    def test_large_yaml_brings_the_advice_to_use_json(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "LARGE_YAML_BYTES", 10)
        said: list[str] = []
        clean(write("q.yaml", "kind: Node\napiVersion: v1\nmetadata: {name: n}\n"), on_progress=said.append)
        assert len(said) == 1
        assert "-o json" in said[0]

    def test_texts_are_passed_on_now_and_then(self) -> None:
        now_s, said = [0.0], []
        watch = pace.Pace(said.append, lambda: now_s[0])
        for now_s[0] in (0.5, 1.9, 2.0, 3.0, 4.1):
            watch.tick(f"{now_s[0]}")
        assert said == ["2.0", "4.1"]


@pytest.mark.alone
@pytest.mark.slow
def test_forty_thousand_pods(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    """They are all there; how long it takes is printed, as machines differ."""
    resources = {"requests": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}}
    pods = [thing("PodGroup", f"g{number}", {"queue": "a", "minMember": 8}, "ml") for number in range(5000)]
    for number in range(40_000):
        pod = thing("Pod", f"p{number}", {"containers": [{"name": "main", "resources": resources}]}, "ml")
        pod["metadata"]["annotations"] = {"pod-group-name": f"g{number // 8}"}
        pods.append(pod)
    path = write("pods.json", listing(queue("a"), *pods))
    started_s = time.perf_counter()
    (case,) = clean(path)
    elapsed_s = time.perf_counter() - started_s
    assert len(case.store.cluster().pods) == 40_000
    assert len({id(pod.shape) for pod in case.store.cluster().pods.values()}) == 1
    with capsys.disabled():
        print(f"\n40,000 pods loaded in {elapsed_s:.2f} s")


POD = thing("Pod", "p", {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}, "ml")


@pytest.mark.parametrize(
    ("name", "content", "told_of_it"),
    [
        ("missing.json", None, "there is no such file: correct the path"),
        ("broken.json", '{"kind": ', "line 1, column 9: not valid JSON: it ends too early: correct the file"),
    ],
)
def test_of_a_cluster_of_which_a_part_cannot_be_read_only_errors_are_told(
    write: Write, name: str, content: str | None, told_of_it: str
) -> None:
    """Its queues may be in that part, so that a warning about a queue that does not exist may be false."""
    path = write("pod.json", {**POD, "metadata": {**POD["metadata"], "labels": {"kai.scheduler/queue": "team"}}})
    assert any("there is no queue 'team'" in line for line in told(load([path])))
    part = path.replace("pod.json", name) if content is None else write(name, content)
    assert told(load([part, path])) == [f"error: {part}: {told_of_it}"]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ({"kind": "Simulation", "file": "a.json", "cycles": []}, "a plan that kai-sched has printed"),
        ({"kind": "Difference", "text": []}, "an answer that kai-sched has printed (Difference)"),
        ({"kind": "FitList", "items": [{"verdict": "runs"}, {"verdict": "runs"}]}, "an answer that kai-sched has"),
    ],
    ids=["plan", "difference", "answers"],
)
def test_what_kai_sched_has_printed_is_no_cluster(write: Write, content: dict[str, object], what: str) -> None:
    path = write("plan.json", {"apiVersion": "kai-sched.io/v1", **content})
    pod = write("pod.json", POD)
    for paths in ([path], [path, pod], [pod, path]):
        (line,) = told(load(paths))
        assert line.startswith(f"error: {path}: {what}")
        assert "a cluster is needed: name the cluster that it is about" in line
        assert line.endswith("`kai-sched diff A B` compares two files with plans") == (content["kind"] == "Simulation")


def test_a_plan_in_a_folder_does_not_count(write: Write) -> None:
    """As where the output of a command went into the folder of its input."""
    folder = Path(write("all/pod.json", queue("team"))).parent
    write("all/plan.json", {"apiVersion": "kai-sched.io/v1", "kind": "Simulation", "cycles": []})
    (line,) = told(load([str(folder)]))
    assert line.startswith("warning: Simulation (kai-sched.io/v1): 1 object ignored")
