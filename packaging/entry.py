"""The start of the one-file executable: the same command line as the installed `kai-sched`, and the process that
evaluates selectors, which has no file of its own here."""

import sys

from kai_sched.selectors.worker_process import FROZEN_COMMAND

if sys.argv[1:] == [FROZEN_COMMAND]:
    from kai_sched.selectors.worker import main
else:
    from kai_sched.cli.main import main

main()
