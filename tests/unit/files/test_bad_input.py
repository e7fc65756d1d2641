"""Bad input: each gets one line that names the file, the document, the object and the field, and says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_sched.files.load import load

QUEUE = "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: %s}, spec: {%s}}"
SHARE = "{quota: -1, limit: -1, overQuotaWeight: 1}"
SHARES = f"resources: {{cpu: {SHARE}, memory: {SHARE}, gpu: {SHARE}}}"
TEAM = QUEUE % ("team", SHARES)
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {%s}}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ml%s}, spec: {%s}}"
TOPOLOGY = "{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: t}, spec: {%s}}"
GROUP = "{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: g, namespace: ml}, spec: {%s}}"


def lines(tmp_path: Path, *documents: str, name: str = "in.yaml") -> list[str]:
    """What is said of a file with these documents, the folder's name left out."""
    path = tmp_path / name
    path.write_text("\n---\n".join(documents))
    loaded = load([str(path)])
    told = [("error: " if problem.fatal else "warning: ") + str(problem) for problem in loaded.problems]
    return [line.replace(f"{tmp_path}/", "") for line in told]


def one(tmp_path: Path, *documents: str, name: str = "in.yaml") -> str:
    (line,) = lines(tmp_path, *documents, name=name)
    assert "\n" not in line
    return line


