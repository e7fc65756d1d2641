"""Original search only: a scenario that failed for the same preemptor is not simulated again, by any generator
(semantics 4.5).

A scenario is remembered by two fingerprints of its sets of pending, recorded and potential tasks. Two scenarios with
the same sets count as the same one, whatever the order of their victims is and how often each is named. The table
``search.original.tried`` has 65,536 rows of two numbers. One fingerprint chooses the row, and both must be equal.

Cost: O(victims of the scenario) for each question, far less than a simulation. The table is never cleared: the number
of the search is part of each fingerprint, so rows of earlier preemptors match nothing.

Errors: a lost row only costs a simulation. Two scenarios of one search that agree in both fingerprints would be taken
for one; with two numbers of 31 bits that does not happen in practice, and it happens the same way in each run.
"""

from __future__ import annotations

from kai_sched.snapshot.columns import NULL
from kai_sched.solver.eviction.tables import Search
from kai_sched.solver.jit import inner

# Two hashes modulo primes below 2 ** 31, so that no product is too large for an integer.
PRIMES = (2147483647, 2147483629)
FACTORS = (1103515245, 1812433253)


@inner
def fingerprint(place: int, k: int, recorded: bool, search: Search) -> int:
    """Return a number that stands for the preemptor, its first ``k`` pending tasks, and the victims of the scenario.

    It does not depend on the order of the victims, nor on how often each is named. The result is above 0: a
    row of zeros is an empty row, and a table of zeros is the fastest to make.

    Parameters
    ----------
    place : int
        0 or 1: which of the two hashes.
    recorded : bool
        True: as if all victims were recorded ones, and none potential.
    """
    prime, factor = PRIMES[place], FACTORS[place]
    # Sums do not depend on the order. Each row is mixed first, so that sums of different sets hardly ever agree.
    known, potential = 0, 0
    for entry in range(search.counts.scenario[0]):
        t = search.lists.scenario[entry]
        mixed = (t + 1) * factor % prime
        for shift in (13, 16, 11):
            mixed = (mixed ^ (mixed >> shift)) * factor % prime
        if recorded or search.tasks.recorded[t] > 0:
            known = (known + mixed) % prime
        # A recorded victim that a node-local scenario names again belongs to both sets.
        if not recorded and search.tasks.times[t] > search.tasks.recorded[t]:
            potential = (potential + mixed) % prime
    whole = (search.counts.clock[0] * factor + k) % prime
    whole = (whole * factor + known) % prime
    return int((whole * factor + potential) % prime) + 1


@inner
def find_failed(k: int, recorded: bool, search: Search) -> tuple[bool, int, int, int]:
    """Find the scenario in the table ``search.original.tried`` (65536, 2) of scenarios that failed.

    Parameters
    ----------
    k : int
        The number of pending tasks that the scenario is for.
    recorded : bool
        See ``fingerprint``.

    Returns
    -------
    known : bool
        Whether the scenario is in the table.
    row, first, second : int
        Its row, and what stands for it there.
    """
    first, second = fingerprint(0, k, recorded, search), fingerprint(1, k, recorded, search)
    row = int(first % search.original.tried.shape[0])
    return bool(search.original.tried[row, 0] == first and search.original.tried[row, 1] == second), row, first, second


@inner
def note_failure(k: int, search: Search) -> int:
    """Note the scenario as one that failed, in place, before it is simulated; the caller clears the row if it succeeds.

    Of two scenarios that share a row of ``search.original.tried`` (65536, 2) the later one is remembered.

    Returns
    -------
    int
        The row, or NULL if the scenario is known to fail already.
    """
    known, row, first, second = find_failed(k, False, search)
    if known:
        return NULL
    search.original.tried[row, 0], search.original.tried[row, 1] = first, second
    return row


@inner
def has_failed_recorded(k: int, search: Search) -> bool:
    """Return whether the scenario, ``lists.scenario`` (T + 1,), is known to fail with all of its victims recorded.

    The last probe begins with the recorded victims alone. If that failed before, it has to accumulate others.
    """
    known, _, _, _ = find_failed(k, True, search)
    return known
