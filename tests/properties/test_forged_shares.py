"""Annotations of pods of other schedulers change nothing, whatever they say and wherever these pods are (8.2)."""

from __future__ import annotations

import json
import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kai_sched import Cluster, Config, run_cycle
from kai_sched.model import objects as o
from kai_sched.model.read.kinds import POD, Reader
from tests.properties.clusters import NOW_NS
from tests.properties.plans import text_of
from tests.properties.test_shares import CONFIGS, CROWDED, LOOSE

ANNOTATIONS = st.dictionaries(
    st.sampled_from(
        [
            "gpu-fraction",
            "gpu-memory",
            "gpu-fraction-num-devices",
            "gpu-fraction-container-name",
            "nvidia.com/mig-1g.5gb",
            "nvidia.com/mig-3g.20gb",
            "received-resource-type",
        ]
    ),
    st.sampled_from(["0.01", "0.5", "1", "1.0", "2", "8", "1024", "16384", "999999999", "g0", "Fraction", "x", ""]),
    max_size=5,
)
REQUESTS = st.sampled_from([{}, {}, {"nvidia.com/gpu": "0"}, {"nvidia.com/gpu": "1"}, {"nvidia.com/mig-1g.5gb": "1"}])
FORGED = st.lists(st.tuples(ANNOTATIONS, REQUESTS, st.booleans()), min_size=1, max_size=6)


def forged(number: int, node: str, annotations: dict[str, str], requests: dict[str, str], groups: list[str]) -> o.Pod:
    labels = {f"runai-gpu-group/{group}": group for group in groups}
    content = {
        "metadata": {
            "name": f"forged{number}",
            "namespace": "evil",
            "uid": f"forged{number}",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Running"},
    }
    found = Reader(Config()).read(POD, json.dumps(content).encode(), lambda *_: None)
    assert isinstance(found, o.Pod)
    return found


@settings(max_examples=4 * settings().max_examples)
@given(st.one_of(LOOSE, CROWDED), CONFIGS, st.booleans(), FORGED, st.randoms(use_true_random=False))
def test_annotations_of_others_change_nothing(
    objects: list[o.Object],
    config: Config,
    live: bool,
    pods: list[tuple[dict[str, str], dict[str, str], bool]],
    rng: random.Random,
) -> None:
    """The plan is the one that is made where the same pods have no annotations and no labels."""
    config = replace(config, proves_shares=live)
    nodes = sorted(each.name for each in objects if isinstance(each, o.Node))
    groups = sorted({group for each in objects if isinstance(each, o.Pod) for group in each.gpu_groups})
    plain, annotated = [], []
    for number, (notes, requests, joins) in enumerate(pods):
        node = rng.choice(nodes)
        named = rng.sample(groups, min(len(groups), 2)) if joins else ["own"]
        plain.append(forged(number, node, {}, {k: v for k, v in requests.items() if v != "0"}, []))
        annotated.append(forged(number, node, notes, requests, named))
    first, second = (text_of(run_cycle(Cluster.of([*objects, *more]), config, NOW_NS)) for more in (plain, annotated))
    assert first == second
