"""Workload kinds of installed packages: that of examples/workload-kind, and packages that are broken."""

from __future__ import annotations

import csv
import io
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from kai_sched.files.load import load
from kai_sched.operator.grouping.rule_settings import RuleSettings
from kai_sched.workload_kinds import GROUP, installed_kinds
from tests.tree import ROOT
from tests.unit.cli.command import run

EXAMPLE = ROOT / "examples/workload-kind"
TEAMS = str(ROOT / "examples/teams")
WORKLOAD = str(EXAMPLE / "minicluster.yaml")


def install(folder: Path, name: str, entry: str) -> None:
    """What pip leaves of a package that has one entry point."""
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")


def install_example(folder: Path) -> None:
    """The package of the example, as pip would install it into the folder."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"][GROUP].items()
    shutil.copy(EXAMPLE / "kai_sched_minicluster.py", folder)
    install(folder, project["name"].replace("-", "_"), f"{name} = {value}")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install_example(tmp_path)
    return tmp_path


@pytest.fixture
def on_path(site: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(site))
    installed_kinds.cache_clear()
    yield site
    installed_kinds.cache_clear()


def test_the_example_makes_a_gang(on_path: Path) -> None:
    assert on_path
    loaded = load([TEAMS, WORKLOAD])
    assert [str(each) for each in loaded.problems if "lammps" in str(each)] == []
    cluster = loaded.cases[0].store.cluster()
    (group,) = [each for each in cluster.pod_groups.values() if "lammps" in each.name]
    assert group.min_member == 4
    assert [pod.name for pod in cluster.pods.values() if pod.group == group.name] == [f"lammps-j{i}" for i in range(4)]


def test_a_wrong_field_is_told_for_the_workload(on_path: Path, tmp_path: Path) -> None:
    assert on_path
    manifest = yaml.safe_load((EXAMPLE / "minicluster.yaml").read_text())
    manifest["spec"]["size"] = "four"
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(manifest))
    (problem,) = [each for each in load([TEAMS, str(file)]).problems if each.fatal]
    assert "MiniCluster ml-team-a/lammps: spec.size" in str(problem)


def test_broken_packages_are_told_and_the_others_used(on_path: Path) -> None:
    install(on_path, "gone", "gone = no_such_module:KIND")
    (on_path / "raises.py").write_text("raise RuntimeError('not here')\n")
    install(on_path, "raises", "raises = raises:KIND")
    installed_kinds.cache_clear()
    found = installed_kinds()
    assert list(found.kinds) == [("flux-framework.org/v1alpha2", "MiniCluster")]
    gone, raises = map(str, found.faults)
    assert gone.startswith("workload kind gone of gone: no_such_module:KIND cannot be loaded (ModuleNotFoundError")
    assert raises.startswith("workload kind raises of raises: raises:KIND cannot be loaded (RuntimeError: not here)")
    loaded = load([TEAMS, WORKLOAD])
    assert not loaded.fatal
    assert [each for each in loaded.problems if "workload kind gone of gone" in str(each)]


def test_run_says_at_its_start_what_it_uses_and_what_not(on_path: Path) -> None:
    install(on_path, "gone", "gone = no_such_module:KIND")
    installed_kinds.cache_clear()
    parts: list[Any] = [None] * 4  # the API server and the store, which are not asked yet
    with structlog.testing.capture_logs() as lines:
        RuleSettings(*parts)
    assert [line["event"] for line in lines] == ["plugin.problem", "plugin.kinds"]
    assert lines[0]["plugin"] == "gone of gone"
    assert lines[1]["kinds"] == ["MiniCluster (flux-framework.org/v1alpha2)"]


@pytest.mark.slow
def test_the_commands_use_it(site: Path) -> None:
    done = run("simulate", "-o", "csv", TEAMS, WORKLOAD, PYTHONPATH=f"{ROOT}:{site}")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row for row in rows if "lammps" in str(row)], done.stderr
    assert (
        "other packages: MiniCluster (flux-framework.org/v1alpha2)"
        in run("doctor", str(EXAMPLE / "minicluster.yaml"), PYTHONPATH=f"{ROOT}:{site}").stdout
    )


def test_the_rights_of_the_example_are_those_that_grouping_needs() -> None:
    role, binding = yaml.safe_load_all((EXAMPLE / "rights.yaml").read_text())
    assert role["rules"] == [
        {"apiGroups": ["flux-framework.org"], "resources": ["miniclusters"], "verbs": ["get", "list"]}
    ]
    accounts = yaml.safe_load_all((ROOT / "manifests/rbac.yaml").read_text())
    there = {
        (each["metadata"]["name"], each["metadata"].get("namespace"))
        for each in accounts
        if each["kind"] == "ServiceAccount"
    }
    (subject,) = binding["subjects"]
    assert (subject["name"], subject["namespace"]) in there
