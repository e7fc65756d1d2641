"""Admission policies that people may add; tests/cluster/test_tenancy.py has an API server enforce them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kai_sched.api import names
from kai_sched.reconcile.grouping.registry import RULES, SKIPPED, SKIPPED_IN_GROUP
from tests.tree import ROOT

SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))


def test_they_are_there() -> None:
    assert [path.name for path in SAMPLES] == ["priority-classes.yaml", "queues.yaml"]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_policies_are_bound_and_deny(path: Path) -> None:
    policy, binding = yaml.safe_load_all(path.read_text())
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert policy["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_kind_that_is_grouped_is_looked_at(path: Path) -> None:
    policy, _ = yaml.safe_load_all(path.read_text())
    looked_at = {group for rule in policy["spec"]["matchConstraints"]["resourceRules"] for group in rule["apiGroups"]}
    grouped = {version.rpartition("/")[0] for version, _ in RULES} | {v.rpartition("/")[0] for v, _ in SKIPPED}
    assert grouped | {group for group, _ in SKIPPED_IN_GROUP} <= looked_at
    assert names.POD_GROUP_VERSION.partition("/")[0] in looked_at


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_the_scheduler_itself_is_not_asked(path: Path) -> None:
    policy, _ = yaml.safe_load_all(path.read_text())
    account = "system:serviceaccount:kai-scheduler:scheduler"
    assert account in policy["spec"]["matchConditions"][0]["expression"]
