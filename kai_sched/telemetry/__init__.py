"""What the program says of itself.

``logs`` (and how many warnings of a kind pass in a minute), ``metrics`` (all by name; docs/metrics.md) with ``series``,
``unexpected`` (exceptions that nobody expected cost one object its turn, not the process), ``loop_time`` (an event loop
that measures itself), ``progress`` and ``pace`` (signs of life of long commands).
"""
