"""The jobs of one leaf in order (semantics 1.3, 4.3): a sorted list and a heap, against plain lists."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.snapshot.columns import NULL
from kai_sched.snapshot.tables import Status
from kai_sched.solver.eviction.allocation import make_job_orders
from kai_sched.solver.eviction.tables import DEAD, JobOrder
from kai_sched.solver.eviction.victims import leaf_order
from kai_sched.solver.jit import entry
from kai_sched.solver.state import Context
from tests.unit.solver.tables import ALL_ON, Member, assemble, opened, queue_table

sort_list = entry(leaf_order.sort_list)
mark_runs = entry(leaf_order.mark_runs)
push_heap = entry(leaf_order.push_heap)
pop_heap = entry(leaf_order.pop_heap)
first_job = entry(leaf_order.first_job)
largest_gang_of_leaf = entry(leaf_order.largest_gang_of_leaf)
skip_equal_jobs = entry(leaf_order.skip_equal_jobs)

NO_CEILING, CLOCK = 2**62, 3
# Each job: priority, stage, pods, and what it asks for of two resources.
FACTS = st.tuples(st.sampled_from([50, 60]), st.integers(0, 2), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
Facts = tuple[int, int, int, int, int]


class Leaf:
    """A leaf, and the same as two plain lists: who is listed, and who is in the heap."""

    def __init__(self, facts: list[Facts], last_first: int, by_priority: int, by_stage: int) -> None:
        roots = [Member(1, [Status.PENDING] * pods) for _, _, pods, _, _ in facts]
        snapshot = assemble(roots, jobs={"priority": [priority for priority, *_ in facts]})
        settings = ALL_ON._replace(priority_order=by_priority, elastic_order=by_stage)
        self.ctx: Context = opened(snapshot, settings)
        self.order: JobOrder = make_job_orders(snapshot)[last_first]
        self.facts, self.listed = facts, list(range(len(facts)))
        self.heap: list[int] = []
        for j, (_, stage, _, one, other) in enumerate(facts):
            self.order.jobs.stage[j] = stage
            self.order.held[j] = [1.0, float(one), float(other)]

    def key(self, j: int) -> tuple[int, ...]:
        settings, (priority, stage, *_) = self.ctx.settings, self.facts[j]
        key = (-priority * settings.priority_order, stage * settings.elastic_order, j)
        return tuple(-part for part in key) if self.order.last_first else key

    def write(self, jobs: list[int]) -> None:
        self.order.jobs.listed[: len(jobs)] = jobs
        self.order.heap.end[0] = len(jobs)

    def move_to_heap(self, jobs: list[int], stages: list[int]) -> None:
        """These stand differently now: they are passed over in the list, and are in the heap with another stage."""
        for j, stage in zip(jobs, stages, strict=True):
            self.order.jobs.skip[j] = CLOCK
            self.facts[j] = (self.facts[j][0], stage, *self.facts[j][2:])
            self.order.jobs.stage[j] = stage
            self.listed.remove(j)
            self.heap.append(j)
            push_heap(0, j, self.ctx, self.order)


@st.composite
def leaves(draw: st.DrawFn) -> Leaf:
    """A leaf whose list is sorted."""
    facts = draw(st.lists(FACTS, min_size=1, max_size=7))
    leaf = Leaf(list(facts), *(draw(st.sampled_from([0, 1])) for _ in range(3)))
    leaf.listed.sort(key=leaf.key)
    leaf.write(leaf.listed)
    return leaf


@given(leaves(), st.data())
def test_lists_are_sorted_and_runs_marked(leaf: Leaf, data: st.DataObject) -> None:
    """A run are the neighbours that ask for no more, of any resource, than the one before them."""
    expected, order = list(leaf.listed), leaf.order
    leaf.write(data.draw(st.permutations(expected)))
    sort_list(0, len(expected), leaf.ctx, order)
    assert order.jobs.listed[: len(expected)].tolist() == expected
    mark_runs(0, len(expected), order)
    for place, j in enumerate(expected):
        others = expected[place + 1 :]
        more = [not (order.held[other] <= order.held[j]).all() for other in others]
        assert order.jobs.run_end[place] == place + 1 + (more.index(True) if True in more else len(others))


@given(leaves(), st.data())
def test_the_first_job_is_that_of_both_lists_together(leaf: Leaf, data: st.DataObject) -> None:
    """Taken one after the other, with a ceiling below which listed jobs have to be, and some that stand differently."""
    ceiling = data.draw(st.sampled_from([60, NO_CEILING]))
    movers = data.draw(st.lists(st.sampled_from(leaf.listed), unique=True))
    leaf.move_to_heap(movers, data.draw(st.lists(st.integers(0, 2), min_size=len(movers), max_size=len(movers))))
    listed = [j for j in leaf.listed if leaf.facts[j][0] < ceiling]
    while listed or leaf.heap:
        expected = min(listed + leaf.heap, key=leaf.key)
        assert first_job(0, ceiling, leaf.ctx, leaf.order, CLOCK) == (expected, expected in listed)
        if expected in listed:
            listed.remove(expected)
            leaf.order.heap.cursor[0] += 1
        else:
            leaf.heap.remove(expected)
            pop_heap(0, leaf.ctx, leaf.order)
    assert first_job(0, ceiling, leaf.ctx, leaf.order, CLOCK) == (NULL, True)


@given(leaves(), st.data())
def test_equal_jobs_are_skipped_up_to_the_last(leaf: Leaf, data: st.DataObject) -> None:
    """Of the run of the first job those who come before the heap; the last of them is the first one now."""
    mark_runs(0, len(leaf.listed), leaf.order)
    in_order = list(leaf.listed)
    movers = data.draw(st.lists(st.sampled_from(leaf.listed), unique=True))
    leaf.move_to_heap(movers, data.draw(st.lists(st.integers(0, 2), min_size=len(movers), max_size=len(movers))))
    first, listed = first_job(0, NO_CEILING, leaf.ctx, leaf.order, CLOCK)
    if not listed or first == NULL:
        return
    run = in_order[in_order.index(first) : int(leaf.order.jobs.run_end[in_order.index(first)])]
    run = [j for j in run if j in leaf.listed and all(leaf.key(j) < leaf.key(other) for other in leaf.heap)]
    skip_equal_jobs(0, leaf.ctx, leaf.order, CLOCK)
    assert first_job(0, NO_CEILING, leaf.ctx, leaf.order, CLOCK) == (run[-1], True)


@given(leaves(), st.data())
def test_the_largest_gang_has_the_highest_priority(leaf: Leaf, data: st.DataObject) -> None:
    """Then the most pods, then it is the older; of those who are not listed only the ones in the heap count."""
    gone = data.draw(st.lists(st.sampled_from(leaf.listed), unique=True))
    back = data.draw(st.lists(st.sampled_from(gone), unique=True)) if gone else []
    for j in gone:
        leaf.order.jobs.skip[j] = DEAD
    for j in back:
        push_heap(0, j, leaf.ctx, leaf.order)
    there = [j for j in leaf.listed if j not in gone or j in back]
    if there:
        expected = min(there, key=lambda j: (-leaf.facts[j][0], -leaf.facts[j][2], j))
        assert largest_gang_of_leaf(0, leaf.order) == expected


def test_the_second_leaf_has_a_heap_of_its_own() -> None:
    """Its jobs lie behind those of the first leaf."""
    one = [Member(1, [Status.PENDING])]
    snapshot = assemble(one * 8, queue_table([NULL, NULL]), jobs={"queue": [0, 0, *[1] * 6]})
    ctx, order = opened(snapshot, ALL_ON), make_job_orders(snapshot)[0]
    for j in (7, 0, 5, 3, 1, 6, 2, 4):
        push_heap(int(snapshot.jobs.queue[j]), j, ctx, order)
    popped = []
    for q in (1, 0, 1, 1, 0, 1, 1, 1):
        popped.append(first_job(q, NO_CEILING, ctx, order, CLOCK)[0])
        pop_heap(q, ctx, order)
    assert popped == [2, 0, 3, 4, 1, 5, 6, 7]


def test_among_victims_the_newest_comes_first() -> None:
    leaf = Leaf([(50, 1, 1, 1, 1), (50, 1, 1, 1, 1), (60, 1, 1, 1, 1), (50, 2, 1, 1, 1)], 1, 1, 1)
    leaf.write([0, 1, 2, 3])
    sort_list(0, 4, leaf.ctx, leaf.order)
    assert leaf.order.jobs.listed.tolist() == [3, 1, 0, 2]  # above its minimum; the newest; the lower priority
