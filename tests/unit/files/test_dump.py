"""Dumps of clusters: their form, what is told of them, and which settings hold."""

from __future__ import annotations

import gzip
import io
import json
import random
from typing import Any

import pytest

from kai_sched import __version__
from kai_sched.files.dump import DumpMetadata, dump_chunks, dump_document
from kai_sched.files.input_time import TimeSource
from kai_sched.files.load import load
from kai_sched.files.redaction import redacted
from kai_sched.model.config import Config
from kai_sched.model.times import parse_time
from tests.unit.files.inputs import Write, clean, queue, thing, told

TIME = "2026-11-22T12:00:00Z"
METADATA = DumpMetadata(parse_time(TIME), "prod", ("ml", "kai"), ("configs.kai.scheduler (forbidden)",))
OFF = Config(gpu_sharing=False)


def document(*objects: dict[str, Any], config: Config = OFF, shard: str = "", **metadata: Any) -> dict[str, Any]:
    return dump_document(objects or [queue("team")], config, DumpMetadata(parse_time(TIME), **metadata), shard)


def packed(content: dict[str, Any]) -> bytes:
    return b"".join(dump_chunks(content))


class TestForm:
    def test_the_document(self) -> None:
        config = Config(
            scheduler_name="mine", queue_label="team", node_pool="a", staleness_grace_s=5, gpu_sharing=False
        )
        nodes = [thing("Node", "b"), thing("Node", "a")]
        found = dump_document([*nodes, thing("Secret", "s", None, "ml")], config, METADATA, "shard-a")
        assert found == {
            "apiVersion": "kai-sched.io/v1",
            "kind": "ClusterDump",
            "metadata": {
                "time": TIME,
                "version": __version__,
                "context": "prod",
                "namespaces": ["ml", "kai"],
                "unreadable": ["configs.kai.scheduler (forbidden)"],
            },
            "settings": {
                "gpuSharing": False,
                "schedulerName": "mine",
                "queueLabelKey": "team",
                "partitionLabelValue": "a",
                "stalenessGraceSeconds": 5,
                "shard": "shard-a",
            },
            "items": nodes[::-1],
        }

    def test_its_bytes(self) -> None:
        """Bytes 4 to 7 of gzip are the time."""
        rng = random.Random(0)
        content = document(*[thing("Node", f"n-{k}", {"x": rng.randbytes(100).hex()}) for k in range(1000)])
        pieces = list(dump_chunks(content))
        assert len(pieces) > 1
        assert b"".join(pieces)[4:8] == bytes(4)
        assert json.loads(gzip.decompress(b"".join(pieces))) == content
        assert json.loads(gzip.decompress(packed({**content, "items": []})))["items"] == []

    def test_times_keep_their_digits(self) -> None:
        assert DumpMetadata(parse_time(TIME) + 1_500_000).document()["time"] == "2026-11-22T12:00:00.0015Z"

    def test_what_is_taken_out(self) -> None:
        reference = {"name": "settings", "key": "k"}
        container = {
            "name": "main",
            "command": ["a"],
            "args": ["b"],
            "lifecycle": {},
            "env": [
                {"name": "A", "value": "x"},
                {"name": "B", "valueFrom": {"configMapKeyRef": reference}},
                {"name": "C", "valueFrom": {"secretKeyRef": reference}},
                None,
            ],
            "envFrom": [{"secretRef": {"name": "s"}}, {"prefix": "P", "configMapRef": {"name": "m"}}, "x"],
        }
        labels = {"env": "prod", "command": "kept", "entrypoint": "kept"}
        pod = thing("Pod", "p", {"containers": [container], "nodeSelector": labels}, "ml")
        pod["metadata"] |= {"labels": labels, "managedFields": [{}], "annotations": {"a": "b"}}
        last = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        before = json.dumps(pod)
        given = {**pod, "metadata": {**pod["metadata"], "annotations": {"a": "b", **last}}}
        kept = {
            "name": "main",
            "env": [{"name": "B", "valueFrom": {"configMapKeyRef": reference}}],
            "envFrom": [{"configMapRef": {"name": "m"}}],
        }
        del pod["metadata"]["managedFields"]
        assert redacted(given) == {**pod, "spec": {"containers": [kept], "nodeSelector": labels}}
        assert len(before) > len(json.dumps(pod))

    def test_only_the_config_map_for_kinds_keeps_its_data(self) -> None:
        names = {"defaultPrioritiesConfigMapNamespace": "kai", "defaultPrioritiesConfigMapName": "kinds"}
        config = thing("Config", "kai-config", {"podGrouper": {"args": names}})
        maps = [thing("ConfigMap", name, None, "kai", data={"k": "v"}, binaryData={}) for name in ("kinds", "other")]
        kinds, other = [item for item in document(config, *maps)["items"] if item["kind"] == "ConfigMap"]
        assert (kinds["data"], "data" in other, "binaryData" in kinds) == ({"k": "v"}, False, False)
        given = Config(kinds_config_map="kai/other")
        kinds, other = document(*maps, config=given)["items"]
        assert ("data" in kinds, other["data"]) == (False, {"k": "v"})
        for broken in ({"podGrouper": 5}, None):
            assert len(document(thing("Config", "kai-config", broken), *maps)["items"]) == 3


