"""Which nodes meet a requirement (semantics 12.2): values are looked up, against a look at each node."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kai_sched.lowering.cache import Cache
from kai_sched.lowering.constraints import label_column, truth_of
from kai_sched.model.constraints import Requirement
from kai_sched.model.objects import Node
from kai_sched.model.selectors import NODE_NAME, holds

VALUES = st.sampled_from(["1", "2", "a", "b", ""])
NODES = st.lists(st.dictionaries(st.sampled_from(["x", "y"]), VALUES), max_size=6).map(
    lambda labels: [Node(f"node-{number}", f"node-{number}", each) for number, each in enumerate(labels)]
)
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["x", "y", NODE_NAME]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Unknown"]),
    st.lists(st.one_of(VALUES, st.sampled_from(["node-0", "node-1"])), min_size=1, max_size=3).map(tuple),
)


@given(NODES, st.lists(REQUIREMENTS, min_size=1, max_size=4))
def test_a_requirement_holds_where_it_holds_for_the_labels_of_the_node(
    nodes: list[Node], requirements: list[Requirement]
) -> None:
    """Asked twice, as the second answer comes from the cache."""
    cache = Cache()
    for requirement in requirements * 2:
        labels = [{**node.labels, NODE_NAME: node.name} for node in nodes]
        assert truth_of(requirement, cache, nodes).tolist() == [holds(requirement, each) for each in labels]


@given(NODES)
def test_codes_name_values(nodes: list[Node]) -> None:
    codes, numbers = label_column("x", Cache(), nodes)
    values = list(numbers)
    assert [values[code] for code in codes] == [node.labels.get("x") for node in nodes]
    assert numbers[None] == 0
