"""What a pod holds while it is resized in place: the spec against what its status says that the kubelet has given."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.model.objects import Pod
from tests.unit.model.reading import clean, container, pod

GPU = "nvidia.com/gpu"
REFUSED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}
DEFERRED = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}


def held(spec: dict[str, Any], status: dict[str, Any], node: str = "n") -> dict[str, float]:
    document = pod({**spec, "nodeName": node}) | {"status": {"phase": "Running" if node else "Pending", **status}}
    return dict(clean(Pod, document).shape.request)


def of_main(allocated: dict[str, Any] | None, effective: dict[str, Any] | None = None) -> dict[str, Any]:
    """The status of the container "main"; what is None is not there."""
    entry: dict[str, Any] = {"name": "main"}
    if allocated is not None:
        entry["allocatedResources"] = allocated
    if effective is not None:
        entry["resources"] = {"requests": effective, "limits": effective}
    return {"containerStatuses": [entry]}


class TestContainers:
    def test_one_that_shrinks_holds_what_it_had(self) -> None:
        spec = {"containers": [container({"cpu": "1", "memory": "2"})]}
        assert held(spec, of_main({"cpu": "6", "memory": "2"})) == {"cpu": 6000, "memory": 2, "pods": 1}

    def test_what_is_in_effect_counts_until_it_is_given_back(self) -> None:
        spec = {"containers": [container({"cpu": "1", "memory": "2"})]}
        status = of_main({"cpu": "1", "memory": "2"}, {"cpu": "3", "memory": "8"})
        assert held(spec, status) == {"cpu": 3000, "memory": 8, "pods": 1}

    def test_one_that_grows_holds_what_it_will_have(self) -> None:
        spec = {"containers": [container({"cpu": "5"})]}
        assert held(spec, of_main({"cpu": "2"}, {"cpu": "2"}) | DEFERRED)["cpu"] == 5000

    @pytest.mark.parametrize("told", [REFUSED, {"resize": "Infeasible"}])
    def test_a_resize_that_is_refused_does_not_count(self, told: dict[str, Any]) -> None:
        spec = {"containers": [container({"cpu": "20", "memory": "9"}, {GPU: "1"})]}
        given_now = {"cpu": "2", "memory": "1"}
        assert held(spec, of_main(given_now, given_now) | told) == {"cpu": 2000, "memory": 1, "gpu": 1, "pods": 1}

    def test_a_resource_that_a_refused_resize_adds_does_not_count(self) -> None:
        spec = {"containers": [container({"cpu": "1", "memory": "9"})]}
        assert held(spec, of_main({"cpu": "1"}) | REFUSED) == {"cpu": 1000, "pods": 1}

    def test_a_refusal_that_is_over_is_none(self) -> None:
        over = {"conditions": [{"type": "PodResizePending", "status": "False", "reason": "Infeasible"}]}
        assert held({"containers": [container({"cpu": "20"})]}, of_main({"cpu": "2"}) | over)["cpu"] == 20000

    def test_without_a_status_the_spec_counts_whatever_is_refused(self) -> None:
        assert held({"containers": [container({"cpu": "20"})]}, dict(REFUSED))["cpu"] == 20000

    def test_devices_cannot_be_resized(self) -> None:
        spec = {"containers": [container({"cpu": "1"}, {GPU: "1"})]}
        assert held(spec, of_main({"cpu": "1", GPU: "8", "example.com/nic": "3"})) == {"cpu": 1000, "gpu": 1, "pods": 1}

    def test_each_container_has_its_own(self) -> None:
        spec = {"containers": [container({"cpu": "1"}), container({"cpu": "1"}) | {"name": "other"}]}
        assert held(spec, of_main({"cpu": "4"}))["cpu"] == 5000

    def test_sidecars_are_resized_too_and_other_init_containers_are_not(self) -> None:
        sidecar = container({"cpu": "1"}, restartPolicy="Always")
        init = container({"cpu": "2"}) | {"name": "init"}
        spec = {"initContainers": [sidecar, init], "containers": [container({"cpu": "1"}) | {"name": "c"}]}
        status = {
            "initContainerStatuses": [
                {"name": "main", "allocatedResources": {"cpu": "3"}},
                {"name": "init", "allocatedResources": {"cpu": "9"}},
            ]
        }
        assert held(spec, status)["cpu"] == 5000  # the init container beside the sidecar that had three

    def test_a_pod_without_a_node_asks_for_its_spec(self) -> None:
        assert held({"containers": [container({"cpu": "1"})]}, of_main({"cpu": "6"}), node="")["cpu"] == 1000


class TestWholePods:
    SPEC: ClassVar = {"containers": [container({"cpu": "1"})], "resources": {"requests": {"cpu": "4"}}}

    def test_the_larger_of_spec_and_status(self) -> None:
        assert held(self.SPEC, {"allocatedResources": {"cpu": "6"}})["cpu"] == 6000
        assert held(self.SPEC, {"resources": {"requests": {"cpu": "7"}}})["cpu"] == 7000
        assert held(self.SPEC, {"allocatedResources": {"cpu": "2"}})["cpu"] == 4000

    def test_a_refused_resize(self) -> None:
        assert held(self.SPEC, {"allocatedResources": {"cpu": "2"}} | REFUSED)["cpu"] == 2000

    def test_overhead_comes_on_top(self) -> None:
        assert held(self.SPEC | {"overhead": {"cpu": "1"}}, {"allocatedResources": {"cpu": "6"}})["cpu"] == 7000


_cores = st.integers(0, 9)
_containers = st.lists(st.tuples(_cores, st.none() | _cores, st.none() | _cores), min_size=1, max_size=4)


@given(_containers, st.booleans())
def test_no_pod_holds_less_than_the_kubelet_has_given(containers: list[tuple[Any, ...]], refused: bool) -> None:
    """The sum over containers of the largest of spec, allocated and effective; refused, without the spec."""
    spec = {
        "containers": [container({"cpu": str(asked)}) | {"name": f"c{i}"} for i, (asked, *_) in enumerate(containers)]
    }
    statuses, expected = [], Fraction(0)
    for i, (asked, allocated, effective) in enumerate(containers):
        entry: dict[str, Any] = {"name": f"c{i}"}
        if allocated is not None:
            entry["allocatedResources"] = {"cpu": f"{allocated}"}
        if effective is not None:
            entry["resources"] = {"requests": {"cpu": f"{effective * 1000}m"}}
        statuses.append(entry)
        told = [each for each in (allocated, effective) if each is not None]
        expected += max(told) if refused and told else max([asked, *told])
    status = {"containerStatuses": statuses} | (REFUSED if refused else {})
    assert held(spec, status).get("cpu", 0.0) == expected * 1000
