"""The search for victims that make room for a pending job (semantics 4 to 6).

Consolidation, reclaim and preempt share one search; they differ in who may be a victim (``stages.evicting``) and in
what the validator asks (``validate``). In words, with the modules that do it::

    for each pending job (the preemptor), the fairest queue first:          stages.evicting.make_room
        skip it if gates, shares or a similar job that failed say so        reason_not_to_search, similar_jobs
        find victims for it:                                                minimal_search.find_minimal_victims
            for each candidate set: those that may leave by themselves,
            those that may leave with others, those that may move:
                add potential victims, the least deserving first            potential_victims.accumulate
                whenever they might suffice:
                    choose chunks, node by node, the cheapest node first    minimal_choice.choose
                    evict them, place the preemptor, let victims return     minimal_simulation.simulate
                    ask the validator                                       validate.is_valid
                    ask whether a queue would take the room straight back   retake.who_retakes
                    leave out each victim that the rest can do without      minimal_search.drop_unneeded_victims
        write evictions and placements to the decision log                  commit.commit_scenario
    when all actions are done, victims that have room again stay            minimal_return.keep_victims

With ``victims: original`` the search is that of v0.17.0 (``original_search``): scenarios are made of all potential
victims, of one node or of several (``scenarios``), and simulated whole (``simulation``); the first valid one is taken.

Order of contenders and victims: ``candidates`` keeps a sorted list for each leaf over all searches of an action;
``leaf_order`` and ``queue_order`` read them in the order of the queue tree without sorting again.

Everything is simulated on the working state and undone through its log (``kernels.undo``); nothing is copied.

Bounds. Each is a proof that a part of the search cannot succeed. tests/properties/test_proofs.py switches each of them
off and sees the same plan.

=========================== ======================================================= ===================================
bound                       claim                                                   cost
=========================== ======================================================= ===================================
bounds.refute               no victims help: with all possible ones gone there is   nodes x classes of pending tasks,
                            no room, or shares let too few go                       once a search, after some chunks
minimal_bounds              shares keep so many GPUs that the missing ones cannot   queues
.shares_forbid_all          be taken, whoever the victims are
minimal_bounds.may_supply   the potential victims so far hold too few GPUs that     queues beside the preemptor's
                            shares let go
minimal_bounds              a single pod fits no node that the last victim leaves   nodes of the last victim's job
.hosts_suffice
potential_victims           with all potential victims gone there is no room for    classes of pending tasks
.may_suffice                all pending tasks of some class
minimal_choice              shares let too little go from one node, each victim     victims on the node
.can_be_cleared             by itself
minimal_choice.clear_node   the cost of a node is the same as before, as nothing    one comparison
                            changed there
minimal_search              no chosen victim can be left out                        nodes of the chosen victims
.some_victim_is_unneeded
similar_jobs.is_easier      a job that asks for as much as one that failed fails    tasks of both jobs
precedence                  original search: every victim would be placed again     queues, once a search
.all_victims_come_back      before the preemptor
precedence.may_leave        original search: the same of one scenario's victims     victims of the scenario
failed_scenarios            original search: the same scenario failed before        victims of the scenario
original_search             original search: a prefix of ranked nodes was tried     nodes
.tried_before
=========================== ======================================================= ===================================
"""
