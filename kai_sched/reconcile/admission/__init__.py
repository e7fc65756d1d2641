"""Reviews of objects that users create or change: what is refused, what is warned about, what is filled in (API 5, 6,
8).

``review`` takes a review apart and answers it. ``objects`` refuses queues, PodGroups and Topologies that cannot work.
``pods`` is the only module that changes objects: it writes what GPU sharing needs into pods; ``sharing`` refuses what
pods must not ask for, ``reserved_labels`` labels that only the scheduler sets, and impossible owners. ``types`` has the
fields of reviews and answers. Offline, ``files.admission`` asks the same questions about objects of files.
"""
