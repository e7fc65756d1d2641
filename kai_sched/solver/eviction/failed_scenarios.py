"""Scenarios that failed for the same job: none is tried twice, by whatever generator (semantics 4.5)."""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner

# Two hashes modulo primes below 2 ** 31, so that no product is too large for an integer.
PRIMES = (2147483647, 2147483629)
FACTORS = (1103515245, 1812433253)


@inner
def fingerprint(place: int, k: int, recorded: bool, search: Search) -> int:
    """Stands for the job of this search, the first ``k`` tasks of its wish, and who is recorded and who is potential.

    With ``recorded`` that is all of them. It does not tell in which order they come, nor how often a victim is named.
    Never 0, which marks an empty row: of all tables one of zeros is made the fastest.
    """
    prime, factor = PRIMES[place], FACTORS[place]
    known, potential = 0, 0
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        mixed = (t + 1) * factor % prime
        for shift in (13, 16, 11):
            mixed = (mixed ^ (mixed >> shift)) * factor % prime
        if recorded or search.tasks.recorded[t] > 0:
            known = (known + mixed) % prime
        if not recorded and search.tasks.times[t] > search.tasks.recorded[t]:
            potential = (potential + mixed) % prime
    whole = (search.counts.clock[0] * factor + k) % prime
    whole = (whole * factor + known) % prime
    return int((whole * factor + potential) % prime) + 1


@inner
def find_failed(k: int, recorded: bool, search: Search) -> tuple[bool, int, int, int]:
    """Whether the scenario is known as one that fails; its row of the table, and what stands for it there."""
    first, second = fingerprint(0, k, recorded, search), fingerprint(1, k, recorded, search)
    row = int(first % search.tried.shape[0])
    return bool(search.tried[row, 0] == first and search.tried[row, 1] == second), row, first, second


@inner
def note_failure(k: int, search: Search) -> int:
    """Note the scenario as one that fails; returns where, or NULL where that was known already.

    Of two that share a row of the table the later one is remembered.
    """
    known, row, first, second = find_failed(k, False, search)
    if known:
        return NULL
    search.tried[row, 0], search.tried[row, 1] = first, second
    return row


@inner
def has_failed_recorded(k: int, search: Search) -> bool:
    """Whether the scenario is known as one that fails once all of its victims are recorded ones."""
    known, _, _, _ = find_failed(k, True, search)
    return known
