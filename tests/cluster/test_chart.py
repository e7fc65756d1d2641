"""The chart by the real helm: what it renders is that of manifests/, and wrong values are refused."""

from __future__ import annotations

from tests import rendered_manifests

TOOLS = ("helm",)


def test_manifests_are_what_the_chart_renders() -> None:
    assert list(rendered_manifests.differences()) == [], "run `make manifests`"


def test_helm_finds_nothing_to_complain_about() -> None:
    said = rendered_manifests.helm("lint", "--strict", str(rendered_manifests.CHART)).stdout
    assert "0 chart(s) failed" in said


def test_a_wrong_value_is_refused_with_its_name() -> None:
    for setting, named in (
        ("global.gpuSharng=true", "gpuSharng"),
        ("scheduler.placementStrategy=scatter", "/scheduler/placementStrategy"),
        ("replicas=many", "/replicas"),
    ):
        done = rendered_manifests.helm("template", str(rendered_manifests.CHART), "--set", setting, check=False)
        assert done.returncode != 0
        assert named in done.stderr
