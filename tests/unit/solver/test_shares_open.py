"""Small clusters with shares of GPU devices on which the solver decides otherwise than the rules say, still."""

from __future__ import annotations

from dataclasses import replace

from kai_sched import Config
from kai_sched.model import objects as o
from tests.unit.solver.test_shares import MIG, decide, group, node, part, pod, queue


def test_hundredths_of_gpus_add_up_exactly() -> None:
    """3 + 2 * 0.1 + 4 * 0.2 is 4, the limit, in whatever order they are added."""
    objects = [node("n", 8, 100), queue(gpu=o.Share(-1.0, 4.0, 1.0)), group("a"), group("b"), group("g")]
    objects += [pod(f"a-{k}", None, 1.0, "n") for k in range(3)]
    objects += [*(pod(f"b-{k}", part(0.1)) for k in range(2)), *(pod(f"g-{k}", part(0.2)) for k in range(4))]
    found = decide(*objects, config=Config(("allocate",)))
    assert {status for name, (status, _) in found.items() if name[0] != "a"} == {"Binding"}


def test_legacy_mig_pods_keep_mig_pods_away_and_nobody_else() -> None:
    """A node of whole GPUs (strategy single) takes whole-GPU pods all the same (12.2, step 2)."""
    there = node("n", 4, **{MIG: 2})
    there = replace(there, labels={**there.labels, "nvidia.com/mig.strategy": "single"})
    legacy = pod("a-0", None, 0.0, "n")
    legacy = replace(legacy, shape=replace(legacy.shape, legacy_mig=True))
    assert decide(there, queue(), group("a"), legacy, group("g"), pod("g-0", None, 1.0))["g-0"] == ("Binding", "n")
