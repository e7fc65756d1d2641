"""Workloads as the command is given them: the walks in examples/."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.cli.command import run


@pytest.mark.slow
def test_the_walk_with_ray_clusters() -> None:
    """The sample fits whole, the elastic one grows up to its queue's limit, of the one too large nothing starts."""
    done = run("simulate", "examples/raycluster.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    assert re.search(r"pg-raycluster-sa\S* team-a 3 binding", words)
    assert re.search(r"pg-tune-\S* team-b 4 binding, 1 pending", words)
    assert "queue team-b may hold 6 GPUs; it holds 6 GPUs and the group asks for 2 GPUs more" in words
    assert re.search(r"pg-pretrain-\S* team-a 4 pending PodSchedulingErrors", words)
    assert "2 of 2 nodes lack the 4 GPUs it asks for" in words


@pytest.mark.slow
def test_the_ray_service_makes_room_for_itself() -> None:
    """Inference takes two of the four workers from training, which keeps its minimum, and runs in the next cycle."""
    done = run("simulate", "-o", "json", "--cycles", "2", "examples/rayservice.yaml")
    assert (done.returncode, done.stderr) == (0, "as of 2026-01-01 09:00 UTC, the newest time in the files\n")
    first, second = json.loads(done.stdout)["cycles"]
    assert len(first["evicted"]) == 2
    assert all(name.startswith("ml/finetune-x2k-gpu-worker-") for name in first["evicted"])
    service = second["groups"]["ml/pg-llm-raycluster-raycluster"]
    assert (service["priority"], service["preemptible"], service["counts"]) == (125, False, {"Binding": 3})
    job = second["groups"]["ml/pg-finetune-4f7c2d10-1111-4111-8111-000000000001"]
    assert (job["priority"], job["minMember"], job["counts"]) == (50, 3, {"Running": 3, "Pending": 2})
