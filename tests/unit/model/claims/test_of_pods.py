"""Which requests stand for extended resources: each container gets what it asks for, the pod no more than it needs."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kai_sched.api import core
from kai_sched.model.claims.objects import ContainerDevices, ExtendedRequests, extended_claim_name
from kai_sched.model.claims.of_pods import requests_of
from kai_sched.model.field_errors import decode_part
from kai_sched.model.read.requests import RequestReader

CLASSES = {"example.com/gpu": "gpus", "example.com/nic": "nics"}
DECODER = msgspec.json.Decoder(core.PodSpec)
Uses = tuple[ContainerDevices, ...]


def shown(found: ExtendedRequests) -> list[tuple[str, str, int | None]]:
    return [(each.name, each.options[0].device_class, each.options[0].count) for each in found.requests]


@st.composite
def pods(draw: st.DrawFn) -> Uses:
    inits = draw(st.integers(0, 3))
    found = []
    for number in range(inits + draw(st.integers(1, 2))):
        lasting = number >= inits or draw(st.booleans())
        for place, resource in enumerate(sorted(CLASSES)):
            if count := draw(st.integers(0, 3)):
                found.append(ContainerDevices(f"c{number}", number, lasting, resource, place, count))
    return tuple(found)


def most_at_once(uses: Uses, resource: str) -> int:
    """What the pod holds at most: init containers run one by one, beside the sidecars that were started before."""
    held, most = 0, 0
    for each in uses:
        if each.resource == resource:
            most = max(most, held + each.count)
            held += each.count if each.lasting else 0
    return max(most, held)


@given(pods())
def test_a_pod_asks_for_what_its_containers_hold_at_once(uses: Uses) -> None:
    found = requests_of(uses, CLASSES)
    sizes = {each.name: each.options[0].count or 0 for each in found.requests}
    assert len(sizes) == len(found.requests)
    for resource in CLASSES:
        asked = sum(sizes[each.name] for each in found.requests if each.resource == resource)
        assert asked == most_at_once(uses, resource)
    lasting = {f"container-{each.number}-request-{each.place}": each for each in uses if each.lasting}
    for each in uses:
        names = [name for container, of, name in found.mappings if (container, of) == (each.container, each.resource)]
        assert len(set(names)) == len(names)
        assert sum(sizes[name] for name in names) >= each.count
        if each.lasting:
            assert names == [f"container-{each.number}-request-{each.place}"]
        # Sidecars that were started before keep what they hold.
        assert all(lasting[name].number >= each.number for name in names if name in lasting)


def test_init_containers_use_what_later_ones_hold_and_share_one_request_more() -> None:
    def use(number: int, lasting: bool, count: int) -> ContainerDevices:
        return ContainerDevices(f"c{number}", number, lasting, "example.com/gpu", 1, count)

    found = requests_of((use(0, False, 2), use(1, True, 1), use(2, False, 4), use(3, True, 2)), CLASSES)
    assert shown(found) == [
        ("container-1-request-1", "gpus", 1),
        ("container-2-request-1", "gpus", 2),
        ("container-3-request-1", "gpus", 2),
    ]
    names = [(container, request) for container, _, request in found.mappings]
    assert names == [
        ("c1", "container-1-request-1"),
        ("c3", "container-3-request-1"),
        ("c0", "container-1-request-1"),
        ("c0", "container-3-request-1"),
        ("c2", "container-3-request-1"),
        ("c2", "container-2-request-1"),
    ]


def test_resources_of_no_class_ask_for_nothing() -> None:
    use = ContainerDevices("c", 0, True, "example.com/other", 0, 1)
    assert requests_of((use,), CLASSES) == ExtendedRequests()


def test_extended_resources_are_read_with_their_place_among_all_requests() -> None:
    content = b"""{
        "initContainers": [
            {"name": "i", "resources": {"requests": {"example.com/nic": "1"}}},
            {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "2"}}}
        ],
        "containers": [
            {"name": "none", "resources": {"requests": {"memory": "1Gi", "nvidia.com/mig-1g.5gb": "1"}}},
            {"name": "a", "resources": {"requests": {"cpu": "1", "example.com/x": "lots",
                "deviceclass.resource.kubernetes.io/gpu": "1", "attachable-volumes-csi.kubernetes.io/x": "1"}}}
        ]
    }"""
    reader = RequestReader()
    found, again = (reader.extended(decode_part(DECODER, content, "")) for _ in range(2))
    assert found == (
        ContainerDevices("i", 0, False, "example.com/nic", 0, 1),
        ContainerDevices("s", 1, True, "nvidia.com/gpu", 1, 2),
        ContainerDevices("a", 3, True, "deviceclass.resource.kubernetes.io/gpu", 2, 1),
    )
    assert found is again


def test_the_name_of_a_claim_depends_on_the_pod_alone_and_is_legal() -> None:
    assert extended_claim_name("p", "u") == extended_claim_name("p", "u") != extended_claim_name("p", "v")
    long = extended_claim_name("a" * 199 + "." + "b" * 53, "u")
    assert len(long) < 253
    assert ".-" not in long
