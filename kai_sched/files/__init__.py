"""Clusters from files, for ``kai-sched simulate`` and programs: bytes to a store, with a line for each problem.

``load`` is the entry. ``sources`` reads and unpacks files, ``yaml_input`` and ``json_input`` decode them within bounds,
``dump_info`` recognises dumps (``dump`` writes them) and snapshots of the original (``snapshot_archive`` writes them);
both are without secrets (``redaction``) and with the settings (``dump_settings``). ``input_time`` finds the time.
``items`` and ``objects`` sort their objects, ``strict`` and ``field_names`` refuse what a cluster would refuse,
``admission`` asks the webhooks' rules. Where ``expanded`` finds workloads, ``workloads`` with ``controllers`` makes the
pods that their controllers would make, ``grouping`` gives them groups, ``claim_templates`` and ``ephemeral_claims``
make their claims. ``scenario`` reads scenario files, ``settings`` the configuration. ``recording`` is a cycle's inputs
and plan as a document, ``private_file`` writes files that only their owner may read.
"""
