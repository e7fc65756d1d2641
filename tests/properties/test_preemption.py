"""A pod of the highest priority gets a place wherever it would have one without the pods that may leave for it."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.constraints import HostPort, PodTerm, Requirement, Toleration
from kai_sched.plan.effects import Bind
from tests.properties.clusters import MINUTE_NS, NOW_NS, G
from tests.properties.crowds import HOST, UNLIMITED, Crowd, make_crowd
from tests.properties.deciders import plan_of

CROWD = Crowd(social=True, picky=True, flat=True)
QUEUE = o.Queue("q0", "u-q0", NOW_NS, cpu=UNLIMITED, memory=UNLIMITED, gpu=UNLIMITED)


def shunned(running: list[o.Object]) -> list[str]:
    """The values of the label ``app`` that some pods keep away; one that nobody has, where there are none."""
    pods = [item for item in running if isinstance(item, o.Pod)]
    terms = [term for pod in pods for term in pod.shape.anti_affinity]
    return sorted({value for term in terms for each in term.selector or () for value in each.values}) or ["new"]


def preemptor(rng: random.Random, n_groups: int, running: list[o.Object]) -> list[o.Object]:
    """One pod that may ask for labels of nodes, ports and other company than what runs there."""
    app = f"g{rng.randrange(n_groups)}"
    apart = PodTerm(rng.choice(("zone", HOST)), (Requirement("app", "In", (app,)),), ("ns",))
    request = {"cpu": 1000.0, "gpu": float(rng.choice((0, 1, 1, 2, 4))), "memory": float(G), "pods": 1.0}
    shape = o.Shape(
        request=tuple((key, amount) for key, amount in request.items() if amount),
        node_selector=(("zone", rng.choice("xy")),) if rng.random() < 0.5 else (),
        tolerations=(Toleration("only", "Exists"),) if rng.random() < 0.5 else (),
        host_ports=(HostPort(80),) if rng.random() < 0.3 else (),
        anti_affinity=(apart,) if rng.random() < 0.5 else (),
    )
    group = o.PodGroup(
        "ns", "new", "u-new", created_ns=NOW_NS - MINUTE_NS, queue="q0", priority_class="p125", preemptible=True
    )
    labels = {"app": rng.choice(shunned(running))}
    pod = o.Pod("ns", "new-0", shape, "u-new-0", NOW_NS, group="new", scheduler="kai-scheduler", labels=labels)
    return [group, pod]


@settings(max_examples=4 * settings().max_examples)
@given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 2**32))
def test_a_pod_that_fits_without_the_others_gets_a_place(n_nodes: int, n_groups: int, seed: int) -> None:
    """Whatever combination of selectors, taints, ports and terms keeps it off some of the nodes."""
    rng = random.Random(seed)
    crowd = [item for item in make_crowd(n_nodes, 1, n_groups, rng, CROWD) if not isinstance(item, o.Queue)]
    running = [item for item in crowd if not isinstance(item, o.Pod) or item.node]
    new = preemptor(rng, n_groups, running)
    lower = {
        item.name
        for item in running
        if isinstance(item, o.PodGroup) and item.preemptible is not False and item.priority_class != "p125"
    }
    stay = [item for item in running if not isinstance(item, o.Pod) or item.group not in lower]
    alone = run_cycle(Cluster.of([*stay, *new, QUEUE]), Config(("allocate",)), NOW_NS)
    fits = any(isinstance(effect, Bind) and effect.pod == "ns/new-0" for effect in alone.effects)
    cluster = Cluster.of([*running, *new, QUEUE])
    plan = plan_of(cluster, run_cycle(cluster, Config(("allocate", "preempt"), victims="minimal"), NOW_NS))
    assert (plan.stands["ns/new-0"][0] != "Pending") == fits
