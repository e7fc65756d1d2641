"""Pods: what they ask for, where they may run, and what they belong to (semantics 0.1, 0.2, 12)."""

from __future__ import annotations

from typing import Any

import pytest

from kai_sched.model.claims.objects import PodClaim
from kai_sched.model.config import Config
from kai_sched.model.field_errors import FieldError
from kai_sched.model.objects import (
    GpuShare,
    Phase,
    Pod,
)
from kai_sched.model.read.kinds import Reader
from tests.unit.model.reading import clean, container, pod, read

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def request_of(spec: dict[str, Any], **meta: Any) -> dict[str, float]:
    return dict(clean(Pod, pod(spec, **meta)).shape.request)


class TestRequest:
    def test_nothing_but_a_pod_slot(self) -> None:
        assert request_of({}) == {"pods": 1}

    def test_sum_over_containers_sorted_and_without_zeros(self) -> None:
        spec = {"containers": [container({"memory": "1Gi", "cpu": "1", GPU: "0"}), container({"cpu": "500m"})]}
        assert clean(Pod, pod(spec)).shape.request == (("cpu", 1500.0), ("memory", 2.0**30), ("pods", 1.0))

    def test_a_missing_request_is_the_limit_resource_by_resource(self) -> None:
        spec = {"containers": [container({"cpu": "1"}, {"cpu": "4", "memory": "1k", GPU: "2"})]}
        assert request_of(spec) == {"cpu": 1000, "memory": 1000, "gpu": 2, "pods": 1}

    def test_both_vendors_gpus_are_one_resource_and_others_are_not(self) -> None:
        spec = {"containers": [container({GPU: "1", "amd.com/gpu": "2", "example.com/gpu": "3"})]}
        assert request_of(spec) == {"gpu": 3, "example.com/gpu": 3000, "pods": 1}

    def test_an_init_container_counts_only_above_the_sum(self) -> None:
        spec = {
            "initContainers": [container({"cpu": "3", "memory": "1"}), container({"cpu": "2", "memory": "9"})],
            "containers": [container({"cpu": "1", "memory": "5"}), container({"cpu": "1"})],
        }
        assert request_of(spec) == {"cpu": 3000, "memory": 9, "pods": 1}

    def test_sidecars_run_beside_containers_and_beside_later_init_containers(self) -> None:
        sidecar = container({"cpu": "1"}, restartPolicy="Always")
        spec = {
            "initContainers": [container({"cpu": "5"}), sidecar, container({"cpu": "4500m"})],
            "containers": [container({"cpu": "2"})],
        }
        # 5 alone; 4.5 beside the sidecar; 2 beside the sidecar
        assert request_of(spec)["cpu"] == 5500

    def test_overhead_comes_on_top_of_the_peak(self) -> None:
        spec = {
            "initContainers": [container({"cpu": "3"})],
            "containers": [container({"cpu": "1"})],
            "overhead": {"cpu": "250m", "memory": "1"},
        }
        assert request_of(spec) == {"cpu": 3250, "memory": 1, "pods": 1}

    def test_what_the_pod_asks_for_as_a_whole_counts_where_it_is_more(self) -> None:
        spec = {
            "containers": [container({"cpu": "1", "memory": "8"})],
            "resources": {
                "requests": {"cpu": "4", "memory": "2", "hugepages-2Mi": "6Mi"},
                "limits": {"cpu": "16", "memory": "16"},
            },
            "overhead": {"cpu": "250m"},
        }
        assert request_of(spec) == {"cpu": 4250, "memory": 8, "hugepages-2Mi": 6 * 2**20 * 1000, "pods": 1}

    def test_a_limit_of_the_whole_pod_counts_where_nobody_requests_anything(self) -> None:
        spec = {
            "containers": [container({"cpu": "1"})],
            "resources": {"limits": {"cpu": "16", "memory": "16"}},
        }
        assert request_of(spec) == {"cpu": 1000, "memory": 16, "pods": 1}

    def test_numbers_without_quotes(self) -> None:
        assert request_of({"containers": [container({"cpu": 2, "memory": 1.5})]}) == {
            "cpu": 2000,
            "memory": 2,
            "pods": 1,
        }

    @pytest.mark.parametrize("text", ["1x", "-1"])
    def test_a_malformed_quantity_keeps_the_pod_from_being_scheduled(self, text: str) -> None:
        item, found = read("Pod", pod({"containers": [container(), container({"cpu": text, "memory": "1"})]}))
        field = "spec.containers[1].resources.requests.cpu"
        assert [each[0] for each in found] == [field]
        assert item.shape.unsupported == (f"{field}, which is not a valid quantity",)
        assert dict(item.shape.request) == {"memory": 1, "pods": 1}


