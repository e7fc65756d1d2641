"""The search for few victims, the default (semantics 4.5, ``victims: minimal``; ADR 6, 8).

``search`` says in which of the ``candidate_sets``, and when, a scenario is attempted, with the ``bounds`` that spare
attempts and ``node_supply`` that spares a set. ``choice`` chooses chunks node by node, by ``node_costs``; ``taking``
takes a chunk (``chunks``) as far as rules allow, ``blockers`` takes what keeps a pod off a node. ``simulation`` evicts
the choice, places the preemptor and lets victims return. ``leaving_out`` spares victims that are not needed.
``returning`` takes evictions back at the end of the cycle.
"""
