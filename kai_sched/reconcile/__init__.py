"""Pure logic beside the decisions: what is written about them, what is admitted, and which groups workloads get.

Three packages: ``admission`` answers the reviews of webhooks, ``grouping`` makes a PodGroup of each workload,
``status`` says what is written into the status of objects, and when. Beside them ``events`` has the texts of Events,
``eviction_notices`` what an evicted pod is told, ``gpu_reservation`` the manifest of reservation pods, ``scaling_pods``
which scaling pods there should be (API 13), and ``volume_plan`` what has to be written before a pod with claims for
volumes is bound. Nothing here knows the API server: ``operator`` calls these modules and ``cluster`` sends what they
say.
"""
