"""The configuration of a cluster: from its own objects, and from a config file."""

from __future__ import annotations

import pytest

from kai_sched.files.load import load
from kai_sched.model.config import Config
from tests.unit.files.inputs import Write, clean, listing, queue, thing, told


class TestSettings:
    def test_the_shard_named_default(self, write: Write) -> None:
        shards = [
            thing("SchedulingShard", "default", {"placementStrategy": {"gpu": "spread"}}),
            thing("SchedulingShard", "other", {"partitionLabelValue": "x"}),
        ]
        (case,) = clean(write("all.json", listing(queue("a"), *shards)))
        assert "gpuspread" in case.config.plugins
        assert case.config.node_pool == ""

    def test_the_only_shard(self, write: Write) -> None:
        (case,) = clean(write("all.json", queue("a"), thing("SchedulingShard", "x", {"partitionLabelValue": "x"})))
        assert case.config.node_pool == "x"

    def test_of_several_shards_none_is_guessed(self, write: Write) -> None:
        shards = [thing("SchedulingShard", name, {"partitionLabelValue": name}) for name in "xy"]
        loaded = load([write("all.json", queue("a"), *shards)])
        assert loaded.cases[0].config == Config(gpu_sharing=False)
        assert len(told(loaded)) == 1
        assert "decide all with --all-shards, or choose one with --config" in told(loaded)[0]

    def test_all_shards_are_decided_where_that_is_asked_for(self, write: Write) -> None:
        shards = [thing("SchedulingShard", name, {"partitionLabelValue": name}) for name in "yx"]
        (case,) = clean(write("all.json", queue("a"), *shards), all_shards=True)
        assert case.config == Config(gpu_sharing=False, node_pools=("", "x", "y"))
        assert [each.node_pool for each in case.decided] == ["", "x", "y"]
        (one,) = load([write("all.json", queue("a"), *shards)]).cases
        assert one.decided == (one.config,)
        assert one.shards == case.shards

    def test_a_shard_that_cannot_be_read_stops_the_command_where_all_are_decided(self, write: Write) -> None:
        bad = {"partitionLabelValue": "x", "args": {"max-consolidation-preemptees": "many"}}
        default = thing("SchedulingShard", "default", {})
        path = write("all.json", queue("a"), default, thing("SchedulingShard", "x", bad))
        assert load([path], all_shards=True).fatal
        assert told(load([path])) == []

    def test_a_node_pool_that_no_node_can_be_in(self, write: Write) -> None:
        path = write("all.json", queue("a"), thing("SchedulingShard", "default", {"partitionLabelValue": "my pool"}))
        for loaded in (load([path]), load([path], all_shards=True)):
            assert loaded.fatal
            (line,) = told(loaded)
            assert "SchedulingShard default" in line
            assert "spec.partitionLabelValue: 'my pool' cannot be the value of a label, so no node has it: use" in line

    def test_pools_and_settings_that_do_not_count_are_told(self, write: Write) -> None:
        shards = [thing("SchedulingShard", name, {"partitionLabelValue": "x"}) for name in "ab"]
        lost = thing("Node", "n", {})
        lost["metadata"]["labels"] = {Config().node_pool_label: "z"}
        path = write("all.json", queue("a"), lost, *shards)
        first, second = told(load([path], all_shards=True))
        assert "SchedulingShard b: spec.partitionLabelValue: shard a has node pool x already" in first
        assert "node pool z: no SchedulingShard has it, so 1 node and 0 workloads are left alone" in second

    def test_shares_of_the_cluster_are_for_all_shards(self, write: Write) -> None:
        config = thing("Config", "kai-config", {"global": {"fairShare": "cluster"}})
        path = write("all.json", queue("a"), config)
        (line,) = told(load([path]))
        assert "spec.global.fairShare: cluster is for all shards together" in line
        (case,) = clean(path, all_shards=True)
        assert [each.fair_share for each in case.decided] == ["cluster"]

    def test_a_scenario_is_one_shard(self, write: Write) -> None:
        scenario = thing("Scenario", "s", {"objects": [queue("a")]})
        assert "--all-shards is not for a scenario" in told(load([write("s.json", scenario)], all_shards=True))[0]

    def test_names_set_for_all_components(self, write: Write) -> None:
        settings = {"global": {"queueLabelKey": "team"}}
        pod = thing("Pod", "p", {"schedulerName": "kai-scheduler"})
        pod["metadata"]["labels"] = {"team": "a"}
        (case,) = clean(write("all.json", queue("a"), pod, thing("Config", "kai-config", settings)))
        assert case.config.queue_label == "team"
        assert case.store.cluster().pods["default/p"].queue == "a"

    def test_a_config_file_on_top(self, write: Write) -> None:
        config = write("config.yaml", "actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n")
        scenario = thing("Scenario", "s", {"actions": ["reclaim"], "objects": [queue("a")]})
        plain, other = clean(write("q.json", queue("a")), write("s.json", scenario), config=config)
        assert plain.config == Config(actions=("allocate",), plugins={"predicates": {}}, gpu_sharing=False)
        assert (other.actions, other.config.staleness_grace_s) == (("allocate",), 0)

    def test_a_shard_as_config_file(self, write: Write) -> None:
        config = write("shard.json", thing("SchedulingShard", "x", {"partitionLabelValue": "x"}))
        (case,) = clean(write("q.json", queue("a")), config=config)
        assert case.config.node_pool == "x"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("actions: bind", "actions: there is no action 'bind'"),
            ("actions: [", "not valid YAML"),
            ("- a", "not a mapping"),
            ("", "0 documents"),
            ("a: 1\n---\nb: 1", "2 documents"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}", "neither a scheduler config file nor a SchedulingShard"),
        ],
    )
    def test_a_bad_config_file_is_an_error(self, write: Write, text: str, words: str) -> None:
        config = write("config.yaml", text)
        loaded = load([write("q.json", queue("a"))], config=config)
        assert loaded.fatal
        (line,) = told(loaded)
        assert line.startswith(f"error: {config}: ")
        assert words in line

    def test_findings_in_a_config_file_are_told_once(self, write: Write) -> None:
        config = write("config.yaml", "actoins: allocate")
        scenarios = [write(f"s{n}.json", thing("Scenario", "s", {"objects": [queue("a")]})) for n in range(3)]
        assert len(told(load(scenarios, config=config))) == 1

    def test_a_missing_config_file(self, write: Write) -> None:
        assert told(load([write("q.json", queue("a"))], config="nowhere.yaml")) == [
            "error: nowhere.yaml: there is no such file: correct the path"
        ]
