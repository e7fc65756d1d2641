"""Scenarios that failed for the same job: none is tried twice, by whatever generator (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.hunt import CLOCK, N_SCENE, RECORDED, SCENE, TIMES, Prey
from kai_sched.solver.jit import inner

# Two hashes modulo primes below 2 ** 31, so that no product is too large for an integer.
PRIMES = (2147483647, 2147483629)
FACTORS = (1103515245, 1812433253)


@inner
def fingerprint(place: int, k: int, recorded: bool, prey: Prey) -> int:
    """Stands for the job of this search, the first ``k`` tasks of its wish, and who is recorded and who is potential.

    With ``recorded`` that is all of them. It does not tell in which order they come, nor how often a victim is named.
    Never 0, which marks an empty row: of all tables one of zeros is made the fastest.
    """
    prime, factor = PRIMES[place], FACTORS[place]
    known, potential = 0, 0
    for entry in range(prey.counts[N_SCENE]):
        t = prey.lists[SCENE, entry]
        mixed = (t + 1) * factor % prime
        for shift in (13, 16, 11):
            mixed = (mixed ^ (mixed >> shift)) * factor % prime
        if recorded or prey.task[t, RECORDED] > 0:
            known = (known + mixed) % prime
        if not recorded and prey.task[t, TIMES] > prey.task[t, RECORDED]:
            potential = (potential + mixed) % prime
    whole = (prey.counts[CLOCK] * factor + k) % prime
    whole = (whole * factor + known) % prime
    return int((whole * factor + potential) % prime) + 1


@inner
def look_up(k: int, recorded: bool, prey: Prey) -> tuple[bool, int, int, int]:
    """Whether the scenario is known as one that fails; its row of the table, and what stands for it there."""
    first, second = fingerprint(0, k, recorded, prey), fingerprint(1, k, recorded, prey)
    row = int(first % prey.tried.shape[0])
    return bool(prey.tried[row, 0] == first and prey.tried[row, 1] == second), row, first, second


@inner
def note_failure(k: int, prey: Prey) -> int:
    """Note the scenario as one that fails; returns where, or NULL where that was known already.

    Of two that share a row of the table the later one is remembered.
    """
    known, row, first, second = look_up(k, False, prey)
    if known:
        return NULL
    prey.tried[row, 0], prey.tried[row, 1] = first, second
    return row


@inner
def has_failed_recorded(k: int, prey: Prey) -> bool:
    """Whether the scenario is known as one that fails once all of its victims are recorded ones."""
    known, _, _, _ = look_up(k, True, prey)
    return known
