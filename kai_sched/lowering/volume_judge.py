"""What the PersistentVolumeClaims of a class of pods mean for nodes, all rules together: whether they can be used,
where their volumes can be, where there is room for them, and whether another pod has one for itself (semantics 12.1,
12.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kai_sched.lowering.class_records import PodClass
from kai_sched.lowering.constraints import Selector, judge_volumes
from kai_sched.lowering.storage import StorageRows
from kai_sched.lowering.volume_amounts import VolumeAmounts
from kai_sched.model.constraints import NodeSelector
from kai_sched.model.objects import VolumeClaim
from kai_sched.model.volumes import VolumeBook
from kai_sched.snapshot.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class VolumeJudge:
    """Judges classes of pods by their claims.

    Attributes
    ----------
    book, storage, amounts
        The volumes and claims of the view, what drivers say of nodes, and what pods take of that.
    users
        How many tasks use each claim, by its key.
    texts
        Why classes wait, by ``PodClass.held``.
    evicts_storage
        ``Config.schedule_csi_storage``: the sum of sizes alone decides about claims of one pod, as evictions change it.
    """

    book: VolumeBook
    storage: StorageRows
    amounts: VolumeAmounts
    users: Mapping[str, int]
    texts: list[str]
    evicts_storage: bool
    _selectors: dict[tuple[str, float], NodeSelector | None] = field(default_factory=dict)

    def judge(self, c: int, each: PodClass) -> tuple[Verdict, str, tuple[Selector, ...]]:
        """What ``constraints.judge_volumes`` returns, for class ``c`` of the snapshot."""
        verdict, refusal, selectors = judge_volumes(each.known.shape, self.book, self._capacity)
        if verdict == Verdict.OK and each.held:
            return Verdict.CLAIM_IN_USE, self.texts[each.held], ()
        more = self.amounts.selectors.get(c)
        return verdict, refusal, selectors if more is None else (*selectors, more)

    def _capacity(self, claim: VolumeClaim) -> NodeSelector | None:
        if self.evicts_storage and self.users[claim.key] == 1:
            return None
        key = claim.storage_class, claim.size_bytes
        if key not in self._selectors:
            self._selectors[key] = self.storage.selector(claim)
        return self._selectors[key]
