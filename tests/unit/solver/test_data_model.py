"""The tables of the solver are as their comments say."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest

from kai_sched.snapshot.columns import NULL, SCHEMA
from kai_sched.snapshot.tables import Devices, Snapshot, Status, TermKind, TermRoles, Topologies, Volumes, freeze
from kai_sched.solver.allocation import constraint_depth, longest_job, make_finder, make_scratch, make_state, make_tree
from kai_sched.solver.claim_state import longest_claims
from kai_sched.solver.decisions import make_decisions
from kai_sched.solver.eviction.allocation import make_search
from kai_sched.solver.log_size import make_log
from tests.data_model import ANY, PARTS, read_tables, tables_of
from tests.unit.solver.tables import Member, assemble, node_table, queue_table, table, term_table

MODULES = [module for modules in PARTS.values() for module in modules]
TABLES = {name: columns for module in MODULES for name, (_, columns) in tables_of(module).items()}
# Columns without a shape: buffers, whose length nobody has to know.
ANY_LENGTH = {
    "Log": ["float_at", "float_was", "integer_at", "integer_was"],
    "State": ["floats", "integers"],
    "ZoneState": ["free", "leaving", "held"],
    "ZoneScratch": ["left", "draw", "need", "rest", "chosen", "used", "saved"],
    "Search": ["home_zones"],
}
ARGUMENTS = {"Context", "Preemptor"}  # hold no arrays of their own


def sample() -> Snapshot:
    """A snapshot whose axes have lengths of their own."""
    jobs = [Member(1, statuses=[Status.PENDING] * size) for size in (3, 1, 1, 1, 1, 1, 1, 1)]
    jobs.append(Member(1, members=[Member(1, statuses=[Status.RUNNING]) for _ in range(3)]))
    jobs.append(reduce(lambda below, _: Member(1, members=[below]), range(6), Member(1, statuses=[])))
    n_nodes, n_classes = 200, 6
    terms = term_table([TermKind.REQUIRED], np.zeros((1, n_nodes), np.int32))
    term_roles = table(TermRoles, ptr=[0] * (n_classes + 1), entry=np.zeros((0, 3)), self_match=[1] * n_classes)
    snapshot = assemble(
        jobs,
        queue_table([NULL] * 7),
        node_table([[4.0, 8.0, 4.0, 9.0, 0.0]] * n_nodes),
        [[1.0, 1.0, 1.0, 1.0, 0.0]] * n_classes,
        (terms, term_roles, 22, 4),
    )
    ptr = np.zeros(n_nodes + 1, np.int32)
    ptr[1:] = 37
    shares = freeze((np.full(n_classes, 11, np.int32), np.full(41, NULL, np.int32)))
    claims = snapshot.dra_claims._replace(
        task_ptr=np.minimum(np.arange(snapshot.tasks.job.size + 1), 1).astype(np.int32),
        claim=np.zeros(1, np.int32),
        shared=np.zeros(47, np.uint8),
        slot_ptr=np.minimum(np.arange(48) * 53, 53).astype(np.int32),
        device=np.full(53, NULL, np.int32),
        option=np.full(53, NULL, np.int32),
    )
    slices = snapshot.dra_devices._replace(
        shared=np.zeros(59, np.uint8),
        limit=np.zeros(61, np.int64),
        total=np.zeros(67, np.int64),
    )
    volumes = table(
        Volumes,
        ptr=[0] + [79] * n_classes,
        claim=np.zeros(79),
        group=np.zeros(71),
        least=np.zeros(71),
        topology=np.full(71, NULL),
        near_ptr=[0, 1],
        near_node=[0],
        near_volume=[72],
        far_ptr=[0, 0],
        far_volume=np.zeros(0),
        made=np.zeros((0, n_nodes)),
    )
    columns = dict.fromkeys(SCHEMA["Topologies"], np.zeros(0))
    columns |= {"ptr": [0, 83], "level": np.arange(83) % 13, "leaf": np.full((1, n_nodes), NULL)}
    constrained = freeze((np.zeros(snapshot.sets.parent.size, np.int32),))
    return snapshot._replace(
        topologies=table(Topologies, **columns),
        sets=snapshot.sets._replace(topology=constrained[0]),
        volumes=volumes,
        dra_claims=freeze(claims),
        dra_devices=freeze(slices),
        devices=table(Devices, ptr=ptr, reserved=[0] * 37, closed=[0] * 37),
        classes=snapshot.classes._replace(shares=shares[0]),
        tasks=snapshot.tasks._replace(device=shares[1]),
    )


SAMPLE = sample()
LENGTHS = {
    "q": SAMPLE.queues.parent.size,
    "j": SAMPLE.jobs.queue.size,
    "s": SAMPLE.sets.parent.size,
    "t": SAMPLE.tasks.job.size,
    "n": SAMPLE.nodes.condition.size,
    "c": SAMPLE.classes.signature.size,
    "r": SAMPLE.nodes.allocatable.shape[1],
    "k": SAMPLE.signatures.toleration.size,
    "p": SAMPLE.host_ports.ptr.size - 1,
    "d": SAMPLE.n_domains,
    "g": SAMPLE.devices.reserved.size,
    "x": SAMPLE.tasks.device.size,
    "m": int(SAMPLE.classes.shares.max()),
    "b": make_finder(SAMPLE).stamp.size,
    "l": longest_job(SAMPLE),
    "v": SAMPLE.dra_devices.shared.size,
    "e": SAMPLE.dra_devices.limit.size,
    "u": SAMPLE.dra_devices.total.size,
    "i": SAMPLE.dra_claims.shared.size,
    "y": SAMPLE.dra_claims.device.size,
    "w": longest_claims(SAMPLE) + 1,
    "f": SAMPLE.volumes.group.size,
    "z": 1 + int(max(SAMPLE.volumes.near_volume.max(initial=-1), SAMPLE.volumes.far_volume.max(initial=-1))),
    "o": int(np.diff(SAMPLE.volumes.ptr).max()),
    "h": SAMPLE.topologies.level.size,
    "levels": int(SAMPLE.topologies.level.max()),
    "frames": 2 * constraint_depth(SAMPLE),
}


def length_of(axis: str) -> int:
    base, _, more = axis.partition("+")
    factor = base.rstrip("abcdefghijklmnopqrstuvwxyz")
    letter = base[len(factor) :]
    return int(factor or 1) * (LENGTHS[letter] if letter else 1) + int(more or 0)


def wrong_columns(made: Any) -> list[str]:
    """The columns of a table, and of the tables in it, that are not as declared."""
    name, found = type(made).__name__, []
    for column, declared in TABLES[name].items():
        values = getattr(made, column)
        if type(values).__name__ in TABLES:
            found += wrong_columns(values)
        elif isinstance(values, np.ndarray):
            shape = None if declared.axes == ANY else tuple(length_of(axis) for axis in declared.axes.split())
            is_right = values.ndim == 1 if shape is None else values.shape == shape
            if values.dtype != np.dtype(declared.dtype) or not is_right:
                found.append(f"{name}.{column}")
        elif declared.axes:
            found.append(f"{name}.{column}")
    return found


def tables_in(made: Any) -> set[str]:
    name = type(made).__name__
    inside = (tables_in(each) for each in made if type(each).__name__ in TABLES)
    return {name}.union(*inside)


MADE = (
    make_state(SAMPLE),
    make_log(SAMPLE),
    make_finder(SAMPLE),
    make_scratch(SAMPLE),
    make_decisions(SAMPLE),
    make_tree(SAMPLE),
    make_search(SAMPLE),
)


def test_the_axes_of_the_sample_can_be_told_apart() -> None:
    assert len(set(LENGTHS.values())) == len(LENGTHS), LENGTHS


@pytest.mark.parametrize("made", MADE, ids=lambda made: type(made).__name__)
def test_tables_are_as_declared(made: Any) -> None:
    assert wrong_columns(made) == []


def test_every_table_is_checked() -> None:
    assert set().union(*(tables_in(made) for made in MADE)) == TABLES.keys() - ARGUMENTS


def test_columns_have_shapes() -> None:
    found = {name: [each for each, column in columns.items() if column.axes == ANY] for name, columns in TABLES.items()}
    assert {name: columns for name, columns in found.items() if columns} == ANY_LENGTH


def test_wrong_tables_are_seen() -> None:
    log, finder = make_log(SAMPLE), make_finder(SAMPLE)
    assert wrong_columns(log._replace(size=log.size[:1])) == ["Log.size"]
    assert wrong_columns(finder._replace(dynamic=finder.dynamic.astype(np.int64))) == ["Finder.dynamic"]
    state = make_state(SAMPLE)
    assert wrong_columns(state._replace(sets=state.sets._replace(active=state.task.node))) == ["SetState.active"]


@pytest.mark.parametrize(
    ("text", "comment", "axes", "meaning"),
    [
        ("By set, (S,).", "what it is", "s", "what it is"),
        ("By set, (S,).", "(S + 1, 3) what it is", "s+1 3", "what it is"),
        ("By set.", "what it is (4.5)", ANY, "what it is (4.5)"),
        ("``x`` (2,) is one, (S,).", "", "2", ""),
        ("``y`` (2,) is another, (S,).", "", "s", ""),
        ("Both: the first one (Q, 3), the others (Q,).", "what", "q 3", "what"),
        ("Of the longest job.", "(longest job,) tasks", "l", "tasks"),
        ("Two each.", "(2 T,) tasks", "2t", "tasks"),
    ],
)
def test_comments_are_read(text: str, comment: str, axes: str, meaning: str) -> None:
    source = f'class A(NamedTuple):\n    """{text}"""\n\n    x: Longs  # {comment}\n    y: Longs\n'
    column = read_tables(source)["A"][1]["x"]
    assert (column.dtype, column.axes, column.doc) == ("i8", axes, meaning)
