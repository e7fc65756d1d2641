"""The recorder: which cycles are kept, when they are written, and what is in the files."""

from __future__ import annotations

import asyncio
import gzip
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog

from kai_sched.cycle.run import run_cycle
from kai_sched.files.recording import CycleInputs, CycleRecording, decode_recording
from kai_sched.model.config import Config
from kai_sched.model.hints import NO_HINTS
from kai_sched.model.objects import Node, Pod, Shape
from kai_sched.model.read.kinds import POD
from kai_sched.model.store import Cluster, Store
from kai_sched.operator.cycle import recorder as module
from kai_sched.operator.cycle.health import CycleHealth
from kai_sched.operator.cycle.recorder import CYCLES_MAX, FILES_MAX, SAME_FAILURE_S, CycleRecorder
from kai_sched.plan.plan_text import digest_of, plan_lines
from kai_sched.telemetry.metrics import Metrics
from tests.unit.operator.worlds import NODE, World, raw_node, raw_pod

NOW_NS = 1_800_000_000 * 10**9


class Desk:
    """A recorder with a store; ``time`` is what its clock says."""

    def __init__(self, folder: Path) -> None:
        self.time = 1000.0
        self.folder = folder
        self.store = Store()
        self.store.put(Node("n1", allocatable={"cpu": 8000.0, "pods": 10.0}))
        self.failures = 0
        self.recorder = CycleRecorder(folder, lambda: self.time, lambda: 1_800_000_000.0 + self.time, self.count)

    def count(self) -> None:
        self.failures += 1

    def inputs(self, number: int = 0) -> CycleInputs:
        self.store.put(Pod("ns", f"p{number}", Shape((("cpu", 1000.0),)), scheduler="kai-scheduler"))
        return CycleInputs(self.store.cluster(), Config(), NOW_NS + number, NO_HINTS)

    def decide(self, number: int = 0) -> CycleInputs:
        inputs = self.inputs(number)
        self.recorder.decided(inputs, run_cycle(inputs.cluster, inputs.config, inputs.now_ns))
        return inputs

    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir()) if self.folder.exists() else []

    def recordings(self, path: Path) -> list[CycleRecording]:
        return [decode_recording(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


async def settled(recorder: CycleRecorder) -> None:
    await asyncio.gather(*recorder._tasks)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "recordings")


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    with structlog.testing.capture_logs() as entries:
        yield entries


async def test_a_request_writes_the_last_cycles_for_their_owner_alone(desk: Desk, logs: list[Any]) -> None:
    kept = [desk.decide(number) for number in range(CYCLES_MAX + 2)][-CYCLES_MAX:]
    desk.recorder.request("SIGUSR2")
    await settled(desk.recorder)
    (path,) = desk.files()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, desk.folder)] == [0o600, 0o700]
    (line,) = [each for each in logs if each["event"] == "recordings.written"]
    assert (line["file"], line["cycles"], line["why"]) == (str(path), CYCLES_MAX, "SIGUSR2")
    found = desk.recordings(path)
    assert [each.inputs.now_ns for each in found] == [each.now_ns for each in kept]
    for before, after in zip(kept, found, strict=True):
        inputs = after.inputs
        assert inputs.cluster.pods == before.cluster.pods
        assert plan_lines(run_cycle(inputs.cluster, inputs.config, inputs.now_ns, hints=inputs.hints)) == after.plan


def test_bytes_are_bounded_as_well_as_cycles(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 1)
    for number in range(3):
        desk.decide(number)
    assert [each.inputs.now_ns for each in desk.recorder.kept] == [NOW_NS + 2], "the last one stays, however large"


def test_what_has_changed_between_views_counts(desk: Desk) -> None:
    desk.decide()
    for number in range(1, 501):
        desk.inputs(number)
    desk.decide(501)
    first, second = desk.recorder.kept
    assert second.size_bytes - first.size_bytes > 500 * module.OBJECT_BYTES


def test_neither_the_journal_nor_the_tables_of_a_result_are_kept(desk: Desk) -> None:
    desk.decide()
    (kept,) = desk.recorder.kept
    assert kept.inputs.cluster.journal == []
    assert kept.result is not None
    assert (dict(kept.result.pods), dict(kept.result.groups), dict(kept.result.nodes)) == ({}, {}, {})