class TestGpus:
    def test_gpu_fraction(self) -> None:
        shape = clean(
            Pod, pod({"containers": [container({GPU: "0", "cpu": "1"})]}, annotations={"gpu-fraction": "0.126"})
        ).shape
        assert (shape.share, shape.unsupported) == (GpuShare(1, 0.126), ())
        assert shape.share.quota == 0.13  # type: ignore[union-attr]
        assert dict(shape.request) == {"cpu": 1000, "pods": 1}

    def test_gpu_fraction_of_several_devices_wins_over_memory(self) -> None:
        annotations = {"gpu-fraction": "0.5", "gpu-memory": "4000", "gpu-fraction-num-devices": "3"}
        item, found = read("Pod", pod(annotations=annotations))
        assert isinstance(item, Pod)
        shape = item.shape
        text = "ignored, as the pod has gpu-fraction as well: remove one of them"
        assert found == [("metadata.annotations[gpu-memory]", text)]
        assert (shape.share, shape.unsupported) == (GpuShare(3, 0.5), ())
        assert shape.share.quota == 1.5  # type: ignore[union-attr]

    def test_gpu_memory(self) -> None:
        shape = clean(Pod, pod(annotations={"gpu-memory": "4000", "gpu-fraction-num-devices": "2"})).shape
        assert (shape.share, shape.unsupported) == (GpuShare(2, 0.0, 4000), ())
        assert shape.share.quota == 0.0  # type: ignore[union-attr]

    def test_mig_resource_stays_in_the_request(self) -> None:
        shape = clean(Pod, pod({"containers": [container({"nvidia.com/mig-1g.5gb": "2"})]})).shape
        assert (shape.unsupported, shape.legacy_mig) == ((), False)
        assert dict(shape.request) == {"nvidia.com/mig-1g.5gb": 2, "pods": 1}

    @pytest.mark.parametrize("resource", ["nvidia.com/gpu", "example.com/nic", "nvidia.com/mig-1g.5gb"])
    def test_a_part_of_a_device_as_a_resource_is_told_as_the_api_server_would(self, resource: str) -> None:
        field = f"spec.containers[0].resources.requests.{resource}"
        _, found = read("Pod", pod({"containers": [container({resource: "1500m"})]}))
        text = "'1500m' is no whole number: give one, as the API server asks; until then the pod is not scheduled"
        assert found == [(field, text)]
        assert clean(Pod, pod({"containers": [container({resource: "2000m", "cpu": "1500m"})]}))

    @pytest.mark.parametrize("part", ["requests", "limits"])
    @pytest.mark.parametrize(
        ("annotations", "gpus", "mig"),
        [
            ({"gpu-fraction": "0.1"}, 8, 0),
            ({"gpu-memory": "100"}, 8, 0),
            ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "9"}, 9, 0),
            ({"nvidia.com/mig-1g.5gb": "2", "gpu-fraction": "0.5"}, 8, 2),
        ],
    )
    def test_annotations_cannot_take_away_what_containers_ask_for(
        self, annotations: dict[str, str], gpus: int, mig: int, part: str
    ) -> None:
        """The kubelet gives the containers whole GPUs whatever annotations say, so these are taken."""
        spec = {"containers": [container(**{part: {GPU: "8"}})]}
        shape = clean(Pod, pod(spec, annotations=annotations)).shape
        assert dict(shape.request).get("gpu") == gpus
        assert dict(shape.request).get("nvidia.com/mig-1g.5gb", 0) == mig
        assert shape.share is None
        assert shape.unsupported != ()

    def test_of_two_requests_for_a_mig_device_the_larger_counts(self) -> None:
        spec = {"containers": [container({"nvidia.com/mig-1g.5gb": "3"})]}
        shape = clean(Pod, pod(spec, annotations={"nvidia.com/mig-1g.5gb": "2"})).shape
        assert dict(shape.request) == {"nvidia.com/mig-1g.5gb": 3, "pods": 1}
        assert (shape.unsupported, shape.legacy_mig) == ((), False)

    def test_devices_of_no_part_are_told(self) -> None:
        """Admission refuses them; a simulation would run the pod without a GPU."""
        item, found = read("Pod", pod(annotations={"gpu-fraction-num-devices": "2"}))
        assert isinstance(item, Pod)
        assert item.shape.share is None
        text = "ignored, as the pod asks for no part of a GPU: add gpu-fraction or gpu-memory, or remove it"
        assert found == [("metadata.annotations[gpu-fraction-num-devices]", text)]
        assert item.shape.unsupported == ("annotation gpu-fraction-num-devices without gpu-fraction or gpu-memory",)

    def test_mig_devices_by_annotation_alone_are_served_by_nobody(self) -> None:
        shape = clean(Pod, pod(annotations={"nvidia.com/mig-1g.5gb": "2"})).shape
        assert shape.legacy_mig
        assert shape.unsupported == (
            "annotation nvidia.com/mig-1g.5gb without a container that requests the MIG device",
        )

    def test_a_request_of_no_gpus_is_that_of_a_legacy_mig_pod(self) -> None:
        assert clean(Pod, pod({"containers": [container({GPU: "0"})]})).shape.legacy_mig

    def test_resource_claims(self) -> None:
        listed = [{"name": "own", "resourceClaimTemplateName": "t"}, {"name": "gpu", "resourceClaimName": "c"}]
        content = pod({"resourceClaims": [*listed, {"name": "none", "resourceClaimTemplateName": "t"}]})
        assert clean(Pod, content).claims == (PodClaim("own"), PodClaim("gpu", "c", named=True), PodClaim("none"))
        made = [{"name": "own", "resourceClaimName": "a-own-x"}, {"name": "none"}]
        content["status"] = {"resourceClaimStatuses": made}
        found = clean(Pod, content)
        assert found.claims == (PodClaim("own", "a-own-x"), PodClaim("gpu", "c", named=True))
        assert found.shape.unsupported == ()

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            ("gpu-fraction", "0"),
            ("gpu-fraction", "1.01"),
            ("gpu-fraction", "half"),
            ("gpu-fraction", "NaN"),
            ("gpu-fraction", "0x1p-1"),
            ("gpu-memory", "0"),
            ("gpu-memory", "4Gi"),
            ("gpu-memory", "-5"),
            ("gpu-fraction-num-devices", "two"),
            ("gpu-fraction-num-devices", "100000"),
            ("nvidia.com/mig-1g.5gb", "x"),
            ("kai.scheduler/safe-to-consolidate", "no"),
        ],
    )
    def test_a_malformed_annotation_is_told_and_ignored(self, key: str, text: str) -> None:
        item, found = read("Pod", pod({"containers": [container({GPU: "1"})]}, annotations={key: text}))
        assert [each[0] for each in found] == [f"metadata.annotations[{key}]"]
        assert repr(text) in found[0][1]
        assert item.shape.unsupported == ()
        assert dict(item.shape.request) == {"gpu": 1, "pods": 1}

    @pytest.mark.parametrize(
        ("annotations", "words"),
        [
            *[({"gpu-fraction": text}, repr(text)) for text in ("NaN", "0", "2.5", " 0.5 ", "0,5", "", "-1", "1e400")],
            *[({"gpu-memory": text}, repr(text)) for text in ("4096Mi", "0", "1.5", "", "9" * 10)],
            ({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "two"}, "'two'"),
            ({"gpu-fraction-num-devices": "2"}, "without gpu-fraction"),
            ({"mps": "true"}, "annotation mps without gpu-fraction"),
            ({"nvidia.com/mig-1g.5gb": "x"}, "'x'"),
            ({"gpu-fraction": "0.5", "gpu-fraction-container-name": "worker"}, "'worker': use one of main"),
            ({"gpu-memory": "100", "gpu-fraction-container-name": ""}, "'': use one of main"),
        ],
        ids=str,
    )
    def test_what_asks_for_a_part_in_a_form_that_cannot_be_read_is_unsupported(
        self, annotations: dict[str, str], words: str
    ) -> None:
        """It would be bound without a GPU. Pods on nodes, and those whose containers get GPUs anyway, are as before."""
        item, found = read("Pod", pod({"containers": [container({"cpu": "1"})]}, annotations=annotations))
        assert words in " ".join(item.shape.unsupported)
        assert found
        running = read("Pod", pod({"nodeName": "n", "containers": [container()]}, annotations=annotations))[0]
        assert running.shape.unsupported == ()

    def test_what_counts_for_nothing_does_not_hold_a_pod_back(self) -> None:
        ignored = {"mps": "false", "gpu-fraction-container-name": "none"}
        shape = clean(Pod, pod({"containers": [container({"cpu": "1"})]}, annotations=ignored)).shape
        assert shape.unsupported == ()