class TestReading:
    @pytest.mark.parametrize("name", ["d.json.gz", "d.json", "d.yaml", "d", "folder/d.json.gz"])
    def test_every_form(self, name: str, tmp_path: Any) -> None:
        data = packed(document(context="prod", namespaces=("ml",)))
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data if name.endswith(".gz") else gzip.decompress(data))
        for case in (*clean(str(path)), *clean("-", stdin=io.BytesIO(path.read_bytes()))):
            assert list(case.store.cluster().queues) == ["team"]
            assert (case.now_ns, case.now_source) == (parse_time(TIME), TimeSource.DUMP)
            assert case.dump is not None
            assert (case.dump.context, case.dump.namespaces, case.dump.version) == ("prod", ("ml",), __version__)
            assert not case.dump.is_snapshot
        if "/" in name:
            assert len(clean(str(path.parent))) == 1

    def test_other_files_join_it(self, write: Write) -> None:
        """Its time counts even where they are younger."""
        node = thing("Node", "n")
        node["metadata"]["creationTimestamp"] = "2027-01-01T00:00:00Z"
        (case,) = clean(write("node.json", node), write("dump.json", document()))
        assert (list(case.store.cluster().nodes), case.now_ns) == (["n"], parse_time(TIME))

    def test_settings_hold_beneath_the_objects(self, write: Write) -> None:
        config = Config(scheduler_name="mine", node_pool="a", max_consolidation_preemptees=3, gpu_sharing=False)
        shard = thing("SchedulingShard", "b", {"partitionLabelValue": "b"})
        default = thing("SchedulingShard", "default", {"args": {"max-consolidation-preemptees": "4"}})
        objects = [queue("team"), shard, default]
        (case,) = clean(write("a.json", document(*objects, config=config)))
        assert (case.config.scheduler_name, case.config.node_pool) == ("mine", "a")
        assert case.config.max_consolidation_preemptees == 4
        (case,) = clean(write("b.json", document(*objects, config=config, shard="b")))
        assert (case.config.node_pool, case.config.max_consolidation_preemptees) == ("b", 3)

    @pytest.mark.parametrize(
        ("config", "settings", "on"),
        [
            (None, {}, False),
            (None, {"gpuSharing": True}, True),
            ({"gpuSharing": True}, {"gpuSharing": False}, True),
            ({"gpuSharing": False}, {"gpuSharing": True}, False),
            ({}, {"gpuSharing": True}, False),
        ],
    )
    def test_gpu_sharing(self, write: Write, config: Any, settings: dict[str, Any], on: bool) -> None:
        objects = [queue("team"), *([] if config is None else [thing("Config", "kai-config", {"global": config})])]
        (case,) = clean(write("a.json", {**document(*objects), "settings": settings}))
        assert case.config.gpu_sharing == on

    def test_what_could_not_be_listed_is_told(self, write: Write) -> None:
        loaded = load([write("a.json", document(unreadable=("configs.kai.scheduler (forbidden)", "nodes")))])
        first, second = told(loaded)
        assert "a.json, document 1: the dump lacks what could not be listed: configs.kai.scheduler (forb" in first
        assert second.startswith("warning: ")
        assert loaded.cases[0].dump is not None
        assert loaded.cases[0].dump.unreadable[1] == "nodes"

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"apiVersion": "kai-sched.io/v2"}, "error: apiVersion: this version reads dumps of kai-sched.io/v1: "),
            ({"metadata": {"time": "noon"}}, "error: metadata.time: 'noon' is not a time"),
            ({"metadata": []}, "error: metadata: expected a mapping"),
            ({"items": {}}, "error: items: expected a list"),
            ({"settings": {"schedulerName": 5}}, "error: settings.schedulerName: 5: Expected `str`, got `int`: write"),
            ({"settings": {"actions": ["bind"]}}, "error: settings.actions: there is no action 'bind'"),
            ({"settings": {"victims": "all"}}, "error: settings: victims is one of minimal, original"),
            ({"settings": {"maxConsolidationPreemptees": 2**31}}, "error: settings.maxConsolidationPreemptees: 2147"),
            ({"settings": {"queueDepth": {"reclaim": 2**40}}}, "error: settings.queueDepth.'reclaim': "),
            ({"settings": {"gpuMemoryReservePercent": -1}}, "error: settings.gpuMemoryReservePercent: -1"),
            ({"settings": {"reservation": {"namespace": 5}}}, "error: settings.reservation: "),
            ({"settings": {"shard": 5}}, "error: settings.shard: expected the name of a SchedulingShard"),
            ({"settings": {"colour": 5}}, "warning: settings.colour: ignored: this version has no such setting"),
        ],
    )
    def test_what_is_wrong_with_it_is_told(self, write: Write, change: dict[str, Any], words: str) -> None:
        path = write("a.json", {**document(), **change})
        found = [line.replace(f"{path}, document 1: ", "") for line in told(load([path]))]
        assert found[0].startswith(words), found

    def test_parts_may_be_missing(self, write: Write) -> None:
        content = {"apiVersion": "kai-sched.io/v1", "kind": "ClusterDump", "items": [queue("team")]}
        (case,) = clean(write("a.json", content))
        assert (case.now_ns, case.now_source, case.config) == (None, TimeSource.CLOCK, OFF)
        (line,) = told(load([write("b.json", {**content, "items": None})]))
        assert "no objects in the input" in line

    def test_two_dumps_are_no_cluster(self, write: Write) -> None:
        """The objects that are in both are not told one by one."""
        names = ("a.json", "b.json", "c.json")
        first, second, third = (write(name, document(queue("team"), queue(name[0]))) for name in names)
        (line,) = told(load([first, second, third]))
        assert line.startswith(f"error: {second}, document 1: a second dump after {first}, document 1, and all files")
        assert line.endswith("name one of them, or compare two with `kai-sched diff A B`")

    def test_its_name_in_other_objects_means_nothing(self, write: Write) -> None:
        data = {"kind": "ClusterDump", "rawObjects": "x"}
        odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "ml"}, "data": data}
        (case,) = clean(write("a.json", queue("team"), odd, [queue("other"), odd | {"metadata": {"name": "n"}}]))
        assert sorted(case.store.cluster().config_maps) == ["default/n", "ml/m"]

    def test_an_object_is_named_by_its_number(self, write: Write) -> None:
        (line,) = told(load([write("a.json", {**document(), "items": [queue("a"), {"kind": "Queue"}]})]))
        assert "a.json, document 1, item 2: apiVersion: missing" in line
