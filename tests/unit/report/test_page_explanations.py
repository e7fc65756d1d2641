"""Which workloads of a page are explained, and what the page says of the others."""

from __future__ import annotations

import pytest

from kai_sched.answers.explain import several
from kai_sched.answers.explain.several import Explained, explain_waiting
from kai_sched.answers.overview import Overview, overview
from kai_sched.answers.trial import Trials
from kai_sched.answers.workloads import Workloads, workloads_of
from kai_sched.model.store import Cluster
from kai_sched.report.page.rendering import render
from tests.unit.report.page_sample import CONFIG, HOSTILE, NOW_NS, job, page_input, small_objects


def waiting() -> tuple[Overview, Trials, Workloads]:
    """Two workloads that wait."""
    shape = small_objects()[-1].shape  # type: ignore[union-attr]
    cluster = Cluster.of([*small_objects(), *job("other", HOSTILE, 9, shape)])
    trials = Trials(cluster, CONFIG, NOW_NS)
    return overview(cluster, trials.outcome().first, CONFIG, NOW_NS), trials, workloads_of(cluster)


def test_all_are_explained_where_there_is_work_for_them() -> None:
    found = explain_waiting(*waiting())
    assert set(found.found) == {f"ml/wait{HOSTILE}", "ml/other"}
    assert found.text == "What would start each workload that waits was found by simulating changes."


@pytest.mark.parametrize(("bound", "value"), [("MOST_EXPLAINED", 1), ("WORK_MAX", 0)])
def test_a_bound_leaves_the_last_ones_out_and_says_so(bound: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, bound, value)
    asked = waiting()
    found = explain_waiting(*asked)
    assert list(found.found) == [asked[0].waiting[0].workloads[0].group]
    assert "for the 1 workload at the top" in found.text
    assert "kai-sched explain NAME" in found.text


def test_nothing_waits() -> None:
    assert Explained({}, 0).text == ""


def test_explanations_are_on_the_page_and_name_what_was_simulated() -> None:
    found = explain_waiting(*waiting())
    text = render(page_input(small_objects(), explanations=found.found, notes=[found.text]))
    assert found.text in text
    assert "What would start it</summary>" in text
    assert "(each was simulated)" in text or "Nothing that was tried starts it" in text
