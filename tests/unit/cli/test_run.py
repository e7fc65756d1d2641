"""`kai-sched run` that cannot start: one line for each cause, with the flag or the file that it comes from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from kai_sched.cli.run import RunArguments, run
from kai_sched.operator.options import RunOptions

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


@pytest.fixture
def taken() -> Iterator[str]:
    """An address on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def lines(capsys: pytest.CaptureFixture[str], options: RunOptions, conf: str | None = None) -> list[str]:
    assert run(RunArguments(options, conf)) == 2
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]


def test_an_address_that_is_taken(taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    text = f"error: --listen-address: cannot listen on {taken}: address already in use: "
    assert lines(capsys, RunOptions(kubeconfig=str(config), listen_address=taken)) == [
        f"{text}stop what listens there, or choose another"
    ]


def test_an_address_of_the_webhooks_that_is_taken(
    taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(KUBECONFIG)
    (line,) = lines(capsys, RunOptions(kubeconfig=str(config), listen_address="", webhook_address=taken))
    assert line.startswith(f"error: --webhook-address: cannot listen on {taken}: address already in use: stop ")


def test_it_does_not_hide_a_bad_kubeconfig(taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = str(tmp_path / "missing")
    first, second = lines(capsys, RunOptions(kubeconfig=missing, listen_address=taken))
    assert missing in first
    assert "--listen-address" in second


def test_one_address_for_two_purposes(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = lines(capsys, RunOptions(listen_address=":8080", webhook_address=":8080"))
    assert line == "error: --webhook-address: :8080 is the address of --listen-address as well: choose another port"


def test_an_address_that_is_none_names_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = lines(capsys, RunOptions(listen_address="8080"))
    assert line.startswith("error: --listen-address: '8080' is not an address")


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no such file"), ("[1]", "not a mapping"), ("actions: nothing", "actions: there is no action")],
)
def test_a_config_file_that_cannot_be_used_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, words: str
) -> None:
    path = tmp_path / "scheduler.yaml"
    if content is not None:
        path.write_text(content)
    (line,) = lines(capsys, RunOptions(), str(path))
    assert line.startswith(f"error: {path}: ")
    assert words in line


def test_a_settings_folder_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RunArguments(RunOptions(), settings_folder=str(tmp_path / "missing"))) == 2
    assert "missing: no such folder" in capsys.readouterr().err
    (tmp_path / "a.yaml").write_text("{kind: Pod}")
    assert run(RunArguments(RunOptions(), settings_folder=str(tmp_path))) == 2
    assert f"error: {tmp_path / 'a.yaml'}, document 1: kind: " in capsys.readouterr().err
