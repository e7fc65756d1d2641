"""The folder of settings: which objects it may hold, and what is said of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from kai_sched.files.errors import BrokenInput
from kai_sched.files.settings_folder import read_settings_folder

CONFIG = "{apiVersion: kai.scheduler/v1, kind: Config, metadata: {name: kai-config}, spec: {global: {}}}"
SHARD = "{apiVersion: kai.scheduler/v1, kind: SchedulingShard, metadata: {name: default}, spec: {}}"
QUEUE = "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team}, spec: {}}"


def test_settings_and_queues_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{CONFIG}\n---\n---\n{QUEUE}\n")
    (tmp_path / "b.yml").write_text(SHARD)
    (tmp_path / "notes.txt").write_text("{")
    (tmp_path / "..data").mkdir()  # as in a ConfigMap that is mounted
    found = read_settings_folder(str(tmp_path))
    assert [each["kind"] for each in found.settings] == ["Config", "SchedulingShard"]
    assert [each["metadata"]["name"] for each in found.queues] == ["team"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: {", "no YAML"),
        ("- 1", "document 1: no object"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}", "kind: Pod of v1 is none of its kinds"),
        (CONFIG.replace("kai-config", "mine"), "metadata.name: only kai-config counts, not mine: rename it"),
        (SHARD.replace("default", "A b"), "metadata.name: 'A b' is no name"),
        (SHARD.replace("spec: {}", "spec: 3"), "spec: the SchedulingShard default has none"),
        (f"{SHARD}\n---\n{SHARD}", "document 2: SchedulingShard default is in"),
    ],
)
def test_what_a_folder_may_not_hold_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(BrokenInput) as refused:
        read_settings_folder(str(tmp_path))
    assert said in str(refused.value)
    assert str(tmp_path / "a.yaml") in str(refused.value)


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenInput, match=f"--settings-folder {tmp_path}/no: no such folder"):
        read_settings_folder(str(tmp_path / "no"))
