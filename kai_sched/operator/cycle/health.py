"""What follows a cycle that fails: the delay before the next one, when /healthz fails, and the logs and Events about it
and about objects left out.

The cycle loop calls it after each cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field, replace
from traceback import extract_tb

import structlog

from kai_sched.api import names
from kai_sched.cluster.backoff import Backoff
from kai_sched.cycle.quarantine import RETRY_S, Outcome, Quarantined
from kai_sched.files.recording import CycleInputs
from kai_sched.model.objects import Object
from kai_sched.model.read.kinds import CLASSES
from kai_sched.operator.cycle.recorder import CycleRecorder
from kai_sched.plan.effects import Emit, Ref
from kai_sched.reconcile.events import emit
from kai_sched.telemetry.metrics import Metrics

log = structlog.get_logger("cycle")

BACKOFF = Backoff(1.0, 30.0)  # between cycles that fail
# After this many failures in a row, over at least this many seconds, /healthz fails.
FAILURES_MAX = 10
FAILING_MAX_S = 60.0
LOGGED_MAX = 1000  # distinct faults whose traceback is logged once
_KINDS = {found: kind for kind, found in CLASSES.items()}

Fault = tuple[type[BaseException], str, int | None]


@dataclass(slots=True)
class _Failures:
    """Of one shard: how many cycles in a row have failed, since when (monotonic), the last error, what is left out."""

    in_a_row: int = 0
    since: float = 0.0
    problem: str = ""
    left_out: Counter[str] = field(default_factory=Counter)


class CycleHealth:
    """For one event loop. Shards are named where there are several; "" is the only one, and what concerns all.

    Parameters
    ----------
    metrics
        Counts failures.
    submit
        Takes Events.
    may_report
        Whether this replica may write Events.
    lease
        Namespace and name of the Lease, which Events about cycles are attached to.
    monotonic
        Seconds that never go back.
    recorder
        Keeps the inputs of the last cycles; None: nobody does.
    """

    def __init__(
        self,
        metrics: Metrics,
        submit: Callable[[list[Emit]], None],
        may_report: Callable[[], bool],
        lease: tuple[str, str],
        monotonic: Callable[[], float],
        recorder: CycleRecorder | None = None,
    ) -> None:
        self._metrics = metrics
        self._submit = submit
        self._may_report = may_report
        self._lease = Ref("coordination.k8s.io/v1", "Lease", *lease)
        self._monotonic = monotonic
        self._recorder = recorder
        self._logged: set[Fault] = set()
        self._failures: dict[str, _Failures] = {"": _Failures()}

    def serve(self, shards: Set[str]) -> None:
        """These are the shards from now on."""
        if self._failures.keys() != shards | {""}:
            self._failures = {name: self._failures.get(name) or _Failures() for name in sorted(shards | {""})}

    def failed(self, error: Exception, shard: str = "") -> float:
        """A cycle failed; return after how many seconds the next one may run."""
        failures = self._failures[shard]
        if failures.in_a_row == 0:
            failures.since = self._monotonic()
        failures.in_a_row += 1
        failures.problem = f"{type(error).__name__}: {error}"
        self._metrics.observe_failure()
        delay_s = BACKOFF.wait_s(failures.in_a_row)
        facts = {"in_a_row": failures.in_a_row, "again_s": delay_s, "problem": failures.problem, **_named(shard)}
        log.error("cycle.failed", **facts, exc_info=error if self._is_new(error) else None)
        what = f"by SchedulingShard {shard}" if shard else ""
        text = f"the scheduler's cycle fails, nothing is scheduled {what}".rstrip()
        self._emit(emit(self._lease, names.WARNING, names.CYCLE_FAILED, f"{text}: {failures.problem}"))
        return delay_s

    def undecided(self, inputs: CycleInputs, error: Exception) -> None:
        """No plan was made of these inputs; ``failed`` follows."""
        if self._recorder is not None:
            self._recorder.failed(inputs, error)

    def decided(self, outcome: Outcome, inputs: CycleInputs, shard: str = "") -> None:
        """A cycle was decided on these inputs, perhaps without some objects."""
        if self._recorder is not None:
            self._recorder.decided(inputs, outcome.result)
            if outcome.failed is not None:
                view, error = outcome.failed
                self._recorder.failed(replace(inputs, cluster=view), error)
        self._failures[shard].left_out = Counter(kind_of(kind)[1] for kind, _ in outcome.result.left_out)
        self._metrics.observe_left_out(sum((each.left_out for each in self._failures.values()), Counter()))
        if outcome.transient is not None:
            new = self._is_new(outcome.transient)
            problem = f"{type(outcome.transient).__name__}: {outcome.transient}"
            log.error("cycle.failed_once", problem=problem, exc_info=outcome.transient if new else None)
        for entry in outcome.quarantined:
            self._report_object(entry)
        for kind, key in outcome.released:
            log.info("object.readmitted", kind=kind_of(kind)[1], object=key)

    def succeeded(self, now_s: float, shard: str = "") -> None:
        """A cycle was decided and carried out at that time (seconds since the epoch)."""
        failures = self._failures[shard]
        if failures.in_a_row:
            log.info("cycle.recovered", failures=failures.in_a_row, **_named(shard))
        failures.in_a_row = 0
        if not any(each.in_a_row for each in self._failures.values()):
            self._metrics.observe_success(now_s)

    def failure(self) -> str:
        """The check "cycles" of readiness: why nothing is scheduled, from the second failure in a row on."""
        found = [(name, each) for name, each in self._failures.items() if each.in_a_row > 1]
        return "; ".join(
            f"{each.in_a_row} {_cycles_of(name)} in a row have failed: {each.problem}" for name, each in found
        )

    def problem(self) -> str:
        """Return why /healthz has to fail, or an empty string: while some shard goes on, the process does."""
        lasting = {name: text for name, each in self._failures.items() if (text := self._lasting(name, each))}
        several = self._failures.keys() - {""}
        return "; ".join(lasting.values()) if "" in lasting or (several and several <= lasting.keys()) else ""

    def _lasting(self, shard: str, failures: _Failures) -> str:
        lasted_s = self._monotonic() - failures.since
        if failures.in_a_row < FAILURES_MAX or lasted_s < FAILING_MAX_S:
            return ""
        cycles = f"{failures.in_a_row} {_cycles_of(shard)} in a row have failed, for {lasted_s:.0f} s"
        return f"{cycles}: {failures.problem}"

    def _report_object(self, entry: Quarantined) -> None:
        kind, key = entry.name
        version, name = kind_of(kind)
        error = entry.error.__cause__ or entry.error
        new = isinstance(error, Exception) and self._is_new(error)
        log.warning("object.quarantined", kind=name, object=key, problem=entry.problem, exc_info=error if new else None)
        text = (
            f"the scheduler fails with this {name} and leaves it out: {entry.problem}; it is tried again when it "
            f"changes, and in {RETRY_S / 60:.0f} minutes"
        )
        self._emit(emit(ref_of(entry.item, version, name), names.WARNING, names.LEFT_OUT, text))

    def _emit(self, event: Emit) -> None:
        """Emit the Event, unless another replica leads."""
        if self._may_report():
            self._submit([event])

    def _is_new(self, error: Exception) -> bool:
        """Whether an exception of this type from this line was not logged yet."""
        frames = extract_tb(error.__traceback__)
        fault = (type(error), frames[-1].filename, frames[-1].lineno) if frames else (type(error), "", 0)
        if fault in self._logged:
            return False
        if len(self._logged) >= LOGGED_MAX:
            self._logged.clear()
        self._logged.add(fault)
        return True


def _named(shard: str) -> dict[str, str]:
    return {"shard": shard} if shard else {}


def _cycles_of(shard: str) -> str:
    return f"cycles of SchedulingShard {shard}" if shard else "cycles"


def kind_of(kind: type[Object]) -> tuple[str, str]:
    """Return apiVersion and kind of the objects of this class."""
    return _KINDS[kind]


def ref_of(item: Object, version: str, kind: str) -> Ref:
    """Return the reference of the object."""
    return Ref(version, kind, getattr(item, "namespace", ""), item.name, getattr(item, "uid", ""))
