"""The commands of ``kai-sched``. ``main`` makes them, of functions whose parameters are their flags: its own, and those
of ``cluster_commands`` that ask about a cluster. Flags that several commands have are in ``flags``.

``inputs`` reads the cluster of a question (``live_cluster`` a running one); ``simulate`` prints what cycles decide,
``questions`` what ``answers`` says: explain, fit, diff, and what changes come to. ``run``, ``reserve``, ``dump``,
``replay`` and ``doctor`` (with ``cluster_checks`` and ``finding``) have the commands of their names; ``version`` has
facts about the installation, ``completion`` what a shell asks for, with ``names_in_files`` and ``shell_scripts``.

No decision is made here: these modules read arguments, call the core or the operator, print, and return exit statuses.
A flag of ``run`` that the operator reads is a field of ``operator.options.RunOptions``.

``doctor`` prints findings (``finding``), those about a cluster from ``cluster_checks``. Shells and kubectl ask
``completion`` what may stand at the cursor; ``names_in_files`` reads the names for it, ``shell_scripts`` has what asks.
"""
