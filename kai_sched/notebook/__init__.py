"""Clusters for notebooks and scripts: ``kai_sched.load`` reads one, and its methods simulate, explain and change it.

``loaded_cluster`` has ``load`` and ``LoadedCluster``, ``inputs`` reads files and objects, ``arguments`` reads times and
amounts. ``results`` and ``question_results`` have what the methods return, made of the tables of ``tables``.
"""
