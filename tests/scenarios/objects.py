"""One line of a scenario as one model object: ``MAKERS`` maps the line's first word to what reads its other words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kai_sched.api import names
from kai_sched.model import objects as o
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Taint, Toleration, WeightedPodTerm
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from tests.scenarios import claims as c
from tests.scenarios import numa

MINUTE_NS = 60 * 10**9
NOW_NS = 1_800_000_000 * 10**9
G = 1e9
UNITS = {"cpu": 1000.0, "mem": G, "gpu": 1.0, "pods": 1.0}
NODE_DEFAULTS = {"cpu": 2e7, "mem": 1000 * G, "pods": 110.0}
POD_DEFAULTS = {"cpu": 1000.0, "mem": G, "pods": 1.0}
PHASES = {"Pending": 0, "Bound": 0, "Gated": 0, "Leaving": 0, "Succeeded": 2, "Failed": 3, "Unknown": 4}
Words = Mapping[str, str]


def ago_ns(words: Words, key: str) -> int:
    """The time so many seconds before now; 0 where nothing is said."""
    return NOW_NS - int(float(words[key]) * 1e9) if key in words else 0


def seconds(words: Words, key: str) -> float | None:
    return float(words[key]) if key in words else None


def age(words: Words, place: int) -> int:
    """Later lines are newer, a minute each, unless ``age`` gives the minutes before now."""
    return NOW_NS - int(words.get("age", 1000 - place)) * MINUTE_NS


def listed(words: Words, key: str, separator: str = ",") -> list[str]:
    return [part.strip() for part in words.get(key, "").split(separator) if part.strip()]


def mapped(words: Words, key: str) -> dict[str, str]:
    """ "a:1,b:2" as a mapping; the last colon of each part separates, so that names may hold others."""
    return {name: value for name, _, value in (part.rpartition(":") for part in listed(words, key))}


def amounts(words: Words, defaults: Mapping[str, float]) -> dict[str, float]:
    """Amounts in scheduler units, from cores, GB and counts; ``res`` holds anything else as name:amount."""
    given = {
        name: float(words[name]) * unit if name in words else defaults.get(name, 0.0) for name, unit in UNITS.items()
    }
    given["memory"] = given.pop("mem")
    return given | {name: float(value) for name, value in mapped(words, "res").items()}


def requirements(text: str) -> o.Term:
    """ "key Op a,b & key2 Op" as requirements."""
    parts = [part.split() for part in text.split("&") if part.strip()]
    return tuple(Requirement(part[0], part[1], tuple(part[2].split(",")) if part[2:] else ()) for part in parts)


def node_selector(words: Words, key: str) -> o.NodeSelector | None:
    """Terms separated by "|"; nothing between two of them is a term without requirements."""
    return tuple(requirements(term) for term in words[key].split("|")) if key in words else None


def pod_term(text: str) -> PodTerm:
    """ "requirements @ topology key [@ namespaces]".

    "any" selects every pod, "none" no pod; namespaces are names, "*", or requirements on their labels.
    """
    chosen, key, *spaces = (part.strip() for part in text.split("@"))
    selector = None if chosen == "none" else () if chosen == "any" else requirements(chosen)
    where = spaces[0] if spaces else "ns"
    if where == "*":
        return PodTerm(key, selector, (), ())
    if " " in where:
        return PodTerm(key, selector, (), requirements(where))
    return PodTerm(key, selector, tuple(where.split(",")))


def node(words: Words, _place: int) -> o.Node:
    taints = tuple(Taint(*taint.split(":")) for taint in listed(words, "taints"))
    conditions = tuple(listed(words, "bad"))
    capacity = amounts(words, NODE_DEFAULTS)
    return o.Node(
        words["name"], words["name"], mapped(words, "labels"), capacity, taints, "cordoned" in words, conditions
    )


def share(words: Words, name: str) -> o.Share:
    """quota/limit/weight; left out: unlimited, unlimited and 1. With ``zero`` there are no resources at all."""
    if "zero" in words:
        return o.Share()
    given = [float(value) for value in words.get(name, "").split("/") if value]
    quota, limit, weight = [*given, *(-1.0, -1.0, 1.0)[len(given) :]]
    unit = UNITS[name]
    return o.Share(quota * unit if quota >= 0 else quota, limit * unit if limit >= 0 else limit, weight)


def queue(words: Words, place: int) -> o.Queue:
    return o.Queue(
        name=words["name"],
        uid=words.get("uid", words["name"]),
        created_ns=age(words, place),
        parent=words.get("parent", ""),
        priority=int(words.get("prio", 100)),
        cpu=share(words, "cpu"),
        memory=share(words, "mem"),
        gpu=share(words, "gpu"),
        preempt_min_runtime_s=seconds(words, "minpreempt"),
        reclaim_min_runtime_s=seconds(words, "minreclaim"),
        labels=mapped(words, "labels"),
        usage=o.UsedShares(gpu=float(words.get("used", 0))),
    )


def optional(words: Words, key: str) -> int | None:
    return int(words[key]) if key in words else None


def sub_group(text: str) -> o.SubGroup:
    """ "name[:parent][*minMember | ^minSubGroup][@topology/required/preferred]"."""
    match = re.fullmatch(r"([^:*^@]+):?([^*^@]*)([*^]?)(\d*)@?(.*)", text)
    if not match:
        raise ValueError(
            f"cannot read sub-group {text!r}: write it as name:parent*minMember or name:parent^minSubGroup"
        )
    name, parent, mark, count, levels = match.groups()
    least, sets = (int(count) if mark == each else None for each in "*^")
    constraint = o.TopologyConstraint(*levels.split("/")) if levels else None
    return o.SubGroup(name, parent, least, sets, constraint)


def topology(words: Words, _place: int) -> o.Topology:
    """The labels of nodes from the widest level on; "zone:Zone" has an alias."""
    pairs = [level.partition(":") for level in listed(words, "levels")]
    labels, aliases = tuple(label for label, _, _ in pairs), tuple(alias for _, _, alias in pairs)
    return o.Topology(words["name"], words["name"], labels, aliases)


def constraint(words: Words) -> o.TopologyConstraint | None:
    if "topology" not in words:
        return None
    return o.TopologyConstraint(words["topology"], words.get("required", ""), words.get("preferred", ""))


def group(words: Words, place: int) -> o.PodGroup:
    owner_kind, _, owner_name = words.get("owner", "").partition("/")
    return o.PodGroup(
        namespace=words.get("ns", "ns"),
        name=words["name"],
        uid=words.get("uid", words["name"]),
        created_ns=age(words, place),
        queue=words.get("queue", "q"),
        priority_class=f"p{words['prio']}" if "prio" in words else words.get("class", ""),
        preemptible={"yes": True, "no": False}.get(words.get("preemptible", "")),
        min_member=optional(words, "min"),
        min_sub_group=optional(words, "sets"),
        sub_groups=tuple(sub_group(text) for text in words.get("tree", "").split()),
        topology=constraint(words),
        labels=mapped(words, "labels"),
        preemption_delay_s=seconds(words, "delay") or 0.0,
        staleness_grace_s=seconds(words, "grace"),
        stale_since_ns=ago_ns(words, "stale"),
        last_start_ns=ago_ns(words, "started"),
        last_eviction_ns=ago_ns(words, "evicted"),
        owner_kind=owner_kind,
        owner_name=owner_name,
    )


def gpu_share(words: Words) -> o.GpuShare | None:
    """ "0.5" is half of a device, "0.5*2" half of each of two."""
    if "part" not in words:
        return None
    portion, _, devices = words["part"].partition("*")
    return o.GpuShare(devices=int(devices or 1), portion=float(portion))


def shape(words: Words) -> o.Shape:
    weighted = [text.split(maxsplit=1) for text in listed(words, "prefers", "|")]
    ports = [text.split("/") for text in listed(words, "ports")]
    return o.Shape(
        request=tuple(sorted((name, amount) for name, amount in amounts(words, POD_DEFAULTS).items() if amount)),
        node_selector=tuple(sorted(mapped(words, "selector").items())),
        node_affinity=node_selector(words, "affinity"),
        tolerations=tuple(Toleration(*text.split(":")) for text in listed(words, "tolerates")),
        host_ports=tuple(HostPort(int(number), *rest) for number, *rest in ports),
        affinity=tuple(map(pod_term, listed(words, "near", "|"))),
        anti_affinity=tuple(map(pod_term, listed(words, "apart", "|"))),
        preferred_affinity=tuple(WeightedPodTerm(int(weight), pod_term(term)) for weight, term in weighted),
        claims=tuple(f"ns/{name}" for name in listed(words, "claims")),
        config_maps=tuple(f"ns/{name}" for name in listed(words, "configmaps")),
        n_claims=len(c.uses(words)),
        share=gpu_share(words),
        unsupported=(words["unsupported"],) if "unsupported" in words else (),
        numa=numa.request(words),
    )


def pod(words: Words, place: int) -> o.Pod:
    """``on`` makes it run there; ``status`` says what else it does. "Leaving": bound, and deleted before it ran."""
    status = words.get("status", "Running" if "on" in words else "Pending")
    deleted_ns = {"Releasing": NOW_NS - 10**9, "Leaving": NOW_NS - 10**9, "StuckInReleasing": NOW_NS - 10 * MINUTE_NS}
    return o.Pod(
        namespace=words.get("ns", "ns"),
        name=words["name"],
        shape=shape(words),
        uid=words.get("uid", words["name"]),
        created_ns=age(words, place),
        labels=mapped(words, "labels") | ({names.BACKGROUND_LABEL: "true"} if "background" in words else {}),
        group=words["group"],
        sub_group=words.get("sub", ""),
        queue=words.get("queue", ""),
        scheduler=words.get("foreign", "kai-scheduler"),
        priority_class=words.get("class", ""),
        node=words.get("on", ""),
        nominated_node=words.get("nominated", ""),
        phase=o.Phase(PHASES.get(status, 1)),
        deleted_ns=deleted_ns.get(status, 0),
        gates=("held",) if status == "Gated" else (),
        claims=c.uses(words),
        zones=numa.placement(words.get("in", "")),
        safe_to_consolidate="unsafe" not in words,
    )


def bind_request(words: Words, _place: int) -> o.BindRequest:
    """``for`` is the pod where it has another name; "over": carried out, or given up."""
    return o.BindRequest("ns", words["name"], words.get("for", words["name"]), words["on"], "over" not in words)


def claim(words: Words, _place: int) -> o.VolumeClaim:
    phase = words.get("phase", "Bound" if "volume" in words else "Pending")
    size = float(words.get("size", 1)) * G
    modes = tuple(listed(words, "modes")) or ("ReadWriteOnce",)
    return o.VolumeClaim(
        "ns",
        words["name"],
        phase,
        words.get("volume", ""),
        words.get("class", ""),
        "deleted" in words,
        modes,
        size,
        uid=words.get("uid", ""),
        selected_node=words.get("selected", ""),
        selector=requirements(words.get("match", "")),
        volume_mode=words.get("mode", "Filesystem"),
        attributes_class=words.get("attributes", ""),
        pod_uid=words.get("owner", ""),
    )


def volume(words: Words, _place: int) -> o.Volume:
    holder = f"ns/{words['claim']}" if "claim" in words else ""
    phase = words.get("phase", "Bound" if holder else "Available")
    size = float(words.get("size", 1)) * G
    modes = tuple(listed(words, "modes")) or ("ReadWriteOnce",)
    return o.Volume(
        words["name"],
        node_selector(words, "affinity"),
        words.get("class", ""),
        holder,
        phase,
        modes,
        size,
        claim_uid=words.get("claimuid", ""),
        labels=mapped(words, "labels"),
        volume_mode=words.get("mode", "Filesystem"),
        attributes_class=words.get("attributes", ""),
        deleted="deleted" in words,
        driver=words.get("driver", ""),
        handle=words.get("handle", ""),
    )


def storage_class(words: Words, _place: int) -> o.StorageClass:
    provisioner = words.get("by", "csi.example.com")
    return o.StorageClass(words["name"], "waits" in words, provisioner, node_selector(words, "topologies"))


def capacity(words: Words, _place: int) -> StorageCapacity:
    """Without ``on`` it is about all nodes."""
    sizes = (float(words[name]) * G if name in words else None for name in ("size", "largest"))
    return StorageCapacity("driver", words["name"], words.get("class", ""), node_selector(words, "on"), *sizes)


def node_volumes(words: Words, _place: int) -> NodeVolumes:
    """``most`` has the limits by driver."""
    return NodeVolumes(words["name"], {driver: int(count) for driver, count in mapped(words, "most").items()})


MAKERS: Mapping[str, Callable[[Words, int], o.Object]] = {
    "node": node,
    "queue": queue,
    "group": group,
    "topology": topology,
    "pod": pod,
    "bindrequest": bind_request,
    "pvc": claim,
    "pv": volume,
    "storageclass": storage_class,
    "csidriver": lambda words, _place: StorageDriver(words["name"], "capacity" in words),
    "capacity": capacity,
    "csinode": node_volumes,
    "configmap": lambda words, _place: o.ConfigMap("ns", words["name"]),
    "namespace": lambda words, _place: o.Namespace(words["name"], mapped(words, "labels")),
    "zones": numa.zones,
    **c.MAKERS,
    "priorityclass": lambda words, _place: o.PriorityClass(words["name"], int(words["value"]), "default" in words),
}
