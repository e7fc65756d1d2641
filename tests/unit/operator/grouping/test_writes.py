"""Writes of PodGroups that meet other changes of them, before an API server in memory."""

from __future__ import annotations

import pytest

from kai_sched.model.read.kinds import POD_GROUP
from tests.unit.operator.grouped import GROUPS, Played, job, settle, until

NAME = "pg-train-uid-train"
GROUP = f"{GROUPS}/{NAME}"

pytestmark = pytest.mark.usefixtures("hundredths")


@pytest.mark.parametrize("verb", ["POST", "PUT"])
async def test_an_answer_after_the_deletion_is_late(played: Played, verb: str) -> None:
    """The garbage collector takes all while the write is under way, and the watches tell of it before the answer."""
    owner = played.api.put(job())

    async def collect(method: str, _: str) -> None:
        if method == verb and GROUP in played.api.objects:
            del played.api.objects["/apis/batch/v1/namespaces/ml/jobs/train"]
            for name in "ab":
                played.api.delete(f"/api/v1/namespaces/ml/pods/{name}")
            played.api.delete(GROUP)

    played.api.after = collect
    played.owned(owner, "a")
    played.owned(owner, "b")
    played.start()
    if verb == "PUT":
        await settle(played)
        played.api.put(job(least=4))
        played.owned(owner, "b", labels={"new": "label"})
    await until(lambda: played.api.asked_for(verb, "/podgroups"))
    await settle(played)
    assert GROUP not in played.api.objects
    assert played.group(NAME) is None
    assert played.sink.known(POD_GROUP) == {}
