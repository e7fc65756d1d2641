"""Groups by the kind and name that their users wrote, and what a name on the command line means."""

from __future__ import annotations

import pytest

from kai_sched.answers.workloads import Workload, workloads_of
from kai_sched.model.field_errors import FieldError
from kai_sched.model.keys import bare_pod_group_key
from tests.scenarios.table import cluster_of

CLUSTER = cluster_of("""
    node a gpu=8
    group pg-tune-1a owner=RayCluster/tune min=1
    pod tune-head group=pg-tune-1a
    pod tune-worker group=pg-tune-1a
    group pg-tune-2b owner=PyTorchJob/tune ns=other
    pod tune-0 group=pg-tune-2b ns=other
    group by-hand
    pod by-hand-0
    pod lone queue=q group=
    group twin
    pod twin queue=q group=
    group pg-long owner=Job/whisper-v4-multilingual
""")
FOUND = workloads_of(CLUSTER)


def names(text: str) -> str:
    return str(FOUND.find(text))


def test_every_group_has_the_name_of_its_workload() -> None:
    assert {key: str(each) for key, each in FOUND.by_group.items()} == {
        "ns/pg-tune-1a": "RayCluster ns/tune",
        "other/pg-tune-2b": "PyTorchJob other/tune",
        "ns/by-hand": "PodGroup ns/by-hand",
        "ns/lone": "Pod ns/lone",
        "ns/twin": "PodGroup ns/twin",
        bare_pod_group_key("ns/twin"): "Pod ns/twin",
        "ns/pg-long": "Job ns/whisper-v4-multilingual",
    }


def test_every_pod_has_its_group_with_the_mark_of_a_bare_pod_where_it_is_needed() -> None:
    assert FOUND.pods == {
        "ns/tune-head": "ns/pg-tune-1a",
        "ns/tune-worker": "ns/pg-tune-1a",
        "other/tune-0": "other/pg-tune-2b",
        "ns/by-hand-0": "ns/by-hand",
        "ns/lone": "ns/lone",
        "ns/twin": bare_pod_group_key("ns/twin"),
    }


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("by-hand", "PodGroup ns/by-hand"),
        ("ns/tune", "RayCluster ns/tune"),
        ("other/tune", "PyTorchJob other/tune"),
        ("raycluster/tune", "RayCluster ns/tune"),
        ("RayCluster/ns/tune", "RayCluster ns/tune"),
        ("pg-tune-1a", "RayCluster ns/tune"),
        ("ns/pg-tune-1a", "RayCluster ns/tune"),
        ("tune-worker", "RayCluster ns/tune"),
        ("ns/tune-worker", "RayCluster ns/tune"),
        ("pod/lone", "Pod ns/lone"),
        ("whisper", "Job ns/whisper-v4-multilingual"),
        ("WHISPER", "Job ns/whisper-v4-multilingual"),
        ("ns/twin", "PodGroup ns/twin"),
        ("pod/twin", "Pod ns/twin"),
    ],
)
def test_a_name_is_looked_up(text: str, meant: str) -> None:
    assert names(text) == meant


@pytest.mark.parametrize("group", FOUND.by_group)
def test_the_key_of_a_group_means_that_group_whatever_else_is_called_so(group: str) -> None:
    assert FOUND.find(group).group == group


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tune", "NAME: 'tune' may be ns/tune, other/tune: write one of them in full"),
        ("twin", "NAME: 'twin' may be Pod/twin, PodGroup/twin: write one of them in full"),
        ("tun", "NAME: 'tun' may be ns/tune, other/tune: write one of them in full"),
        ("lonee", "NAME: there is no workload 'lonee': did you mean 'lone'?"),
        ("a/b/c/d", "NAME: there is no workload 'a/b/c/d'"),
        ("job/tune", "NAME: there is no workload 'job/tune'"),
    ],
)
def test_what_is_not_clear_is_refused_with_the_choices(text: str, told: str) -> None:
    with pytest.raises(FieldError) as error:
        FOUND.find(text)
    assert str(error.value).startswith(told)


def test_a_group_that_is_gone_has_a_name_still() -> None:
    assert FOUND.of("ns/gone") == Workload("PodGroup", "ns", "gone", "ns/gone")
    bare = bare_pod_group_key("ns/gone")
    assert FOUND.of(bare) == Workload("Pod", "ns", "gone", bare)
