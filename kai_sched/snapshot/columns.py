"""What each column of the snapshot means: its type, axes and unit; docs/data-model.md is made from it.

Axes: q queue, j job (pod group), s set (sub-group: pod set or set of sub-groups), t task (pod), n node, g GPU device
that may be shared, x share of a task in a device, c class (of pods that are alike for placement), r resource, k
signature (of static node constraints), a inter-pod term, p host port, f claim that waits for a volume, z free volume;
h topology domain, w topology;
for dynamic resource allocation v device, e capacity of a device, u counter, i claim, y slot of a claim, o option of a
request. ``q+1`` is one longer (offsets, half open): the entries of row i are those from ``ptr[i]`` up to, not
including, ``ptr[i+1]``.

A table is a set of arrays of equal length, and a row is an index into all of them. Where a column refers to rows of
another axis, -1 (NULL) refers to none. Rows are in canonical order, so that the lower row wins each tie.
"""

from __future__ import annotations

from dataclasses import dataclass

NULL = -1


@dataclass(frozen=True, slots=True)
class Column:
    """One array of a table.

    ``dtype`` is the type as numpy writes it: i1, i4 and i8 are integers of 1, 4 and 8 bytes, f8 is a float, u1 a small
    number or a flag. ``axes`` are blank-separated, ``*`` is any length. ``doc`` is what an entry means, with its unit.
    ``row_of`` is the axis whose rows the entries are, if they are rows.
    """

    dtype: str
    axes: str
    doc: str
    row_of: str = ""


