"""Which workloads are shown, and in which order."""

from __future__ import annotations

import pytest

from kai_sched import Config, run_cycle
from kai_sched.answers.overview import Overview, overview
from kai_sched.answers.selection import SORTS, Selection, names, selected
from kai_sched.cli import flags
from kai_sched.model.field_errors import FieldError
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import cluster_of

CLUSTER = cluster_of("""
    node a gpu=8
    queue dep
    queue team-a parent=dep gpu=0
    queue team-b parent=dep gpu=8
    queue other gpu=0
    group pays owner=Job/pays queue=other ns=z min=1
    pod pays-0 gpu=4 on=a ns=z
    group runs owner=Job/runs queue=team-b labels=app:web,tier:1 min=1
    pod runs-0 gpu=4 on=a labels=role:head
    group gets owner=Job/gets queue=team-b min=1
    pod gets-0 gpu=3 age=10
    group old owner=Job/old queue=team-a labels=app:web
    pod old-0 gpu=16 age=90
    group big owner=Job/big queue=other labels=app:db ns=z
    pod big-0 gpu=32 age=50 ns=z
    pod bare queue=team-a group= gpu=16 labels=app:web age=20
""")


def whole() -> Overview:
    return overview(CLUSTER, run_cycle(CLUSTER, Config(), NOW_NS), Config(), NOW_NS)


def shown(**wanted: str | bool) -> dict[str, list[str]]:
    found = selected(whole(), Selection(**wanted), CLUSTER)  # type: ignore[arg-type]
    parts = {"waiting": found.waiting, "placed": found.placed, "running": found.running}
    rows = {name: [each.partition("/")[2] for each in names(part)] for name, part in parts.items() if part}
    if found.headlines:
        rows["evicted"] = [victim.workload.name for each in found.headlines for victim in each.victims]
    return rows


EVERYTHING = {
    "waiting": ["ns/old", "z/big", "ns/bare"],
    "placed": ["ns/gets"],
    "running": ["ns/runs"],
    "evicted": ["pays"],
}


def test_without_a_wish_all_is_shown_the_oldest_first() -> None:
    assert shown() == EVERYTHING


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        ({"namespace": "z"}, {"waiting": ["z/big"], "evicted": ["pays"]}),
        ({"namespace": "z", "queue": "dep"}, {}),
        ({"queue": "team-a"}, {"waiting": ["ns/old", "ns/bare"]}),
        ({"queue": "dep"}, {**EVERYTHING, "waiting": ["ns/old", "ns/bare"]}),
        ({"queue": "other"}, {"waiting": ["z/big"], "evicted": ["pays"]}),
        ({"pending": True}, {"waiting": EVERYTHING["waiting"]}),
        ({"labels": "app=web"}, {"waiting": ["ns/old", "ns/bare"], "running": ["ns/runs"]}),
        ({"labels": "app==web, tier = 1"}, {"running": ["ns/runs"]}),
        ({"labels": "tier"}, {"running": ["ns/runs"]}),
        ({"labels": "role=head"}, {"running": ["ns/runs"]}),
        ({"labels": "app=db,tier"}, {}),
        ({"labels": "app notin (db, x),tier in (1,2)"}, {"running": ["ns/runs"]}),
        (
            {"labels": "!tier,app!=db"},
            {"waiting": ["ns/old", "ns/bare"], "placed": ["ns/gets"], "evicted": ["pays"]},
        ),
        ({"labels": "role!=head,app = web"}, {"waiting": ["ns/old", "ns/bare"]}),
        ({"labels": "app", "pending": True, "queue": "team-a", "namespace": "ns"}, {"waiting": ["ns/old", "ns/bare"]}),
    ],
)
def test_only_what_is_wanted_is_shown(wanted: dict[str, str | bool], rows: dict[str, list[str]]) -> None:
    assert shown(**wanted) == rows


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("age", ["ns/old", "z/big", "ns/bare"]),
        ("name", ["ns/bare", "z/big", "ns/old"]),
        ("queue", ["z/big", "ns/bare", "ns/old"]),
        ("gpus", ["z/big", "ns/bare", "ns/old"]),
    ],
)
def test_workloads_are_sorted(sort: str, order: list[str]) -> None:
    assert shown(sort=sort)["waiting"] == order


def test_the_flag_offers_every_order() -> None:
    assert flags.SORTS == SORTS


def test_of_a_queue_the_queues_below_it_are_shown_and_of_what_waits_none() -> None:
    def queues(**wanted: str | bool) -> list[str]:
        found = selected(whole(), Selection(**wanted), CLUSTER)  # type: ignore[arg-type]
        return [each.name for each in found.queues]

    assert queues() == ["dep", "team-a", "team-b", "other"]
    assert queues(queue="dep") == ["dep", "team-a", "team-b"]
    assert queues(queue="team-a") == ["team-a"]
    assert queues(pending=True) == []


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"queue": "team-c"}, "--queue: there is no queue 'team-c': did you mean 'team-b'?"),
        ({"namespace": "nz"}, "--namespace: there is no namespace 'nz'"),
        ({"labels": "=web"}, "--selector: '=web' is no label selector: write key=value, key!=value, key in (a, b)"),
        ({"labels": "app=web,"}, "--selector: '' is no label selector"),
        ({"labels": "app===web"}, "--selector: 'app===web' is no label selector"),
        ({"labels": "tier,app web"}, "--selector: 'app web' is no label selector"),
        ({"labels": "!app=web"}, "--selector: '!app=web' is no label selector"),
        ({"labels": "app in web"}, "--selector: 'app in web' is no label selector"),
    ],
)
def test_what_cannot_be_wanted_is_told(wanted: dict[str, str], told: str) -> None:
    with pytest.raises(FieldError) as error:
        shown(**wanted)
    assert str(error.value).startswith(told.partition(": did")[0])


def test_names_are_kind_namespace_and_name() -> None:
    found = whole()
    assert list(names([*found.waiting, *found.running])) == ["job/ns/old", "job/z/big", "pod/ns/bare", "job/ns/runs"]
