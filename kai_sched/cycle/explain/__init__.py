"""Why a group waits: from the counts of ``solver.stages.explain`` to the sentences of ``plan.reasons`` (semantics 3.9).

``groups`` chooses the reason of each group. The others know one cause each: ``claims`` devices that no node has,
``shares`` parts of GPUs, ``volumes`` claims for volumes, ``left_out`` objects that the cycle had to leave out.
"""
