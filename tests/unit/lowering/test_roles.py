"""Which pods are spared by consolidation and which are background pods, by their labels and the settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kai_sched import Config
from kai_sched.lowering.roles import exemptions
from kai_sched.model import objects as o
from kai_sched.model.config import OPERATOR_PLUGINS

POD = o.Pod("ns", "a", o.Shape(), uid="a", scheduler="kai-scheduler")


def pod(labels: dict[str, str], scheduler: str = "kai-scheduler", safe: bool = True) -> o.Pod:
    return replace(POD, labels=labels, scheduler=scheduler, safe_to_consolidate=safe)


def selecting(text: str) -> Config:
    return Config(plugins={**OPERATOR_PLUGINS, "backgroundpods": {"labelSelector": text}})


def test_the_label_makes_a_background_pod() -> None:
    pods = [pod({"kai.scheduler/background": text}) for text in ("true", "false", "")] + [pod({})]
    assert exemptions(pods, Config()) == ([], [0])


def test_pods_of_other_schedulers_are_none() -> None:
    assert exemptions([pod({"kai.scheduler/background": "true"}, "default-scheduler")], Config())[1] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind in (check,cache)", [0, 1]),
        ("kind in (check,cache),kind!=cache", [0]),
        ("!other", [0, 1, 2]),
        ("no selector", []),
    ],
)
def test_the_plugin_may_have_another_selector(text: str, expected: list[int]) -> None:
    pods = [pod({"kind": kind}) for kind in ("check", "cache", "train")]
    assert exemptions(pods, selecting(text))[1] == expected


def test_without_the_plugin_there_are_none() -> None:
    plugins = {name: arguments for name, arguments in OPERATOR_PLUGINS.items() if name != "backgroundpods"}
    assert exemptions([pod({"kai.scheduler/background": "true"})], Config(plugins=plugins))[1] == []


def test_what_is_not_safe_is_spared_by_consolidation() -> None:
    assert exemptions([pod({}, safe=False), pod({})], Config())[0] == [0]
