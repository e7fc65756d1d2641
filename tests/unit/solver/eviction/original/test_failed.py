"""Which scenarios were tried before (semantics 4.5): by who is recorded and who is potential, against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.eviction.tables import Search
from tests.afresh import afresh
from tests.unit.solver.tables import Member, assemble

(failures,) = afresh("solver.eviction.original.failed")
N_TASKS = 6
# A victim: how often it was recorded, and how often more the scenario names it.
VICTIM = st.sampled_from([(0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (2, 2)])
SCENES = st.dictionaries(st.integers(0, N_TASKS - 1), VICTIM, min_size=1)
Scene = dict[int, tuple[int, int]]


def fill(scene: Scene, search: Search) -> None:
    search.counts.scenario[0] = len(scene)
    for entry, (t, (recorded, more)) in enumerate(scene.items()):
        search.lists.scenario[entry] = t
        search.tasks.recorded[t], search.tasks.times[t] = recorded, recorded + more


@given(st.lists(st.tuples(SCENES, st.integers(1, 2), st.integers(1, 2)), min_size=2, max_size=30))
@example([({0: (1, 0), 1: (1, 0)}, 1, 1), ({1: (0, 1), 0: (1, 0)}, 1, 1), ({0: (2, 2), 1: (1, 0)}, 1, 1)])
def test_a_scenario_is_known_by_its_sets(tried: list[tuple[Scene, int, int]]) -> None:
    """Order and number do not matter; the job of the search, the part of the pending tasks and each of both sets do."""
    search = make_search(assemble([Member(1, statuses=[Status.RUNNING] * N_TASKS)]))
    seen = set()
    for scene, k, job in tried:
        fill(scene, search)
        search.counts.clock[0] = job
        known = frozenset(t for t, (recorded, _) in scene.items() if recorded)
        potential = frozenset(t for t, (_, more) in scene.items() if more)
        assert failures.has_failed_recorded(k, search) == ((job, k, frozenset(scene), frozenset()) in seen)
        assert (failures.note_failure(k, search) == NULL) == ((job, k, known, potential) in seen)
        seen.add((job, k, known, potential))


@given(st.lists(st.dictionaries(st.integers(0, N_TASKS - 1), st.just((0, 1)), min_size=1), min_size=2, max_size=10))
def test_who_shares_a_row_is_forgotten_but_never_mistaken(tried: list[Scene]) -> None:
    """With a table of one row only the last scenario is known."""
    search = make_search(assemble([Member(1, statuses=[Status.RUNNING] * N_TASKS)]))
    search = search._replace(original=search.original._replace(tried=np.full((1, 2), NULL)))
    last: Scene = {}
    for scene in tried:
        fill(scene, search)
        assert not failures.has_failed_recorded(1, search)
        assert (failures.note_failure(1, search) == NULL) == (scene == last)
        last = scene
