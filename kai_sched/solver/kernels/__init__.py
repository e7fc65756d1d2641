"""What stages share, one idea a file, in the order in which an attempt to place a job uses them.

``account`` opens the books of nodes and queues, ``share`` divides capacity among queues (semantics 2). ``feasibility``
judges each node once for each class of pods. ``order`` gives the next job (3.1), ``gang`` its next chunk (3.2),
``gates`` check limits and quota (3.4). ``find`` finds the best node of a pod by remembered blocks of nodes, ``score``
judges a node where that depends on other pods, ``fit`` compares requests with room, ``together`` where pods go that
share a claim (3.5, 9, 12). ``attempt`` puts these together. ``place`` keeps the books, ``undo`` takes changes back
(3.6). ``devices`` has the books of GPU devices that pods share (8; ADR 13), ``claims`` those of claims (8.6; ADR 14),
``volumes`` free volumes (12.2), ``numa`` the NUMA zones of nodes (12.4).
"""
