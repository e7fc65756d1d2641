"""Trips through the code: ARCHITECTURE.md shows them, and each function of a trip hands on to the next one.

A trip is a list of steps. To add one, add its steps to TRIPS, and its list or its drawing to ARCHITECTURE.md under the
same title. A function hands on to the next one by mentioning its name, or by a port: then it mentions the port, and the
function that connects the two gives the method of the next one to the class of the first where it makes an object of
it, or else mentions its name. If a function hands on to nothing, the next step says which earlier one calls it.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

import pytest

from tests.tree import ROOT

STEPS_MAX = 14


@dataclass(frozen=True)
class Step:
    """A function. ``port`` is what it calls if that is not named as the next step; ``wired`` is who connects them.

    ``caller`` is the function that calls it, if that is not the one of the step before.
    """

    file: str
    function: str
    port: str = ""
    wired: tuple[str, str] = ("", "")
    caller: str = ""

    @property
    def name(self) -> str:
        return self.function.rpartition(".")[2]


SINK = "kai_sched/operator/intake/event_sink.py"
TRIGGER = "kai_sched/operator/cycle_trigger.py"
LOOP = "kai_sched/operator/cycle/loop.py"
BINDER = "kai_sched/cluster/pod_binder.py"
EXECUTOR = "kai_sched/operator/delivery/cycle_executor.py"
CLAIM_BINDER = "kai_sched/operator/delivery/claims/binder.py"
SHARE_BINDER = "kai_sched/operator/delivery/share_binder.py"
APP = "kai_sched/operator/app.py"
EVICTING = "kai_sched/solver/stages/evicting.py"
MINIMAL_SEARCH = "kai_sched/solver/eviction/minimal/search.py"

TRIPS = {
    "From an event's bytes to the bind's request": (
        Step("kai_sched/cluster/reflector.py", "Reflector._handle"),
        Step(SINK, "EventSink.changed"),
        Step(SINK, "EventSink._put"),
        Step(SINK, "EventSink._take", "_changed", (APP, "build_intake")),
        Step(TRIGGER, "CycleTrigger.request", "_requested", (TRIGGER, "CycleTrigger.wait")),
        Step(LOOP, "CycleLoop.run"),
        Step(LOOP, "CycleLoop._turn"),
        Step(EXECUTOR, "CycleExecutor.carry_out", "_send", (APP, "_build_delivery")),
        Step("kai_sched/cluster/volume_binder.py", "VolumeBinder.submit", "_submit", (APP, "_build_delivery")),
        Step(CLAIM_BINDER, "ClaimBinder.submit", "_submit", (APP, "_build_delivery")),
        Step(SHARE_BINDER, "ShareBinder.submit", "_submit", (APP, "_build_delivery")),
        Step(BINDER, "PodBinder.submit", "_queue", (BINDER, "PodBinder.__init__")),
        Step(BINDER, "PodBinder._work", "_BindRequest", ("kai_sched/cluster/delivery.py", "deliver")),
        Step(BINDER, "_BindRequest.send"),
    ),
    "From a snapshot to a committed eviction": (
        Step("kai_sched/solver/pipeline.py", "solve"),
        Step(EVICTING, "make_room"),
        Step(EVICTING, "search_for_victims"),
        Step(EVICTING, "search_once"),
        Step(MINIMAL_SEARCH, "find_minimal_victims"),
        Step(MINIMAL_SEARCH, "search_candidate_set"),
        Step(MINIMAL_SEARCH, "search_for_gang"),
        Step("kai_sched/solver/eviction/victims/potential.py", "accumulate"),
        Step(MINIMAL_SEARCH, "attempt_scenarios", caller="search_for_gang"),
        Step("kai_sched/solver/eviction/minimal/choice.py", "choose_chunks"),
        Step("kai_sched/solver/eviction/minimal/simulation.py", "simulate_choice", caller="attempt_scenarios"),
        Step("kai_sched/solver/eviction/rules/validate.py", "is_valid", caller="simulate_choice"),
        Step("kai_sched/solver/eviction/minimal/leaving_out.py", "drop_unneeded_victims", caller="attempt_scenarios"),
        Step("kai_sched/solver/eviction/commit.py", "commit_scenario", caller="search_for_victims"),
    ),
}


def function(file: str, qualified: str) -> ast.AST:
    """The function of that name, such as "Class.method". Raises LookupError."""
    found: ast.AST = ast.parse((ROOT / file).read_text())
    for part in qualified.split("."):
        kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        inside = [each for each in ast.iter_child_nodes(found) if isinstance(each, kinds) and each.name == part]
        if not inside:
            raise LookupError(f"{file} has no {qualified}")
        found = inside[0]
    return found


def mentions(file: str, qualified: str) -> set[str]:
    """The names and attributes in the function."""
    nodes = list(ast.walk(function(file, qualified)))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def broken(steps: tuple[Step, ...]) -> list[str]:
    """What is wrong with the trip."""
    found = [f"{len(steps)} steps"] if len(steps) > STEPS_MAX else []
    try:
        for step in steps:
            function(step.file, step.function)
        for place, following in enumerate(steps[1:], 1):
            step = _caller(steps[:place], following)
            wanted = step.port or following.name
            if wanted not in mentions(step.file, step.function):
                found.append(f"{step.function} does not mention {wanted}")
            if step.port and not _connects(step, following):
                found.append(f"{step.wired[1]} does not connect {step.function} to {following.function}")
    except LookupError as error:
        found.append(str(error))
    return found


def _caller(before: tuple[Step, ...], step: Step) -> Step:
    """The earlier step that calls the step. Raises LookupError."""
    for each in reversed(before):
        if step.caller in ("", each.function):
            return each
    raise LookupError(f"{step.caller}, which calls {step.function}, is no earlier step")


def _connects(step: Step, following: Step) -> bool:
    """Whether the wiring gives the next function to the first, or is an event that the next function waits for."""
    giver, receiver = step.function.rpartition(".")[0], following.function.rpartition(".")[0]
    made = [call for call in _calls(function(*step.wired)) if getattr(call.func, "id", "") == giver]
    if made:
        return any(_gives(call, receiver, following.name, function(*step.wired)) for call in made)
    if following.name in mentions(*step.wired):
        return True
    waits = step.wired[1].rpartition(".")[2]
    return step.port in mentions(*step.wired) and waits in mentions(following.file, following.function)


def _calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def _gives(call: ast.Call, receiver: str, method: str, wiring: ast.AST) -> bool:
    """Whether an argument is the method of an object of that class made in ``wiring``, or a function that calls it."""
    made = {
        target.id
        for node in ast.walk(wiring)
        if isinstance(node, ast.Assign) and getattr(getattr(node.value, "func", None), "id", "") == receiver
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def is_method(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == method and getattr(node.value, "id", "") in made

    inside = {node.name: node for node in ast.walk(wiring) if isinstance(node, ast.FunctionDef)}
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(
        is_method(argument)
        or (
            isinstance(argument, ast.Name)
            and argument.id in inside
            and any(map(is_method, ast.walk(inside[argument.id])))
        )
        for argument in arguments
    )


def listed(title: str) -> list[tuple[str, str]]:
    """The function and the file of each line of the numbered list below the title in ARCHITECTURE.md."""
    lines = re.findall(r"^\d+\. `([\w.]+)` \(`([\w./]+)`\)", section_of(title), re.MULTILINE)
    return [(name, f"kai_sched/{file}") for name, file in lines]


def section_of(title: str) -> str:
    """The text below the title in ARCHITECTURE.md."""
    _, _, below = (ROOT / "ARCHITECTURE.md").read_text().partition(f"# {title}\n")
    return re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0]


def drawn(title: str) -> list[tuple[str, str, str]]:
    """The caller, the function and the file of each line of the drawing below the title: a caller is less indented."""
    above: list[tuple[int, str]] = []
    found = []
    for indent, name, file in re.findall(r"^( *)(\w+) +([\w./]+\.py)", section_of(title), re.MULTILINE):
        while above and above[-1][0] >= len(indent):
            above.pop()
        found.append((above[-1][1] if above else "", name, f"kai_sched/solver/{file}"))
        above.append((len(indent), name))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("title", TRIPS)
def test_each_function_of_a_trip_hands_on_to_the_next(title: str) -> None:
    assert broken(TRIPS[title]) == []


def test_the_document_lists_the_trip_of_an_event() -> None:
    title = "From an event's bytes to the bind's request"
    assert listed(title) == [(step.function, step.file) for step in TRIPS[title]]


def test_the_document_draws_the_search_for_victims() -> None:
    title = "From a snapshot to a committed eviction"
    steps = TRIPS[title]
    callers = ["", *(_caller(steps[:place], step).function for place, step in enumerate(steps) if place)]
    assert drawn(title) == [(by, step.function, step.file) for by, step in zip(callers, steps, strict=True)]


def test_a_broken_trip_is_found() -> None:
    steps = TRIPS["From an event's bytes to the bind's request"]
    assert broken(steps[:2] + steps[3:]) == ["EventSink.changed does not mention _take"]
    assert broken((Step(SINK, "EventSink.nothing"),)) == [f"{SINK} has no EventSink.nothing"]
    assert broken((steps[3], steps[6])) == ["build_intake does not connect EventSink._take to CycleLoop._turn"]
    assert broken(steps + steps)[0] == "28 steps"
    past_claims = (steps[8], steps[11])
    assert broken(past_claims) == ["_build_delivery does not connect VolumeBinder.submit to PodBinder.submit"]
    steps = TRIPS["From a snapshot to a committed eviction"]
    assert broken(steps[:6] + steps[13:]) == []
    assert broken(steps[5:]) == ["search_for_victims, which calls commit_scenario, is no earlier step"]
    choices, choose = steps[8:10]
    assert broken((*steps[:6], replace(choose, caller="make_room"))) == ["make_room does not mention choose_chunks"]
    wrong = ["choose_chunks does not mention attempt_scenarios"]
    assert broken((choices, choose, replace(choices, caller=""))) == wrong
