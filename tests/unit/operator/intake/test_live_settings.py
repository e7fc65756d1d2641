"""Which settings are in force, from flags, kai-config and the shard."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from kai_sched.model.config import Config
from kai_sched.model.read.kinds import OPERATOR_CONFIG, SHARD
from kai_sched.operator.intake import live_settings
from kai_sched.operator.intake.live_settings import LiveSettings


def raw(spec: dict[str, object]) -> bytes:
    return msgspec.json.encode({"metadata": {"name": "x"}, "spec": spec})


def test_flags_hold_where_the_cluster_says_nothing() -> None:
    base = Config(scheduler_name="mine", gpu_sharing=False)
    settings = LiveSettings(base, "default")
    assert settings.config == base
    assert (settings.admission.scheduler_name, settings.admission.gpu_sharing) == ("mine", False)


def test_the_shard_changes_how_pods_are_placed_until_it_is_gone() -> None:
    settings = LiveSettings(Config(), "default")
    settings.observe(SHARD, "default", raw({"placementStrategy": {"gpu": "spread"}}))
    assert settings.config.plugins["nodeplacement"]["gpu"] == "spread"
    settings.observe(SHARD, "default", None)
    assert settings.config == Config(gpu_sharing=False)


def test_another_shard_and_another_config_are_others_business() -> None:
    settings = LiveSettings(Config(), "default")
    settings.observe(SHARD, "blue", raw({"placementStrategy": {"gpu": "spread"}}))
    settings.observe(OPERATOR_CONFIG, "mine", raw({"admission": {"gpuSharing": True}}))
    assert settings.config == Config(gpu_sharing=False)
    assert not settings.admission.gpu_sharing


def test_a_mistake_is_told_and_the_rest_goes_on() -> None:
    settings = LiveSettings(Config(), "default")
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"queueLabelKey": "team"}}))
    settings.observe(SHARD, "default", raw({"args": {"scheduler-name": 7}, "placementStrategy": {"gpu": "scatter"}}))
    assert settings.config.queue_label == "team"
    assert "spec" in settings.problems["SchedulingShard default"]


def test_a_shard_with_a_mistake_stays_in_its_pool() -> None:
    """Else its process would lead for the pool of another one."""
    for wrong in ({"partitionLabelValue": "a100", "args": {"max-consolidation-preemptees": "many"}}, {}):
        settings = LiveSettings(Config(node_pool="b"), "gpu")
        settings.observe(SHARD, "gpu", raw(wrong or {"args": {"max-consolidation-preemptees": "many"}}))
        assert settings.config.node_pool == ("a100" if wrong else "b")
    settings = LiveSettings(Config(), "gpu")
    settings.observe(SHARD, "gpu", raw({"partitionLabelValue": "a100 80gb"}))
    assert settings.config.node_pool == "a100 80gb"
    assert "partitionLabelValue" in settings.problems["SchedulingShard gpu"]


@pytest.mark.parametrize(("before", "after"), [("", "kai.scheduler/node-pool"), ("kai.scheduler/node-pool", "")])
def test_which_shards_are_served_follows_from_the_label_in_force(before: str, after: str) -> None:
    """The label of node pools does not change while the process runs."""
    settings = LiveSettings(Config(node_pool_label=before), "")
    settings.observe(SHARD, "a100", raw({"partitionLabelValue": "a100"}))
    settings.observe(SHARD, "default", raw({}))
    settings.fixed, served = True, dict(settings.shards)
    with capture_logs() as lines:
        settings.observe(SHARD, "default", raw({"args": {"nodepool-label-key": after}}))
    assert settings.shards == served
    assert list(served) == (["a100", "default"] if before else ["default"])
    assert [line["fields"] for line in lines if line["event"] == "settings.need_restart"] == [["node_pool_label"]]


def test_admission_is_set_up_by_kai_config() -> None:
    settings = LiveSettings(Config(), "default")
    spec = {
        "global": {"schedulerName": "other"},
        "admission": {"gpuSharing": True, "gpuPodRuntimeClassName": "", "blockNvidiaVisibleDevices": True},
        "binder": {"plugins": {"hamicore": {"enabled": True}}},
    }
    settings.observe(OPERATOR_CONFIG, "kai-config", raw(spec))
    admission = settings.admission
    assert (admission.scheduler_name, admission.gpu_sharing, admission.block_visible_devices) == ("other", True, True)
    assert (admission.hami_core, admission.runtime_class) == (True, "")


def test_gpu_sharing_is_on_where_kai_config_says_so() -> None:
    """For admission and the scheduler alike, at once, and only in a process that can do it."""
    settings = LiveSettings(Config(), "default")
    assert not settings.config.gpu_sharing
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"gpuSharing": True}}))
    assert (settings.config.gpu_sharing, settings.admission.gpu_sharing) == (True, True)
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"admission": {"gpuSharing": True}}))
    assert (settings.config.gpu_sharing, settings.admission.gpu_sharing) == (True, True)
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({}))
    assert (settings.config.gpu_sharing, settings.admission.gpu_sharing) == (False, False)
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"gpuSharing": True}}))
    settings.observe(OPERATOR_CONFIG, "kai-config", None)
    assert (settings.config.gpu_sharing, settings.admission.gpu_sharing) == (False, False)

    without = LiveSettings(Config(gpu_sharing=False), "default")
    without.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"gpuSharing": True}}))
    assert not without.config.gpu_sharing


def test_what_objects_were_read_with_stays_until_the_process_starts_anew() -> None:
    settings = LiveSettings(Config(), "default")
    settings.fixed = True
    changed = {"global": {"queueLabelKey": "team"}, "podGrouper": {"args": {"groupBarePods": True}}}
    settings.observe(OPERATOR_CONFIG, "kai-config", raw(changed))
    settings.observe(SHARD, "default", raw({"partitionLabelValue": "blue", "placementStrategy": {"cpu": "spread"}}))
    assert (settings.config.queue_label, settings.config.node_pool) == (Config().queue_label, "")
    assert settings.config.plugins["nodeplacement"]["cpu"] == "spread"
    assert not settings.config.group_bare_pods


def test_where_reservation_pods_are_stays_until_the_process_starts_anew() -> None:
    """They would no longer be found, and the devices that they hold would look free."""
    settings = LiveSettings(Config(), "default")
    settings.fixed = True
    before = settings.config.reservation
    where = {"namespace": "elsewhere", "appLabel": "others", "allocationTimeout": 7}
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"binder": {"resourceReservation": where}}))
    after = settings.config.reservation
    assert (after.namespace, after.app_label) == (before.namespace, before.app_label)
    assert after.allocation_timeout_s == 7
    assert settings.admission.reservation_namespace == before.namespace


def test_whether_pods_are_read_for_numa_zones_stays_until_the_process_starts_anew() -> None:
    """Pods that were read without the plugin do not say what is aligned."""
    settings = LiveSettings(Config(), "default")
    settings.fixed = True
    on = {"plugins": {"numa": {"enabled": True, "arguments": {"ignoreList": "cpu"}}}}
    settings.observe(SHARD, "default", raw(on))
    assert "numa" not in settings.config.plugins
    settings.fixed = False
    settings.observe(SHARD, "default", raw(on))
    settings.fixed = True
    settings.observe(SHARD, "default", raw({}))
    assert settings.config.plugins["numa"] == {"ignoreList": "cpu"}


def test_what_drivers_keep_is_in_force_at_once() -> None:
    settings = LiveSettings(Config(), "default")
    settings.fixed = True
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"gpuMemoryReserve": {"percent": 3}}}))
    assert settings.config.gpu_memory_reserve_percent == 3


def of_pool(value: str, **spec: object) -> bytes:
    return raw({"partitionLabelValue": value, **spec})


def test_all_shards_are_served_with_settings_of_their_own() -> None:
    settings = LiveSettings(Config(), "")
    assert settings.shards == {"default": Config(gpu_sharing=False)}
    settings.observe(SHARD, "b", of_pool("b", placementStrategy={"gpu": "spread"}))
    settings.observe(SHARD, "a", of_pool("a"))
    assert [(name, each.node_pool) for name, each in settings.shards.items()] == [
        ("a", "a"),
        ("b", "b"),
        ("default", ""),
    ]
    assert [each.plugins["nodeplacement"]["gpu"] for each in settings.shards.values()] == [
        "binpack",
        "spread",
        "binpack",
    ]
    assert settings.config.node_pools == ("", "a", "b")
    settings.observe(SHARD, "b", None)
    assert list(settings.shards) == ["a", "default"]


def test_a_shard_with_a_mistake_keeps_what_it_had_and_a_new_one_is_not_served() -> None:
    settings = LiveSettings(Config(), "")
    settings.observe(SHARD, "a", of_pool("a", actions={"preempt": {"enabled": False}}))
    before = settings.shards["a"]
    bad = {"args": {"max-consolidation-preemptees": "many"}}
    settings.observe(SHARD, "a", of_pool("a", **bad))
    settings.observe(SHARD, "b", of_pool("b", **bad))
    assert settings.shards == {"a": before, "default": Config(gpu_sharing=False)}
    assert all("none of it is used" in settings.problems[f"SchedulingShard {name}"] for name in "ab")
    settings.observe(SHARD, "b", of_pool("b"))
    assert list(settings.shards) == ["a", "b", "default"]
    assert settings.problems["SchedulingShard b"] == ""


@pytest.mark.parametrize("served", ["", "a"])
def test_the_mistake_of_a_shard_that_is_made_anew_is_told_again(served: str) -> None:
    settings = LiveSettings(Config(), served)
    bad = of_pool("a", args={"max-consolidation-preemptees": "many"})
    with capture_logs() as logs:
        for each in (bad, bad, None, bad):
            settings.observe(SHARD, "a", each)
    assert [each["object"] for each in logs if each["event"] == "settings.problem"] == ["SchedulingShard a"] * 2
    settings.observe(SHARD, "a", None)
    assert not any(settings.problems.values())


def test_what_is_wrong_between_shards_is_told_again() -> None:
    settings = LiveSettings(Config(), "")
    settings.observe(SHARD, "a", of_pool("x"))
    with capture_logs() as logs:
        for each in (of_pool("x"), None, of_pool("x")):
            settings.observe(SHARD, "b", each)
    told = [each["object"] for each in logs if each["event"] == "settings.problem"]
    assert told == ["SchedulingShard b, of several"] * 2


def test_a_node_pool_that_no_node_can_be_in_is_a_mistake() -> None:
    settings = LiveSettings(Config(), "")
    settings.observe(SHARD, "a", of_pool("a"))
    for name in "ab":
        settings.observe(SHARD, name, of_pool("my pool"))
        assert "spec.partitionLabelValue: 'my pool'" in settings.problems[f"SchedulingShard {name}"]
    assert {name: each.node_pool for name, each in settings.shards.items()} == {"a": "a", "default": ""}


def test_what_cannot_change_while_the_process_runs_stays_in_all_shards() -> None:
    settings = LiveSettings(Config(), "")
    settings.observe(SHARD, "a", of_pool("a"))
    settings.fixed = True
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"schedulerName": "x", "nodePoolLabelKey": "y"}}))
    assert {each.scheduler_name for each in settings.shards.values()} == {"kai-scheduler"}
    assert {each.node_pool_label for each in settings.shards.values()} == {Config().node_pool_label}
    settings.observe(SHARD, "b", of_pool("b", plugins={"numa": {"enabled": True}}))
    assert "numa" not in settings.shards["b"].plugins
    settings.observe(SHARD, "a", of_pool("c"))
    assert settings.shards["a"].node_pool == "c", "a node pool may come while the process runs"


def test_shares_of_the_cluster_need_a_process_for_all_shards() -> None:
    whole = raw({"global": {"fairShare": "cluster"}})
    one, every = LiveSettings(Config(), "default"), LiveSettings(Config(), "")
    for settings in (one, every):
        settings.observe(OPERATOR_CONFIG, "kai-config", whole)
    assert one.config.fair_share == "pool"
    assert "--all-shards" in one.problems["Config kai-config, spec.global.fairShare"]
    assert {each.fair_share for each in (every.config, *every.shards.values())} == {"cluster"}


def test_webhooks_never_see_settings_that_are_half_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """They look at them in other threads while a change is read."""
    settings = LiveSettings(Config(), "")
    settings.observe(OPERATOR_CONFIG, "kai-config", raw({"global": {"gpuSharing": True, "schedulerName": "mine"}}))
    seen = []
    original = live_settings.shards_of

    def shards_of(*arguments: Any) -> Any:
        seen.append((settings.admission.gpu_sharing, settings.admission.scheduler_name))
        return original(*arguments)

    monkeypatch.setattr(live_settings, "shards_of", shards_of)
    settings.observe(SHARD, "default", raw({"args": {}}))
    assert seen == [(True, "mine")]
