"""What may stand at the cursor, the names in files, the scripts in real shells, and the plugin of kubectl."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from kai_sched.cli import main as program
from kai_sched.cli.completion import (
    KUBECTL_COMPLETION,
    answer,
    answer_shell,
    complete_added_nodes,
    complete_changes,
    complete_nodes,
    complete_queues,
    complete_workloads,
    names_in,
)
from kai_sched.cli.shell_scripts import SCRIPTS
from tests.tree import ROOT
from tests.unit.cli.command import run
from tests.unit.cli.completing import SHELLS, completed, installed, on_path, program_folder

EXAMPLES = str(ROOT / "examples")
COMMAND = typer.main.get_command(program.app)
PYTORCH = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "whisper", "uid": "u"}
Complete = Callable[[Any, str], list[tuple[str, str]]]


def item(version: str, kind: str, name: str, namespace: str = "", spec: Any = None, **meta: Any) -> dict[str, Any]:
    """One object of a dump."""
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **place, **meta}, "spec": spec or {}}


DUMP = [
    item("v1", "Node", "node-1"),
    item("scheduling.run.ai/v2", "Queue", "research"),
    item("scheduling.run.ai/v2", "Queue", "speech", spec={"parentQueue": "research"}),
    item(
        "scheduling.run.ai/v2alpha2", "PodGroup", "pg-whisper-u", "ml", {"queue": "speech"}, ownerReferences=[PYTORCH]
    ),
    item("scheduling.run.ai/v2alpha2", "PodGroup", "by-hand", "ml"),
    item(
        "v1",
        "Pod",
        "whisper-0",
        "ml",
        {"schedulerName": "kai-scheduler"},
        annotations={"pod-group-name": "pg-whisper-u"},
    ),
    item("v1", "Pod", "alone", "ml", {"schedulerName": "kai-scheduler"}),
    item("v1", "Pod", "of-others", "ml", {"schedulerName": "default-scheduler"}),
    item("v1", "Pod", "of-others-too", "ml"),
    item("batch/v1", "Job", "of-a-set", "ml", ownerReferences=[{**PYTORCH, "kind": "JobSet", "name": "set"}]),
    item("jobset.x-k8s.io/v1alpha2", "JobSet", "set"),
    item("v1", "ConfigMap", "settings", "ml"),
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": 5}},
]


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """A small cluster in a compressed file."""
    path = tmp_path / "cluster.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"apiVersion": "v1", "kind": "List", "items": DUMP}).encode()))
    return str(path)


class TestNames:
    def test_workloads_go_by_the_name_that_users_gave_them(self, dump: str) -> None:
        found = names_in([dump])
        assert found.workloads == {"alone": "Pod", "by-hand": "PodGroup", "set": "JobSet", "whisper": "PyTorchJob"}
        assert found.queues == {"research": "queue", "speech": "queue in research"}
        assert found.nodes == {"node-1": "node"}

    def test_a_prefix_with_a_slash_asks_for_namespaces(self, dump: str) -> None:
        assert set(names_in([dump], "ml/").workloads) == {"ml/alone", "ml/by-hand", "ml/whisper"}
        assert set(names_in([dump], "default/s").workloads) == {"default/set"}

    def test_only_what_begins_with_the_prefix(self, dump: str) -> None:
        found = names_in([dump], "w")
        assert (set(found.workloads), found.queues, found.nodes) == ({"whisper"}, {}, {})

    def test_the_examples_are_read(self) -> None:
        found = names_in([EXAMPLES])
        assert {"bert-finetuning": "PodGroup", "finetune": "RayJob"}.items() <= found.workloads.items()
        assert {"team-a", "team-b"} <= found.queues.keys()
        assert "gpu-node-1" in found.nodes

    def test_what_cannot_be_read_is_left_out(self, dump: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "bad.yaml").write_text("a: [")
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"not read")))
        assert names_in(["", "-", str(tmp_path / "missing"), str(tmp_path / "bad.yaml"), dump]) == names_in([dump])


class Context:
    """The parameters that have been parsed, as click keeps them."""

    def __init__(self, **params: Any) -> None:
        self.params = params


@pytest.mark.parametrize(
    ("complete", "word", "choices"),
    [
        (complete_workloads, "", ["alone", "by-hand", "set", "whisper"]),
        (complete_workloads, "ml/wh", ["ml/whisper"]),
        (complete_queues, "s", ["speech"]),
        (complete_nodes, "", ["node-1"]),
        (complete_changes, "", ["queue/"]),
        (complete_changes, "queue/", ["queue/research.", "queue/speech."]),
        (complete_changes, "node/", []),
        (complete_added_nodes, "", []),
        (complete_added_nodes, "x", []),
        (complete_added_nodes, "2", ["2:like="]),
        (complete_added_nodes, "2:li", ["2:like="]),
        (complete_added_nodes, "2:like=n", ["2:like=node-1"]),
    ],
)
def test_completion_of_a_parameter(complete: Complete, word: str, choices: list[str], dump: str) -> None:
    for given in (Context(paths=(dump,), on=None), Context(on=[dump]), Context(paths=dump)):
        assert [choice for choice, _ in complete(given, word)] == choices


def test_without_files_there_are_no_names() -> None:
    assert complete_queues(Context(paths=None), "") == []  # type: ignore[arg-type]


def choices(*words: str) -> list[str]:
    """For the last word."""
    return list(answer(words, len(words) - 1, COMMAND).choices)


class TestAnswer:
    def test_commands_with_what_they_do(self) -> None:
        found = answer([""], 0, COMMAND)
        assert {"simulate", "run", "version", "doctor", "completion"} <= found.choices.keys()
        assert found.choices["warmup"] == "Compile the solver into the cache, so that no later command has to"
        assert choices("vers") == ["version"]
        assert choices("--vers") == ["--version"]

    def test_options(self) -> None:
        assert choices("simulate", "--so") == ["--solver", "--sort"]
        assert choices("run", "--no-d") == ["--no-default-queues"]
        assert {"-o", "--output"} <= set(choices("version", "-"))
        assert "-o" not in choices("version", "--")

    def test_choices_of_an_option_and_of_an_argument(self) -> None:
        assert choices("simulate", "x.yaml", "-o", "") == ["table", "wide", "name", "csv", "json", "yaml", "html"]
        assert choices("simulate", "--solver=c") == ["--solver=compiled"]
        assert choices("completion", "z") == ["zsh"]
        assert choices("completion", "zsh", "") == []

    @pytest.mark.parametrize(
        ("words", "files"),
        [
            (("simulate", ""), True),
            (("simulate", "a.yaml", "b"), True),
            (("simulate", "--config", ""), True),
            (("simulate", "--", "-x"), True),
            (("simulate", "--now", ""), False),
            (("nothing", ""), False),
            (("version", ""), False),
        ],
    )
    def test_where_files_may_stand(self, words: tuple[str, ...], files: bool) -> None:
        found = answer(words, len(words) - 1, COMMAND)
        assert (found.choices, found.files) == ({}, files)

    def test_files_behind_the_cursor_and_before_it_are_read(self, dump: str) -> None:
        app = typer.Typer()

        @app.command()
        def ask(
            name: Annotated[str, typer.Argument(autocompletion=complete_workloads)],
            paths: Annotated[list[str], typer.Argument(metavar="FILE")],
            queue: Annotated[str, typer.Option("-q", autocompletion=complete_queues)] = "",
        ) -> None:
            """Ask."""

        app.command()(lambda: None)
        root = typer.main.get_command(app)
        assert list(answer(["ask", "w", dump], 1, root).choices) == ["whisper"]
        assert answer(["ask", "w", dump, "-q", "s"], 4, root).choices == {"speech": "queue in research"}
        assert list(answer(["ask", "w", "-q", "s", dump], 3, root).choices) == ["speech"]


class TestText:
    def test_cobra_is_spoken(self) -> None:
        assert answer_shell("kai-sched", ["__complete", "0", "warm"], COMMAND) == (
            "warmup\tCompile the solver into the cache, so that no later command has to\n:4\n"
        )
        assert answer_shell("kai-sched", ["__complete", "1", "simulate", ""], COMMAND) == ":0\n"
        assert answer_shell("kai-sched", ["__complete"], COMMAND) == ":4\n"
        assert answer_shell("kai-sched", ["__complete", "0", "'ver"], COMMAND) == ":4\n"

    def test_quotes_are_taken_off(self) -> None:
        assert answer_shell("kai-sched", ["__complete", "2", "version", '"-o"', "j"], COMMAND) == "json\n:4\n"

    def test_a_part_of_a_word_is_not_ended(self) -> None:
        app = typer.Typer()

        @app.command()
        def ask(change: Annotated[str, typer.Option("--set", autocompletion=complete_changes)] = "") -> None:
            """Ask."""

        app.command()(lambda: None)
        asked = ["__complete", "2", "ask", "--set", ""]
        assert answer_shell("kai-sched", asked, typer.main.get_command(app)) == "queue/\n:6\n"

    def test_kubectl_gives_the_words_up_to_the_cursor(self) -> None:
        assert answer_shell(KUBECTL_COMPLETION, ["version", "-o", "t"], COMMAND) == "text\n:4\n"
        assert answer_shell(KUBECTL_COMPLETION, [], COMMAND).endswith("\n:4\n")


@pytest.fixture
def folder(dump: str) -> Path:
    """A folder for the PATH that holds the program and the dump."""
    return program_folder(Path(dump).parent, "kai-sched")


LINES = [
    ("simu", "", "simulate"),
    ("simulate --solver=inter", "", "simulate --solver=interpreted"),
    ("simulate -o wi", "", "simulate -o wide"),
    ("simulate clus", "", "simulate cluster.json.gz"),
    ("ask whis", " cluster.json.gz", "ask whisper cluster.json.gz"),
    ("ask x cluster.json.gz -q spe", "", "ask x cluster.json.gz -q speech"),
    ("ask x cluster.json.gz --set=queue/spe", "", "ask x cluster.json.gz --set=queue/speech."),
    ("ask x cluster.json.gz --add-nodes 2:like=no", "", "ask x cluster.json.gz --add-nodes 2:like=node-1"),
]


@pytest.mark.slow
@pytest.mark.parametrize("shell", [shell for shell in SHELLS if installed(shell)])
def test_a_real_shell_completes_lines(shell: str, folder: Path) -> None:
    """Those that are installed. bash and zsh: what the line has become after Tab; fish: what it offers."""
    for typed, behind, line in LINES:
        found = completed(shell, f"kai-sched {typed}", folder, behind)
        if shell != "fish":
            assert found == f"kai-sched {line}"
        elif not behind:
            offered = found.split("\t")[0].strip()
            assert f"{typed.rpartition(' ')[0]} {offered}".strip() == line


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_printed(shell: str) -> None:
    """Where the shell is not installed, this much is known: its function asks the program."""
    done = run("completion", shell)
    assert (done.returncode, done.stdout, done.stderr) == (0, SCRIPTS[shell], "")
    function, register = {
        "bash": ("_kai_sched()", "complete -F _kai_sched kai-sched"),
        "zsh": ("_kai_sched()", "compdef _kai_sched kai-sched"),
        "fish": ("function __kai_sched_complete", "complete -c kai-sched -f -a '(__kai_sched_complete)'"),
    }[shell]
    assert function in done.stdout
    assert register in done.stdout
    assert "kai-sched __complete" in done.stdout


def test_a_shell_that_is_none() -> None:
    done = run("completion", "tcsh")
    assert done.returncode == 2
    assert "'tcsh' is not one of bash, zsh, fish" in done.stderr


def test_the_plugin_and_its_completion_are_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == dict.fromkeys(("kai-sched", "kubectl-kai", "kubectl_complete-kai"), "kai_sched.cli.main:main")


@pytest.mark.slow
def test_a_plugin_of_kubectl(tmp_path: Path) -> None:
    """Usage names the plugin as people call it; where kubectl is installed, it finds and completes it."""
    folder = program_folder(tmp_path, "kubectl-kai", "kubectl_complete-kai")

    def say(*words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True, env=on_path(folder), check=True).stdout

    assert say(str(folder / "kubectl-kai"), "--help").startswith("Usage: kubectl kai [OPTIONS] COMMAND")
    assert "Usage: kubectl kai simulate " in say(str(folder / "kubectl-kai"), "simulate", "--help")
    assert say(str(folder / "kubectl_complete-kai"), "vers").startswith("version\tPrint the version")
    if shutil.which("kubectl"):
        assert say("kubectl", "kai", "version") == run("version").stdout
        assert say("kubectl", "__complete", "kai", "version", "-o", "j").splitlines()[:2] == ["json", ":4"]
