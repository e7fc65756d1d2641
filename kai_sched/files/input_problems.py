"""What is wrong with the input as a whole: files of a wrong kind, two dumps, kinds that are not used, node pools that
no shard has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kai_sched.api import names
from kai_sched.files.dump_info import DumpInfo
from kai_sched.files.items import Item
from kai_sched.files.sources import FilePosition
from kai_sched.model.config import Config
from kai_sched.model.problems import Problem
from kai_sched.model.read.kinds import KINDS, OPERATOR_CONFIG, SHARD, Kind, read_version
from kai_sched.model.shards import pool_texts, unserved_pools
from kai_sched.model.store import Cluster


def pool_problems(cluster: Cluster, config: Config) -> list[Problem]:
    """Warnings about node pools that no shard has, where all shards are decided."""
    if not config.node_pools:
        return []
    named, others = pool_texts(unserved_pools(cluster, config))
    return [Problem("", "", "", text) for text in (*named.values(), others) if text]


def answer_problem(path: str, kind: str) -> Problem:
    """The error for a file that kai-sched has printed."""
    is_plan = kind == names.PLAN_KIND
    what = "a plan that kai-sched has printed" if is_plan else f"an answer that kai-sched has printed ({kind})"
    message = f"{what}, and a cluster is needed: name the cluster that it is about"
    if is_plan:
        message += "; `kai-sched diff A B` compares two files with plans"
    return Problem(str(FilePosition(path)), "", "", message, fatal=True)


def second_dump(dumps: Sequence[DumpInfo]) -> Problem:
    """The error for a second dump."""
    remedy = "name one of them, or compare two with `kai-sched diff A B`"
    message = f"a second dump after {dumps[0].source}, and all files together are one cluster: {remedy}"
    return Problem(str(dumps[1].source), "", "", message, fatal=True)


def idle_files(paths: Sequence[str], plain: Sequence[Item], expanded: Sequence[Item]) -> list[Problem]:
    """Problems for named files without any object that the scheduler uses: a kind may be misspelt."""
    known = {*KINDS, SHARD, OPERATOR_CONFIG}
    given, unused = (Counter(item.source.path for item in items) for items in (plain, expanded))
    unused -= Counter(item.source.path for item in expanded if item.kind in known)
    found = []
    for path in dict.fromkeys(paths):
        if given[path] and unused[path] >= given[path]:
            kinds = ", ".join(sorted({item.kind[1] for item in plain if item.source.path == path}))
            message = f"it has no object that the scheduler uses ({kinds}): correct the kind, or leave the file out"
            found.append(Problem(path, "", "", message, fatal=True))
    return found


def unread_kinds(counts: Mapping[Kind, int]) -> list[Problem]:
    """Warnings about kinds that are not used, with how many objects of each there are."""
    found = []
    for (version, kind), count in sorted(counts.items()):
        text = f"{count} object{'' if count == 1 else 's'} ignored: this version does not use the kind"
        if read := read_version(version, kind):
            text = f"{count} object{'' if count == 1 else 's'} ignored: this version reads {read}"
        found.append(Problem("", f"{kind} ({version})", "", text))
    return found
