"""Claims for devices, and the devices that nodes offer (dynamic resource allocation, semantics 8.6; ADR 14, 16).

``objects`` has the fields of classes, slices, taint rules, claims and allocations. ``pools`` says which slices count.
``of_pods`` says which claims a pod has, also those that stand for its extended resources. ``selectors`` has what
classes and claims ask about devices, as questions and answers, ``selector_text`` what the text of a question tells by
itself. ``inflight`` shows allocations that were decided and are not in the API server yet. ``checks`` warns of slices
whose devices nobody can get.
"""