class TestPod:
    def test_all_that_says_where_it_belongs(self) -> None:
        document = pod(
            {
                "schedulerName": "kai-scheduler",
                "priorityClassName": "train",
                "nodeName": "n1",
                "schedulingGates": [{"name": "b"}, {"name": "a"}],
            },
            uid="u",
            creationTimestamp="1970-01-01T00:00:01Z",
            deletionTimestamp="1970-01-01T00:00:02Z",
            labels={
                "kai.scheduler/queue": "q",
                "kai.scheduler/subgroup-name": "s",
                "runai-gpu-group": "g0",
                "runai-gpu-group/g1": "g1",
            },
            annotations={"pod-group-name": "g"},
        )
        document["status"] = {"phase": "Running", "nominatedNodeName": "n2"}
        item = clean(Pod, document)
        assert (item.key, item.uid, item.created_ns, item.deleted_ns) == ("ml/p", "u", 10**9, 2 * 10**9)
        assert (item.group, item.sub_group, item.queue, item.scheduler) == ("g", "s", "q", "kai-scheduler")
        assert (item.priority_class, item.node, item.nominated_node) == ("train", "n1", "n2")
        assert (item.phase, item.gates, item.gpu_groups) == (Phase.RUNNING, ("a", "b"), ("g0", "g1"))
        assert item.labels == document["metadata"]["labels"]

    @pytest.mark.parametrize(("text", "safe"), [("false", False), ("true", True), (None, True)])
    def test_whether_consolidation_may_move_it(self, text: str | None, safe: bool) -> None:
        annotations = {} if text is None else {"kai.scheduler/safe-to-consolidate": text}
        assert (
            clean(Pod, pod({"containers": [container({GPU: "1"})]}, annotations=annotations)).safe_to_consolidate
            is safe
        )

    @pytest.mark.parametrize(("text", "is_told"), [("true", False), ("false", False), ("yes", True)])
    def test_a_background_label_that_says_neither_is_told(self, text: str, is_told: bool) -> None:
        """By default only "true" puts a pod in the background."""
        _, found = read("Pod", pod(labels={"kai.scheduler/background": text}))
        told = [("metadata.labels[kai.scheduler/background]", '\'yes\': give "true" or "false"')]
        assert found == (told if is_told else [])

    @pytest.mark.parametrize(
        ("text", "phase"),
        [
            (None, Phase.PENDING),
            ("Pending", Phase.PENDING),
            ("Succeeded", Phase.SUCCEEDED),
            ("Failed", Phase.FAILED),
            ("Odd", Phase.UNKNOWN),
        ],
    )
    def test_phase(self, text: str | None, phase: Phase) -> None:
        assert clean(Pod, {**pod(), "status": {"phase": text}}).phase == phase

    def test_nulls_are_as_good_as_nothing(self) -> None:
        keys = ("labels", "annotations", "uid", "creationTimestamp", "namespace")
        spec = dict.fromkeys(
            ("containers", "affinity", "tolerations", "nodeSelector", "volumes", "overhead", "nodeName")
        )
        document = {"metadata": {"name": "p", **dict.fromkeys(keys)}, "spec": spec, "status": None}
        item = clean(Pod, document)
        assert (item.key, item.shape.request) == ("default/p", (("pods", 1.0),))
        assert clean(Pod, {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": None}]}}) == item

    def test_equal_shapes_are_one_object(self) -> None:
        reader = Reader(Config())
        one = pod({"containers": [container({"cpu": "1"})], "tolerations": [{"key": "a"}, {"key": "b"}]})
        other = pod(
            {"containers": [container({"cpu": "1000m"})], "tolerations": [{"key": "b"}, {"key": "a"}]}, name="q"
        )
        assert clean(Pod, one, reader).shape is clean(Pod, other, reader).shape

    def test_the_queue_label_is_the_one_that_is_configured(self) -> None:
        reader = Reader(Config(queue_label="team"))
        labels = {"team": "a", "kai.scheduler/queue": "b"}
        assert clean(Pod, pod(labels=labels), reader).queue == "a"

    def test_the_project_label_stands_in_for_a_missing_queue(self) -> None:
        assert clean(Pod, pod(labels={"project": "x"})).queue == "x"
        assert clean(Pod, pod(labels={"project": "x", "kai.scheduler/node-pool": "a100"})).queue == "x-a100"

    @pytest.mark.parametrize("name", [None, "", "a/b"])
    def test_a_name_is_needed(self, name: str | None) -> None:
        with pytest.raises(FieldError) as caught:
            read("Pod", {"metadata": {"name": name}})
        assert caught.value.field == "metadata.name"

    @pytest.mark.parametrize(
        ("document", "field", "words"),
        [
            (
                {"metadata": {"name": "p", "labels": {"a": "x", "b": 5}}},
                "metadata.labels.b",
                "got a whole number: put it in quotes",
            ),
            (pod({"containers": {}}), "spec.containers", "expected a list, got a mapping"),
            (
                pod({"containers": [container({"cpu": []})]}),
                "spec.containers[0].resources.requests.cpu",
                "a quantity, got a list",
            ),
            (pod({"tolerations": [{"key": 5}]}), "spec.tolerations[0].key", "expected a text"),
            (pod({"nodeSelector": {"a": True}}), "spec.nodeSelector.a", "got true or false: put it in quotes"),
            (pod({"affinity": []}), "spec.affinity", "expected a mapping"),
            (
                pod({"affinity": {"podAffinity": {REQUIRED: [{}]}}}),
                f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey",
                "missing",
            ),
            (pod(creationTimestamp="then"), "metadata.creationTimestamp", "'then' is not a time"),
        ],
    )
    def test_a_wrong_type_names_the_field(self, document: dict[str, Any], field: str, words: str) -> None:
        with pytest.raises(FieldError) as caught:
            read("Pod", document)
        assert caught.value.field == field
        assert words in caught.value.message
