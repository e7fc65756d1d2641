"""Which of many suspects make cycles fail: they are admitted to trial cycles in blocks, and a block is halved if the
cycle fails with it. Suspects that are not admitted yet stay out, so cycles succeed however long the search takes.

Objects of the cluster are admitted before those of namespaces, so that nothing in a namespace puts the blame on them;
namespaces are told apart first, then kinds. The larger a block the earlier it is tried: who is in no namespace with a
faulty object is admitted after a few trials. A namespace with many more objects than others, or a queue with many more
pods, is tried apart from these: a thousand small ones that are faulty do not keep it out. Errors of lowering name their
objects and need no halving.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from kai_sched.lowering.errors import LoweringError
from kai_sched.model.claims.objects import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from kai_sched.model.keys import split_key
from kai_sched.model.numa import NodeZones
from kai_sched.model.objects import (
    BindRequest,
    ConfigMap,
    Namespace,
    Node,
    Object,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    StorageClass,
    Topology,
    Volume,
    VolumeClaim,
)
from kai_sched.model.storage import NodeVolumes, StorageCapacity, StorageDriver
from kai_sched.model.store import Change

# The order in which objects are admitted. Of objects that fail together the last one is to blame.
SUSPECTS: tuple[type[Object], ...] = (
    Namespace,
    PriorityClass,
    Node,
    NodeZones,
    Queue,
    StorageClass,
    StorageDriver,
    StorageCapacity,
    NodeVolumes,
    Topology,
    Volume,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ConfigMap,
    BindRequest,
    PodGroup,
    Pod,
    VolumeClaim,
    ResourceClaim,
)
WITHOUT_LIMIT = 64  # halvings; a cluster has fewer than 2**64 objects
SAMPLES_MAX = 16  # namespaces that are asked whether they fail by themselves
MUCH_LARGER = 4.0  # so many times the size of the smallest

# Runs a cycle without these objects; returns its error. Raises EndError if no more trials may be made.
Trial = Callable[[set[Change]], Exception | None]
Note = Callable[[Change, Exception], None]
_RANKS = {kind: rank for rank, kind in enumerate(SUSPECTS)}
Parts = tuple[tuple[Change, ...], tuple[Change, ...]]
_Place = tuple[str, int, str]


class EndError(Exception):
    """No further trial may be made now."""


@dataclass(frozen=True, slots=True)
class Block:
    """Suspects that are left out, in order. ``error`` is that of the cycle with them; None: not tried.

    ``halvings``: how often the block may be halved. Then all of it counts as faulty.
    """

    names: tuple[Change, ...]
    error: Exception | None
    halvings: int = WITHOUT_LIMIT


class FaultSearch:
    """The blocks that are not tried to the end."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()

    @property
    def out(self) -> dict[Change, Exception | None]:
        """The objects in blocks, with the error of their block."""
        return {name: block.error for block in self._blocks for name in block.names}

    def add(self, names: Iterable[Change], error: Exception | None, halvings: int = WITHOUT_LIMIT) -> None:
        """Add a block of these objects. ``error`` is that of the cycle with them; None: it is to be tried first."""
        block = Block(tuple(ordered(names)), error, halvings)
        if block.names:
            self._blocks.append(block)

    def keep(self, is_there: Callable[[Change], bool]) -> None:
        """Forget all objects for which that does not hold."""
        blocks = [(tuple(filter(is_there, block.names)), block) for block in self._blocks]
        self._blocks = deque(Block(names, block.error, block.halvings) for names, block in blocks if names)

    def run(self, trial: Trial, found: Callable[[], Set[Change]], note: Note, queue_sizes: Mapping[str, int]) -> None:
        """Try blocks until there are none, or until no more trials may be made.

        ``found`` returns all objects that are left out beside those in blocks; ``note`` adds a faulty one to them.
        ``queue_sizes`` has the number of pods of each queue that has some.
        """
        while self._blocks:
            block = self._blocks.popleft()
            parts = parted(block.names, queue_sizes)
            tried = _Tried(block, parts, lambda admitted, rest: trial({*found(), *self.out, *rest} - admitted), note)
            try:
                self._blocks.extend(tried.blocks())
            except EndError:
                self._blocks.extendleft(reversed(tried.rest))
                return


