"""The PodGrouper, live: from pods with owners to PodGroups, by the rules of ``reconcile.grouping``.

``groups`` knows what the API server shows (``shown_groups``) and what the rules want, and the store shows the latter: a
pod of a workload (``members``) is held back until its place is decided, and from then on it is there, in a PodGroup
that may not be written yet. Two work queues hold what is to be done (``requests``).

*Reconcile requests* name what owns pods directly, the source. ``workload_grouper`` decides all its pods that are new or
changed, else one of each of its groups, on the same answers. Owners are read when they are needed, their metadata alone
unless the rule of the kind has asked for more, and are cached for a second (``owner_cache.FRESH_S``). A reconciliation
that used an answer from before it was requested is repeated a second later; one that failed is repeated without cached
answers. ``prefetch`` lists the owners of the pods that exist when a replica begins to lead, if many of a kind are in a
namespace. A source is reconciled when pods come or
go, and within 30 s while its pods wait. ``rule_settings`` has the settings of the rules.

*Writes* (``group_writer``) are PodGroups first, then the pods that belong to them, behind the binds. What fails is
retried 1 s later, doubling to 60 s; a write that conflicts with another one reads the object first. Only the leader
reconciles and writes; when it begins to lead, it reconciles everything. Cycles act once these first reconciliations are
over, or after five seconds: otherwise the first sources would get all the room. ``problem_reporter`` tells users what
is wrong with their workloads.
"""
