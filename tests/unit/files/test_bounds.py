"""Files that are hostile: errors name the file, the object, the field, the value and what is possible."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kai_sched.files.load import load

QUEUE = b'{"apiVersion":"scheduling.run.ai/v2","kind":"Queue","metadata":{"name":"q"},"spec":{"resources":{},%s}}'
GROUP = b'{"apiVersion":"scheduling.run.ai/v2alpha2","kind":"PodGroup","metadata":{"name":"g"},"spec":{%s}}'
POD = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"%s},"spec":{%s}}'
JOB = b'{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{%s}}'
SHARD = b'{"apiVersion":"kai.scheduler/v1","kind":"SchedulingShard","metadata":{"name":"default"},"spec":{%s}}'
SCENARIO = b'{"apiVersion":"kai-sched.io/v1alpha1","kind":"Scenario","metadata":{"name":"s"},"spec":{%s}}'
CLASS = b'{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"c"},"value":%s}'


def told(tmp_path: Path, content: bytes, name: str = "in.json") -> list[str]:
    path = tmp_path / name
    path.write_bytes(content)
    return [str(problem).replace(f"{tmp_path}/", "") for problem in load([str(path)]).problems]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (QUEUE % b'"priority":3000000000', ("Queue q: spec.priority", "3000000000", "2147483647")),
        (QUEUE % b'"preemptMinRuntime":"90000h"', ("Queue q: spec.preemptMinRuntime", "'90000h'", "87600h")),
        (QUEUE.replace(b"{},%s", b'{"gpu":{"quota":1e16}}'), ("spec.resources.gpu.quota", "1e+16", "1e+15")),
        (GROUP % b'"minMember":2147483648', ("PodGroup default/g: spec.minMember", "2147483647")),
        (GROUP % b'"stalenessGracePeriod":"2562047h"', ("spec.stalenessGracePeriod", "'2562047h'", "87600h")),
        (GROUP % b'"priorityClassName":"system-x"', ("spec.priorityClassName", "'system-x'", "kube-system")),
        (CLASS % b"2147483648", ("PriorityClass c: value", "2147483648", "2147483647")),
        (SHARD % b'"kValue":1e9', ("SchedulingShard default: spec.kValue", "1000000")),
        (
            SHARD % b'"args":{"max-consolidation-preemptees":"99999999999"}',
            ("spec.args.max-con", "'99999999999'", "32 bits"),
        ),
    ],
)
def test_values_out_of_range(tmp_path: Path, content: bytes, words: tuple[str, ...]) -> None:
    (line,) = [each for each in told(tmp_path, content) if words[0] in each]
    assert line.startswith("in.json, document 1: ")
    assert [word for word in words if word not in line] == []


def nested(depth: int) -> tuple[bytes, bytes]:
    return b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth


@pytest.mark.parametrize("depth", [150, 250, 700, 1100, 100_000])
def test_deep_nesting_names_the_file(tmp_path: Path, depth: int) -> None:
    for number, deep in enumerate(nested(depth)):
        for kind, template in enumerate(
            (
                QUEUE % b'"x":%s',
                JOB % b'"template":%s',
                SHARD % b'"plugins":%s',
                SCENARIO % b'"schedulerConfig":{"x":%s}',
            )
        ):
            name = f"in-{number}-{kind}.json"
            lines = told(tmp_path, template % deep, name)
            assert lines
            assert all(len(line) < 3000 for line in lines)
            assert depth < 1100 or any(name in line and "nested" in line for line in lines)
    assert any("nested" in line for line in told(tmp_path, b"a: " + nested(depth)[0], "in.yaml")) or depth < 200


@pytest.mark.parametrize(
    "value", [b"1e999", b"1" * 400, b"1" * 5000, b'"\\ud800"', b'"\xff"', b"NaN", b"-Infinity", b"-1e400"]
)
def test_numbers_and_texts_that_are_none(tmp_path: Path, value: bytes) -> None:
    contents = (
        QUEUE.replace(b"{},%s", b'{"gpu":{"quota":%s}}') % value,
        POD % (b',"labels":{"a":%s}' % value, b'"containers":[{"resources":{"requests":{"cpu":%s}}}]' % value),
        JOB % (b'"parallelism":%s' % value),
        SCENARIO % (b'"cycles":%s,"secondsBetweenCycles":%s' % (value, value)),
    )
    for number, content in enumerate(contents):
        for suffix in ("json", "yaml"):
            lines = told(tmp_path, content, f"in-{number}.{suffix}")
            assert any(f"in-{number}.{suffix}" in line for line in lines)
            assert all(len(line) < 3000 for line in lines)


def test_long_texts_are_passed_over_at_once(tmp_path: Path) -> None:
    start = time.monotonic()
    told(tmp_path, POD % (b',"annotations":{"gpu-fraction":"%s"}' % (b"1" * 250_000 + b"x"), b""))
    assert time.monotonic() - start < 1


def test_what_is_said_can_be_shown_on_a_terminal(tmp_path: Path) -> None:
    lines = told(tmp_path, POD.replace(b'"p"', b'"p\\u0000\\u001b[31m"') % (b"", b""))
    assert lines
    assert all(line.isprintable() for line in lines)
