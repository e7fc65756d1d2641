"""``pip install kai-sched`` without the operator's packages: what is answered from files needs none of them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from kai_sched.cli.operator_packages import OPERATOR_MODULES, missing_part
from tests.tree import ROOT
from tests.unit.cli.command import environment

# As if these were not installed; what is optional to other libraries is missing for them as well.
RUN = f"""
import sys
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {set(OPERATOR_MODULES)!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NotInstalled())
from kai_sched.cli.main import main
main()
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process without the operator's packages."""
    command = [sys.executable, "-c", RUN, *words]
    return subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "version -o json",
        "completion bash",
        "simulate examples/teams",
        "simulate examples/teams -o html",
        "simulate examples/teams -o yaml --add-nodes 1:like=gpu-node-1",
        "simulate examples/gpu-sharing/claims.yaml -o json",
        "explain whisper examples/company/cluster.json.gz",
        "fit examples/company/finetune.yaml --on examples/company/cluster.json.gz",
        "diff examples/teams examples/teams",
    ],
)
def test_files_are_answered_without_the_operator_s_packages(words: str) -> None:
    done = run(*words.split())
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


@pytest.mark.parametrize("words", ["run", "dump -o -", "simulate --cluster", "reserve --pod-name=a --pod-namespace=b"])
def test_what_needs_a_cluster_says_what_to_install(words: str) -> None:
    done = run(*words.split())
    assert done.returncode == 2
    assert re.fullmatch(
        r"error: this needs a running cluster's packages \(\w+ is not installed\): "
        r"pip install 'kai-sched\[operator\]'\n",
        done.stderr,
    )


def test_doctor_says_what_is_missing() -> None:
    done = run("doctor")
    assert done.returncode == 0
    last = done.stdout.splitlines()[-1]
    assert last.startswith("ok: no cluster: ")
    assert last.endswith("pip install 'kai-sched[operator]'")


def test_the_modules_are_those_of_the_extra() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["operator"]
    named = {re.split(r"[<>=]", each)[0] for each in extra}
    found = packages_distributions()
    assert {name.replace("_", "-") for module in OPERATOR_MODULES for name in found[module]} == named


def test_other_modules_are_none_of_its_business() -> None:
    assert missing_part(ModuleNotFoundError("No module named 'numba'", name="numba")) is None
    assert missing_part(ModuleNotFoundError("nothing known")) is None
