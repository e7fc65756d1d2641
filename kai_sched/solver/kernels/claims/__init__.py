"""Devices of slices for the claims of pods, as kernels (semantics 8.6; ADR 14).

``search`` says whether a node has the devices, and which of them a pod gets; ``steps`` bounds how long it searches.
``holders`` keeps who has which claim, ``devices`` the books of one device. As with shares of GPUs there are two
ledgers: now, and once leaving pods have left. All writes go through the undo log.
"""
