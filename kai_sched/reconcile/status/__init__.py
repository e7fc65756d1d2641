"""What is written into the status of queues, PodGroups, pods and workloads, and when (API 5, 6).

``reconciler`` has one reconciler for each kind (``queue_reconciler``, ``group_reconciler``, ``pod_reconciler``,
``owner_reconciler``; what they have in common is ``object_reconciler``) and returns the writes that are due. The fields
of a status: ``queue_status``, ``group_status`` and, for cluster autoscalers, ``pod_conditions``. ``usage`` counts what
pods hold, for queues and groups, with ``claim_usage`` for claims for devices. ``write_throttle`` spaces writes out,
``merge`` makes patches, ``shown_objects`` keeps what the API server shows.
"""