async def test_a_cycle_that_fails_is_written_once_in_a_while(desk: Desk) -> None:
    desk.recorder.failed(desk.inputs(), ValueError("one"))
    desk.recorder.failed(desk.inputs(1), ValueError("one"))
    await settled(desk.recorder)
    assert len(desk.files()) == 1
    (found,) = desk.recordings(desk.files()[0])
    assert (found.error, found.plan) == ("ValueError: one", [])
    desk.recorder.failed(desk.inputs(2), ValueError("two"))
    await settled(desk.recorder)
    assert len(desk.files()) == 2
    desk.time += SAME_FAILURE_S
    desk.recorder.failed(desk.inputs(3), ValueError("one"))
    await settled(desk.recorder)
    assert len(desk.files()) == 3


async def test_only_so_many_files_are_left_and_no_other_file_is_touched(desk: Desk) -> None:
    desk.folder.mkdir()
    (desk.folder / "notes.json.gz").touch()
    desk.decide()
    for _ in range(FILES_MAX + 3):
        desk.time += 1.0
        desk.recorder.request("SIGUSR2")
        await settled(desk.recorder)
    names = [path.name for path in desk.files()]
    assert len(names) == FILES_MAX + 1
    assert "notes.json.gz" in names
    numbers = sorted(int(name.rpartition("-")[2].partition(".")[0]) for name in names if name != "notes.json.gz")
    assert numbers == list(range(4, FILES_MAX + 4)), "the oldest went"


async def test_a_folder_that_cannot_be_written_is_told_with_the_remedy(tmp_path: Path, logs: list[Any]) -> None:
    (tmp_path / "file").touch()
    desk = Desk(tmp_path / "file" / "recordings")
    desk.decide()
    desk.recorder.request("SIGUSR2")
    await settled(desk.recorder)
    (line,) = logs
    assert line["event"] == "recordings.failed"
    assert desk.failures == 1
    assert "NotADirectoryError" in line["problem"]
    assert "--recordings" in line["remedy"]


async def test_before_the_first_cycle_there_is_nothing_to_write(desk: Desk, logs: list[Any]) -> None:
    desk.recorder.request("SIGUSR2")
    await settled(desk.recorder)
    assert [line["event"] for line in logs] == ["recordings.empty"]
    assert desk.files() == []


def recorded_world(desk: Desk) -> World:
    """A world whose cycles are recorded."""
    health = CycleHealth(Metrics(), lambda _: None, lambda: False, ("", ""), lambda: desk.time, desk.recorder)
    world = World(health)
    world.put(NODE, raw_node("n1", gpus=2))
    return world


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():  # noqa: ASYNC110 - conditions are of any kind
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    task = asyncio.create_task(world.loop.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_loop_has_each_cycle_recorded_with_the_digest_that_is_logged(desk: Desk) -> None:
    world = recorded_world(desk)
    async with running(world):
        world.put(POD, raw_pod("p"))
        await until(lambda: world.hands.pods == ["ml/p"])
    (decided, *_), (*_, kept) = world.decided, desk.recorder.kept
    assert kept.result is not None
    digests = [digest_of(plan_lines(each.result)) for each in desk.recorder.kept if each.result]
    assert decided.plan in digests
    again = run_cycle(kept.inputs.cluster, kept.inputs.config, kept.inputs.now_ns, hints=kept.inputs.hints)
    assert plan_lines(again) == plan_lines(kept.result)


async def test_a_cycle_that_fails_for_no_object_is_written_with_its_error(desk: Desk) -> None:
    world = recorded_world(desk)

    def run(*_: Any) -> Any:
        raise ArithmeticError("by the test")

    world.run = run
    async with running(world):
        await until(lambda: bool(desk.files()))
        await settled(desk.recorder)
    last = desk.recordings(desk.files()[0])[-1]
    assert (last.error, last.plan) == ("ArithmeticError: by the test", [])
    assert list(last.inputs.cluster.nodes) == ["n1"]


async def test_an_object_that_fails_is_in_the_view_that_failed_and_not_in_the_one_that_was_decided(desk: Desk) -> None:
    world = recorded_world(desk)

    def run(view: Cluster, *arguments: Any) -> Any:
        if "ml/bad" in view.pods:
            raise ArithmeticError("by the test")
        return run_cycle(view, *arguments)

    world.run = run
    async with running(world):
        world.put(POD, raw_pod("bad"), raw_pod("good"))
        await until(lambda: world.hands.pods == ["ml/good"])
        await until(lambda: bool(desk.files()))
        await settled(desk.recorder)
    found = [each for path in desk.files() for each in desk.recordings(path)]
    failed = [each for each in found if each.error]
    assert [each.error for each in failed] == ["ArithmeticError: by the test"]
    assert {"ml/bad", "ml/good"} <= failed[0].inputs.cluster.pods.keys()
    assert all("ml/bad" not in each.inputs.cluster.pods for each in found if not each.error)
