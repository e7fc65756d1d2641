"""What unit tests share: logs are set up for the whole process, so each test puts back what it found."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_they_were() -> Iterator[None]:
    """A stream that a test wrote its logs to may be closed when the next one writes."""
    root = logging.getLogger()
    handlers, level, settings = root.handlers, root.level, structlog.get_config()
    yield
    logging.captureWarnings(False)
    root.handlers = handlers
    root.setLevel(level)
    structlog.configure(**settings)
