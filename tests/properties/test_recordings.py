"""A cycle that is recorded and read again gives the same plan, and its recording is the same again, on any cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.cycle.run import run_cycle
from kai_sched.files.recording import CycleInputs, CycleRecording, decode_recording, encode_recording
from kai_sched.library import with_answers
from kai_sched.model import objects as o
from kai_sched.model.config import Config
from kai_sched.model.hints import SchedulingHints
from kai_sched.model.store import TABLES, Cluster
from kai_sched.plan.plan_text import plan_lines
from tests.answered import lower_offline
from tests.properties.clusters import NOW_NS, Spice, clusters
from tests.properties.crowds import crowds
from tests.properties.shares import Sharing
from tests.properties.test_claims import crowds as with_claims

CLUSTERS = st.one_of(
    clusters(Spice(pod_affinity=True, bind_requests=True)), clusters(Spice(sharing=Sharing())), crowds(), with_claims()
)


@given(CLUSTERS, st.sampled_from(("minimal", "original")))
def test_a_recorded_cycle_gives_the_same_plan(objects: list[o.Object], victims: str) -> None:
    cluster, config = Cluster.of(objects), Config(victims=victims)
    lower_offline(cluster, config, NOW_NS)
    cluster = with_answers(cluster)  # all that the lowering has asked about
    groups = sorted(cluster.pod_groups)
    hints = SchedulingHints(first=dict.fromkeys(groups[:1], 1), deferred=frozenset(groups[1:2]))
    plan = plan_lines(run_cycle(cluster, config, NOW_NS, hints=hints))
    raw = encode_recording(CycleRecording(CycleInputs(cluster, config, NOW_NS, hints), plan, "", "1"))
    found = decode_recording(raw)
    inputs = found.inputs
    assert encode_recording(found) == raw
    assert inputs.cluster.selector_answers == cluster.selector_answers
    assert all(list(inputs.cluster.table(kind).items()) == list(cluster.table(kind).items()) for kind in TABLES)
    assert plan_lines(run_cycle(inputs.cluster, inputs.config, inputs.now_ns, hints=inputs.hints)) == plan == found.plan
