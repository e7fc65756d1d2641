"""The commands of ``kai-sched``. ``main`` has one function for each, whose parameters are its flags (those that several
commands have are in ``flags``) and which calls ``simulate``, ``run``, ``reserve``, ``version`` or ``doctor``.

No decision is made here: these modules read arguments, call the core or the operator, print, and return exit statuses.
A flag of ``run`` that the operator reads is a field of ``operator.options.RunOptions``.

``doctor`` prints findings (``finding``), those about a cluster from ``cluster_checks``. Shells and kubectl ask
``completion`` what may stand at the cursor; ``names_in_files`` reads the names for it, ``shell_scripts`` has what asks.
"""
