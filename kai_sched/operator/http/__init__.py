"""What is served: pages for probes and metrics, snapshots, and the webhooks.

``listener`` bounds the connections to all ports, ``pages`` answers /healthz and /readyz, ``metrics_page`` /metrics,
``snapshot_server`` /get-snapshot on loopback. ``webhook_server``
has reviews computed by two threads of their own, with bounds on time and bodies (``reconcile.admission``).
``webhook_service`` serves them from before the first list until seconds after the signal to end: the readiness of the
pod depends on them only, /readyz/scheduling shows what scheduling waits for. ``certificate`` keeps the Secret,
``authority`` makes the certificate in it. ``page_server`` serves the page of the cluster to those whom ``path_access``
lets in: the one that ``live_page`` makes of the last cycle.
"""