SCHEMA: dict[str, dict[str, Column]] = {
    "Queues": {
        "parent": Column(
            "i4", "q", "the queue above; NULL for a root. Parents have lower rows, siblings go by age, then uid", "q"
        ),
        "child_ptr": Column(
            "i4", "q+2", "children of q are child[child_ptr[q]:child_ptr[q+1]]; row Q stands above the roots"
        ),
        "child": Column("i4", "*", "children, lower rows first", "q"),
        "quota": Column("f8", "q 3", "deserved (CPU milli, memory bytes, GPU devices); inf = unlimited"),
        "limit": Column("f8", "q 3", "most that may be allocated; inf = unlimited"),
        "weight": Column("f8", "q 3", "over-quota weight"),
        "priority": Column("i8", "q", "higher is served first"),
        "usage": Column("f8", "q 3", "usage over the time window, as a share of the cluster; 0 without usage data"),
        "preempt_runtime": Column("i8", "q", "ns that a job runs before preempt may evict it; NULL: not set here"),
        "reclaim_runtime": Column("i8", "q", "ns that a job runs before reclaim may evict it; NULL: not set here"),
        "by_uid": Column("i4", "q", "the queues in the order of their uids", "q"),
        "held_elsewhere": Column("f8", "q 3", "held in other node pools that share; queues below count as well"),
        "fixed_elsewhere": Column("f8", "q 3", "of that, what jobs hold that are not preemptible"),
        "asked_elsewhere": Column("f8", "q 3", "requested in these node pools"),
        "capacity_elsewhere": Column("f8", "1 3", "capacity of these node pools"),
    },
    "Nodes": {
        "allocatable": Column("f8", "n r", "by resource; nodes go by name, so that the lower row wins a tie"),
        "mig_gpus": Column("f8", "n", "GPUs that the MIG devices of the node count as"),
        "counted": Column("u1", "n", "what the node adds to the cluster's capacity: 0 nothing, 1 all, 2 all but GPUs"),
        "devices": Column("f8", "n", "GPU devices of the node, which spreading goes by"),
        "device_memory": Column(
            "i8", "n", "memory of one GPU device, MiB less the reserve; a million parts where the node does not say"
        ),
        "cpu_only": Column("u1", "n", "1 where the node has no GPU of any kind"),
        "condition": Column("u1", "n", "0, or the verdict on every pod: NOT_READY, UNSCHEDULABLE, a pressure"),
        "mig": Column("u1", "n", "a MigMode"),
        "legacy_mig": Column("u1", "n", "1: pods are there that ask for MIG devices in the legacy way"),
        "closed": Column("u1", "n", "1: no pod may share a GPU there, as one could not be reserved"),
        "claims_only": Column(
            "u1", "n", "1: its GPUs are devices of slices, for claims alone; 2: it offers GPUs itself, too"
        ),
        "taint_set": Column("i4", "n", "row of Signatures.tolerated's second axis"),
    },
    "Devices": {
        "ptr": Column(
            "i4", "n+1", "devices of the node that may be shared; those in use first, by the name of the group"
        ),
        "reserved": Column("u1", "g", "1: a reservation pod holds the device, and has its pod slot already"),
        "closed": Column("u1", "g", "1: its pods do not say which device it is, so no other pod joins them"),
    },
    "Tasks": {
        "job": Column(
            "i4",
            "t",
            "pod group; NULL if the pod has none or an unknown sub-group. Tasks go by job, set, task order; NULL last",
            "j",
        ),
        "set": Column("i4", "t", "the pod set", "s"),
        "cls": Column("i4", "t", "the class", "c"),
        "node": Column("i4", "t", "where it is; NULL where it is nowhere or on a node outside the snapshot", "n"),
        "nominated": Column("i4", "t", "status.nominatedNodeName", "n"),
        "status": Column("i1", "t", "a Status"),
        "foreign": Column("u1", "t", "1: another scheduler's pod, which lessens the cluster's capacity"),
        "share_ptr": Column("i4", "t+1", "the devices of the task are device[share_ptr[t]:share_ptr[t+1]]"),
        "device": Column("i4", "x", "devices that tasks share; NULL while the task has no place", "g"),
    },
    "Classes": {
        "request": Column("f8", "c r", "effective request"),
        "quota": Column("f8", "c 3", "what the queue pays: CPU milli, memory bytes, GPU devices"),
        "gate": Column("f8", "c", "GPUs that count at limits and quotas: the least that the queue may pay"),
        "shares": Column("i4", "c", "devices that a pod shares; 0: none"),
        "portion": Column("f8", "c", "the part of each of them; 0 where it is given as memory"),
        "memory": Column("i8", "c", "memory of each of them, MiB; 0 where it is given as a part"),
        "signature": Column("i4", "c", "static node constraints", "k"),
        "cpu_only": Column("u1", "c", "1: asks for no GPU"),
        "refused": Column(
            "u1", "c", "0, or why no node will do: CLAIM_MISSING, CONFIG_MAP_MISSING, NOT_SUPPORTED, ..."
        ),
    },
    "Signatures": {
        "toleration": Column("i4", "k", "row of tolerated's first axis"),
        "tolerated": Column("u1", "* *", "toleration set x taint set: 1 where no taint keeps the pod away"),
        "selector_ptr": Column("i4", "k+1", "selectors of signature k, all of which must hold"),
        "selector_verdict": Column("u1", "*", "the verdict where the selector does not hold"),
        "term_ptr": Column("i4", "*", "terms of a selector, one of which must hold"),
        "requirement_ptr": Column(
            "i4", "*", "requirements of a term, all of which must hold; a term without any never holds"
        ),
        "requirement": Column("i4", "*", "rows of truth"),
        "truth": Column("u1", "* n", "1 where the requirement holds on the node"),
        "gpu_kind": Column("u1", "k", "a GpuKind"),
    },
    "Terms": {
        "kind": Column("u1", "a", "REQUIRED, ANTI or PREFERRED"),
        "domain": Column(
            "i4",
            "a n",
            "the node's domain for the term's topology key, offset into the counters; NULL without the label",
        ),
        "spans_nodes": Column("u1", "a", "1 where several nodes have the same value of the term's topology key"),
    },
    "TermRoles": {
        "ptr": Column("i4", "c+1", "entries of class c: its inter-pod terms and host ports"),
        "entry": Column(
            "i4", "* 3", "role (a TermRole), the term or host port, the weight (1, or that of a preferred term)"
        ),
        "self_match": Column("u1", "c", "1: the class's own pods match all its required terms"),
    },
    "HostPorts": {
        "ptr": Column("i4", "p+1", "ports that conflict with the port, itself included"),
        "conflict": Column("i4", "*", "those ports", "p"),
    },
    "Volumes": {
        "ptr": Column("i4", "c+1", "claims of class c that wait for volumes, the smallest first"),
        "claim": Column("i4", "*", "those claims", "f"),
        "group": Column("i4", "f", "claims with the same demand but for the size have one group"),
        "least": Column("i4", "f", "the first volume that is large enough; volumes go by size, then name"),
        "topology": Column("i4", "f", "row of made; NULL where no volume is made for the claim"),
        "near_ptr": Column("i4", "*", "volumes of a group that can be used on certain nodes"),
        "near_node": Column("i4", "*", "such a node, in order in each group", "n"),
        "near_volume": Column("i4", "*", "a volume that can be used there, in order for each node", "z"),
        "far_ptr": Column("i4", "*", "volumes of a group that can be used on all nodes"),
        "far_volume": Column("i4", "*", "those volumes, in order", "z"),
        "made": Column("u1", "* n", "1 where a volume can be made on the node"),
    },
    "Topologies": {
        "ptr": Column("i4", "w+1", "domains of the topology: its root, then level by level, by their values"),
        "level": Column("i4", "h", "0 for the root, 1 for the widest level"),
        "parent": Column("i4", "h", "the domain above; NULL for a root", "h"),
        "child_ptr": Column("i4", "h", "first domain below it in the next level"),
        "child_end": Column("i4", "h", "one past the last one; equal to child_ptr in the narrowest level"),
        "first": Column("i4", "h", "its nodes are node[first:end]"),
        "end": Column("i4", "h", "one past its last node in node"),
        "node": Column("i4", "*", "the nodes of each topology by narrowest domain, lower rows first", "n"),
        "leaf": Column("i4", "w n", "the node's narrowest domain; NULL: it lacks a label of the topology", "h"),
    },
    "NumaZones": {
        "ptr": Column("i4", "n+1", "the zones of the node, in order"),
        "policy": Column("u1", "n", "0 none, 1 best-effort, 2 restricted, 3 single-numa-node"),
        "pod_scope": Column("u1", "n", "1: pods are aligned as a whole, 0: each container by itself"),
        "aware": Column("u1", "n *", "by resource of zones: 1 if some zone of the node has it"),
        "allocatable": Column("f8", "* *", "by zone and resource: what pods can have of it, in the units of resources"),
        "free": Column("f8", "* *", "what of it is free at the start, once leaving pods have left"),
        "held_ptr": Column("i4", "t+1", "what the task holds of the zones of its node"),
        "held": Column("f8", "*", "at the start: by zone, then by resource; as many zones as the largest node has"),
    },
    "NumaRequests": {
        "ptr": Column("i4", "c+1", "requests of the class: that of the pod, then those of containers; none: no zones"),
        "guaranteed": Column("u1", "c", "1: all resources are aligned, 0: devices alone"),
        "alone": Column("u1", "*", "by request: 1 for an init container that ends before the others start"),
        "entry_ptr": Column("i4", "*", "what the request asks for"),
        "resource": Column("i4", "*", "the resource of zones"),
        "amount": Column("f8", "*", "how much of it, above 0"),
    },
    "Jobs": {
        "queue": Column("i4", "j", "leaf queue. Jobs go by creation, then uid", "q"),
        "priority": Column("i8", "j", "value of the priority class"),
        "preemptible": Column("u1", "j", ""),
        "not_consolidated": Column("u1", "j", "1: consolidation moves none of its pods"),
        "background": Column("u1", "j", "1: its pods count as absent while others are placed"),
        "refused": Column("u1", "j", "0, or why the job cannot be looked at: NO_QUEUE, QUEUE_NOT_LEAF, NOT_SUPPORTED"),
        "turn": Column("u1", "j", "a Turn"),
        "n_first": Column("i4", "j", "how many of its pods go before all other jobs, where its turn is FIRST"),
        "last_start": Column("i8", "j", "when its pods last began to hold resources, ns; 0: not known"),
        "waits_until": Column(
            "i8", "j", "before this time, ns, it may not have others evicted; 0: at any time, DEFERRED: later"
        ),
        "stale_since": Column("i8", "j", "since when it is known to lack pods, ns; 0: not known"),
        "grace": Column("i8", "j", "how long it may lack pods before it is evicted, ns; NULL: for ever"),
        "equivalence": Column("i4", "j", "equivalence class, below J: its jobs differ in their requests at most"),
        "queue_equivalence": Column("i4", "j", "the same within a queue: its jobs are in one queue, too"),
        "set_ptr": Column("i4", "j+1", "sets of the job, the root first"),
        "task_ptr": Column("i4", "j+1", "tasks of the job"),
    },
    "Sets": {
        "parent": Column("i4", "s", "NULL for the root; parents have lower rows, siblings go by name", "s"),
        "child_ptr": Column("i4", "s", "first child"),
        "child_end": Column("i4", "s", "one past the last child; equal to child_ptr for a pod set"),
        "minimum": Column("i4", "s", "pod set: minMember; set: how many members must be satisfied"),
        "task_ptr": Column("i4", "s+1", "tasks of a pod set, in task order; empty for a set"),
        "topology": Column("i4", "s", "the topology of its constraint; NULL without one", "w"),
        "required": Column("i4", "s", "the level of which its pods must share a domain; 0: none"),
        "preferred": Column("i4", "s", "the level of which they should share one; 0: none"),
        "fault": Column("i4", "s", "0, or why the constraint cannot be met: NO_TOPOLOGY, NO_LEVEL"),
    },
    "DraDevices": {
        "ptr": Column("i4", "n+1", "devices that pods on the node may use"),
        "entry": Column("i4", "*", "those devices, in the order in which they are tried", "v"),
        "wide": Column("u1", "v", "1: a use of it concerns several nodes, by the device itself or by its counters"),
        "shared": Column("u1", "v", "1: several claims may use it, each with a part of its capacities"),
        "alike": Column("i4", "v", "equal for devices that no request tells apart"),
        "limit_ptr": Column("i4", "v+1", "capacities of the device that claims consume; none of other devices"),
        "limit": Column("i8", "e", "how much there is of the capacity, in a unit of its own"),
        "counter_ptr": Column("i4", "v+1", "counters that a use of the device takes from"),
        "counter": Column("i4", "*", "the counter", "u"),
        "amount": Column("i8", "*", "how much of it"),
        "total": Column("i8", "u", "how much there is of the counter, in a unit of its own"),
    },
    "DraRequests": {
        "class_ptr": Column("i4", "c+1", "claims of the class"),
        "brief": Column("u1", "c", "1: its searches for devices have no steps but their own in this cycle"),
        "spec": Column("i4", "*", "what the claim asks for; row of request_ptr"),
        "claim": Column("i4", "*", "the claim, where it is a certain one; NULL: each pod has its own", "i"),
        "request_ptr": Column("i4", "*", "requests of the spec"),
        "needs": Column("i4", "*", "by request: row of needed; NULL: it is needed on all nodes"),
        "needed": Column("u1", "* n", "1: the node does not offer the resource that the request stands for"),
        "option_ptr": Column("i4", "*", "options of the request, the most wanted first"),
        "wanted": Column("i4", "o", "devices; 0: all that match"),
        "admin": Column("u1", "o", "1: devices in use will do, and are not used up"),
        "matcher": Column("i4", "o", "row of match"),
        "consumer": Column("i4", "o", "row of consumed; NULL where no device that matches is shared"),
        "constraint_ptr": Column("i4", "o+1", "constraints of the claim that hold for the option"),
        "constraint": Column("i4", "*", "row of distinct and attribute"),
        "distinct": Column("u1", "*", "1: values must differ, 0: they must be equal"),
        "attribute": Column("i4", "*", "row of value"),
        "match": Column(
            "u1", "* v", "1: class, selectors and tolerations select the device; 2 (TAINTED): all but the tolerations"
        ),
        "consumed": Column("i8", "* e", "how much of the capacity a use takes"),
        "value": Column("i4", "* v", "number of the attribute's value; NULL: the device has none"),
    },
    "DraClaims": {
        "task_ptr": Column("i4", "t+1", "claims of the task, as its class has them"),
        "claim": Column("i4", "*", "the claim", "i"),
        "shared": Column("u1", "i", "1: an allocation stays as long as a pod uses it; 0: it moves with its only pod"),
        "others": Column("i4", "i", "consumers that are no tasks on a node"),
        "held": Column("u1", "i", "1: it is allocated, and kept by something else than tasks on nodes"),
        "nodes": Column("i4", "i", "row of available: nodes for its first allocation; NULL: those of its devices"),
        "slot_ptr": Column("i4", "i+1", "devices of the claim"),
        "device": Column("i4", "y", "device at the start; NULL: none", "v"),
        "option": Column("i4", "y", "the option that it was allocated for", "o"),
        "available": Column("u1", "* n", "1: the allocation can be used from the node"),
    },
}
