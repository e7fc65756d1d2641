"""Answers to what people ask about a cluster: what waits and why, what would start it, who pays, what a change does.

From a cluster and a question to an answer object with names and units. Pure and deterministic; ``report`` makes text
and JSON of the answers, the command line and the library only ask. From the bottom up:

``words`` has the words for amounts, durations and lists of names, so that no sentence is put together twice.
``workloads`` names groups by the workload that their users wrote, and looks names up. ``goal`` says when a group has
started. ``headlines`` says who is evicted for whom, ``waiting`` why each group waits, in a few words.

What was decided: ``overview`` has the whole of one cycle (``simulate``), ``selection`` the part of it that is wanted.

What would be decided: ``changes`` (queues, nodes, whole groups) and ``workload_changes`` (one workload, by its user)
change the objects of a store; ``what_if`` reads them as they are written in flags. ``trial`` runs cycles on a changed
cluster until it settles, and puts it back. ``difference`` compares two such outcomes, ``fit`` says whether workloads
would run, ``explain`` searches for the smallest changes that start one, and ``when`` says by when one starts as others
end.
"""
