"""Clusters with shared GPUs, MIG devices and claims live through many cycles, and no rule about devices, gangs, queues
and evictions is ever broken; at rest nobody waits who has room."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from kai_sched import Cluster, run_cycle
from tests.properties.device_life import Life
from tests.properties.device_rules import check, check_rest, objects_of
from tests.properties.plans import text_of

BLOCK = 50


def live(seeds: Iterable[int]) -> None:
    """Whole lives, each from its seed; the message of a failure begins with the seed."""
    for seed in seeds:
        life = Life(seed)
        try:
            for moment in life.cycles():
                check(moment.cluster, moment.result)
                if moment.at_rest:
                    check_rest(moment.cluster, moment.result, life.config, life.now_ns)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_a_few_lives() -> None:
    live(range(10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10, 310, BLOCK))
def test_300_lives(first: int) -> None:
    live(range(first, first + BLOCK))


@pytest.mark.long
@pytest.mark.parametrize("first", range(310, 3310, 3 * BLOCK))
def test_3000_lives(first: int) -> None:
    live(range(first, first + 3 * BLOCK))


@pytest.mark.parametrize("seed", range(5))
def test_a_warm_cache_and_the_order_of_the_input_do_not_matter(seed: int) -> None:
    """Each cycle once more from scratch, on the same objects in another order."""
    life = Life(seed)
    for moment in life.cycles():
        shuffled = objects_of(moment.cluster)
        random.Random(seed).shuffle(shuffled)
        again = run_cycle(Cluster.of(shuffled), life.config, life.now_ns, hints=moment.hints)
        assert text_of(again) == text_of(moment.result)
