"""What people may add: admission policies (tests/cluster/test_tenancy.py has an API server enforce them), and the role
of those who only read (tests/cluster/test_dump.py reads with it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kai_sched.api import names
from kai_sched.cli.live_cluster import BOUNDED
from kai_sched.cluster import cluster_reader
from kai_sched.operator.intake.sources import SOURCES
from kai_sched.reconcile.grouping.registry import RULES, SKIPPED, SKIPPED_IN_GROUP
from tests.tree import ROOT

SAMPLES = sorted((ROOT / "manifests" / "samples").glob("*.yaml"))
READER = ROOT / "manifests" / "samples" / "reader.yaml"
POLICIES = [path for path in SAMPLES if path != READER]


def test_they_are_there() -> None:
    assert [path.name for path in SAMPLES] == ["priority-classes.yaml", "queues.yaml", "reader.yaml"]


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_policies_are_bound_and_deny(path: Path) -> None:
    policy, binding = yaml.safe_load_all(path.read_text())
    assert (policy["kind"], binding["kind"]) == ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    assert policy["spec"]["failurePolicy"] == "Fail"


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_every_kind_that_is_grouped_is_looked_at(path: Path) -> None:
    policy, _ = yaml.safe_load_all(path.read_text())
    looked_at = {group for rule in policy["spec"]["matchConstraints"]["resourceRules"] for group in rule["apiGroups"]}
    grouped = {version.rpartition("/")[0] for version, _ in RULES} | {v.rpartition("/")[0] for v, _ in SKIPPED}
    assert grouped | {group for group, _ in SKIPPED_IN_GROUP} <= looked_at
    assert {names.POD_GROUP_VERSION.partition("/")[0], names.KUBERNETES_GROUPS} <= looked_at


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.name)
def test_the_scheduler_itself_is_not_asked(path: Path) -> None:
    policy, _ = yaml.safe_load_all(path.read_text())
    account = "system:serviceaccount:kai-scheduler:scheduler"
    assert account in policy["spec"]["matchConditions"][0]["expression"]


def rules(role: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Group, resource and verb of all that the role allows."""
    return [
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def test_the_role_of_readers_lists_what_is_read_and_gets_what_owns_pods() -> None:
    reader = yaml.safe_load(READER.read_text())
    sources = (*SOURCES, *BOUNDED)
    listed = {(source.kind[0].rpartition("/")[0], source.path.rpartition("/")[2], "list") for source in sources}
    roles = [each for each in yaml.safe_load_all((ROOT / "manifests" / "rbac.yaml").read_text()) if "rules" in each]
    (workloads,) = [each for each in roles if each["metadata"]["name"] == "kai-scheduler-workloads"]
    owners = {rule for rule in rules(workloads) if rule[2] == "get"}
    found = rules(reader)
    assert len(found) == len(set(found))
    assert set(found) == listed | owners
    assert str(READER.relative_to(ROOT)) == cluster_reader.ROLE
    assert (reader["kind"], reader["metadata"]["name"]) == ("ClusterRole", "kai-sched-reader")
