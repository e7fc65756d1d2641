"""What a cycle decided, as data and in names.

``result`` has the ``CycleResult``, ``effects`` what is to be done in the cluster, ``allocations`` the devices of claims
in the form of the API. The words: ``reasons`` why a group is pending, ``receipts`` what is said of an eviction,
``waits`` for whom a pipelined pod waits.
"""
