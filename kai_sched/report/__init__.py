"""Answers as text for people and as data for programs; nothing is decided or worded anew here.

For people: ``overview_text`` is what ``kai-sched simulate`` prints, with the tables of ``device_text`` about GPUs that
are shared and devices of claims; ``explain_text`` what ``explain`` prints. ``columns`` fits tables to a width, ``text``
escapes names and words amounts, ``console`` knows the terminal.

For programs: ``json`` has the cycles of ``simulate`` as one document, ``answers_json`` the answers of
``kai_sched.answers``. ``devices`` and ``claims`` say who has which GPU, for both.
"""
