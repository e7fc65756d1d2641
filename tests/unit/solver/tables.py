"""Snapshots made straight from numbers, small and random, for the tests of the kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kai_sched.lowering.claims.requests import no_claims
from kai_sched.lowering.numa import no_zones
from kai_sched.snapshot.columns import NULL, SCHEMA
from kai_sched.snapshot.tables import (
    GPU,
    Classes,
    Devices,
    HostPorts,
    Jobs,
    Nodes,
    Queues,
    Sets,
    Settings,
    Signatures,
    Snapshot,
    Status,
    Tasks,
    TermKind,
    TermRole,
    TermRoles,
    Terms,
    Topologies,
    Volumes,
    freeze,
)
from kai_sched.snapshot.verdicts import Verdict
from kai_sched.solver.allocation import make_finder, make_scratch, make_state
from kai_sched.solver.decisions import make_decisions
from kai_sched.solver.log_size import make_log
from kai_sched.solver.stages.fair_share import fair_share, feasibility
from kai_sched.solver.state import Book, Context

UNLIMITED = float("inf")
ALL = 2**31 - 1
ALL_ON = Settings(
    *(1.0, 1e7, 1e6, 1000.0, 10.0, 1e4, 100.0, 1, 1, 1, 1, 1, ALL, ALL, ALL, ALL),
    *(0, 0, 0, 0, 1, 1.0, 0, 1, ALL, ALL, 0, 1, 2, 0, 0),
)
ON_NODE = (Status.BOUND, Status.RUNNING, Status.RELEASING, Status.STUCK_IN_RELEASING)
OFF_NODE = (Status.PENDING, Status.PENDING, Status.PENDING, Status.GATED, Status.SUCCEEDED)


def table(made: type, /, **columns: Any) -> Any:
    """The table with these columns in the types of the schema, frozen. All columns are needed."""
    specs = SCHEMA[made.__name__]
    arrays = {}
    for name, spec in specs.items():
        values = np.asarray(columns.pop(name), spec.dtype)
        arrays[name] = np.ascontiguousarray(values.reshape([-1, 3]) if spec.axes.endswith("3") else values)
    assert not columns, columns
    return freeze(made(**arrays))


def term_table(kinds: list[TermKind], domains: Any) -> Terms:
    """Inter-pod terms of these kinds with these domains (A, N)."""
    domain = np.asarray(domains)
    spans_nodes = [bool(np.bincount(row[row != NULL]).max(initial=0) > 1) for row in domain]
    return table(Terms, kind=kinds, domain=domain, spans_nodes=spans_nodes)  # type: ignore[no-any-return]


def pointers(counts: list[int]) -> list[int]:
    """Half-open offsets of runs with these lengths."""
    return [sum(counts[:place]) for place in range(len(counts) + 1)]


def queue_table(parents: list[int], **columns: Any) -> Queues:
    """Queues under these parents; unlimited and equal unless told otherwise."""
    n_queues = len(parents)
    below = [[q for q in range(n_queues) if parents[q] == above] for above in [*range(n_queues), NULL]]
    defaults: dict[str, Any] = {
        "quota": np.full((n_queues, 3), UNLIMITED),
        "limit": np.full((n_queues, 3), UNLIMITED),
        "weight": np.ones((n_queues, 3)),
        "priority": [100] * n_queues,
        **dict.fromkeys(("preempt_runtime", "reclaim_runtime"), [NULL] * n_queues),
        **dict.fromkeys(("usage", "held_elsewhere", "fixed_elsewhere", "asked_elsewhere"), np.zeros((n_queues, 3))),
        "capacity_elsewhere": np.zeros((1, 3)),
        "by_uid": list(range(n_queues)),
    }
    tree = {
        "parent": parents,
        "child_ptr": pointers([len(each) for each in below]),
        "child": [q for each in below for q in each],
    }
    return table(Queues, **tree, **{**defaults, **columns})


def node_table(allocatable: list[list[float]], **columns: Any) -> Nodes:
    """Ready nodes without taints; those that have no GPU are CPU-only."""
    rooms = np.array(allocatable, float).reshape(len(allocatable), -1)
    zeros = [0] * len(rooms)
    defaults: dict[str, Any] = {
        "allocatable": rooms,
        "device_memory": [100] * len(rooms),
        "counted": [1] * len(rooms),
        "cpu_only": rooms[:, GPU] <= 0.0,
        "devices": np.floor(rooms[:, GPU]),
        "condition": zeros,
        "mig": zeros,
        "taint_set": zeros,
    }
    return table(Nodes, **{name: columns.get(name, defaults.get(name, zeros)) for name in SCHEMA["Nodes"]})


@dataclass
class Member:
    """A pod set (``statuses``) or a set of members."""

    minimum: int
    statuses: list[Status] | None = None
    members: list[Member] | None = None


def set_rows(roots: list[Member]) -> tuple[Sets, list[int], list[Status], list[int]]:
    """The trees of jobs as tables: Sets, Jobs.set_ptr, and the status and the set of each task. Parents come first."""
    parent: list[int] = []
    child_ptr, child_end, minimum, counts = [], [], [], []
    set_ptr, statuses, task_sets = [0], [], []
    for root in roots:
        rows, above, base = [root], [NULL], len(parent)
        for place, member in enumerate(rows):  # the list grows under the loop: breadth first
            child_ptr.append(base + len(rows))
            rows += member.members or []
            above += [base + place] * len(member.members or [])
            child_end.append(base + len(rows))
            minimum.append(member.minimum)
            counts.append(len(member.statuses or []))
            statuses += member.statuses or []
            task_sets += [base + place] * len(member.statuses or [])
        parent += above
        set_ptr.append(len(parent))
    columns = {"parent": parent, "child_ptr": child_ptr, "child_end": child_end, "minimum": minimum}
    columns |= {"topology": [NULL] * len(parent)} | {
        name: [0] * len(parent) for name in ("required", "preferred", "fault")
    }
    return table(Sets, **columns, task_ptr=pointers(counts)), set_ptr, statuses, task_sets


@st.composite
def members(draw: st.DrawFn, depth: int = 2, most: int = 3) -> Member:
    """A tree of sets of at most this depth."""
    if depth == 0 or draw(st.booleans()):
        statuses = draw(st.lists(st.sampled_from([*OFF_NODE, *ON_NODE]), max_size=4))
        return Member(draw(st.integers(0, 3)), statuses=statuses)
    below = draw(st.lists(members(depth - 1, most), min_size=1, max_size=most))
    return Member(draw(st.integers(0, len(below))), members=below)


@st.composite
def parents(draw: st.DrawFn, most: int = 8) -> list[int]:
    """A forest of queues: each under one of lower row, or a root."""
    n_queues = draw(st.integers(1, most))
    return [draw(st.integers(NULL, q - 1)) for q in range(n_queues)]


@st.composite
def queue_tables(draw: st.DrawFn, most: int = 8) -> Queues:
    """A forest of queues with random shares."""
    above = draw(parents(most))
    rows = len(above) * 3

    def column(*values: float) -> list[float]:
        return draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))

    return queue_table(
        above,
        quota=column(0.0, 1.0, 2.5, 4.0, UNLIMITED),
        limit=column(1.0, 3.0, 8.0, UNLIMITED, UNLIMITED),
        weight=column(0.0, 1.0, 2.0),
        priority=draw(st.lists(st.sampled_from([50, 100]), min_size=len(above), max_size=len(above))),
    )


@st.composite
def node_tables(draw: st.DrawFn, most: int = 24) -> Nodes:
    """Nodes with and without GPUs; every node has CPU."""
    n_nodes = draw(st.integers(1, most))
    rooms = [
        [
            draw(st.sampled_from([2.0, 4.0])),
            8.0,
            draw(st.sampled_from([0.0, 2.0, 4.0])),
            draw(st.sampled_from([2.0, 9.0])),
            draw(st.sampled_from([0.0, 3.0])),
        ]
        for _ in range(n_nodes)
    ]
    condition = draw(st.lists(st.sampled_from([0, 0, 0, Verdict.NOT_READY]), min_size=n_nodes, max_size=n_nodes))
    return node_table(rooms, condition=condition, counted=[verdict == 0 for verdict in condition])


@st.composite
def term_tables(draw: st.DrawFn, n_nodes: int, most: int = 3) -> tuple[Terms, int]:
    """Inter-pod terms with domains of their own, and the number of domains of all of them."""
    kinds = draw(st.lists(st.sampled_from(list(TermKind)), max_size=most))
    domains = np.full((len(kinds), n_nodes), NULL)
    for a in range(len(kinds)):
        domains[a] = draw(
            st.lists(st.sampled_from([NULL, 3 * a, 3 * a + 1, 3 * a + 2]), min_size=n_nodes, max_size=n_nodes)
        )
    return term_table(kinds, domains), 3 * len(kinds)


@st.composite
def bond_tables(draw: st.DrawFn, n_classes: int, kinds: list[int], n_ports: int) -> TermRoles:
    """What ties each class to terms and host ports."""
    counts, entries, self_match = [], [], []
    for _ in range(n_classes):
        mine = []
        for a, kind in enumerate(kinds):
            own, matches = draw(st.sampled_from([(False, False), (False, True), (True, False), (True, True)]))
            weight = draw(st.sampled_from([1, 5, -5])) if kind == TermKind.PREFERRED else 1
            if own:
                mine.append((TermRole.NEED if kind == TermKind.REQUIRED else TermRole.CARRY, a, weight))
            if matches:
                mine.append((TermRole.MATCH, a, 1))
        needs = {a for role, a, _ in mine if role == TermRole.NEED}
        self_match.append(needs <= {a for role, a, _ in mine if role == TermRole.MATCH})
        mine += [(TermRole.PORT, port, 1) for port in range(n_ports) if draw(st.booleans())]
        entries += mine
        counts.append(len(mine))
    return table(TermRoles, ptr=pointers(counts), entry=np.array(entries).reshape(-1, 3), self_match=self_match)


def assemble(
    roots: list[Member],
    queues: Queues | None = None,
    nodes: Nodes | None = None,
    request: list[list[float]] | None = None,
    ties: tuple[Terms, TermRoles, int, int] | None = None,
    foreign: int = 0,
    tasks: dict[str, Any] | None = None,
    jobs: dict[str, Any] | None = None,
) -> Snapshot:
    """A snapshot of these jobs: all in queue 0, class 0 and off nodes unless ``tasks`` and ``jobs`` say otherwise.

    ``ties``: terms, term roles, number of domains and of host ports. ``foreign``: running pods of another scheduler.
    """
    queues = queues or queue_table([NULL])
    nodes = nodes or node_table([[4.0, 8.0, 4.0, 9.0, 0.0]])
    request = request or [[1.0, 1.0, 1.0, 1.0, 0.0]]
    n_nodes, n_classes = nodes.condition.size, len(request)
    untied = table(TermRoles, ptr=[0] * (n_classes + 1), entry=[], self_match=[1] * n_classes)
    terms, term_roles, n_domains, n_ports = ties or (term_table([], np.zeros((0, n_nodes))), untied, 0, 0)
    sets, set_ptr, statuses, task_sets = set_rows(roots)
    statuses, task_sets = statuses + [Status.RUNNING] * foreign, task_sets + [NULL] * foreign
    job = [NULL if s == NULL else int(np.searchsorted(set_ptr, s, side="right")) - 1 for s in task_sets]
    nowhere, zeros = [NULL] * len(job), [0] * len(job)
    task_columns = {
        "cls": zeros,
        **dict.fromkeys(("node", "nominated"), nowhere),
        "foreign": [j == NULL for j in job],
        "share_ptr": [0] * (len(job) + 1),
        "device": [],
    } | (tasks or {})
    none, all_jobs, alike = [0] * len(roots), [1] * len(roots), list(range(len(roots)))
    job_columns = {"queue": none, "priority": none, "preemptible": all_jobs, "refused": none, "grace": none}
    rest = ("not_consolidated", "background", "turn", "n_first", "last_start", "waits_until", "stale_since")
    job_columns |= dict.fromkeys(rest, none) | {"equivalence": alike, "queue_equivalence": alike} | (jobs or {})
    zones = no_zones(n_nodes, len(job), len(request))
    return Snapshot(
        queues,
        nodes,
        table(Devices, ptr=[0] * (n_nodes + 1), reserved=[], closed=[]),
        table(Tasks, job=job, set=task_sets, status=statuses, **task_columns),
        class_table(request),
        one_signature(n_nodes),
        terms,
        term_roles,
        table(HostPorts, ptr=range(n_ports + 1), conflict=range(n_ports)),
        no_volumes(len(request), n_nodes),
        no_topologies(n_nodes),
        *map(freeze, (zones.zones, zones.requests)),
        table(Jobs, set_ptr=set_ptr, task_ptr=[int(sets.task_ptr[s]) for s in set_ptr], **job_columns),
        sets,
        *no_claims(len(request), len(job), n_nodes),
        n_domains,
    )


def conflicts(snapshot: Snapshot, port: int) -> list[int]:
    """The host ports that conflict with this one."""
    ptr: list[int] = snapshot.host_ports.ptr[port : port + 2].tolist()
    return list(snapshot.host_ports.conflict[slice(*ptr)].tolist())


def class_table(request: list[list[float]], **columns: Any) -> Classes:
    """Classes that pay for what they request, without shares of GPUs unless told otherwise."""
    zeros = [0] * len(request)
    defaults: dict[str, Any] = {
        "request": request,
        "quota": [row[:3] for row in request],
        "gate": [row[GPU] for row in request],
        "cpu_only": [row[GPU] == 0.0 for row in request],
    }
    return table(Classes, **{name: columns.get(name, defaults.get(name, zeros)) for name in SCHEMA["Classes"]})


def no_volumes(n_classes: int, n_nodes: int) -> Volumes:
    """No claims wait for volumes."""
    columns = dict.fromkeys(SCHEMA["Volumes"], np.zeros(0))
    made = np.zeros((0, n_nodes))
    return table(Volumes, **columns | {"ptr": [0] * (n_classes + 1), "near_ptr": [0], "far_ptr": [0], "made": made})


def no_topologies(n_nodes: int) -> Topologies:
    """No set has a topology constraint."""
    columns = dict.fromkeys(SCHEMA["Topologies"], np.zeros(0)) | {"ptr": [0], "leaf": np.zeros((0, n_nodes))}
    return table(Topologies, **columns)


@st.composite
def requests(draw: st.DrawFn, most: int = 4) -> list[list[float]]:
    """What pods of each class ask for."""
    some = st.tuples(
        st.sampled_from([0.0, 1.0, 2.0]),
        st.sampled_from([0.0, 1.0]),
        st.sampled_from([0.0, 0.0, 1.0, 2.0]),
        st.just(1.0),
        st.sampled_from([0.0, 0.0, 1.0]),
    )
    return [list(row) for row in draw(st.lists(some, min_size=1, max_size=most))]


@st.composite
def snapshots(draw: st.DrawFn, tied: bool = True, most_nodes: int = 24) -> Snapshot:
    """Everything at once: a few queues, nodes, classes, jobs with trees of sets, and pods of nobody's."""
    queues, nodes, request = draw(queue_tables()), draw(node_tables(most_nodes)), draw(requests())
    n_nodes = nodes.condition.size
    ties = None
    if tied:
        terms, n_domains = draw(term_tables(n_nodes))
        n_ports = draw(st.integers(0, 2))
        ties = (terms, draw(bond_tables(len(request), terms.kind.tolist(), n_ports)), n_domains, n_ports)
    roots, foreign = draw(st.lists(members(), min_size=1, max_size=4)), draw(st.integers(0, 3))
    statuses = [*set_rows(roots)[2], *[Status.RUNNING] * foreign]
    leaves = [q for q in range(queues.parent.size) if queues.child_ptr[q] == queues.child_ptr[q + 1]]

    def some(values: list[int], length: int) -> list[int]:
        return draw(st.lists(st.sampled_from(values), min_size=length, max_size=length))

    places = some(list(range(n_nodes)), len(statuses))
    tasks = {
        "cls": some(list(range(len(request))), len(statuses)),
        "node": [n if status in ON_NODE else NULL for n, status in zip(places, statuses, strict=True)],
        "nominated": some([NULL, NULL, 0], len(statuses)),
    }
    jobs = {
        "queue": some(leaves, len(roots)),
        "priority": some([50, 60, 100], len(roots)),
        "preemptible": some([0, 1], len(roots)),
    }
    return assemble(roots, queues, nodes, request, ties, foreign, tasks, jobs)


def one_signature(n_nodes: int) -> Signatures:
    """One signature that no node refuses."""
    return table(
        Signatures,
        toleration=[0],
        tolerated=[[1]],
        selector_ptr=[0, 0],
        selector_verdict=[],
        term_ptr=[0],
        requirement_ptr=[0],
        requirement=[],
        truth=np.zeros((0, n_nodes)),
        gpu_kind=[0],
    )


def empty_book(n_queues: int) -> Book:
    """Books of so many queues, and the cluster's, with zeros."""
    return Book(*np.zeros((9, n_queues + 1, 3)), np.zeros(n_queues + 1))


def opened(snapshot: Snapshot, settings: Settings = ALL_ON) -> Context:
    """A snapshot with its books opened: what the first action starts from."""
    ctx = Context(
        settings,
        snapshot,
        make_state(snapshot),
        make_log(snapshot),
        make_finder(snapshot),
        make_scratch(snapshot),
        make_decisions(snapshot),
    )
    fair_share(ctx)
    feasibility(ctx)
    return ctx
