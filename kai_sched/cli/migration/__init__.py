"""Coming from another scheduler: what a cluster has of KAI Scheduler, Kueue, Volcano and YuniKorn, and what changes.

``found`` holds the objects, from files or, by ``reading``, from a running cluster. ``takeover`` has a finding for each
thing that changes when kai-sched takes over, with a module for each scheduler. Nothing is written to a cluster.
"""
