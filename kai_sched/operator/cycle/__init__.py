"""How cycles run in ``kai-sched run``, and what follows one.

``loop`` runs a cycle of each ``shard`` in the solver's thread, when ``cycle_trigger`` says that it is due, and hands
results (``decided_cycle``) to delivery and reporting. ``health`` decides what follows a cycle that fails, ``watch``
what follows one that takes too long, or failures that last. ``recorder`` keeps the inputs of the last cycles, and
writes them when it is asked to, and after a failure.
"""
