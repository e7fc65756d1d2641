"""The wire: what the API server and users send and get, as types; nothing is decided here.

``core`` and ``dra`` have the Kubernetes kinds that are read, as structs that are decoded straight from bytes,
``custom`` ours. ``queue``, ``podgroup``, ``bindrequest``, ``config``, ``shard`` and ``topology`` are the CRDs as
pydantic models (fields, types, bounds), of which ``crdgen`` makes crds/, with the printer columns. ``names`` has every
label and annotation, ``legal`` what can be a name at all.
"""
