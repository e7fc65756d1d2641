"""From the JSON of the API to objects of ``model.objects``: ``kinds`` says which reader a kind has.

A reader takes a struct of ``kai_sched.api`` and returns a frozen object. A field that cannot be read raises
``FieldError``, which names the field; what is odd but can be used becomes a warning. Pods are read by ``pod``, which
calls ``requests`` (what they ask for), ``constraints`` (where they may run) and ``sharing`` (parts of GPUs). ``custom``
reads queues and PodGroups, ``claims`` the kinds of resource.k8s.io, ``objects`` the other kinds of Kubernetes.
``config`` and ``sharing_settings`` read the settings. ``meta`` has what all kinds share, ``parse_cache`` the bounded
caches of parsed values.
"""
