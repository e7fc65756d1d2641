"""Snapshots as the original's scheduler serves them: what is read of them, within which bounds, and what is written."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
from typing import Any

import pytest

from kai_sched.files.dump import DumpMetadata
from kai_sched.files.input_time import TimeSource
from kai_sched.files.load import load
from kai_sched.files.snapshot_archive import MEMBER, RAW_OBJECTS, archive_chunks
from kai_sched.model.config import Config
from kai_sched.model.times import parse_time
from tests.unit.files.inputs import Write, clean, queue, thing, told

PARAMS = {
    "schedulerName": "kai-scheduler",
    "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": "a"},
    "maxNumberConsolidationPreemptees": 16,
    "useSchedulingSignatures": True,
    "fullHierarchyFairness": True,
    "allowConsolidatingReclaim": True,
    "detailedFitErrors": True,
    "numOfStatusRecordingWorkers": 5,
    "globalDefaultStalenessGracePeriod": 60_000_000_000,
    "schedulePeriod": 1_000_000_000,
    "stuckInReleasingThreshold": 30_000_000_000,
    "queueLabelKey": "kai.scheduler/queue",
}
FILE = {"actions": "allocate, reclaim", "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}]}]}


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """As Go writes the objects of its caches."""
    found = {key: value for key, value in item.items() if key not in ("apiVersion", "kind")}
    return {**found, "metadata": {"creationTimestamp": None, **found["metadata"]}, "status": {}}


def snapshot(**changes: Any) -> dict[str, Any]:
    labels = {"kai.scheduler/node-pool": "a"}
    team, node = queue("team"), thing("Node", "n")
    team["metadata"]["labels"] = node["metadata"]["labels"] = labels
    raw = dict.fromkeys(RAW_OBJECTS) | {"nodes": [bare(node)], "queues": [bare(team)]}
    found = {"config": FILE, "schedulerParams": PARAMS, "rawObjects": raw, "discovery": {"serverVersion": {}}}
    return found | changes


def zipped(content: Any, name: str = MEMBER, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return sink.getvalue()


class TestReading:
    @pytest.mark.parametrize("name", ["s.zip", "S.ZIP", "snapshot", "s.zip.gz", "s.json", "folder/s.zip"])
    def test_every_form(self, tmp_path: Any, name: str) -> None:
        data = json.dumps(snapshot()).encode() if name.endswith("json") else zipped(snapshot())
        data = gzip.compress(data) if name.endswith(".gz") else data
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        given = str(path.parent if "/" in name else path)
        for case in (*clean(given), *clean("-", stdin=io.BytesIO(data))):
            cluster = case.store.cluster()
            assert (list(cluster.queues), list(cluster.nodes)) == (["team"], ["n"])
            assert case.dump is not None
            assert case.dump.is_snapshot
            assert (case.now_ns, case.now_source) == (None, TimeSource.CLOCK)

    @pytest.mark.parametrize("capital", [False, True])
    def test_its_settings(self, tmp_path: Any, capital: bool) -> None:
        """Old versions write the names of parameters as their structs have them."""
        params = {name[0].upper() + name[1:] if capital else name: value for name, value in PARAMS.items()}
        (tmp_path / "s.zip").write_bytes(zipped(snapshot(schedulerParams=params)))
        (case,) = clean(str(tmp_path / "s.zip"))
        assert case.config == Config(
            actions=("allocate", "reclaim"),
            plugins={"predicates": {}, "proportion": {}},
            node_pool="a",
            stuck_in_releasing_s=30,
            detailed_fit_errors=True,
        )
        assert case.config.gpu_sharing

    def test_what_is_false_or_zero_is_left_out(self, tmp_path: Any) -> None:
        (tmp_path / "s.zip").write_bytes(zipped(snapshot(config=None, schedulerParams={"partitionParams": None})))
        (case,) = clean(str(tmp_path / "s.zip"))
        assert case.config == Config(
            max_consolidation_preemptees=0,
            use_scheduling_signatures=False,
            full_hierarchy_fairness=False,
            allow_consolidating_reclaim=False,
            staleness_grace_s=0,
        )
        (tmp_path / "s.zip").write_bytes(zipped(snapshot(config=None, schedulerParams=None)))
        assert clean(str(tmp_path / "s.zip"))[0].config == Config()

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"config": 5}, "config: expected a mapping, not 5: get the snapshot again"),
            ({"config": {"actions": "bind"}}, "actions: there is no action 'bind'"),
            ({"schedulerParams": []}, "schedulerParams: expected a mapping, not []"),
            ({"schedulerParams": {"schedulerName": 5}}, "schedulerParams.schedulerName: expected a text, not 5"),
            ({"schedulerParams": {"fullHierarchyFairness": 1}}, "expected true or false, not 1"),
            ({"schedulerParams": {"globalDefaultStalenessGracePeriod": "1s"}}, "expected a whole number, not '1s'"),
            ({"rawObjects": {"pods": {}}}, "rawObjects.pods: expected a list"),
            ({"rawObjects": {"nodes": [{"metadata": 5}]}}, "item 1: Node: metadata: expected a mapping"),
            ({"rawObjects": {"planets": [{}, {}]}}, "rawObjects.planets: 2 ignored: this version does not know"),
        ],
    )
    def test_what_is_wrong_with_it_is_told(self, write: Write, change: dict[str, Any], words: str) -> None:
        found = told(load([write("a.json", snapshot(**change))]))
        assert any(words in line for line in found), found

    def test_what_storage_drivers_say_is_read(self, write: Write) -> None:
        found = {"csiDrivers": [bare(thing("CSIDriver", "d"))], "csiNodes": [bare(thing("CSINode", "n"))]}
        found["csiStorageCapacities"] = [bare(thing("CSIStorageCapacity", "c", None, "ns"))]
        params = {"schedulerParams": {"scheduleCSIStorage": True}}
        (case,) = clean(write("a.json", snapshot(rawObjects=snapshot()["rawObjects"] | found, **params)))
        cluster = case.store.cluster()
        assert (list(cluster.storage_drivers), list(cluster.node_volumes)) == (["d"], ["n"])
        assert list(cluster.storage_capacities) == ["ns/c"]
        assert case.config.schedule_csi_storage

    def test_archives_that_are_no_snapshot(self, tmp_path: Any) -> None:
        whole = zipped(snapshot())
        encrypted = bytearray(whole)
        encrypted[6] |= 1
        encrypted[encrypted.index(b"PK\x01\x02") + 8] |= 1
        unusual = bytearray(whole)
        unusual[8] = unusual[unusual.index(b"PK\x01\x02") + 10] = 99
        damaged = bytearray(whole)
        damaged[60] ^= 255
        for data, words in [
            (zipped(b"{}", "other.json"), "a ZIP archive without snapshot.json, so it is no snapshot"),
            (whole[:-30], "not a complete ZIP archive: get the snapshot again"),
            (whole[:200], "not a complete ZIP archive"),
            (bytes(damaged), "not a complete ZIP archive"),
            (bytes(encrypted), "encrypted or packed in an unusual way"),
            (bytes(unusual), "encrypted or packed in an unusual way"),
        ]:
            path = tmp_path / "s.zip"
            path.write_bytes(data)
            (line,) = told(load([str(path)]))
            assert line.startswith(f"error: {path}: {words}"), line

    @pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
    def test_it_is_unpacked_within_bounds(self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, method: int) -> None:
        """Whatever size the archive names."""
        monkeypatch.setattr("kai_sched.files.sources.UNPACKED_MAX", 100)
        (tmp_path / "s.zip").write_bytes(zipped(b" " * 101, method=method))
        (line,) = told(load([str(tmp_path / "s.zip")]))
        assert "more than 100 bytes once it is unpacked" in line


class TestWriting:
    METADATA = DumpMetadata(parse_time("2026-11-22T12:00:00Z"))

    def test_the_form(self) -> None:
        config = Config(node_pool="a", actions=("allocate",), plugins={"proportion": {"kValue": "1"}, "x": {}})
        objects = [thing("Node", "n"), queue("b"), queue("a"), thing("Secret", "s"), thing("Config", "kai-config")]
        pieces = list(archive_chunks(objects, config, self.METADATA, {"serverVersion": {"gitVersion": "v1.34.0"}}))
        with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as archive:
            assert archive.namelist() == [MEMBER]
            assert archive.testzip() is None
            found = json.loads(archive.read(MEMBER))
        assert found["config"] == {
            "actions": "allocate",
            "tiers": [{"plugins": [{"name": "proportion", "arguments": {"kValue": "1"}}, {"name": "x"}]}],
        }
        params = dict(PARAMS, stuckInReleasingThreshold=120_000_000_000)
        assert found["schedulerParams"] == {
            name: value
            for name, value in params.items()
            if name not in ("numOfStatusRecordingWorkers", "schedulePeriod", "detailedFitErrors")
        }
        raw = found["rawObjects"]
        assert list(raw) == list(RAW_OBJECTS)
        assert [each["metadata"]["name"] for each in raw["queues"]] == ["a", "b"]
        assert raw["nodes"] == [thing("Node", "n")]
        assert raw["pods"] == []
        assert found["discovery"] == {"serverVersion": {"gitVersion": "v1.34.0"}}

    def test_it_is_streamed_and_always_the_same(self) -> None:
        rng = random.Random(0)
        objects = [thing("Node", f"n-{k}", {"x": rng.randbytes(100).hex()}) for k in range(3000)]
        first, second = (list(archive_chunks(each, Config(), self.METADATA)) for each in (objects, objects[::-1]))
        assert first == second
        assert len(first) > 1
        with zipfile.ZipFile(io.BytesIO(b"".join(first))) as archive:
            assert len(json.loads(archive.read(MEMBER))["rawObjects"]["nodes"]) == 3000

    def test_every_kind_that_decides_comes_back(self) -> None:
        """But for those of settings: they are in force in what is written."""
        given = [thing("Namespace", "ml"), thing("Node", "n"), thing("ConfigMap", "m", None, "ml"), queue("q")]
        for each in given:
            each["metadata"]["uid"] = "u"  # as an API server has set it
        data = b"".join(archive_chunks(given, Config(queue_depth={"allocate": 3}), self.METADATA))
        (case,) = clean("-", stdin=io.BytesIO(data))
        cluster = case.store.cluster()
        assert [len(table) for table in (cluster.namespaces, cluster.nodes, cluster.config_maps, cluster.queues)] == [
            1
        ] * 4
        assert case.config == Config(queue_depth={"allocate": 3})
        assert case.now_ns == self.METADATA.time_ns
