"""Lines about claims for devices as model objects, and what becomes of claims between two cycles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from kai_sched import Cluster, CycleResult
from kai_sched.model.claims import objects as c
from kai_sched.model.constraints import Taint
from kai_sched.model.objects import Object, Pod
from kai_sched.plan.effects import Bind

DRIVER = "gpu.example.com"
CARD, SLICES = "card", "slices"
Words = Mapping[str, str]


def listed(words: Words, key: str, separator: str = ",") -> list[str]:
    return [part.strip() for part in words.get(key, "").split(separator) if part.strip()]


def device_class(words: Words, _place: int) -> c.DeviceClass:
    """``model`` selects by that attribute; without it every device of the driver is meant."""
    model = f" && device.attributes['{DRIVER}'].model == '{words['model']}'" if "model" in words else ""
    return c.DeviceClass(words["name"], (f"device.driver == '{DRIVER}'{model}",))


def resource_slice(words: Words, _place: int) -> c.ResourceSlice:
    """The devices of the node that it is called like; ``name:2`` takes 2 of the slices of a card that has ``card``."""
    attributes = {f"{DRIVER}/model": words["model"]} if "model" in words else {}
    memory = {f"{DRIVER}/memory": c.Capacity(Fraction(words["memory"]))} if "memory" in words else {}
    taints = tuple(Taint(*text.split(":")) for text in listed(words, "taints"))
    devices = []
    for text in listed(words, "devices"):
        name, _, uses = text.partition(":")
        counters = ((CARD, SLICES, Fraction(uses)),) if uses else ()
        shared = "shared" in words
        devices.append(c.Device(name, attributes, memory, counters, taints, words["name"], shared=shared))
    counters = ((CARD, SLICES, Fraction(words["card"])),) if "card" in words else ()
    return c.ResourceSlice(words["name"], DRIVER, words["name"], counters=counters, devices=tuple(devices))


def options(text: str, memory: str) -> Iterator[c.DeviceOption]:
    """ "class*count | class*count"; one device where no count is given."""
    capacity = (("memory", Fraction(memory)),) if memory else ()
    for place, part in enumerate(text.split("|")):
        name, _, count = part.strip().partition("*")
        yield c.DeviceOption(name, f"o{place}", count=int(count or 1), capacity=capacity)


def resource_claim(words: Words, _place: int) -> c.ResourceClaim:
    """``gets`` names the class, or a prioritised list; ``had`` the devices that it has on the node ``on``."""
    found = tuple(options(words["gets"], words.get("memory", "")))
    exact = len(found) == 1
    request = c.DeviceRequest("r", (replace(found[0], name=""),) if exact else found, exact)
    name = "r" if exact else "r/o0"
    consumed = (("memory", Fraction(words["memory"])),) if "memory" in words else ()
    had = tuple(
        c.AllocatedDevice(name, DRIVER, words["on"], device, consumed=consumed) for device in listed(words, "had")
    )
    return c.ResourceClaim(
        "ns",
        words["name"],
        words["name"],
        c.ClaimRequests((request,)),
        c.Allocation(had) if had else None,
        tuple((pod, pod) for pod in listed(words, "by")),
        words.get("owner", ""),
        words.get("queue", "q"),
    )


def uses(words: Words) -> tuple[c.PodClaim, ...]:
    """The claims of a pod: those that it names (``devices``), and one of a template (``own``)."""
    named = tuple(c.PodClaim(name, name, named=True) for name in listed(words, "devices"))
    return (*named, c.PodClaim("own", f"{words['name']}-own")) if "own" in words else named


def own_claim(words: Words) -> dict[str, str]:
    """The line of the claim that is made for a pod with ``own``."""
    there = {"on": words["on"], "by": words["name"]} if "on" in words else {}
    memory = {"memory": words["memory"]} if "memory" in words else {}
    name = words["name"]
    return {"name": f"{name}-own", "owner": name, "gets": words["own"], "had": words.get("had", ""), **there, **memory}


def has(pods: list[str], result: CycleResult) -> list[str]:
    """The devices that binds of this cycle give to the pods, one word for each pod, in their order."""
    binds = {effect.pod: effect for effect in result.effects if isinstance(effect, Bind)}
    found = []
    for name in pods:
        uses = binds[f"ns/{name}"].claims if f"ns/{name}" in binds else ()
        found.append(",".join(each.device for use in uses for each in use.allocation.devices) or "none")
    return found


def moved_on(cluster: Cluster, result: CycleResult, pods: list[Object]) -> list[Object]:
    """What there is for claims in the next cycle, in which ``pods`` are among the objects: a claim that was allocated
    has its devices, and one without a pod on a node has none."""
    given = {use.claim: use for effect in result.effects if isinstance(effect, Bind) for use in effect.claims}
    there = [pod for pod in pods if isinstance(pod, Pod) and pod.node]
    found: list[Object] = [*cluster.device_classes.values(), *cluster.resource_slices.values()]
    for key, claim in cluster.resource_claims.items():
        users = tuple((pod.name, pod.uid) for pod in there if any(f"ns/{use.claim}" == key for use in pod.claims))
        allocation = given[key].allocation if key in given else claim.allocation
        found.append(replace(claim, allocation=allocation if users else None, consumers=users))
    return found


MAKERS = {"deviceclass": device_class, "slice": resource_slice, "resourceclaim": resource_claim}
