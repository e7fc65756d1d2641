"""What the process does before anything else."""

from __future__ import annotations

import resource

from kai_sched.operator import process


def test_as_many_files_may_be_open_as_the_process_is_allowed() -> None:
    """Sockets are files: connections of others must leave some for those to the API server."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    try:
        process._set_up_process()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