class TestErrors:
    @pytest.mark.parametrize(
        ("document", "start", "words"),
        [
            (QUEUE % ("a", "resources: {gpu: {quota: -2}}"), "Queue a: spec.resources.gpu.quota: ", "-1 for unlimited"),
            (
                QUEUE % ("a", "resources: {cpu: {limit: -0.5}}"),
                "Queue a: spec.resources.cpu.limit: ",
                "-1 for unlimited",
            ),
            (
                QUEUE % ("a", "resources: {memory: {overQuotaWeight: -3}}"),
                "Queue a: spec.resources.memory.overQuotaWeight: ",
                "0 or more",
            ),
            (QUEUE % ("a", "resources: {gpu: {quota: 8Gi}}"), "Queue a: spec.resources.gpu.quota: ", 'got "8Gi"'),
            (NODE % "allocatable: {memory: 16Gib}", "Node n: status.allocatable.memory: ", "'16Gib' is not a quantity"),
            (NODE % "allocatable: {cpu: [1]}", "Node n: status.allocatable.cpu: ", "expected a quantity, got a list"),
            (TEAM, "Queue team: ", "already defined in in.yaml, document 1"),
            (
                "{apiVersion: v1, kind: Pod, metadata: {generateName: x-}}",
                "Pod: metadata.name: ",
                "give the object a name",
            ),
            ("{apiVersion: v1, kind: Pod}", "Pod: metadata.name: ", "give the object a name"),
            ("{apiVersion: v1, kind: Pod, metadata: {name: 5}}", "Pod: metadata.name: ", "put it in quotes"),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: 5}",
                "Pod default/p: spec: ",
                "expected a mapping",
            ),
            (GROUP % "minMember: four", "PodGroup ml/g: spec.minMember: ", "expected a whole number"),
            (POD % ("", "containers: 5"), "Pod ml/p: spec.containers: ", "expected a list"),
            ("{kind: Pod}", "apiVersion: ", "no Kubernetes object"),
            ("{apiVersion: v1}", "kind: ", "no Kubernetes object"),
            ("[1, 2]", "", "not a Kubernetes object"),
            ("text", "", "not a Kubernetes object"),
            ("{apiVersion: v1, kind: List, items: 5}", "items: ", "expected a list"),
        ],
    )
    def test_of_one_document(self, tmp_path: Path, document: str, start: str, words: str) -> None:
        line = one(tmp_path, TEAM, document)
        assert line.startswith(f"error: in.yaml, document 2: {start}")
        assert words in line

    def test_an_item_of_a_list_is_named_by_its_number(self, tmp_path: Path) -> None:
        items = f"{{apiVersion: v1, kind: List, items: [{TEAM}, {NODE % 'allocatable: {cpu: x}'}]}}"
        assert one(tmp_path, items).startswith("error: in.yaml, document 1, item 2: Node n: status.allocatable.cpu: ")

    def test_duplicates_in_two_files(self, tmp_path: Path) -> None:
        first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
        first.write_text(TEAM)
        second.write_text(TEAM)
        (problem,) = load([str(first), str(second)]).problems
        assert problem.fatal
        assert str(problem).startswith(f"{second}, document 1: Queue team: already defined in {first}, document 1")

    def test_a_file_named_twice(self, tmp_path: Path) -> None:
        path = tmp_path / "a.yaml"
        path.write_text(TEAM)
        (problem,) = load([str(path), str(path)]).problems
        assert (problem.fatal, "named twice" in problem.message) == (True, True)

    def test_a_cycle_of_queues(self, tmp_path: Path) -> None:
        documents = [QUEUE % (name, f"parentQueue: {parent}, {SHARES}") for name, parent in ("ca", "bc", "ab")]
        line = one(tmp_path, *documents)
        assert line.startswith("error: in.yaml, document 3: Queue a: spec.parentQueue: ")
        assert "(a -> b -> c -> a)" in line

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("in.yaml", ""),
            ("in.yaml", "\n\n"),
            ("in.yaml", "# only a comment\n"),
            ("in.yaml", "---\n---\n"),
            ("in.yaml", "null"),
            ("in.json", ""),
            ("in.json", " \n"),
        ],
    )
    def test_an_empty_file(self, tmp_path: Path, name: str, text: str) -> None:
        assert one(tmp_path, text, name=name).startswith(f"error: {name}: empty")

    def test_a_list_of_nothing(self, tmp_path: Path) -> None:
        assert "no objects in the input" in one(tmp_path, "{apiVersion: v1, kind: List, items: []}")

    def test_objects_that_the_scheduler_has_nothing_to_do_with(self, tmp_path: Path) -> None:
        first, second = lines(tmp_path, "{apiVersion: v1, kind: Secret, metadata: {name: s}}")
        assert first.startswith("error: in.yaml: it has no object that the scheduler uses")
        assert second.startswith("warning: Secret (v1): 1 object ignored")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        (problem,) = load([str(tmp_path / "none.yaml")]).problems
        assert (problem.fatal, "no such file" in problem.message) == (True, True)

    def test_a_folder_without_files(self, tmp_path: Path) -> None:
        (problem,) = load([str(tmp_path)]).problems
        assert (problem.fatal, "no file in this folder" in problem.message) == (True, True)

    def test_a_file_that_cannot_be_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "in.yaml"
        path.write_text(TEAM)

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("builtins.open", refuse)
        (problem,) = load([str(path)]).problems
        assert problem.fatal
        assert "cannot be read: Permission denied" in problem.message

    @pytest.mark.parametrize(
        ("name", "text", "words"),
        [
            ("in.yaml", "a: [1", "line 2, column 1: not valid YAML"),
            ("in.yaml", "a: 1\na: 2", "line 2, column 1: key 'a' occurs twice"),
            ("in.json", '{"a": 1', "line 1, column 8: not valid JSON"),
            ("in.json", "a: 1", "line 1, column 1: not valid JSON"),
            ("in.yaml", '{"a": 1', "not valid"),
        ],
    )
    def test_a_broken_file(self, tmp_path: Path, name: str, text: str, words: str) -> None:
        line = one(tmp_path, text, name=name)
        assert line.startswith(f"error: {name}: ")
        assert words in line

    def test_an_alias_bomb(self, tmp_path: Path) -> None:
        bomb = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        bomb += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
        assert "alias bomb" in one(tmp_path, "\n".join(bomb))

    @pytest.mark.parametrize("number", ["1e999", "-1e999"])
    def test_numbers_beyond_all_bounds(self, tmp_path: Path, number: str) -> None:
        text = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": %s}}}'
        assert one(tmp_path, text % number, name="in.json").startswith(
            "error: in.json, document 1: Node n: status.allocatable"
        )

    def test_errors_in_several_objects_are_all_told(self, tmp_path: Path) -> None:
        bad = [NODE % "allocatable: {cpu: x}", GROUP % "minMember: x", QUEUE % ("a", "resources: {gpu: {quota: -5}}")]
        assert len(lines(tmp_path, *bad)) == 3


