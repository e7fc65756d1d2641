"""The scheduler's configuration (API 1.6, 1.7, 10.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kai_sched.model.config import ACTIONS, BUILT_IN_PLUGINS, OPERATOR_PLUGINS, Config, UsageDatabase, UsageSettings
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.config import config_from_file, config_from_operator, config_from_shard, parse_actions
from tests.unit.model.reading import Findings


def told(read: Callable[..., Config], document: dict[str, Any], base: Config) -> tuple[Config, Findings]:
    found: Findings = []

    def warn(field: str, message: str) -> None:
        found.append((field, message))

    raw: Any = document if read is config_from_file else msgspec.json.encode(document)
    return read(raw, base, warn), found


def from_file(document: dict[str, Any], base: Config | None = None) -> Config:
    config, found = told(config_from_file, document, base or Config())
    assert found == []
    return config


def from_shard(spec: dict[str, Any]) -> Config:
    config, found = told(config_from_shard, spec, Config())
    assert found == []
    return config


class TestFile:
    def test_absent_parts_keep_what_is_set(self) -> None:
        base = Config(plugins=BUILT_IN_PLUGINS, staleness_grace_s=0)
        assert from_file({}, base) == base

    def test_actions_are_a_text_with_commas(self) -> None:
        assert from_file({"actions": " reclaim, allocate "}).actions == ("reclaim", "allocate")

    @pytest.mark.parametrize(
        ("text", "words"),
        [("allocate, bind", "no action 'bind'"), ("", "names no action"), ("preempt,preempt", "twice")],
    )
    def test_bad_actions(self, text: str, words: str) -> None:
        with pytest.raises(FieldError, match=words) as caught:
            told(config_from_file, {"actions": text}, Config())
        assert caught.value.field == "actions"

    def test_tiers_replace_the_plugin_list_in_their_order(self) -> None:
        plugins = [
            {"name": "proportion", "arguments": {"kValue": 2, "relcaimerSaturationMultiplier": 1.5}},
            {"name": "gpuspread"},
        ]
        tiers = [{"plugins": plugins}, {"plugins": [{"name": "priority"}]}]
        found = from_file({"tiers": tiers}).plugins
        assert list(found.items()) == [
            ("proportion", {"kValue": "2", "relcaimerSaturationMultiplier": "1.5"}),
            ("gpuspread", {}),
            ("priority", {}),
        ]

    def test_the_sets_of_victims(self) -> None:
        assert from_file({"victims": "original"}).victims == "original"
        with pytest.raises(FieldError, match="'few' is not one of minimal, original") as caught:
            told(config_from_file, {"victims": "few"}, Config())
        assert caught.value.field == "victims"

    def test_depths_are_of_enabled_actions(self) -> None:
        assert from_file({"queueDepthPerAction": {"reclaim": 5, "allocate": 0}}).queue_depth == {
            "allocate": 0,
            "reclaim": 5,
        }
        for depths in ({"preempt": 1}, {"allocate": -1}):
            with pytest.raises(FieldError) as caught:
                told(config_from_file, {"actions": "allocate", "queueDepthPerAction": depths}, Config())
            assert caught.value.field == f"queueDepthPerAction.{next(iter(depths))}"

    def test_what_has_no_effect_is_told(self) -> None:
        document = {
            "action": "allocate",
            "tiers": [
                {"plugins": [{"name": "priorty"}, {"name": "elastic", "disableJobOrder": True, "argumnets": {}}]}
            ],
            "usageDBConfig": {"clientType": "prometheus"},
        }
        config, found = told(config_from_file, document, Config())
        assert config.plugins == {"elastic": {}}
        assert [field for field, _ in found] == [
            "action",
            "tiers[0].plugins[1].argumnets",
            "tiers[0].plugins[0].name",
            "tiers[0].plugins[1]",
            "usageDBConfig.connectionString",
        ]

    @pytest.mark.parametrize(
        ("document", "field"),
        [
            ({"actions": ["allocate"]}, "actions"),
            ({"tiers": {}}, "tiers"),
            ({"tiers": [{"plugins": [{"arguments": {}}]}]}, "tiers[0].plugins[0].name"),
        ],
    )
    def test_wrong_types_name_the_field(self, document: dict[str, Any], field: str) -> None:
        with pytest.raises(FieldError) as caught:
            told(config_from_file, document, Config())
        assert caught.value.field == field


class TestShard:
    def test_an_empty_one_is_the_operators_default(self) -> None:
        config = from_shard({})
        assert config == Config()
        assert list(config.plugins) == list(OPERATOR_PLUGINS)

    def test_spreading_gpus(self) -> None:
        config = from_shard({"placementStrategy": {"gpu": "spread"}})
        assert config.actions == tuple(action for action in ACTIONS if action != "consolidation")
        assert config.plugins["nodeplacement"] == {"gpu": "spread", "cpu": "binpack"}
        assert "gpuspread" in config.plugins
        assert not {"gpupack", "gpusharingorder"} & config.plugins.keys()

    def test_spreading_cpus_only_keeps_gpus_packed(self) -> None:
        config = from_shard({"placementStrategy": {"cpu": "spread"}})
        assert "consolidation" not in config.actions
        assert {"gpupack", "gpusharingorder"} <= config.plugins.keys()

    def test_arguments_from_fields(self) -> None:
        config = from_shard({"kValue": 0.5, "minRuntime": {"reclaimMinRuntime": "1h"}, "partitionLabelValue": "a100"})
        assert config.plugins["proportion"] == {"kValue": "0.5"}
        assert config.plugins["minruntime"] == {"defaultReclaimMinRuntime": "1h"}
        assert config.node_pool == "a100"

    def test_plugins_are_merged_over_the_defaults(self) -> None:
        plugins = {
            "elastic": {"enabled": False},
            "priority": {"priority": 5000},
            "nodeplacement": {"arguments": {"gpu": "spread"}},
            "numa": {"enabled": True},
        }
        found = from_shard({"plugins": plugins}).plugins
        assert next(iter(found)) == "priority"
        assert list(found)[-1] == "numa"
        assert "elastic" not in found
        assert found["nodeplacement"] == {"gpu": "spread"}

    def test_actions_are_merged_over_the_defaults(self) -> None:
        actions = {"preempt": {"priority": 1000}, "consolidation": {"enabled": False}}
        assert from_shard({"actions": actions}).actions == ("preempt", "allocate", "reclaim", "stalegangeviction")

    def test_flags_win(self) -> None:
        args = {
            "partition-label-value": "b",
            "restrict-node-scheduling": "true",
            "schedule-csi-storage": "true",
            "default-staleness-grace-period": "-1s",
            "stuck-in-releasing-threshold": "0",
            "max-consolidation-preemptees": "-1",
            "victims": "original",
            "v": "5",
        }
        config = from_shard({"partitionLabelValue": "A_1", "args": args})
        assert (config.node_pool, config.restrict_node_scheduling, config.staleness_grace_s) == ("b", True, -1)
        assert (config.stuck_in_releasing_s, config.max_consolidation_preemptees) == (120, -1)
        assert (config.victims, config.schedule_csi_storage) == ("original", True)

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"args": {"restrict-node-scheduling": "maybe"}}, "spec.args.restrict-node-scheduling"),
            ({"args": {"victims": "few"}}, "spec.args.victims"),
            ({"args": {"partition-label-value": "my pool"}}, "spec.args.partition-label-value"),
            ({"partitionLabelValue": "my pool"}, "spec.partitionLabelValue"),
            ({"partitionLabelValue": "a" * 64}, "spec.partitionLabelValue"),
            ({"args": {"max-consolidation-preemptees": "x"}}, "spec.args.max-consolidation-preemptees"),
            ({"args": {"default-staleness-grace-period": "x"}}, "spec.args.default-staleness-grace-period"),
            ({"actions": {"bind": {}}}, "spec.actions.bind"),
            ({"queueDepthPerAction": {"bind": 1}}, "spec.queueDepthPerAction.bind"),
            ({"placementStrategy": {"gpu": "pile"}}, "spec.placementStrategy.gpu"),
            ({"goMemLimitRatio": 2}, "spec.goMemLimitRatio"),
            ({"kValue": "1"}, "spec.kValue"),
        ],
    )
    def test_bad_values_name_the_field(self, spec: dict[str, Any], field: str) -> None:
        with pytest.raises(FieldError) as caught:
            told(config_from_shard, spec, Config())
        assert caught.value.field == field

    def test_unknown_plugins_are_told(self) -> None:
        config, found = told(config_from_shard, {"plugins": {"elstic": {"enabled": True}}}, Config())
        assert config == Config()
        assert [field for field, _ in found] == ["spec.plugins.elstic"]


def test_operator_config_sets_the_names_for_all() -> None:
    spec = {
        "global": {"schedulerName": "s", "queueLabelKey": "q", "nodePoolLabelKey": "p"},
        "binder": {"resourceReservation": {"appLabel": "r", "namespace": "n"}},
        "nodeScaleAdjuster": {"args": {"nodeScaleNamespace": "s"}},
    }
    config, found = told(config_from_operator, spec, Config())
    assert (config.scheduler_name, config.queue_label, config.node_pool_label) == ("s", "q", "p")
    assert (config.reservation.app_label, config.reservation.namespace, found) == ("r", "n", [])
    assert config.scaling.namespace == "s"


def test_utility_pods_have_namespaces_by_default() -> None:
    config, _ = told(config_from_operator, {"binder": {"resourceReservation": {}}, "nodeScaleAdjuster": {}}, Config())
    assert (config.reservation.namespace, config.scaling.namespace) == ("kai-resource-reservation", "kai-scale-adjust")


def test_operator_config_says_how_pods_are_grouped() -> None:
    """The ConfigMap of kinds counts where both its name and its namespace are given."""
    assert not Config().group_bare_pods
    arguments = {"defaultPrioritiesConfigMapName": "kinds", "gangScheduleKnative": False, "groupBarePods": True}
    config, found = told(config_from_operator, {"podGrouper": {"args": arguments}}, Config())
    assert (config.kinds_config_map, config.gang_schedule_knative, found) == ("", False, [])
    assert config.group_bare_pods
    arguments["defaultPrioritiesConfigMapNamespace"] = "kai"
    config, _ = told(config_from_operator, {"podGrouper": {"args": arguments}}, Config())
    assert config.kinds_config_map == "kai/kinds"


def test_actions_of_a_list() -> None:
    assert parse_actions("allocate,reclaim,", "--actions") == ("allocate", "reclaim")


@pytest.mark.parametrize(
    ("plugin", "argument", "words"),
    [
        ("proportion", "kValeu", "did you mean kValue?"),
        ("minruntime", "defaultPreemptMinRunTime", "did you mean defaultPreemptMinRuntime?"),
        ("nodeplacement", "gpus", "did you mean gpu?"),
        ("nodeplacement", "x", "the arguments here are gpu, cpu"),
        ("elastic", "x", "the arguments here are none"),
    ],
)
def test_arguments_that_a_plugin_does_not_have_are_told(plugin: str, argument: str, words: str) -> None:
    file = {"tiers": [{"plugins": [{"name": plugin, "arguments": {argument: "3"}}]}]}
    _, found = told(config_from_file, file, Config())
    assert found == [(f"tiers[0].plugins[0].arguments.{argument}", f"unknown argument, ignored: {words}")]
    _, found = told(config_from_shard, {"plugins": {plugin: {"arguments": {argument: "3"}}}}, Config())
    assert found == [(f"spec.plugins.{plugin}.arguments.{argument}", f"unknown argument, ignored: {words}")]


class TestQueueMetrics:
    def test_labels_of_queues(self) -> None:
        controller = {
            "queueLabelToMetricLabel": "team=team_name, cost-center=cost_center,team=owner",
            "queueLabelToDefaultMetricValue": "team=none",
        }
        config, found = told(config_from_operator, {"queueController": controller}, Config())
        assert config.queue_metric_labels == (("cost-center", "cost_center", ""), ("team", "owner", "none"))
        assert found == []

    @pytest.mark.parametrize("pairs", ["a=queue_name", "a=__a", "a=0a", "a=", "a=x,b=x"])
    def test_names_that_a_metric_cannot_have(self, pairs: str) -> None:
        config, found = told(config_from_operator, {"queueController": {"queueLabelToMetricLabel": pairs}}, Config())
        assert [field for field, _ in found] == ["spec.queueController.queueLabelToMetricLabel"]
        assert len(config.queue_metric_labels) == pairs.count(",")

    def test_a_value_for_a_label_that_no_metric_has(self) -> None:
        controller = {"queueLabelToMetricLabel": "a=x", "queueLabelToDefaultMetricValue": "a=1,b=2"}
        config, found = told(config_from_operator, {"queueController": controller}, Config())
        assert config.queue_metric_labels == (("a", "x", "1"),)
        ((field, message),) = found
        assert field == "spec.queueController.queueLabelToDefaultMetricValue"
        assert "'b' is no label that metrics have: name it in queueLabelToMetricLabel" in message

    def test_what_is_no_pair(self) -> None:
        with pytest.raises(FieldError) as caught:
            told(config_from_operator, {"queueController": {"queueLabelToMetricLabel": "a"}}, Config())
        assert caught.value.field == "spec.queueController.queueLabelToMetricLabel"


class TestUsage:
    def test_the_accounts_of_the_scheduler(self) -> None:
        parameters = {"windowSize": "2d", "halfLifePeriod": "12h", "fetchInterval": "30s"}
        spec = {"usageDBConfig": {"clientType": "internal", "usageParams": parameters}}
        config, found = told(config_from_shard, spec, Config())
        assert config.usage == UsageSettings("internal", 2 * 86_400.0, 43_200.0, 30.0)
        assert found == []
        config, found = told(config_from_shard, {"usageDBConfig": {"clientType": "internal"}}, Config())
        assert config.usage == UsageSettings("internal", 7 * 86_400.0, 0.0, 60.0)
        assert Config().usage.source == ""

    def test_what_is_not_used_is_told(self) -> None:
        parameters = {"cronString": "0 0 * * 1", "extraParams": {"queryResolution": "1m"}, "waitTimeout": "1s"}
        usage = {"clientType": "internal", "connectionString": "http://p", "usageParams": parameters}
        config, found = told(config_from_file, {"usageDBConfig": usage}, Config())
        assert config.usage.source == "internal"
        assert [field.removeprefix("usageDBConfig.") for field, _ in found] == [
            "usageParams.cronString",
            "connectionString",
            "usageParams.waitTimeout",
            "usageParams.extraParams",
        ]
        config, found = told(config_from_file, {"usageDBConfig": {"clientType": "fake"}}, Config())
        assert (config.usage.source, [field for field, _ in found]) == ("", ["usageDBConfig.clientType"])

    def test_windows_that_follow_each_other(self) -> None:
        start = {"windowType": "tumbling", "windowSize": "1d", "tumblingWindowStartTime": "1970-01-01T06:00:00Z"}
        spec = {"usageDBConfig": {"clientType": "internal", "usageParams": start}}
        usage = told(config_from_shard, spec, Config())[0].usage
        assert [usage.since_s(hours * 3600.0) / 3600 for hours in (6, 29, 30, 31, 5)] == [6, 6, 30, 30, -18]
        assert UsageSettings("internal", 60.0).since_s(100.0) == 40.0

    def test_windows_by_a_cron_expression(self) -> None:
        day, monday_s = 86_400.0, 1_767_571_200.0  # 2026-01-05
        params = {"windowType": "cron", "cronString": "0 0 * * 1"}
        config, found = told(
            config_from_shard, {"usageDBConfig": {"clientType": "internal", "usageParams": params}}, Config()
        )
        usage = config.usage
        assert (usage.window_s, usage.starts_anew, found) == (7 * day, True, [])
        assert [usage.since_s(monday_s + days * day) for days in (0, 1, 6.99, 7)] == [
            monday_s,
            monday_s,
            monday_s,
            monday_s + 7 * day,
        ]
        assert not Config().usage.starts_anew
        more = params | {"windowSize": "1w", "tumblingWindowStartTime": "1970-01-01T06:00:00Z"}
        spec = {"usageDBConfig": {"clientType": "internal", "usageParams": more}}
        config, found = told(config_from_shard, spec, Config())
        assert (config.usage.tumbling_from_s, config.usage.window_s) == (None, 7 * day)
        assert [field.rpartition(".")[2] for field, _ in found] == ["tumblingWindowStartTime", "windowSize"]

    def test_a_database(self) -> None:
        extra = {"queryResolution": "30s", "usageQueryTimeout": "2s", "gpuCapacityMetric": "vector(8)", "nonsense": "1"}
        parameters = {"stalenessPeriod": "2m", "waitTimeout": "5s", "extraParams": extra}
        usage = {"clientType": "prometheus", "connectionString": "http://p:9090/", "usageParams": parameters}
        config, found = told(config_from_shard, {"usageDBConfig": usage}, Config())
        database = config.usage.database
        assert (database.url, database.capacity[2]) == ("http://p:9090", "vector(8)")
        assert database.capacity[:2] == UsageDatabase().capacity[:2]
        assert (database.resolution_s, database.timeout_s, database.stale_s, database.wait_s) == (30.0, 2.0, 120.0, 5.0)
        assert [field for field, _ in found] == ["spec.usageDBConfig.usageParams.extraParams.nonsense"]

    @pytest.mark.parametrize(
        ("usage", "field"),
        [
            ({"clientType": "influx"}, "clientType"),
            ({"clientType": "prometheus", "connectionString": "p:9090"}, "connectionString"),
            (
                {"clientType": "internal", "usageParams": {"windowType": "tumbling"}},
                "usageParams.tumblingWindowStartTime",
            ),
            (
                {
                    "clientType": "prometheus",
                    "connectionString": "http://p",
                    "usageParams": {"extraParams": {"queryResolution": "x"}},
                },
                "usageParams.extraParams.queryResolution",
            ),
            ({"clientType": "internal", "usageParams": {"windowType": "cron"}}, "usageParams.cronString"),
            (
                {"clientType": "internal", "usageParams": {"windowType": "cron", "cronString": "0 0 30 2 *"}},
                "usageParams.cronString",
            ),
            ({"clientType": "internal", "usageParams": {"windowSize": "week"}}, "usageParams.windowSize"),
            ({"clientType": "internal", "usageParams": {"windowSize": "1s"}}, "usageParams.windowSize"),
            ({"clientType": "internal", "usageParams": {"fetchInterval": "1ms"}}, "usageParams.fetchInterval"),
            ({"clientType": "internal", "usageParams": {"halfLifePeriod": "x"}}, "usageParams.halfLifePeriod"),
        ],
    )
    def test_bad_values_name_the_field(self, usage: dict[str, Any], field: str) -> None:
        with pytest.raises(FieldError) as caught:
            told(config_from_shard, {"usageDBConfig": usage}, Config())
        assert caught.value.field == f"spec.usageDBConfig.{field}"


def test_a_selector_of_background_pods_that_cannot_be_read_is_told() -> None:
    spec = {"plugins": {"backgroundpods": {"arguments": {"labelSelector": "a in b"}}}}
    _, found = told(config_from_shard, spec, Config())
    ((field, message),) = found
    assert field == "spec.plugins.backgroundpods.arguments.labelSelector"
    assert message.startswith("no pod is in the background: 'a in b' is no label selector: write it as")


def test_a_switch_of_steady_shares_that_is_neither_true_nor_false_is_told() -> None:
    spec = {"plugins": {"proportion": {"arguments": {"steadyFairShareReclaim": "maybe"}}}}
    _, found = told(config_from_shard, spec, Config())
    field, words = "spec.plugins.proportion.arguments.steadyFairShareReclaim", "neither true nor false, so it is off"
    assert found == [(field, f'\'maybe\' is {words}: give "true" or "false"')]
