"""The component for the page: it agrees with the code and with manifests/, and gives no needless right."""

from __future__ import annotations

import yaml

from kai_sched.operator.http.listener import parse_address
from kai_sched.operator.http.page_server import PATH, VIEWER
from kai_sched.operator.options import RunOptions
from tests.test_manifests import Document, container, listed, rights, the
from tests.tree import ROOT, modules

COMPONENT = ROOT / "manifests" / "components" / "page"
REVIEWS = "kai_sched.cluster.access_reviews"
RIGHTS = {
    ("authentication.k8s.io/tokenreviews", "create"): REVIEWS,
    ("authorization.k8s.io/subjectaccessreviews", "create"): REVIEWS,
}


def documents() -> list[Document]:
    return [document for path in listed(COMPONENT) for document in yaml.safe_load_all(path.read_text())]


def only(kind: str, name: str) -> Document:
    (found,) = [each for each in documents() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_each_right_is_needed_and_given_once() -> None:
    assert sorted(rights(only("ClusterRole", "kai-scheduler-page"))) == sorted(RIGHTS)
    assert set(RIGHTS.values()) <= {module.name for module in modules()}
    binding = only("ClusterRoleBinding", "kai-scheduler-page")
    (subject,) = binding["subjects"]
    account = the("ServiceAccount")["metadata"]
    assert (subject["name"], subject["namespace"]) == (account["name"], account["namespace"])
    assert binding["roleRef"]["name"] == "kai-scheduler-page"


def test_the_role_for_people_opens_the_page_and_nothing_else() -> None:
    assert only("ClusterRole", VIEWER)["rules"] == [{"nonResourceURLs": [PATH], "verbs": ["get"]}]


def test_the_page_is_off_without_the_component_and_on_loopback_with_it() -> None:
    assert RunOptions().page_address == ""
    assert not [each for each in container()["args"] if each.startswith("--page-address")]
    (patch,) = yaml.safe_load((COMPONENT / "kustomization.yaml").read_text())["patches"]
    assert patch["target"] == {"kind": "Deployment", "name": the("Deployment")["metadata"]["name"]}
    (change,) = yaml.safe_load(patch["patch"])
    assert change["path"] == "/spec/template/spec/containers/0/args/-"
    flag, _, address = change["value"].partition("=")
    assert flag == "--page-address"
    assert parse_address(address)[0] == "127.0.0.1"
