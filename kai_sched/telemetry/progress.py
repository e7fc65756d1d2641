"""After how many seconds a command says on stderr what it is doing, and how often again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE_S = 2.0
REPEAT_S = 10.0


class Progress:
    """Prints the current step once it has taken ``patience_s`` seconds, and again every ``repeat_s``."""

    def __init__(self, stream: TextIO, patience_s: float = PATIENCE_S, repeat_s: float = REPEAT_S) -> None:
        self._stream = stream
        self._patience_s = patience_s
        self._repeat_s = repeat_s

    def say(self, text: str) -> None:
        """Print the line at once, for callers that watch the time themselves."""
        print(f"kai-sched: {text}", file=self._stream, flush=True)

    @contextmanager
    def step(self, text: str | Callable[[], str]) -> Iterator[None]:
        """Watch the work in the body. A thread prints the messages, because the work may be one long call. ``text`` may
        be a function that returns the progress."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(text, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, text: str | Callable[[], str], done: threading.Event) -> None:
        elapsed_s = self._patience_s
        if done.wait(elapsed_s):
            return
        self.say(f"{text if isinstance(text, str) else text()} ...")
        while not done.wait(self._repeat_s):
            elapsed_s += self._repeat_s
            self.say(f"{text if isinstance(text, str) else text()} ... ({elapsed_s:.0f} s)")
