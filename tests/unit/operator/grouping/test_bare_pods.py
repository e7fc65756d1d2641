"""PodGroups for pods that nothing owns, where the Config asks for them."""

from __future__ import annotations

import pytest

from kai_sched.api import names
from kai_sched.model.config import Config
from tests.unit.operator.grouped import GROUPS, Played, settle

pytestmark = pytest.mark.usefixtures("hundredths")


def bare_pod(played: Played, name: str, **annotations: str) -> None:
    meta = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "labels": {"kai.scheduler/queue": "team"}}
    meta["annotations"] = annotations
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "main"}]}
    played.api.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {}})


async def test_bare_pods_get_groups_of_their_own_where_that_is_asked_for() -> None:
    """Each owns its group; one that names a group, or asks for none, is left alone."""
    played = Played(Config(group_bare_pods=True))
    bare_pod(played, "a")
    bare_pod(played, "mine", **{names.POD_GROUP_ANNOTATION: "of-a-person"})
    bare_pod(played, "skips", **{names.SKIP_GROUPER_ANNOTATION: "true"})
    assert played.place("a") is None
    played.start()
    await settle(played)
    name = "pg-a-uid-a"
    assert played.shown("a") == (name, None)
    written = played.api.objects[f"{GROUPS}/{name}"]
    assert written["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "uid-a"}]
    assert written["spec"] == {"minMember": 1, "queue": "team", "priorityClassName": "train"}
    assert [played.place(each) for each in ("a", "mine", "skips")] == [(name, ""), ("of-a-person", ""), ("", "")]
    assert (played.api.asked_for("POST"), played.api.asked_for("PATCH")) == (1, 1)
    # Once it says so itself it is as a pod in a group of a person's, and its group stays.
    bare_pod(played, "a", **{names.POD_GROUP_ANNOTATION: name})
    await settle(played)
    group = played.group(name)
    assert group is not None
    assert group.uid
    await played.stop()


async def test_bare_pods_have_no_groups_by_default(played: Played) -> None:
    bare_pod(played, "a")
    played.start()
    await settle(played)
    assert (played.place("a"), played.shown("a")) == (("", ""), (None, None))
    assert played.api.asked_for("POST") == 0