class TestWarnings:
    """The rest is decided: nothing here is fatal, and the cluster is there."""

    @pytest.mark.parametrize(
        ("document", "start", "words"),
        [
            (
                QUEUE % ("a", f"parentQueue: gone, {SHARES}"),
                "in.yaml, document 2: Queue a: spec.parentQueue: ",
                "no queue 'gone'",
            ),
            (
                GROUP % "minMember: 0, queue: gone",
                "in.yaml, document 2: PodGroup ml/g: spec.queue: ",
                "'gone', so the group stays",
            ),
            (
                GROUP % "minMember: 2, queue: team",
                "in.yaml, document 2: PodGroup ml/g: spec.minMember: ",
                "0 of 2 required pods",
            ),
            (
                QUEUE % ("a", f"{SHARES}, parentQeue: x"),
                "in.yaml, document 2: Queue a: spec.parentQeue: ",
                "did you mean parentQueue?",
            ),
            ("{apiVersion: v1, kind: Service, metadata: {name: s}}", "Service (v1): ", "1 object ignored"),
            (
                "{apiVersion: scheduling.run.ai/v1, kind: Queue, metadata: {name: s}}",
                "Queue (scheduling.run.ai/v1): ",
                "reads scheduling.run.ai/v2",
            ),
            (POD % ("", "nodeName: gone"), "in.yaml, document 2: Pod ml/p: spec.nodeName: ", "no node 'gone'"),
            (
                POD % (", annotations: {pod-group-name: gone}", ""),
                "in.yaml, document 2: Pod ml/p: metadata.annotations[pod-group-name]: ",
                "'ml/gone'",
            ),
            (
                POD % (', annotations: {gpu-fraction: "2"}', ""),
                "in.yaml, document 2: Pod ml/p: metadata.annotations[gpu-fraction]: ",
                "ignored",
            ),
            (
                POD % ("", "containers: [{name: c, resources: {requests: {cpu: x}}}]"),
                "in.yaml, document 2: Pod ml/p: spec.containers[0].resources.requests.cpu: ",
                "not scheduled",
            ),
        ],
    )
    def test_of_one_document(self, tmp_path: Path, document: str, start: str, words: str) -> None:
        line = one(tmp_path, TEAM, document)
        assert line.startswith(f"warning: {start}")
        assert words in line

    def test_a_pod_in_a_queue_that_is_none_of_the_leaves(self, tmp_path: Path) -> None:
        pod = POD % (", labels: {kai.scheduler/queue: dep}", "schedulerName: kai-scheduler")
        line = one(tmp_path, QUEUE % ("dep", SHARES), QUEUE % ("team", f"parentQueue: dep, {SHARES}"), pod)
        assert line.startswith(
            "warning: in.yaml, document 3: Pod ml/p: metadata.labels[kai.scheduler/queue]: queue 'dep'"
        )
        assert line.endswith("the queues that accept pods are team")

    def test_one_line_a_kind(self, tmp_path: Path) -> None:
        services = [f"{{apiVersion: v1, kind: Service, metadata: {{name: s{n}}}}}" for n in range(3)]
        secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}}"
        first, second = lines(tmp_path, TEAM, *services, secret)
        assert first.startswith("warning: Secret (v1): 1 object ignored")
        assert second.startswith("warning: Service (v1): 3 objects ignored")

    def test_unknown_fields_of_topologies(self, tmp_path: Path) -> None:
        topology = TOPOLOGY % "levels: [{nodeLabel: rack}], levles: []"
        assert "Topology t: spec.levles: unknown field" in lines(tmp_path, TEAM, topology)[0]
