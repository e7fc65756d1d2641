"""The tables of a cycle: numbers only, frozen, in canonical order. docs/data-model.md is made of them.

``tables`` has the tables and what their numbers mean, ``columns`` the schema that tests hold snapshots against,
``claim_tables`` the tables of claims for devices, ``gpu_kinds`` the columns of GPUs, ``choices`` the settings that are
a choice, ``sorting`` how rows are put in order, ``verdicts`` why a node, a class of pods or a job is refused.
"""
