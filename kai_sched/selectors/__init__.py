"""CEL expressions about devices, which users write, evaluated in a process of their own (ADR 16).

``expressions`` is the only user of the CEL library, ``worker`` the process that runs it, ``worker_process`` with
``wire`` the border to that process. ``answer_book`` says whose turn it is and which answers are kept. ``offline`` is
both together for programs that wait; live it is ``operator.selector_service``.
"""
