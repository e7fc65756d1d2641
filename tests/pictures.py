"""The drawings of docs/concepts.md: clusters before and after a cycle, as the scheduler itself decides it. `make docs`
writes them into docs/images.

Each cluster is written in the notation of tests/scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from kai_sched import Cluster, CycleResult, run_cycle
from kai_sched.model.objects import Pod
from kai_sched.model.resources import GPU
from kai_sched.plan.result import QueueState
from tests.scenarios.objects import NOW_NS
from tests.scenarios.table import Scenario, read_text
from tests.tree import ROOT

FOLDER = ROOT / "docs" / "images"
CELL, ROW, GAP, LEFT, WIDTH = 56, 34, 14, 16, 690
GPU_INDEX = 2  # where a triple of resources has GPUs
COLORS = {"vision": "#2f6fb3", "nlp": "#c26a1b", "speech": "#3d8a4f"}
PLACED = ("Running", "Binding", "Bound", "Pipelined")

CASES = """
case gang
node node-1 gpu=4
node node-2 gpu=4
queue vision gpu=-1
queue nlp gpu=-1
group run queue=vision
group large queue=nlp min=4 age=2
group small queue=vision min=2 age=1
pod run-0 gpu=4 on=node-1
pod run-1 gpu=1 on=node-2
pod large-0..3 gpu=1
pod small-0..1 gpu=1
=> order

case reclaim
config actions=allocate,reclaim
node node-1 gpu=4
queue vision gpu=2
queue nlp gpu=2
group train queue=vision min=1
group tune queue=nlp min=2
pod train-0..2 gpu=1 on=node-1
pod tune-0..1 gpu=1
=> order

case consolidation
config actions=allocate,consolidation
node node-1 gpu=4
node node-2 gpu=4
queue vision gpu=-1
queue nlp gpu=-1
group a queue=vision
group b queue=vision
group big queue=nlp
pod a-0 gpu=2 on=node-1
pod b-0 gpu=2 on=node-2
pod big-0 gpu=4
=> order

case sharing
node node-1 gpu=4
queue vision gpu=-1
queue nlp gpu=-1
group train queue=vision
group chat queue=nlp min=1
pod train-0 gpu=2
pod chat-0..2 part=0.5
=> order

case fair-share
node node-1 gpu=8
node node-2 gpu=8
node node-3 gpu=8
queue vision gpu=12
queue nlp gpu=6
queue speech gpu=6
group a queue=vision min=1
group b queue=nlp min=1
pod a-0..19 gpu=1
pod b-0..9 gpu=1
=> order
"""


@dataclass
class Drawing:
    """Shapes of an SVG, from the top to the bottom."""

    shapes: list[str]
    height: int = GAP

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        """Words with their base line at that place."""
        self.shapes.append(f'<text x="{x:g}" y="{y:g}"{style}>{escape(words)}</text>')

    def box(self, x: float, width: float, fill: str, words: str = "", dashed: bool = False) -> None:
        """A box in the row that is being drawn, with words in its middle."""
        dash = ' stroke-dasharray="4 3"' if dashed else ""
        ink = "#333" if fill == "none" or dashed else "#fff"
        opacity = ' fill-opacity="0.25"' if dashed else ""
        self.shapes.append(
            f'<rect x="{x:g}" y="{self.height}" width="{width - 2:g}" height="{ROW - 4}" rx="4" fill="{fill}"{opacity} '
            f'stroke="{"#999" if fill == "none" else fill}"{dash}/>'
        )
        if words:
            middle = f' text-anchor="middle" fill="{ink}"'
            self.text(x + width / 2 - 1, self.height + ROW / 2 + 2, words, middle)

    def svg(self) -> str:
        """The picture as a file."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'font-family="sans-serif" font-size="12" fill="#222">\n'
            f'<rect width="{WIDTH}" height="{self.height}" rx="8" fill="#fff"/>\n'
        )
        return head + "\n".join(self.shapes) + "\n</svg>\n"


def pictures() -> dict[str, str]:
    """The content of each file by its name."""
    return {f"{case.name}.svg": _picture(case) for case in read_text(CASES.strip(), "pictures")}


def _picture(case: Scenario) -> str:
    cluster = Cluster.of(case.objects)
    result = run_cycle(cluster, case.config(), NOW_NS)
    drawing = Drawing([])
    if case.name == "fair-share":
        _queues(drawing, list(result.queues))
    else:
        before = {key: pod.node for key, pod in cluster.pods.items()}
        _nodes(drawing, cluster, before, "before", {})
        after = {key: state.node if state.status in PLACED else "" for key, state in result.pods.items()}
        _nodes(drawing, cluster, after, "after", _notes(result, before))
    return drawing.svg()


def _notes(result: CycleResult, before: dict[str, str]) -> dict[str, str]:
    """What has to be said of pods that were evicted: whether they move."""
    return {key: "moves" if result.pods[key].status in PLACED else "evicted" for key in result.evicted if before[key]}


def _nodes(drawing: Drawing, cluster: Cluster, places: dict[str, str], title: str, notes: dict[str, str]) -> None:
    """A row for each node, and one for what waits."""
    drawing.text(LEFT, drawing.height + 12, title, ' font-weight="bold"')
    drawing.height += 20
    for node in cluster.nodes.values():
        pods = [pod for key, pod in cluster.pods.items() if places[key] == node.name]
        size = round(node.allocatable[GPU])
        drawing.text(LEFT, drawing.height + ROW / 2 + 2, node.name)
        for index in range(size):
            drawing.box(LEFT + 90 + CELL * index, CELL, "none")
        _row(drawing, cluster, pods, notes, waits=False)
    waiting = [pod for key, pod in cluster.pods.items() if not places[key]]
    if waiting:
        drawing.text(LEFT, drawing.height + ROW / 2 + 2, "waits")
        _row(drawing, cluster, waiting, notes, waits=True)
    drawing.height += GAP


def _row(drawing: Drawing, cluster: Cluster, pods: list[Pod], notes: dict[str, str], waits: bool) -> None:
    x = float(LEFT + 90)
    for pod in pods:
        queue = cluster.pod_groups[pod.group_key].queue
        width = CELL * _gpus(pod)
        note = notes.get(pod.key, "")
        drawing.box(x, width, COLORS[queue], note or pod.name if width >= CELL else "", dashed=waits)
        x += width
    drawing.height += ROW


def _gpus(pod: Pod) -> float:
    return pod.shape.share.portion if pod.shape.share else dict(pod.shape.request).get(GPU, 0.0)


def _queues(drawing: Drawing, queues: list[QueueState]) -> None:
    """For each queue its quota, its fair share, and what it asks for."""
    rows = (("quota", "quota"), ("asks for", "requested"), ("fair share", "fair_share"))
    for queue in queues:
        drawing.text(LEFT, drawing.height + 12, queue.name, ' font-weight="bold"')
        drawing.height += 20
        for title, field in rows:
            amount = getattr(queue, field)[GPU_INDEX]
            drawing.text(LEFT, drawing.height + ROW / 2 + 2, title)
            if amount:
                dashed = field != "fair_share"
                drawing.box(LEFT + 90, amount * CELL / 2, COLORS[queue.name], f"{amount:g}", dashed)
            drawing.height += ROW
        drawing.height += GAP


def main() -> None:
    """Write all pictures anew."""
    for name, content in pictures().items():
        (FOLDER / name).write_text(content)


if __name__ == "__main__":
    main()
