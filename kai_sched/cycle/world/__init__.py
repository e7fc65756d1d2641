"""What a cluster does between two cycles, offline: ``kai-sched simulate --cycles N`` applies it after each cycle.

``pods`` starts pods, removes those that were evicted and makes their successors; it calls ``claims`` (devices are given
and freed) and ``volumes`` (claims of pods that were bound get volumes).
"""
