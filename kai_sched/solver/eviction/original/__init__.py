"""The search of v0.17.0 (semantics 4.5, ``victims: original``; ADR 8, 9).

``search`` probes for growing parts of the pending tasks, with each generator of ``scenarios``: victims of one node, or
of several. ``simulation`` lets victims and the preemptor compete for the room. ``recorded`` keeps the victims of a part
that was solved, ``failed`` the scenarios that failed. ``precedence`` proves that no victims help, as all would come
back.
"""
