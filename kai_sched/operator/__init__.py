"""The process of ``kai-sched run``: cycles, what comes from the API server, and what goes to it.

``process`` builds what comes before the settings, ``app`` builds and connects all parts from the bottom up. Where two
parts need each other, a queue, an event or a trigger is built before both. The parts (``process_part``) are a list in
the order of the data. ``lifecycle`` starts them; to stop, it drains all of them, stops all of them, and then stops the
webhooks and pages. ``startup`` says what waits for what, ``kopf_frame`` what kopf does: it hands events of queues and
pod groups on a second time, and lists a kind only when a watch begins. ``scaling`` makes scaling pods,
``default_queues`` queues for pods without one, ``selector_service`` has selectors of devices evaluated while cycles go
on, ``usage_accounts`` knows the past of queues, ``shard_accounts`` that of several shards, ``garbage_collection`` tunes
Python.

The packages: ``intake``, whose sink and settings ``grouping`` and ``http`` know; ``cycle``, which knows the retries of
groups in ``delivery``; ``reporting``. All else that connects them is in ``app``.

- **One process, few threads.** The event loop handles everything that concerns the API server. One thread decides
  cycles, one computes statuses, one renews the lease on a connection of its own, two review. Kernels release the
  interpreter lock, so a cycle of ten seconds delays neither the lease nor a probe. The loop measures its callbacks, and
  logs those that take more than 50 ms of CPU time.
- **Level-triggered.** Every event is a state that is put into the store. A change that may help a pending pod requests
  a cycle at once, others after a while (``cycle_trigger``).
- **A round** decides a cycle of each shard on one view, each by itself (``cycle.shard``); a process without
  ``--all-shards`` has one. Intake, grouping, delivery and reporting know no shards.
- **A cycle** takes a view, decides, groups the binds by pod group, and assumes them (``model.inflight``): the next
  cycle sees those pods on their nodes, until the API server shows them there, or the bind has failed and is forgotten.
- **A cycle that raises** binds nothing and leaves nothing behind. If an object is at fault, it is found and left out
  (``cycle.quarantine``, ``cycle.fault_search``, in the solver's thread): lowering names it, or cycles without half of
  the suspects find it. A node at fault gets no new pods, a pod at fault keeps what it requested; both are tried again
  when they change, and every five minutes. A cycle that fails without such an object is retried after 1 s, doubling to
  30 s; from the second failure on readiness says so, and after ten failures and a minute the process ends.
- **A cycle that does not end** is told by readiness, a metric and the log after 10 s, and ends the process after
  ``--cycle-timeout`` (``cycle.watch``).
- **A bind** is validated against the store right before it is sent: the whole group when it is handed over, and each
  pod again before each attempt. A request is sent again after 0.1 to 2 s; a group whose bind failed waits (1 s,
  doubling to 60 s). The rest of a gang that is bound in part goes before all other jobs. After a crash the first cycle
  finds such gangs in the cluster itself.
- **A claim for devices** counts as allocated from the decision on (``model.claims.inflight``), as a pod counts as
  placed. It is written before any pod of its group is bound, and after a bind that failed its devices are free only
  once the API server has taken the reservation back. After a crash what the API server shows is the truth: a claim that
  is reserved for a pod without a node keeps its devices, and the pod goes there, or is released after a minute.
- **An eviction** is expected as a bind is assumed: the victim counts as leaving until the API server shows it, so it is
  never decided again, and the preemptor waits for room that is really free. The evictions of one action for one group
  are a plan, and before each request the tracker validates the plan; the deleter only sends. After a crash the next
  leader finds the room that is free already, and decides the rest again.
- **Time** leads to a cycle, too: each cycle says when a grace period, a delay or a protection ends next
  (``cycle.next_deadline``). The time of day never jumps: if the clock of the machine does, it runs at half or double
  speed until both agree (``clock``).
- **The leader** is chosen by a Lease. A write ends before another replica can lead. A renewal that is refused ends the
  lease at once. A process that lost it ends. A deleted Lease still belongs to its last holder, which creates it again.
- **A fault costs one item.** An unexpected exception while one object, reconcile request, write, bind or eviction is
  handled is logged and counted (``telemetry.unexpected``), and all others go on.
- **Standby** replicas keep their store, caches and compiled kernels warm, and serve the webhooks.
"""
