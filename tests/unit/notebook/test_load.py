"""``kai_sched.load``: each form of input, and what it says about what it cannot read."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kai_sched
from kai_sched import InputError, InputWarning, LoadedCluster
from tests.tree import ROOT
from tests.unit.cli.command import environment

TEAMS = ROOT / "examples" / "teams"
OBJECTS = [each for path in sorted(TEAMS.glob("*.yaml")) for each in yaml.safe_load_all(path.read_text())]


def plan_of(cluster: LoadedCluster) -> Any:
    return cluster.simulate().to_dict()["cycles"]


@pytest.fixture(scope="module")
def plan() -> Any:
    return plan_of(kai_sched.load(TEAMS))


def test_every_form_gives_the_same_plan(plan: Any, tmp_path: Path) -> None:
    text = yaml.safe_dump_all(OBJECTS).encode()
    packed = tmp_path / "cluster.json.gz"
    packed.write_bytes(
        gzip.compress(json.dumps({"kind": "List", "apiVersion": "v1", "items": OBJECTS}, default=str).encode())
    )
    forms: list[Any] = [
        str(TEAMS),
        [TEAMS],
        sorted(TEAMS.glob("*.yaml")),
        packed,
        text,
        [text],
        OBJECTS,
        (each for each in OBJECTS),
        {"apiVersion": "v1", "kind": "List", "items": OBJECTS},
        [TEAMS / "nodes.yaml", *(each for each in OBJECTS if each["kind"] != "Node"), None],
    ]
    for form in forms:
        assert plan_of(kai_sched.load(form)) == plan


def test_a_config_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("actions: allocate\n")
    assert kai_sched.load(TEAMS, config=path).config.actions == ("allocate",)


class OwnPath:
    """A path that is neither a text nor of pathlib."""

    def __fspath__(self) -> bytes:
        return b"a.yaml"


def forever() -> Iterator[int]:
    yield 5


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (5, TypeError, "not int: an object is a dictionary with apiVersion and kind"),
        (None, TypeError, "not NoneType"),
        ([5], TypeError, "not int"),
        ([["a.yaml"]], TypeError, "not list"),
        (forever(), TypeError, "not int"),
        (io.StringIO("a"), TypeError, "not an open file: write load\\(file.name\\)"),
        (OwnPath(), TypeError, "os.fsdecode"),
        ([{"kind": object()}], TypeError, "object 1 is no Kubernetes object"),
        ([], ValueError, "there is nothing to read: give a path"),
        ([None], ValueError, "there is nothing to read"),
        ("-", ValueError, "load\\(sys.stdin.buffer.read\\(\\)\\)"),
        ("kind: Pod\nmetadata: {}", ValueError, "load\\(text.encode\\(\\)\\)"),
        ("", InputError, "there is no such file"),
        ("nowhere.yaml", InputError, "nowhere.yaml: there is no such file: correct the path"),
        (["a.yaml", "b.yaml"], InputError, "a.yaml: there is no such file.*\n.*b.yaml: there is no such file"),
        (b"{", InputError, "bytes: line 1, column 2: not valid JSON"),
        ({"kind": "Pod"}, InputError, "objects, document 1, item 1: apiVersion: missing"),
        ([str(TEAMS), str(TEAMS)], InputError, "named twice"),
    ],
)
def test_what_cannot_be_read(source: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        kai_sched.load(source)
    assert type(raised.value) is error


def test_a_scenario_is_no_cluster() -> None:
    text = b"apiVersion: kai-sched.io/v1\nkind: Scenario\nname: x\n"
    with pytest.raises(InputError):
        kai_sched.load(text)


def test_an_error_lists_all_findings() -> None:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{k}"}, "spec": 5} for k in range(15)]
    with pytest.raises(InputError, match=r"and 5 more, in \.problems") as raised:
        kai_sched.load(nodes)
    assert len(raised.value.problems) == 15
    assert all(each.fatal and each.source and each.subject for each in raised.value.problems)


def test_warnings_are_kept_and_told_once() -> None:
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"typo-{k}", "namespace": "ml", "labels": {"kai.scheduler/queue": "taem-a"}},
            "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]},
        }
        for k in range(2)
    ]
    with pytest.warns(InputWarning, match=r"taem-a.*\(and \d more, in .problems\)") as told:
        cluster = kai_sched.load([*OBJECTS, *pods])
    assert [each.filename for each in told] == [__file__]
    assert len(cluster.problems) >= 2
    assert not any(each.fatal for each in cluster.problems)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        changed = cluster.drain("gpu-node-1")
        cluster.simulate()
    assert changed.problems == cluster.problems


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, kai_sched; dir(kai_sched); print([name for name in sys.modules if name.startswith('kai_sched.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert {"load", "LoadedCluster", "InputError"} <= set(dir(kai_sched))
