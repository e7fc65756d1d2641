"""The API server: requests, lists and watches, the lease. Bytes in, bytes out; what is sent is decided elsewhere.

``client`` and ``login`` connect, ``paths`` is the only place where text becomes part of a request (impossible names are
refused before anything is sent), ``failure`` says what is known of a request that failed. ``reflector`` lists and
watches. ``lease`` says who leads, and for how long; ``write_guard`` asks it before every write, right before it is sent
and again when its connection is open.

One engine delivers everything (``delivery``): workers empty a ``work_queue`` or ``write_queue``, ``retry`` says what
follows each failure, after the delays of ``backoff``. Deletes, writes and reads have a reserve of connections that
binds may not take (``request_slots``), unless there are fewer than 8, so requests of one kind that hang do not block
others. Effects become requests in ``pod_binder``, ``pod_deleter``, ``volume_binder``, ``status_writer`` (with
``event_budget``), ``sharing_requests``, ``claim_requests`` and ``extended_claim_requests`` (both use ``claim_writes``)
and ``group_requests``. Binds and deletes carry the uid of the pod; if an outcome is unknown, as after a cut connection,
the pod is read, and keeps its room until then.

``owner_reader`` reads what owns pods, of any kind; ``cluster_reader`` reads a whole cluster once, for dumps.
``time_slice`` lets long work pause every 10 ms. ``own_pod`` is the pod of a small process (``kai-sched reserve``).
"""
