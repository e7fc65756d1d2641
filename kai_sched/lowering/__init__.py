"""Names to numbers: a view of the cluster becomes a ``Snapshot``, the tables that the solver decides on.

``lower`` makes the snapshot. ``cache`` keeps between cycles what can be kept (``cached_rows``), by the journal of the
store, until too much of it is of what is gone (``crowding``). A module for each table: ``queues``, ``jobs`` with
``sub_group_tree``, ``nodes``, ``devices``, ``host_ports``, ``terms`` and ``term_roles`` (bounded by ``term_work``),
``volumes``, ``topologies``, ``numa`` and, in a package of their own, ``claims``. What claims for volumes mean for nodes
is put together by ``volume_judge``: ``storage`` has what drivers say (by ``reach``), ``volume_amounts`` what pods take
of it, ``exclusive_claims`` who has a claim for itself. ``pod_classes`` finds pods that placement cannot tell apart,
``equivalence`` jobs that differ in their requests only, ``constraints`` what pods ask of nodes. ``settings`` turns the
configuration into numbers. ``cycle.lift`` turns rows back into names.

The way of a field: ``cache`` reads it into a cell of a pod or a group (``cached_rows.PodCell``, ``GroupCell``), a
module above turns the cells into a column of its table (``snapshot.tables``; ``snapshot.columns`` has the schema).
Queues and nodes are few: their tables are made anew when one of them changes.

Each pod is a row of integers: names are numbers that never change meaning (``Names``), so nothing that is cached
depends on whether another object is there. Tables are gathered in canonical order with numpy; their docstrings have the
sorting keys (``snapshot.sorting``, ``distinct``). So any order of the input, and a cold or a warm cache, give the same
bytes. Inter-pod terms and sets of labels find each other by what they have in common, so a new pod pays for those that
concern it. A cycle that raises leaves an empty cache."""
