"""What kai-config and the config file say about GPU sharing (API 1.6)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kai_sched.model.config import Config, ReservationSettings
from kai_sched.model.field_errors import FieldError
from kai_sched.model.read.config import config_from_file, config_from_operator, config_from_shard
from kai_sched.reconcile.admission.types import admission_from_operator
from tests.unit.model.reading import Findings


def read(spec: dict[str, Any], base: Config | None = None) -> tuple[Config, Findings]:
    found: Findings = []
    config = config_from_operator(
        msgspec.json.encode(spec), base or Config(), lambda field, message: found.append((field, message))
    )
    return config, found


def reservation(**settings: Any) -> tuple[ReservationSettings, Findings]:
    config, found = read({"binder": {"resourceReservation": settings}})
    return config.reservation, found


class TestSharing:
    @pytest.mark.parametrize(
        ("spec", "on"),
        [
            ({}, True),
            ({"global": {"gpuSharing": True}}, True),
            ({"global": {"gpuSharing": False}}, False),
            ({"admission": {"gpuSharing": False}}, False),
        ],
    )
    def test_files_without_a_word_about_it_share(self, spec: dict[str, Any], on: bool) -> None:
        config, found = read(spec)
        assert (config.gpu_sharing, found) == (on, [])

    def test_the_field_of_admission_wins(self) -> None:
        config, found = read({"global": {"gpuSharing": True}, "admission": {"gpuSharing": False}})
        assert not config.gpu_sharing
        ((field, message),) = found
        assert field == "spec.global.gpuSharing"
        assert "spec.admission.gpuSharing counts" in message

    @pytest.mark.parametrize(
        ("mode", "on", "hami"),
        [
            ("Disabled", False, False),
            ("NonMemoryEnforced", True, False),
            ("HamiCore", True, True),
            ("NvFractions", True, False),
        ],
    )
    def test_the_mode_wins_over_all(self, mode: str, on: bool, hami: bool) -> None:
        spec: dict[str, Any] = {"global": {"gpuSharingMode": mode}}
        config, found = read(spec)
        assert (config.gpu_sharing, config.reservation.hami_core) == (on, hami)
        assert [field for field, _ in found] == (["spec.global.gpuSharingMode"] if mode == "NvFractions" else [])
        settings = admission_from_operator(msgspec.json.encode(spec))
        assert (settings.gpu_sharing, settings.hami_core) == (on, hami)
        spec["global"]["gpuSharing"], spec["admission"] = not on, {"gpuSharing": not on}
        config, found = read(spec)
        assert config.gpu_sharing == on
        told = [field for field, message in found if f"spec.global.gpuSharingMode is {mode}" in message]
        assert told == ["spec.global.gpuSharing", "spec.admission.gpuSharing"]

    @pytest.mark.parametrize("mode", ["HamiCore", "NonMemoryEnforced", None])
    @pytest.mark.parametrize("enabled", [True, False])
    def test_the_plugin_itself_is_more_than_the_mode(self, mode: str | None, enabled: bool) -> None:
        plugins = {"hamicore": {"enabled": enabled}}
        config, _ = read({"global": {"gpuSharingMode": mode}, "binder": {"plugins": plugins}})
        assert config.reservation.hami_core == enabled

    def test_an_unknown_mode_is_refused(self) -> None:
        with pytest.raises(FieldError) as caught:
            read({"global": {"gpuSharingMode": "MPS"}})
        assert caught.value.field == "spec.global.gpuSharingMode"

    def test_a_process_that_cannot_share_does_not(self) -> None:
        config, _ = read({"global": {"gpuSharing": True}}, Config(gpu_sharing=False))
        assert not config.gpu_sharing


class TestReservationPods:
    def test_defaults(self) -> None:
        settings, found = reservation()
        assert (settings, found) == (ReservationSettings(), [])
        assert (settings.namespace, settings.allocation_timeout_s) == ("kai-resource-reservation", 40)
        assert (settings.runtime_class, settings.cdi_enabled, settings.hami_core) == ("", None, False)

    def test_all_fields(self) -> None:
        settings, found = reservation(
            namespace="devices",
            appLabel="holder",
            serviceAccountName="reporter",
            runtimeClassName="nvidia",
            image={"repository": "registry.test/team", "name": "kai-sched", "tag": "1.0", "pullPolicy": "Always"},
            podResources={"requests": {"cpu": "10m", "memory": 67108864}, "limits": {"memory": "64Mi"}},
            reservationPodSecurityContext={"runAsUser": 1000},
            reservationContainerSecurityContext={"readOnlyRootFilesystem": True},
            allocationTimeout=10,
            fakeGpuNodes=True,
        )
        assert found == []
        assert settings == ReservationSettings(
            namespace="devices",
            app_label="holder",
            service_account="reporter",
            runtime_class="nvidia",
            image="registry.test/team/kai-sched:1.0",
            image_pull_policy="Always",
            requests={"cpu": "10m", "memory": "67108864"},
            limits={"memory": "64Mi"},
            pod_security_context={"runAsUser": 1000},
            container_security_context={"readOnlyRootFilesystem": True},
            allocation_timeout_s=10,
            fake_gpu_nodes=True,
        )

    def test_devices_among_the_resources_are_told_and_dropped(self) -> None:
        settings, found = reservation(podResources={"limits": {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 1}})
        assert settings.limits == {}
        assert [field.rsplit(".limits.", 1)[1] for field, _ in found] == ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb"]

    def test_the_context_of_containers_is_that_of_all_unless_they_have_their_own(self) -> None:
        shared = {"global": {"securityContext": {"runAsUser": 1}}}
        assert read(shared)[0].reservation.container_security_context == {"runAsUser": 1}
        own = {"binder": {"resourceReservation": {"reservationContainerSecurityContext": {"runAsUser": 2}}}}
        assert read({**shared, **own})[0].reservation.container_security_context == {"runAsUser": 2}

    @pytest.mark.parametrize(
        ("settings", "field", "words"),
        [
            ({"namespace": "Devices"}, "namespace", "letters, digits"),
            ({"namespace": "a/b"}, "namespace", "letters, digits"),
            ({"appLabel": "x" * 64}, "appLabel", "letters, digits"),
            ({"serviceAccountName": "a b"}, "serviceAccountName", "letters, digits"),
            ({"runtimeClassName": "-"}, "runtimeClassName", "letters, digits"),
            ({"allocationTimeout": 0}, "allocationTimeout", "correct the value"),
            ({"allocationTimeout": 3601}, "allocationTimeout", "correct the value"),
            ({"image": {"tag": "1.0"}}, "image.name", "name the image"),
            ({"image": {"name": "a", "pullPolicy": "Often"}}, "image.pullPolicy", "Always, IfNotPresent, Never"),
            ({"podResources": {"requests": {"cpu": "lots"}}}, "podResources.requests.cpu", "such as 50m"),
            ({"podResources": {"limits": {"cpu": -1}}}, "podResources.limits.cpu", "such as 50m"),
        ],
    )
    def test_errors_name_the_field_and_the_remedy(self, settings: dict[str, Any], field: str, words: str) -> None:
        with pytest.raises(FieldError, match=words) as caught:
            reservation(**settings)
        assert caught.value.field == f"spec.binder.resourceReservation.{field}"

    @pytest.mark.parametrize(
        ("argument", "binder", "on"),
        [(None, None, None), (None, True, True), ("false", True, False), ("true", None, True)],
    )
    def test_the_plugin_says_before_the_binder_whether_devices_have_cdi_names(
        self, argument: str | None, binder: bool | None, on: bool | None
    ) -> None:
        arguments = {} if argument is None else {"cdiEnabled": argument}
        spec = {"plugins": {"gpusharing": {"arguments": arguments}}, "cdiEnabled": binder}
        assert read({"binder": spec})[0].reservation.cdi_enabled is on

    def test_a_bad_argument(self) -> None:
        with pytest.raises(FieldError, match="write one of them") as caught:
            read({"binder": {"plugins": {"gpusharing": {"arguments": {"cdiEnabled": "maybe"}}}}})
        assert caught.value.field == "spec.binder.plugins.gpusharing.arguments.cdiEnabled"

    def test_hami_core_is_a_plugin(self) -> None:
        assert read({"binder": {"plugins": {"hamicore": {"enabled": True}}}})[0].reservation.hami_core
        assert not read({"binder": {"plugins": {"hamicore": {}}}})[0].reservation.hami_core

    def test_a_shard_may_name_another_app_label(self) -> None:
        raw = msgspec.json.encode({"args": {"resource-reservation-app-label": "holder"}})
        assert config_from_shard(raw, Config(), lambda *_: None).reservation.app_label == "holder"


class TestMemoryReserve:
    @pytest.mark.parametrize(
        ("settings", "percent", "mib"),
        [
            ({}, 0, 0),
            ({"percent": 3, "min": "256Mi"}, 3, 256),
            ({"percent": 2.5}, 2.5, 0),
            ({"min": "1G"}, 0, 954),
            ({"min": 0}, 0, 0),
        ],
    )
    def test_both_files_have_it(self, settings: dict[str, Any], percent: float, mib: int) -> None:
        live, found = read({"global": {"gpuMemoryReserve": settings}})
        offline = config_from_file({"gpuMemoryReserve": settings}, Config(), lambda *_: None)
        assert found == []
        for config in (live, offline):
            assert (config.gpu_memory_reserve_percent, config.gpu_memory_reserve_min_mib) == (percent, mib)

    @pytest.mark.parametrize(
        ("settings", "field", "words"),
        [
            ({"percent": -1}, "percent", "greater than or equal to 0"),
            ({"percent": 91}, "percent", "less than or equal to 90"),
            ({"percent": "3 %"}, "percent", "a number"),
            ({"min": "much"}, "min", "such as 256Mi"),
            ({"min": 256}, "min", "counts in bytes"),
            ({"min": "-1Gi"}, "min", "such as 256Mi"),
        ],
    )
    def test_errors_name_the_field_and_the_remedy(self, settings: dict[str, Any], field: str, words: str) -> None:
        with pytest.raises(FieldError, match=words) as caught:
            read({"global": {"gpuMemoryReserve": settings}})
        assert caught.value.field == f"spec.global.gpuMemoryReserve.{field}"
        with pytest.raises(FieldError, match=words) as caught:
            config_from_file({"gpuMemoryReserve": settings}, Config(), lambda *_: None)
        assert caught.value.field == f"gpuMemoryReserve.{field}"


@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
def test_without_a_spec_admission_is_as_by_default(raw: bytes) -> None:
    assert admission_from_operator(raw) == admission_from_operator(b'{"binder": {}}')
