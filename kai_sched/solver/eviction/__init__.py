"""The search for victims in outline (semantics 4 to 6): the algorithm as pseudo-code, and a table of its bounds; no
code.

Consolidation, reclaim and preempt share one search. They differ in which jobs may be victims (``stages.evicting``) and
in what the validator asks (``rules.validate``). This is the search as pseudo-code, with the functions that do it; each
level is one function::

    make_room                                                               stages.evicting
        for each pending job (the preemptor), the fairest queue first:
            skip it if gates, shares or a similar job that failed say so    reason_not_to_search, similar_jobs
            search_for_victims:
                find_minimal_victims                                        minimal.search
                commit_scenario, if it found some                           commit

    find_minimal_victims
        for each candidate set: victims that leave alone,
        victims that leave with others, victims that may move:
            search_candidate_set -> search_for_pod or search_for_gang
                accumulate potential victims, the least deserving first     victims.potential
                when they might suffice and an attempt is due: attempt_scenarios

    attempt_scenarios
        choose_chunks, node by node, the cheapest node first                minimal.choice, minimal.taking
        simulate_choice: evict them, place the preemptor,                   minimal.simulation
            let victims return; is_valid judges the result,                 rules.validate
            who_retakes asks if a queue would take it straight back         rules.retake
        drop_unneeded_victims: each that the others can do without          minimal.leaving_out

    when all actions are done, victims that have room again stay            minimal.returning

Packages. ``victims`` has the order of victims, ``rules`` what a scenario must keep; both searches use them, and
``scenario``, ``evict``, ``home_claims``, ``bounds`` and ``commit``. ``minimal`` is the search above, with tables of its
own. With ``victims: original`` the search is that of v0.17.0 (``original``; docs/adr/0008 says why there are two).
Neither knows the other, and what they share reads the tables of neither (``tables.Search`` only holds them).

Order. ``victims.candidates`` keeps a sorted list of contenders and of victims for each leaf over all searches of an
action; ``victims.leaf_order`` and ``victims.queue_order`` read them in the order of the queue tree without sorting
again.

State. Everything is simulated on the working state and undone through its log (``kernels.undo``); nothing is copied.
Tables of a search (``tables``) are scratch: marks and clocks make them current, so that nothing is cleared in a loop.

Bounds. A bound proves that a part of the search cannot succeed, so that it is skipped; it never changes the plan (4.6).
"proofs" is tests/properties/test_proofs.py, which switches the bound off and expects the same plan; "twin" is
tests/properties/test_evictions.py, which expects the plan of tests/oracle, where the bound does not exist; "steps" is
tests/unit/solver/eviction/original/test_precedence.py, which checks the steps of the proof.

======================== ===================================== ================= =========================== ===========
bound                    claim                                 cost              proof                       test
======================== ===================================== ================= =========================== ===========
bounds                   no victims help: with all possible    victims, classes  room_for_kind,              proofs
.refute                  ones gone a class of tasks has no     x nodes; once in  shares_suffice
                         room, or shares let too little leave  a candidate set   (rules.shares.gpus_above)
minimal.bounds           shares keep the GPUs that are         queues; once a    rules.shares, with          proofs
.shares_forbid_all       lacking, whatever the victims are     search            unlimited supply
minimal.bounds           the potential victims so far hold too queues            rules.shares: gpus_above,   proofs
.may_supply              few GPUs that shares let leave                          gpus_kept_behind
minimal.node_supply      shares let too little leave from each tasks, nodes x    what each side may lose by  proofs
.can_clear_no_node       node for a single pod                 depth             rules.shares
minimal.bounds           a single pod fits no node of the last nodes of the job  all room is counted; terms  proofs
.hosts_suffice           victim, with all of its victims gone                    only refuse more
minimal.node_costs       shares let too little leave from one  victims on the    what shares refuse now they proofs
.can_be_cleared          node                                  node              refuse later
minimal.choice           a repetition without chunks that were none              refused with none gone, so  proofs:
.clear_some_node         refused at first ends the same                          refused again               clear_node
minimal.node_costs       the cost of a node, and the cheapest  one comparison    each change calls           twin
.known_cost              node of a block, are as before                          forget_cost
minimal.node_costs       the cost of a node is no less, so     the room of the   all that block are on the   proofs
.least_cost              that one which costs less is cheaper  node              node; 0 where they are not
minimal.leaving_out      no chosen chunk can be left out       chunks x their    without it an upper bound   proofs
.some_victim_is_unneeded                                       tasks             of room is too low
victims.potential        with all potential victims gone some  classes (4)       each class by itself, free  proofs
.may_suffice             class of pending tasks has no room                      of terms and limits
original.scenarios       the same for the nodes of one         victims x classes as may_suffice              twin
.scenario_may_suffice    scenario (original)
original.precedence      every victim is placed again before   leaves that       docs/adr/0009               proofs,
.all_victims_come_back   the preemptor, or shares keep it      changed, queues,                              steps
                         (original)                            nodes
original.precedence      the same for the victims of one       victims, queues   docs/adr/0009               proofs,
.may_leave               scenario; any_exposed: for the last                                                 steps
                         chunks
original.search          scenarios of the first ranked nodes   last chunk, nodes nothing changed on these    proofs
.tried_before            failed one chunk before                                 nodes
original.search          the scenario is the same on each node victims           it has no pods of other     proofs
.is_by_itself            of the job                                              jobs
original.recorded        the last probe begins with the        victims squared   all its victims would be    proofs
.all_have_gone           scenario that was just solved                           recorded
======================== ===================================== ================= =========================== ===========

Some rules resemble bounds but may change the plan, so they are part of the semantics: a job like one that failed is
skipped (``similar_jobs``, 3.8), a scenario that failed is not tried again (``original.failed``, 4.5, original), a gang
is attempted after 1, 2, 4, ... chunks for which ``may_suffice`` holds (4.5), and the search budget ends a search (4.8).
"""
