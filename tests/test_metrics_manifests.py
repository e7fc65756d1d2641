"""The component for authenticated metrics: it agrees with the code and with manifests/, and gives no needless right."""

from __future__ import annotations

import yaml

from kai_sched.operator.http.metrics_page import PATH, READER
from kai_sched.operator.options import RunOptions
from tests.test_manifests import Document, container, listed, rights, the
from tests.test_page_manifests import RIGHTS
from tests.tree import ROOT

COMPONENT = ROOT / "manifests" / "components" / "authenticated-metrics"


def documents() -> dict[tuple[str, str], Document]:
    found = [document for path in listed(COMPONENT) for document in yaml.safe_load_all(path.read_text())]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def test_it_has_the_rights_of_the_page_and_the_role_of_readers() -> None:
    found = documents()
    assert found.keys() == {
        ("ClusterRole", "kai-scheduler-metrics"),
        ("ClusterRoleBinding", "kai-scheduler-metrics"),
        ("ClusterRole", READER),
    }
    assert sorted(rights(found["ClusterRole", "kai-scheduler-metrics"])) == sorted(RIGHTS)
    assert found["ClusterRole", READER]["rules"] == [{"nonResourceURLs": [PATH], "verbs": ["get"]}]
    binding = found["ClusterRoleBinding", "kai-scheduler-metrics"]
    (subject,) = binding["subjects"]
    account = the("ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert binding["roleRef"]["name"] == "kai-scheduler-metrics"


def test_no_token_is_asked_for_without_the_component() -> None:
    flag = "--authenticated-metrics"
    assert not RunOptions().authenticated_metrics
    assert flag not in container()["args"]
    (patch,) = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": the("Deployment")["metadata"]["name"]}
    (change,) = yaml.safe_load(patch["patch"])
    assert (change["path"], change["value"]) == ("/spec/template/spec/containers/0/args/-", flag)
