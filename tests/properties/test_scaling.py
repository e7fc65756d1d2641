"""Scaling pods for any crowd of waiting pods: enough GPUs are asked for, and only for pods that a node could help."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.config import ScalingSettings
from kai_sched.model.objects import GpuShare, Phase, Pod, Shape
from kai_sched.model.store import Cluster
from kai_sched.reconcile.scaling_pods import devices_needed, gpus_of, name_of, plan_scaling, scaling_pod

ON = ScalingSettings(enabled=True, image="i")
SHARES = st.builds(
    GpuShare,
    st.integers(1, 4),
    st.sampled_from([0.01, 0.1, 0.125, 0.25, 0.3, 0.333, 0.5, 0.6, 0.75, 0.9, 1.0]) | st.floats(0.001, 1.0),
) | st.builds(GpuShare, st.integers(1, 2), st.just(0.0), st.integers(1, 10_000))


def pods_of(shares: list[GpuShare]) -> list[Pod]:
    return [Pod("ml", f"p{i:02}", Shape((("cpu", 100.0),), share=share), uid=str(i)) for i, share in enumerate(shares)]


def made(pod: Pod, name: str) -> Pod:
    """The scaling pod as the store has it."""
    wire = scaling_pod(pod, {}, name, ON)
    gpus = wire["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    meta = wire["metadata"]
    return Pod(meta["namespace"], meta["name"], Shape((("gpu", float(gpus)),)), labels=meta["labels"])


@given(st.lists(SHARES, max_size=30), st.data())
def test_enough_is_asked_for_and_never_for_others(shares: list[GpuShare], data: st.DataObject) -> None:
    pods = pods_of(shares)
    waiting = [pod for pod in pods if data.draw(st.booleans(), "waits")]
    scaled = [made(pod, name_of(pod.key)) for pod in pods if data.draw(st.booleans(), "has a scaling pod")]
    keys = [pod.key for pod in waiting]
    cluster = Cluster.of([*pods, *scaled])
    plan = plan_scaling(cluster, data.draw(st.permutations(keys)), ON)
    assert plan == plan_scaling(Cluster.of(data.draw(st.permutations([*pods, *scaled]))), keys, ON)
    assert set(plan.create) <= set(keys)

    new = [made(cluster.pods[key], name_of(key)) for key in plan.create]
    kept = [pod for pod in scaled if pod.key not in plan.remove]
    assert {pod.labels["shared-gpu-pod-name"] for pod in (*kept, *new)} <= {pod.name for pod in waiting}
    asked = [gpus_of(pod) for pod in (*kept, *new)]
    needed = sum(Fraction(pod.shape.share.portion) * pod.shape.share.devices for pod in waiting if pod.shape.share)
    assert sum(asked) >= ceil(needed - Fraction(1, 10**6))
    assert max(asked, default=0) >= max((pod.shape.share.devices for pod in waiting if pod.shape.share), default=0)
    after = plan_scaling(Cluster.of([*pods, *kept, *new]), keys, ON)
    assert (after.remove, after.create) == ((), ()), "what is planned is enough"
    rest = plan_scaling(Cluster.of([*pods, *kept, *new]), [], ON)
    assert len(rest.remove) == len(kept) + len(new), "nobody waits, so none stays"


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 4)), max_size=40))
def test_the_devices_hold_all_shares(shares: list[tuple[int, int]]) -> None:
    """At least the sum, at least as many as one pod needs, and no more than a device for each part."""
    found = devices_needed(shares)
    assert found >= -(-sum(part * devices for part, devices in shares) // 100)
    assert found >= max((devices for _, devices in shares), default=0)
    assert found <= sum(devices for _, devices in shares)
    # Two devices that are half empty or more hold parts that one could hold, unless one pod wants both.
    if all(devices == 1 for _, devices in shares) and found:
        assert found <= max(1, 2 * sum(part for part, _ in shares) / 100)
    counts = [devices_needed(shares[:n]) for n in range(len(shares) + 1)]
    assert all(after <= before + shares[n][1] for n, (before, after) in enumerate(pairwise(counts)))


@given(st.lists(SHARES, min_size=1, max_size=10), st.sampled_from([Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED]))
def test_pods_that_have_begun_get_none(shares: list[GpuShare], phase: Phase) -> None:
    pods = [Pod("ml", f"p{i}", Shape(share=share), phase=phase, node="n") for i, share in enumerate(shares)]
    assert plan_scaling(Cluster.of(list(pods)), [pod.key for pod in pods], ON).create == ()
