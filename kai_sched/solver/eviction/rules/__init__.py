"""What a scenario must keep to be committed (semantics 4.7, 5, 6, 11.1), each rule once; shared by both searches.

``validate`` judges a simulated scenario. ``shares`` has rules 1 and 2 of 4.7 and, beside each, the bound that follows
from it; choices of victims, bounds and the validator call the same functions with what is known, or with amounts that
are the best case. ``losses`` has what is left to queues, ``blocked_devices`` what parts of GPUs keep from others.
``runtimes`` has minimum runtimes (rule 3), ``retake`` rule 4: no queue would take the room straight back.
"""
