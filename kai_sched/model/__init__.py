"""The domain: objects in the scheduler's units, the store that holds them, and the settings; nothing about the wire.

``objects`` has the fields of pods, nodes, queues and groups, ``resources`` the quantities and their units, ``keys`` how
objects and groups are named. ``read`` makes them of the JSON of the API, within bounds that ``api`` shares with the
CRDs. ``store`` keeps them, with a journal of changes, and gives consistent views (``Cluster``); ``inflight`` shows pods
whose bind or eviction was sent already. ``claims`` has what belongs to dynamic resource allocation, ``numa`` what pods
hold of NUMA zones. ``config`` has the settings of a scheduler, ``hints`` what one cycle tells the next one. ``checks``
and ``problems`` tell users what is wrong with their objects.
"""
