"""Statuses, conditions and Events: computed for what changed, or is due by time, behind the binds.

The event loop hands over the latest observation of each object (``observations``), ``status_reporter`` says when
statuses are computed, ``batch`` computes them in a thread with ``reconcile.status``. ``cluster.status_writer`` sends
the writes, merged by object, with its uid; Events have a budget. A condition of a pending pod names the resourceVersion
in which the pod waits, so it cannot land on a pod that was bound meanwhile.
"""
