"""The commands of ``kai-sched``. ``main`` has one function for each, whose parameters are its flags (those that several
commands have are in ``flags``) and which calls ``simulate``, ``run`` or ``reserve``.

No decision is made here: these modules read arguments, call the core or the operator, print, and return exit statuses.
A flag of ``run`` that the operator reads is a field of ``operator.options.RunOptions``.
"""
