"""The tables of claims for devices (semantics 8.6; ADR 14).

``tables`` says which claims and requests there are and calls the others: ``devices`` has the devices of slices, their
capacities and counters, ``requests`` what classes ask for and what each claim has, ``selectors`` what selectors say
about devices (the answers come with the cluster), ``refusals`` why a claim cannot be used on any node, ``extended`` on
which nodes the requests for extended resources are needed.
"""
