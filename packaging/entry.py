"""The start of the one-file executable: the same command line as the installed `kai-sched`."""

from kai_sched.cli.main import main

main()
