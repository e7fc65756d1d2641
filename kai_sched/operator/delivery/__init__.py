"""What was decided goes to the API server: in which order, after which checks, and what follows a failure.

``cycle_executor`` hands over the decisions of a cycle: evictions first (``eviction_tracker``), then the binds of each
group (``bind_tracker``). Both validate a request right before ``cluster`` sends it. ``preparation`` does what takes
time before the binds of a group: devices of claims (``claims``), and devices that pods share (``share_binder``,
``gpu_reservations``, ``device_users``, ``device_waiters``). ``group_retries`` says when a group whose binds failed is
tried again, ``node_check`` whether a node takes pods right now.
"""
