"""One cycle as a pure call: ``run.run_cycle(cluster, config, now_ns) -> CycleResult``.

``run`` lowers, solves and lifts. ``lift`` turns rows into names, ``explain`` says why each group waits.
``hint_tracker`` makes what the next cycle has to know, with ``search_rounds`` (who searches for victims) and
``claim_turns`` (who searches for devices at length); ``next_deadline`` says when that is due if nothing changes.
``quarantine`` leaves out objects that cause errors, found by ``fault_search`` and kept by ``left_out``. ``claim_uses``
has the devices of claims at the end. ``shards`` decides several shards, ``pool_amounts`` counts what each brings to
shares of the cluster. ``world`` is what a cluster does between two cycles, for ``kai-sched simulate``.
"""
