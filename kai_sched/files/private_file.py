"""Files with what others must not read: written whole or not at all, and readable by their owner alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

MODE = 0o600


def write_private(path: Path, pieces: Iterable[bytes], overwrite: bool) -> None:
    """Write the file with mode 0600; a reader sees all of it or none, whatever happens meanwhile.

    Raises FileExistsError for a file that is there, unless ``overwrite``, and OSError for any other failure.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, MODE)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(pieces)
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            os.replace(partial, path)
        else:
            os.link(partial, path)  # fails where there is such a file, also one that was made just now
    finally:
        with suppress(FileNotFoundError):
            os.unlink(partial)
