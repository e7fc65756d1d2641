"""The engine: arrays in, decisions out. ``pipeline.solve`` runs the stages in their order (semantics 1.3).

``state`` is the working state, of which everything that may be undone lies in two buffers with a log; ``allocation``
lays these out. ``decisions`` is what was decided. A stage (``stages``) is one step of a cycle. ``kernels`` has what
stages share, ``eviction`` the search for victims. ``pipelined_room`` binds groups whose promised room is free, at the
end. ``solution`` answers the questions of other packages: nobody else knows the columns of the tables. ``jit``
compiles, ``warmup`` compiles everything at once.
"""
