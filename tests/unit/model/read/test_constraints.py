"""Where a pod may run, and what it needs there (semantics 12)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.config import Config
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Toleration, WeightedPodTerm
from kai_sched.model.objects import Pod
from kai_sched.model.read.kinds import Reader
from tests.unit.model.reading import clean, pod, read

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class TestConstraints:
    def test_node_selector_is_sorted(self) -> None:
        assert clean(Pod, pod({"nodeSelector": {"b": "2", "a": "1"}})).shape.node_selector == (("a", "1"), ("b", "2"))

    def test_node_affinity(self) -> None:
        terms = [
            {
                "matchExpressions": [
                    {"key": "z", "operator": "In", "values": ["b", "a"]},
                    {"key": "a", "operator": "Exists"},
                ],
                "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}],
            },
            {},
            {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["3"]}]},
        ]
        spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}
        assert clean(Pod, pod(spec)).shape.node_affinity == (
            (
                Requirement("a", "Exists"),
                Requirement("metadata.name", "NotIn", ("n1",)),
                Requirement("z", "In", ("a", "b")),
            ),
            (Requirement("n", "Gt", ("3",)),),
        )

    def test_a_selector_of_empty_terms_matches_nothing_and_none_matches_all(self) -> None:
        spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}}
        assert clean(Pod, pod(spec)).shape.node_affinity == ()
        assert clean(Pod, pod({"affinity": {}})).shape.node_affinity is None

    @pytest.mark.parametrize(
        ("expression", "field"),
        [
            ({"key": "a", "operator": "Is", "values": ["x"]}, "operator"),
            ({"key": "a", "operator": "Gt", "values": ["x"]}, "values"),
            ({"key": "a", "operator": "In"}, "values"),
        ],
    )
    def test_an_impossible_term_keeps_the_pod_from_being_scheduled(
        self, expression: dict[str, Any], field: str
    ) -> None:
        spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}}
        item, found = read("Pod", pod(spec))
        path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].{field}"
        assert [each[0] for each in found] == [path]
        assert item.shape.unsupported == (f"{path}, which is not valid",)

    def test_tolerations_are_a_set(self) -> None:
        spec = {
            "tolerations": [
                {"operator": "Exists"},
                {"key": "a", "value": "1", "effect": "NoSchedule", "tolerationSeconds": 5},
                {"operator": "Exists", "tolerationSeconds": 300},
            ]
        }
        assert clean(Pod, pod(spec)).shape.tolerations == (
            Toleration("", "Exists"),
            Toleration("a", "Equal", "1", "NoSchedule"),
        )

    def test_ports_of_containers_and_sidecars(self) -> None:
        spec = {
            "initContainers": [
                {"name": "i", "ports": [{"containerPort": 1, "hostPort": 1}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 2, "hostPort": 2}]},
            ],
            "containers": [
                {
                    "name": "c",
                    "ports": [{"containerPort": 80}, {"containerPort": 3, "hostPort": 3, "hostIP": "10.0.0.1"}],
                },
                {"name": "d", "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP"}]},
            ],
        }
        expected = (HostPort(2), HostPort(3, "TCP", "10.0.0.1"), HostPort(53, "UDP"))
        assert clean(Pod, pod(spec)).shape.host_ports == expected

    def test_on_the_hosts_network_every_port_is_the_nodes(self) -> None:
        spec = {"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]}
        assert clean(Pod, pod(spec)).shape.host_ports == (HostPort(80),)

    def test_an_impossible_port_keeps_the_pod_pending_and_in_sight(self) -> None:
        item, found = read("Pod", pod({"containers": [{"name": "c", "ports": [{"hostPort": 70000}]}]}))
        assert item.shape.unsupported == ("spec.containers.ports, which are not valid",)
        assert [(field, "70000 is no port" in message) for field, message in found] == [("spec.containers.ports", True)]


class TestPodTerms:
    def term(self, wire: dict[str, Any], **labels: str) -> PodTerm:
        spec = {"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "zone", **wire}]}}}
        (found,) = clean(Pod, pod(spec, labels=labels)).shape.affinity
        return found

    def test_without_a_selector_it_matches_no_pod_and_with_an_empty_one_every_pod(self) -> None:
        assert self.term({}).selector is None
        assert self.term({"labelSelector": {}}).selector == ()

    def test_labels_and_expressions_are_one_list(self) -> None:
        expressions = [{"key": "a", "operator": "DoesNotExist"}]
        wire = {"labelSelector": {"matchLabels": {"b": "1"}, "matchExpressions": expressions}}
        assert self.term(wire).selector == (Requirement("a", "DoesNotExist"), Requirement("b", "In", ("1",)))

    def test_the_pods_own_namespace_only_where_nothing_else_is_said(self) -> None:
        assert self.term({}).namespaces == ("ml",)
        assert self.term({"namespaces": ["b", "a"]}).namespaces == ("a", "b")
        by_label = self.term({"namespaceSelector": {"matchLabels": {"team": "x"}}})
        assert (by_label.namespaces, by_label.namespace_selector) == ((), (Requirement("team", "In", ("x",)),))
        everywhere = self.term({"namespaceSelector": {}})
        assert (everywhere.namespaces, everywhere.namespace_selector) == ((), ())

    def test_label_keys_are_folded_into_the_selector(self) -> None:
        wire = {
            "labelSelector": {"matchLabels": {"app": "x"}},
            "matchLabelKeys": ["hash", "absent"],
            "mismatchLabelKeys": ["tenant"],
        }
        assert self.term(wire, hash="7", tenant="t").selector == (
            Requirement("app", "In", ("x",)),
            Requirement("hash", "In", ("7",)),
            Requirement("tenant", "NotIn", ("t",)),
        )

    def test_label_keys_that_the_api_server_has_folded_already_change_nothing(self) -> None:
        expressions = [{"key": "hash", "operator": "In", "values": ["7"]}]
        wire = {"labelSelector": {"matchExpressions": expressions}, "matchLabelKeys": ["hash"]}
        assert self.term(wire, hash="7").selector == (Requirement("hash", "In", ("7",)),)

    def test_two_pods_with_one_text_and_other_labels_differ(self) -> None:
        reader = Reader(Config())
        term = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["hash"]}
        spec = {"affinity": {"podAffinity": {REQUIRED: [term]}}}
        first = clean(Pod, pod(spec, labels={"hash": "1"}), reader).shape
        second = clean(Pod, pod(spec, labels={"hash": "2"}), reader).shape
        assert first.affinity != second.affinity

    def test_preferences_carry_weights_negative_for_anti_affinity(self) -> None:
        def preferred(weight: int) -> list[dict[str, Any]]:
            return [{"weight": weight, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}]

        affinity = {"podAffinity": {PREFERRED: preferred(5)}, "podAntiAffinity": {PREFERRED: preferred(7)}}
        term = PodTerm("zone", (), ("ml",))
        shape = clean(Pod, pod({"affinity": affinity})).shape
        assert shape.preferred_affinity == (WeightedPodTerm(5, term), WeightedPodTerm(-7, term))

    def test_anti_affinity(self) -> None:
        spec = {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host", "labelSelector": {}}]}}}
        shape = clean(Pod, pod(spec)).shape
        assert (shape.affinity, shape.anti_affinity) == ((), (PodTerm("host", (), ("ml",)),))


class TestVolumes:
    def test_claims_those_of_ephemeral_volumes_included(self) -> None:
        spec = {
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "set"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "tmp", "emptyDir": {}},
            ]
        }
        assert clean(Pod, pod(spec)).shape.claims == ("ml/p-scratch", "ml/set")

    def test_config_maps_of_mounted_volumes_and_environments(self) -> None:
        def variable(name: str, **more: bool) -> dict[str, Any]:
            return {"name": "V", "valueFrom": {"configMapKeyRef": {"name": name, "key": "k", **more}}}

        def volume(name: str, **more: bool) -> dict[str, Any]:
            return {"name": name, "configMap": {"name": f"{name}-map", **more}}

        projected = [
            {"configMap": {"name": "kube-root-ca.crt"}},
            {"configMap": {"name": "projected-map"}},
            {"configMap": {"name": "projected-optional", "optional": True}},
            {"secret": {"name": "s"}},
        ]
        spec = {
            "initContainers": [{"name": "i", "env": [variable("init-map"), {"name": "A", "value": "x"}]}],
            "containers": [
                {
                    "name": "c",
                    "env": [variable("optional-map", optional=True)],
                    "envFrom": [{"configMapRef": {"name": "from-map"}}, {"secretRef": {"name": "s"}}],
                    "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "p", "mountPath": "/p"}],
                }
            ],
            "ephemeralContainers": [{"name": "e", "env": [variable("debug-map")]}],
            "volumes": [
                volume("a"),
                volume("not-mounted"),
                {"name": "p", "projected": {"sources": projected}},
            ],
        }
        expected = ("ml/a-map", "ml/debug-map", "ml/from-map", "ml/init-map", "ml/projected-map")
        assert clean(Pod, pod(spec)).shape.config_maps == expected

    def test_config_maps_that_come_with_a_shared_gpu_are_not_waited_for(self) -> None:
        spec = {
            "containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": name}} for name in ("x-gpu-0", "y")]}]
        }
        annotations = {"runai/shared-gpu-configmap": "x-gpu"}
        assert clean(Pod, pod(spec, annotations=annotations)).shape.config_maps == ("ml/y",)
