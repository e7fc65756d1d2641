"""The rules of the PodGrouper: which PodGroup a pod belongs to (API 4), the same for files and for a cluster.

Three calls. ``owners.resolve(pod, fetch)`` follows the owners, of which it needs the metadata only.
``registry.group_of(pod, chain, view, settings)`` picks the rule of the top owner's kind (a module for each family of
kinds: ``plain``, ``ray``, ``kubeflow``, ``jobset``, ``leader_worker_set``, ``knative``, ``grove``), which asks the view
for the whole object if it has to read its size, and returns a draft (``draft``). ``manifest.finish`` makes the PodGroup
of it, ``manifest.merged`` updates one that exists. No webhook sets a queue: ``manifest.choose_queue`` gives workloads
the default one, ``lowering.roles`` bare pods. ``priority_classes`` chooses the class, ``workload_errors`` words what is
wrong.

None of them waits: a caller that has to fetch objects raises an exception of its own in the view, fetches the object,
and calls again.
"""