class _Tried:
    """One block that is tried or halved. ``rest`` is what is not admitted of it if the trials end."""

    def __init__(
        self, block: Block, parts: Parts, trial: Callable[[set[Change], set[Change]], Exception | None], note: Note
    ) -> None:
        """``trial`` runs a cycle that admits the first objects, and leaves out all others of the second ones."""
        self._block = block
        self._parts = parts
        self._trial = trial
        self._note = note
        self.rest = [block]

    def blocks(self) -> list[Block]:
        """The blocks that take the place of this one."""
        block = self._block
        if block.error is None:
            failing = self._failing(block)
            return [failing] if failing is not None else []
        if len(block.names) == 1 or block.halvings == 0:
            for name in block.names:
                self._note(name, block.error)
            return []
        first, second = (Block(names, None, block.halvings - 1) for names in self._parts)
        self.rest = [first, second]
        failing = self._failing(first)
        if failing is not None:
            self.rest = [failing, second]
            other = self._failing(second)
            return [failing] if other is None else [failing, other]
        # What fails with both and not with the first half fails with the second.
        if not is_namespaced(block.names[0]) and is_namespaced(block.names[-1]) and self._is_of_cluster(first, second):
            return [Block(first.names, block.error, first.halvings)]
        # A single one is tried all the same: the cycle may have failed for a reason that has passed.
        return [Block(second.names, block.error if len(second.names) > 1 else None, second.halvings)]

    def _failing(self, block: Block) -> Block | None:
        """The part of the block with which the cycle fails, None if all of it was admitted."""
        while block.names:
            error = self._error(set(block.names))
            if error is None:
                return None
            named = {(fault.kind, fault.key): fault.error for fault in getattr(error, "errors", ())}
            known = [name for name in block.names if name in named]
            if not isinstance(error, LoweringError) or not known:
                return Block(block.names, error, block.halvings)
            for name in known:
                self._note(name, named[name])
            others = Block(tuple(name for name in block.names if name not in named), None, block.halvings)
            self.rest = [others if each is block else each for each in self.rest]
            block = others
        return None

    def _error(self, admitted: set[Change]) -> Exception | None:
        return self._trial(admitted, {name for block in self.rest for name in block.names})

    def _is_of_cluster(self, cluster: Block, others: Block) -> bool:
        """Whether an object of the cluster is faulty although it fails together with objects of namespaces only.

        Nobody writes to all namespaces: it is so if each of them fails with these objects, and none without.
        """
        second = Block(others.names, self._block.error, others.halvings)
        spaces = sorted({split_key(key)[0] for kind, key in others.names if kind is Pod})
        self.rest = [cluster, second]
        if len(spaces) < 2 or self._error(set(others.names)) is not None:
            return False
        self.rest = [second]
        return all(
            self._error({name for name in others.names if split_key(name[1])[0] == space}) is not None
            for space in spaces[:: -(-len(spaces) // SAMPLES_MAX)]
        )


def is_namespaced(name: Change) -> bool:
    """Whether the object lives in a namespace."""
    return "/" in name[1]


def _place(name: Change) -> _Place:
    return split_key(name[1])[0], _RANKS[name[0]], name[1]


def ordered(names: Iterable[Change]) -> list[Change]:
    """The objects in the order in which they are admitted: those of the cluster first, then by namespace."""
    return sorted((name for name in names if name[0] in _RANKS), key=_place)


def parted(names: tuple[Change, ...], queue_sizes: Mapping[str, int]) -> Parts:
    """Both halves of a block, each in order: the cluster and namespaces, else the largest namespaces or queues and the
    others, else some namespaces and others, some kinds and others, or any two halves.
    """
    places = [_place(name) for name in names]
    if not places or places[0][0] or not places[-1][0]:
        large = _large(names, places, queue_sizes)
        if large:
            return tuple(n for n in names if n in large), tuple(n for n in names if n not in large)
    at = _halved(places)
    return names[:at], names[at:]


def _large(names: tuple[Change, ...], places: list[_Place], queue_sizes: Mapping[str, int]) -> set[Change]:
    """The objects of namespaces that have many more of them than others, or the queues that have many more pods: those
    above the geometric mean of the smallest and the largest size. Empty if no size is much larger."""
    spaces = [space for space, _, _ in places]
    sizes: Mapping[object, int] = Counter(spaces)
    owners: list[object] = list(spaces)
    if len(sizes) == 1 and all(kind is Queue for kind, _ in names):
        owners = [key for _, key in names]
        sizes = {key: 1 + queue_sizes.get(key, 0) for _, key in names}
    least, most = min(sizes.values(), default=1), max(sizes.values(), default=1)
    if most < MUCH_LARGER * least:
        return set()
    return {name for name, owner in zip(names, owners, strict=True) if sizes[owner] ** 2 > least * most}


def _halved(places: list[_Place]) -> int:
    """Where to halve objects at these places: between the cluster and namespaces, between namespaces, kinds or any."""
    middle = len(places) // 2
    if not places[0][0] and places[-1][0]:
        return bisect_left(places, ("!", 0, ""))
    for parts in (1, 2):
        of_middle = places[middle][:parts]
        starts = [at for at in (bisect_left(places, of_middle), _end(places, of_middle)) if 0 < at < len(places)]
        if starts:
            return min(starts, key=lambda at: abs(at - middle))
    return middle


def _end(places: list[_Place], of_middle: tuple[object, ...]) -> int:
    return next((i for i in range(len(places)) if places[i][: len(of_middle)] > of_middle), len(places))
