"""Scenario files."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.files.load import load
from kai_sched.files.scenario import SCENARIO_CONFIG
from kai_sched.model.config import BUILT_IN_PLUGINS, OPERATOR_PLUGINS
from tests.unit.files.inputs import Write, clean, listing, queue, thing, told


class TestScenarios:
    def test_everything(self, write: Write) -> None:
        spec = {
            "actions": ["reclaim", "allocate"],
            "cycles": 7,
            "now": "1970-01-01T00:00:05Z",
            "secondsBetweenCycles": 0.5,
            "keepsTerminating": ["g"],
            "usage": {"a": {"cpu": 0.25, "nvidia.com/gpu": 1.5}, "gone": {}},
            "nodePool": "blue",
            "schedulerConfig": {"tiers": [{"plugins": [{"name": "gpuspread"}]}], "actions": "allocate"},
            "objects": [queue("a"), listing(thing("Node", "n"))],
        }
        (case,) = clean(write("s.json", {**thing("Scenario", "my case", spec), "expected": {"mode": "decided"}}))
        assert (case.name, case.is_scenario, case.cycles, case.now_ns) == ("my case", True, 7, 5 * 10**9)
        assert (case.seconds_between_cycles, case.keeps_terminating) == (0.5, frozenset({"g"}))
        assert case.actions == ("reclaim", "allocate")
        assert case.config.plugins == {"gpuspread": {}}
        assert (case.config.node_pool_label, case.config.node_pool) == ("kai.scheduler/node-pool", "blue")
        cluster = case.store.cluster()
        assert (list(cluster.queues), list(cluster.nodes)) == (["a"], ["n"])
        assert cluster.queues["a"].usage == (0.25, 0.0, 1.5)
        assert str(case.sources["Queue a"]).endswith("s.json, document 1, item 1")

    def test_defaults(self, write: Write) -> None:
        (case,) = clean(write("s.json", thing("Scenario", "s", {"objects": []})))
        assert (case.cycles, case.now_ns, case.seconds_between_cycles) == (1, None, 0)
        assert case.config == SCENARIO_CONFIG

    def test_settings_of_all_scenarios(self) -> None:
        config = SCENARIO_CONFIG
        assert config.plugins == BUILT_IN_PLUGINS != OPERATOR_PLUGINS
        assert (config.max_consolidation_preemptees, config.allow_consolidating_reclaim) == (-1, True)
        assert (config.use_scheduling_signatures, config.staleness_grace_s) == (False, 0)

    def test_each_is_a_cluster_of_its_own_in_the_order_of_the_files(self, write: Write) -> None:
        def scenario(name: str) -> dict[str, Any]:
            return thing("Scenario", name, {"objects": [queue("same")]})

        cases = clean(
            write("1.json", scenario("one")),
            write("2.json", queue("same")),
            write("3.json", scenario("two"), scenario("three")),
            write("4.json", queue("b")),
        )
        assert [case.name for case in cases] == ["one", "cluster", "two", "three"]
        assert [len(case.store.cluster().queues) for case in cases] == [1, 2, 1, 1]

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"actions": ["bind"]}, "spec.actions"),
            ({"actions": "allocate"}, "spec.actions"),
            ({"cycles": 0}, "spec.cycles"),
            ({"cycles": 10**9}, "spec.cycles"),
            ({"cycles": "7"}, "spec.cycles"),
            ({"now": "noon"}, "spec.now"),
            ({"usage": {"a": {"cpu": -0.5}}}, "spec.usage.a.cpu"),
            ({"usage": {"a": {"gpu": 0.5}}}, "spec.usage.a.gpu"),
            ({"usage": {"a": 0.5}}, "spec.usage.a"),
            ({"nodePool": 1}, "spec.nodePool"),
            ({"secondsBetweenCycles": -1}, "spec.secondsBetweenCycles"),
            ({"secondsBetweenCycles": 1e300}, "spec.secondsBetweenCycles"),
            ({"schedulerConfig": {"actions": "bind"}}, "spec.schedulerConfig.actions"),
            ({"objects": {}}, "spec.objects"),
        ],
    )
    def test_bad_values_name_the_field(self, write: Write, spec: dict[str, Any], field: str) -> None:
        path = write("s.json", thing("Scenario", "s", spec))
        (line,) = told(load([path]))
        assert line.startswith(f"error: {path}, document 1: Scenario s: {field}: ")
