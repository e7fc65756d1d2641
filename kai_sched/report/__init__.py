"""What ``kai-sched simulate`` prints: ``text_tables`` for people, ``json`` for programs.

``layout`` fits columns to a width, ``text`` words amounts, ``devices`` and ``claims`` say who has which GPU,
``console`` prints.
"""
