"""What is said of ResourceSlices whose devices nobody can get (semantics 8.6)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from kai_sched.model.checks import problems_of
from kai_sched.model.claims.objects import Device, PodClaim, ResourceSlice
from kai_sched.model.config import Config
from kai_sched.model.objects import Node, Object, Phase, Pod, Queue, Shape
from kai_sched.model.store import Cluster

DRIVER = "gpu.example.com"
GPU = Device("gpu-0", node="n")
CARD = (("card", "memory", Fraction(80)),)


def a_slice(name: str = "s", *devices: Device, count: int = 1, generation: int = 1) -> ResourceSlice:
    return ResourceSlice(name, DRIVER, "p", generation, count, devices=devices)


def told(*objects: Object) -> list[str]:
    return [str(problem) for problem in problems_of(Cluster.of([Node("n"), *objects]), Config())]


def test_sound_slices_have_no_problems() -> None:
    part = replace(GPU, name="part", counters=(("card", "memory", Fraction(40)),))
    cards = replace(a_slice("c", count=2), counters=CARD)
    assert told(cards, a_slice("s", GPU, part, count=2)) == []


def test_slices_of_an_older_generation_are_left_over_and_need_no_remedy() -> None:
    assert told(a_slice("old", GPU, count=5), a_slice("new", GPU, generation=2)) == []


def test_a_pool_that_is_not_whole() -> None:
    (found,) = told(a_slice("s", GPU, count=2))
    assert found == (
        f"ResourceSlice s: spec.pool.resourceSliceCount: 2 at generation 1 of pool p of {DRIVER}, and 1 of its slices "
        "is there, so no device of it is used: add the missing ones, or correct the number"
    )


def test_a_pool_with_too_many_slices() -> None:
    (found,) = told(a_slice("s", GPU), a_slice("t", replace(GPU, name="gpu-1")))
    assert found.endswith("2 of its slices are there, so no device of it is used: delete those that are too many, or "
                          "correct the number")  # fmt: skip


@pytest.mark.parametrize("apart", [False, True])
def test_a_name_of_two_devices(apart: bool) -> None:
    slices = [a_slice("s", GPU, count=2), a_slice("t", GPU, count=2)] if apart else [a_slice("s", GPU, GPU)]
    (found,) = told(*slices)
    assert found == (
        f"ResourceSlice {'t' if apart else 's'}: spec.devices.name: 'gpu-0' occurs 2 times in pool p of {DRIVER}, so "
        "no device of it is used: give each device its own name"
    )


def test_devices_that_no_node_may_use_are_told_once_for_each_slice() -> None:
    (found,) = told(a_slice("s", Device("a"), Device("b")))
    assert found.startswith("ResourceSlice s: spec.nodeName: missing, as are nodeSelector and allNodes, so no pod gets")


def test_devices_of_a_node_that_is_not_there() -> None:
    (found,) = told(a_slice("s", replace(GPU, node="gone")))
    assert "ResourceSlice s: spec.nodeName: there is no node 'gone' in the input, so no pod gets its devices" in found


def test_devices_with_two_places() -> None:
    (found,) = told(a_slice("s", replace(GPU, everywhere=True)))
    assert (
        found
        == "ResourceSlice s: spec.nodeName: given are nodeName and allNodes, and nodeName counts: remove the other"
    )


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (("car", "memory", Fraction(1)), "takes of counter memory of set 'car', which its pool does not have"),
        (("card", "cores", Fraction(1)), "takes of counter cores of set 'card', which its pool does not have"),
        (("card", "memory", Fraction(81)), "takes more of counter memory of set 'card' than there is of it"),
    ],
)
def test_counters_that_nobody_can_have(use: tuple[str, str, Fraction], text: str) -> None:
    (found,) = told(replace(a_slice("s", replace(GPU, counters=(use,))), counters=CARD))
    assert f"ResourceSlice s: spec.devices.consumesCounters: device 'gpu-0' {text}, so nobody gets it: " in found


def test_a_counter_that_is_given_twice() -> None:
    (found,) = told(replace(a_slice("s", GPU), counters=CARD + CARD))
    assert found == (
        "ResourceSlice s: spec.sharedCounters: counter memory of set 'card' is given twice, and the last one counts: "
        "remove one"
    )


def test_pods_with_claims_and_no_slice_at_all() -> None:
    pod = Pod(
        "ml", "a", Shape(), queue="a", claims=(PodClaim("gpu", "c"),), phase=Phase.PENDING, scheduler="kai-scheduler"
    )
    expected = "ResourceSlice: 1 pending pod needs one and the input has none, so they stay pending: add resourceslices"
    assert any(each.startswith(expected) for each in told(pod, Queue("a"), Queue("r")))
