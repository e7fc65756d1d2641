"""At what time a cluster from files is looked at."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.files.input_time import TimeSource
from kai_sched.model.times import format_time, parse_time
from tests.unit.cli.command import run
from tests.unit.files.inputs import Write, clean, queue, thing

EARLY, LATE = "2026-01-01T12:00:00Z", "2026-11-22T12:00:30Z"


def node(meta: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    found = thing("Node", "n", **more)
    found["metadata"] |= {"creationTimestamp": EARLY, **(meta or {})}
    return found


def condition(**times: str) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": "True", **times}]}}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (node(), EARLY),
        (node({"creationTimestamp": LATE}), LATE),
        (node({"managedFields": [{"manager": "m", "time": LATE}]}), LATE),
        (node(**condition(lastTransitionTime=LATE, lastHeartbeatTime=EARLY)), LATE),
        (node(**condition(lastTransitionTime=EARLY, lastHeartbeatTime=LATE)), LATE),
        (node({"annotations": {"kai.scheduler/last-start-timestamp": LATE}}), LATE),
        (node({"annotations": {"expires": LATE, "creationTimestamp ": LATE}}), EARLY),
        (node({"labels": {"a": "2026-11-22T12"}}), EARLY),
        (node({"managedFields": [{"time": "2026-99-22T12:00:00Z"}]}), EARLY),
        (node({"managedFields": [{"time": "Z"}, {"time": "ZZZZ-Z"}, {"time": None}]}), EARLY),
        (node({"deletionTimestamp": "2026-11-22T12:05:30Z", "deletionGracePeriodSeconds": 300}), LATE),
        (node({"deletionTimestamp": LATE}), LATE),
        (node({"deletionTimestamp": "2126-11-22T12:05:30Z", "deletionGracePeriodSeconds": 10**10}), EARLY),
        (node({"creationTimestamp": "2026-11-22T13:00:30+01:00"}), LATE),
        (node({"creationTimestamp": "2026-11-22t12:00:30z"}), LATE),
    ],
)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_the_newest_time_of_what_has_happened(
    write: Write, content: dict[str, Any], expected: str, suffix: str
) -> None:
    path = write(f"a.{suffix}", "" if suffix == "json" else "# YAML", content)
    for paths in ([path], [write("b.json", queue("q")), path]):
        case = clean_of_node(paths)
        assert case.now_ns is not None
        assert (format_time(case.now_ns), case.now_source) == (expected, TimeSource.NEWEST)


def clean_of_node(paths: list[str]) -> Any:
    from kai_sched.files.load import load

    (case,) = load(paths).cases
    return case


def test_fractions_of_seconds(write: Write) -> None:
    (case,) = clean(
        write("a.json", node(), node({"name": "m", "managedFields": [{"time": "2026-11-22T12:00:30.25Z"}]}))
    )
    assert case.now_ns == parse_time("2026-11-22T12:00:30.25Z")


def test_without_times_the_caller_has_the_clock(write: Write) -> None:
    (case,) = clean(write("a.json", queue("q")))
    assert (case.now_ns, case.now_source) == (None, TimeSource.CLOCK)


@pytest.mark.parametrize(("spec", "source"), [({}, TimeSource.CLOCK), ({"now": LATE}, TimeSource.SCENARIO)])
def test_scenarios_have_their_own(write: Write, spec: dict[str, Any], source: TimeSource) -> None:
    plain, other = clean(
        write("a.json", node()), write("s.json", thing("Scenario", "s", {"objects": [node()], **spec}))
    )
    assert (plain.now_source, other.now_source) == (TimeSource.NEWEST, source)
    assert other.now_ns == (parse_time(LATE) if spec else None)


@pytest.mark.slow
def test_simulate_says_which_one(write: Write) -> None:
    path = write("a.json", node({"creationTimestamp": LATE}), queue("q"))
    plain = run("simulate", path)
    assert "as of 2026-11-22 12:00 UTC, the newest time in the files" in plain.stdout
    assert run("simulate", path, "-o", "json").stderr == "as of 2026-11-22 12:00 UTC, the newest time in the files\n"
    given = run("simulate", "--now", EARLY, path)
    assert (given.stderr, "as of" in given.stdout) == ("", False)
    dump = {"apiVersion": "kai-sched.io/v1", "kind": "ClusterDump", "metadata": {"time": EARLY}, "items": [node()]}
    assert "as of 2026-01-01 12:00 UTC, the time of the dump" in run("simulate", write("d.json", dump)).stdout
