"""Workloads as the command is given them: the walks in examples/."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.command import run


@pytest.mark.slow
def test_the_walk_with_ray_clusters() -> None:
    """The sample fits whole, the elastic one grows up to its queue's limit, of the one too large nothing starts."""
    done = run("simulate", "examples/raycluster.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    words = " ".join(done.stdout.split())
    assert "raycluster-sample RayCluster team-a 3 pods gpu-node-1 (3)" in words
    assert "tune RayCluster team-b 4 pods, 6 GPU gpu-node-1 (3), gpu-node-2" in words
    assert "tune RayCluster team-b 1x2 GPU - limit 6 < 6 + 2" in words
    assert "pretrain RayCluster team-a 4 pods, 12 GPU - no room; claim 4 < 0 + 12" in words


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
