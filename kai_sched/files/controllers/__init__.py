"""The pods that controllers would make of workloads in files, offline, without a cluster.

``registry`` says which module knows a kind: ``kubernetes``, ``ray``, ``kubeflow``, ``trainer``, and ``sets`` for JobSet
and LeaderWorkerSet. ``workload`` has what they share, ``kinds`` lists what they know.
"""
