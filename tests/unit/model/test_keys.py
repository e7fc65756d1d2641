"""Keys of objects and groups are made in one place and can be taken apart again."""

from __future__ import annotations

import pytest

from kai_sched.model.keys import bare_pod_group_key, group_key, object_key, split_key, unmarked
from kai_sched.model.objects import BindRequest, Pod, PodGroup, Shape


@pytest.mark.parametrize(("namespace", "name"), [("ml", "train-0"), ("a", "b.c"), ("team:x", "y")])
def test_a_key_can_be_taken_apart(namespace: str, name: str) -> None:
    assert split_key(object_key(namespace, name)) == (namespace, name)
    assert split_key(group_key(namespace, name)) == (namespace, name)


def test_the_key_of_an_object_without_a_namespace_is_its_name() -> None:
    assert split_key("node-1") == ("", "node-1")


def test_the_group_of_a_bare_pod_has_a_key_of_its_own() -> None:
    key = bare_pod_group_key("ml/train")
    assert key != group_key("ml", "train")
    assert key != group_key("ml", "train")
    assert unmarked(key) == "ml/train"
    assert split_key(unmarked(key)) == ("ml", "train")


def test_objects_name_themselves_and_their_groups_by_keys() -> None:
    bare = Pod("ml", "a", Shape())
    assert (bare.key, bare.group_key) == ("ml/a", "ml/a")
    assert Pod("ml", "a", Shape(), group="g").group_key == PodGroup("ml", "g").key
    assert BindRequest("ml", "r", "a", "n1").pod_key == bare.key
