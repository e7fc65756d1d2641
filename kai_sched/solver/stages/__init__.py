"""The steps of a cycle; none imports another one, ``solver.pipeline`` has their order.

``fair_share`` opens the books and divides capacity, ``allocate`` places what fits. ``evicting`` is consolidation,
reclaim and preempt: who gets a search for victims (``solver.eviction``), and who may be a victim. ``stale`` evicts
gangs below their minimum (semantics 7), ``settle`` puts the books right at the end, ``explain`` counts why nodes do not
take the pods that wait.
"""
