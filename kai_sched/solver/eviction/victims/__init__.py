"""Who may be evicted, and in which order (semantics 4.2 to 4.4); shared by both searches.

``candidates`` keeps a sorted list of contenders and of victims for each leaf over all searches of an action,
``leaf_order`` and ``queue_order`` read them in the order of the queue tree. ``potential`` accumulates victims one chunk
at a time, ``chunk`` says which pods of a job leave together, and ``neighbours`` who stays for pods near it.
"""
